"""From archives to packages, to the next engine and back: one container saw all of it."""

from __future__ import annotations

import json
from typing import Any

testinfra_hosts = ["ssh://node3"]
OLDER, NEWER = "20.10.24", "26."


def test_one_host_is_looked_at(host: Any) -> None:
    assert len(testinfra_hosts) == 1
    assert host.check_output("hostname") == "node3"


def test_a_container_outlived_the_upgrade_and_the_way_back(host: Any) -> None:
    now = host.check_output("docker inspect --format '{{.State.StartedAt}} {{.State.Pid}}' witness")
    assert now == host.check_output("cat /root/witness")


def test_no_switch_left_a_process_without_its_container(host: Any) -> None:
    shims = host.check_output("pgrep --full --count '^[^ ]*containerd-shim-runc-v2 '")
    assert shims == host.check_output("docker ps --quiet | wc -l")


def test_the_next_engine_ran_and_knew_cdi(host: Any) -> None:
    assert host.check_output("cat /root/next_engine").startswith(NEWER)
    config = json.loads(host.check_output("cat /root/next_daemon.json"))
    assert config["features"] == {"cdi": True}
    assert config["runtimes"] == {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}, "runtimeArgs is gone"
    assert "nvidia.com/gpu" in host.check_output("cat /root/next_cdi.yaml")


def test_the_older_engine_has_no_description_that_grows_stale(host: Any) -> None:
    assert host.check_output("docker version --format '{{.Server.Version}}'").split("+")[0] == OLDER
    assert not host.file("/etc/cdi/nvidia.yaml").exists


def test_packages_of_the_engine_are_gone_and_those_of_the_toolkit_are_there(host: Any) -> None:
    assert not host.package("docker.io").is_installed
    assert not host.file("/etc/systemd/system/docker.service.d/baremetal-llm.conf").exists
    assert host.package("nvidia-container-toolkit").is_installed
    assert host.run("grep -rs /opt/llm /etc/apt").stdout == ""
