"""Before a container comes: no host of the scenario has an engine, or a compiler."""

from __future__ import annotations

from typing import Any

import testinfra

from lab.config import STATE

testinfra_hosts = ["ssh://node1", "ssh://node2", "ssh://node3"]


def test_three_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node1", "node2", "node3"]


def test_there_is_no_engine_and_no_compiler(host: Any) -> None:
    for program in ("docker", "dockerd", "containerd", "nvidia-ctk", "gcc", "cc", "c++", "nvcc", "uv"):
        assert host.run(f"command -v {program}").rc != 0
    assert not host.file("/run/docker.sock").exists
    assert host.check_output("ls -A /var/lib/docker") == ""  # where the lab mounts a disk
    assert host.file("/opt/llm/records/vllm.json").exists
    assert not host.file("/opt/llm/records/docker.json").exists
