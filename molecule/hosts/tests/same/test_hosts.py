"""Wherever the hosts came from, they are the same now."""

from __future__ import annotations

import re
from typing import Any

import pytest
import testinfra

from lab.config import STATE as STATE_FOLDER

HOSTS = ("node1", "node2", "node3")
SSH_CONFIG = STATE_FOLDER / "ssh/config"
testinfra_hosts = ["ssh://node1"]

# What a host's administrator would compare: the driver, who is to start, and every file that is ours.
STATE = {
    "driver": "cat /proc/driver/nvidia/version",
    "answers": "nvidia-smi --query-gpu=driver_version,persistence_mode --format=csv,noheader | sort -u",
    "power": "nvidia-smi -q -x | grep -o '<current_power_limit>[0-9.]* W' | sort -u; systemctl is-enabled llm-gpu-settings.service",
    "packages": "dpkg-query --show --showformat='${db:Status-Abbrev}${Package}\\n'"
    " | grep -E '^i.*(nvidia-[^i]|docker|containerd|runc)' || true",
    "held": "apt-mark showhold",
    "engine": "docker version --format '{{.Server.Version}}'",
    "programs": "readlink --canonicalize /usr/local/bin/* | xargs sha256sum",
    "options": "python3 -m json.tool --sort-keys /etc/docker/daemon.json",
    "runtimes": "docker info --format '{{range $name, $value := .Runtimes}}{{$name}} {{end}}'",
    "enabled": "systemctl list-unit-files --state=enabled --plain --no-legend | grep -E 'nvidia|docker|containerd' | sort",
    "blacklists": "ls /etc/modprobe.d | grep -E 'nvidia|nouveau'",
    "active": "systemctl is-active nvidia-persistenced containerd docker",
    "failed": "systemctl --failed --plain --no-legend",
    "files": "sha256sum /etc/systemd/system/*.service /etc/modprobe.d/*nouveau* /usr/bin/nvidia-*"
    " /lib/modules/$(uname -r)/kernel/drivers/video/nvidia.ko",
    "drop_ins": "find /etc/systemd/system -path '*.d/*' -type f | sort",
    "modules": "find /lib/modules/$(uname -r) -name 'nvidia*.ko*'",
}


def state(name: str) -> dict[str, str]:
    """What a host answers, asked at once."""
    host = testinfra.get_host(f"ssh://{name}", ssh_config=str(SSH_CONFIG))
    assert host.check_output("hostname") == name
    script = "\n".join(f"echo '== {what} =='\n{command}" for what, command in STATE.items())
    parts = re.split(r"^== (\w+) ==$\n?", host.check_output(f"set -e\n{script}"), flags=re.MULTILINE)
    answers = dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
    assert list(answers) == list(STATE)
    return answers


@pytest.fixture(scope="module")
def states() -> dict[str, dict[str, str]]:
    return {name: state(name) for name in HOSTS}


def test_the_bare_host_has_all_of_it(host: Any, states: dict[str, dict[str, str]]) -> None:
    assert host.check_output("hostname") == "node1"
    assert "570.195.03" in states["node1"]["driver"]
    assert states["node1"]["answers"] == "570.195.03, Enabled"
    assert states["node1"]["power"] == "<current_power_limit>150.00 W\nenabled"
    assert states["node1"]["active"].split() == ["active"] * 3
    assert "nvidia" in states["node1"]["runtimes"]


@pytest.mark.parametrize("what", sorted(STATE))
def test_the_others_are_like_it(what: str, states: dict[str, dict[str, str]]) -> None:
    assert {name: states[name][what] for name in HOSTS} == dict.fromkeys(HOSTS, states["node1"][what])


def test_nothing_failed_on_the_way(states: dict[str, dict[str, str]]) -> None:
    assert [states[name]["failed"] for name in HOSTS] == [""] * 3


@pytest.mark.parametrize("name", HOSTS)
def test_nothing_restarted_on_the_second_run(name: str) -> None:
    host = testinfra.get_host(f"ssh://{name}", ssh_config=str(SSH_CONFIG))
    before = host.check_output("cat /root/marks")
    for what in (
        "docker.service",
        "containerd.service",
        "nvidia-persistenced.service",
        "/bystander ",
        "/proc/driver/nvidia",
    ):
        assert what in before
    assert host.check_output("sh /root/marks.sh") == before
