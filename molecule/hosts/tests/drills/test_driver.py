"""The driver of the bundle is installed and loaded, and stays so."""

from __future__ import annotations

from typing import Any

VERSION = "570.195.03"
GPUS = 1
testinfra_hosts = ["ssh://node1"]


def test_it_is_this_host(host: Any) -> None:
    assert host.check_output("hostname") == "node1"


def test_the_version_is_loaded(host: Any) -> None:
    assert f"  {VERSION}  " in host.file("/proc/driver/nvidia/version").content_string


def test_nvidia_smi_sees_the_cards(host: Any) -> None:
    lines = host.check_output(
        "nvidia-smi --query-gpu=driver_version,persistence_mode --format=csv,noheader"
    ).splitlines()
    assert lines == [f"{VERSION}, Enabled"] * GPUS


def test_the_kernel_module_is_the_proprietary_one(host: Any) -> None:
    assert "NVIDIA UNIX x86_64 Kernel Module" in host.file("/proc/driver/nvidia/version").content_string


def test_the_persistence_daemon_runs_and_starts_at_boot(host: Any) -> None:
    assert host.service("nvidia-persistenced").is_running
    assert host.service("nvidia-persistenced").is_enabled


def test_nouveau_is_kept_away(host: Any) -> None:
    assert "blacklist nouveau" in host.file("/etc/modprobe.d/baremetal-llm-nouveau.conf").content_string


def test_what_was_refused_left_nothing(host: Any) -> None:
    assert host.check_output("ls /opt/llm/bundle/driver") == f"NVIDIA-Linux-x86_64-{VERSION}.run"
