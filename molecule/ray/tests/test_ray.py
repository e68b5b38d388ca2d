"""The Ray cluster of a deployment over two hosts, after its worker was killed."""

from __future__ import annotations

import json
from typing import Any

import testinfra

from lab.config import STATE, load

HOSTS = {name: load().nodes[name].data for name in ("node1", "node2")}
testinfra_hosts = [f"ssh://{name}" for name in HOSTS]
FIXED = {6380, 6381, 6382, 6383, 6384, 6385}


def test_two_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node1", "node2"]


def test_the_worker_was_restarted_by_the_engine(host: Any) -> None:
    if host.check_output("hostname") == "node2":
        assert int(host.check_output("docker inspect --format '{{.RestartCount}}' llm-ray")) >= 1


def test_both_hosts_offer_the_planned_gpus(host: Any) -> None:
    head = HOSTS["node1"]
    cluster = json.loads(host.check_output(f"docker exec llm-ray python3 /llm/cluster.py {head}:6379"))
    assert [(node["host"], node["address"], node["gpus"]) for node in cluster["nodes"]] == [
        (name, address, 1) for name, address in HOSTS.items()
    ]


def test_ray_listens_on_the_documented_ports(host: Any) -> None:
    listening = {socket.rsplit(":", 1)[1] for socket in host.socket.get_listening_sockets() if socket.startswith("tcp")}
    assert {str(port) for port in FIXED} <= listening
    assert ("6379" in listening) == (host.check_output("hostname") == "node1")
    assert "8265" not in listening  # no dashboard unless asked


def test_old_sessions_are_not_kept(host: Any) -> None:
    assert len(host.check_output("ls -d /opt/llm/tmp-70000/ray/session_2*").splitlines()) == 1


def test_no_name_server_is_needed_to_know_the_other_ranks(host: Any) -> None:
    """torch asks for the name behind each address, in this form."""
    for name, address in HOSTS.items():
        asked = f"docker exec llm-ray getent -s hosts:files hosts ::ffff:{address}"
        assert host.check_output(asked).split() == [f"::ffff:{address}", f"{name}.rank"]
