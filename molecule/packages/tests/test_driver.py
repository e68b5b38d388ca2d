"""After all these ways to a driver the host is as NVIDIA's installer leaves it, and nothing of the others is left."""

from __future__ import annotations

from typing import Any

VERSION = "570.195.03"
testinfra_hosts = ["ssh://node1"]


def test_it_is_this_host(host: Any) -> None:
    assert host.check_output("hostname") == "node1"


def test_the_installer_s_version_is_loaded(host: Any) -> None:
    lines = host.check_output("nvidia-smi --query-gpu=driver_version,persistence_mode --format=csv,noheader")
    assert lines.splitlines() == [f"{VERSION}, Enabled"]


def test_no_package_of_a_driver_is_installed_or_held(host: Any) -> None:
    status = host.check_output("dpkg-query --show --showformat='${db:Status-Abbrev}${Package}\\n'")
    # The container toolkit has names like a driver's.
    other = ("nvidia-installer-cleanup", "nvidia-container")
    left = [line for line in status.splitlines() if "nvidia" in line or "libcuda" in line]
    assert [line for line in left if line[1] != "n" and not any(name in line for name in other)] == []
    assert host.check_output("apt-mark showhold") == ""
    assert host.check_output("dpkg --audit") == ""
    assert not host.file("/etc/apt/preferences.d/baremetal-llm-driver.pref").exists


def test_no_module_of_dkms_is_left(host: Any) -> None:
    assert host.check_output("dkms status") == ""
    assert host.check_output("find /lib/modules -name 'nvidia*.ko*'").count("nvidia.ko") == 1


def test_the_host_s_own_package_sources_are_as_they_were(host: Any) -> None:
    assert host.check_output("grep -rl baremetal /etc/apt || true") == ""


def test_everything_has_started(host: Any) -> None:
    assert host.check_output("systemctl --failed --plain --no-legend") == ""
    assert host.service("nvidia-persistenced").is_enabled
    assert host.check_output("systemctl show --property=FragmentPath nvidia-persistenced") == (
        "FragmentPath=/etc/systemd/system/nvidia-persistenced.service"
    )
