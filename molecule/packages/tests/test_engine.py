"""From an archive to packages, and to the next engine and back: one container on each of the two hosts saw all of it."""

from __future__ import annotations

import json
from typing import Any

import testinfra

from lab.config import STATE

OLDER, NEWER = "20.10.24", "26."
PACKAGES, ARCHIVES = testinfra_hosts = ["ssh://node2", "ssh://node3"]


def one(name: str) -> Any:
    return testinfra.get_host(name, ssh_config=str(STATE / "ssh/config"))


def test_they_are_these_two_hosts() -> None:
    assert [one(name).check_output("hostname") for name in testinfra_hosts] == ["node2", "node3"]


def test_a_container_runs_in_the_end(host: Any) -> None:
    """After the switch its restart policy says so. That it outlived the change of versions is asserted in next_engine.yml."""
    assert host.check_output("docker inspect --format '{{.State.Running}}' witness") == "true"


def test_no_switch_left_a_process_without_its_container(host: Any) -> None:
    shims = host.check_output("pgrep --full --count '^[^ ]*containerd-shim-runc-v2 '")
    assert shims == host.check_output("docker ps --quiet | wc -l")


def test_the_older_engine_has_no_description_that_grows_stale(host: Any) -> None:
    assert host.check_output("docker version --format '{{.Server.Version}}'").split("+")[0] == OLDER
    assert not host.file("/etc/cdi/nvidia.yaml").exists


def test_the_next_engine_ran_and_knew_cdi() -> None:
    host = one(ARCHIVES)
    assert host.check_output("cat /root/next_engine").startswith(NEWER)
    config = json.loads(host.check_output("cat /root/next_daemon.json"))
    assert config["features"] == {"cdi": True}
    assert config["runtimes"] == {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}, "runtimeArgs is gone"
    assert "nvidia.com/gpu" in host.check_output("cat /root/next_cdi.yaml")


def test_packages_of_engine_and_toolkit_are_there_and_the_archive_s_engine_is_gone() -> None:
    host = one(PACKAGES)
    assert host.package("docker.io").is_installed
    assert host.package("nvidia-container-toolkit").is_installed
    assert host.file("/etc/systemd/system/docker.service.d/baremetal-llm.conf").exists
    for unit in ("docker", "containerd"):
        assert not host.file(f"/etc/systemd/system/{unit}.service").exists
        assert host.service(unit).is_running
        assert host.service(unit).is_enabled
    assert host.check_output("readlink --canonicalize $(command -v dockerd)") == "/usr/sbin/dockerd"
    assert host.run("grep -rs /opt/llm /etc/apt").stdout == ""
