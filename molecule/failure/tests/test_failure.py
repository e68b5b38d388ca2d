"""After every fault: both deployments serve, with what belongs to them, and the table says how long each recovery took."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import testinfra

from lab.config import STATE, load

CONTAINERS = {"node1": ["llm-ray", "llm-vllm"], "node2": ["llm-ray"], "node3": ["llm-vllm"]}
testinfra_hosts = [f"ssh://{name}" for name in CONTAINERS]
# The goal for each recovery is one and a half plain starts of the same run and 30 s. Whatever else the machine does during a recovery, and did
# not do during the plain start, makes starts longer: what takes more than four is no start any more.
HEALS = [
    *("head_killed", "worker_host_restarted", "worker_frozen", "network_cut", "engine_frozen"),
    *("all_hosts_restarted", "without_ray_worker_killed", "without_ray_head_killed"),
]
STARTS, SECONDS = 4, 30
REFUSED = ["host_lost", "other_release", "wrong_sum", "host_did_not_join"]


def test_three_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node1", "node2", "node3"]


def test_what_belongs_there_runs_and_nothing_else(host: Any) -> None:
    found = sorted(host.check_output("docker ps --format '{{.Names}}'").split())
    assert found == CONTAINERS[host.check_output("hostname")]


def test_every_fault_is_in_the_table() -> None:
    table = (STATE / "reports/failure.txt").read_text()
    healed = dict(re.findall(r"^(\w+) +serves again after +(\d+) s$", table, re.MULTILINE))
    assert sorted(healed) == sorted(HEALS)
    (loaded,) = re.findall(
        r"^full_load +no restart in +(\d+) s, (\d+) answers, (\d+) requests waiting$", table, re.MULTILINE
    )
    assert int(loaded[0]) >= 300
    assert int(loaded[1]) > 0
    assert int(loaded[2]) > 0
    over = re.findall(r"^first_network_blocked +serves after +\d+ s over (\S+): \w+, ens3f0$", table, re.MULTILINE)
    assert over == [load().networks["data"]]
    assert sorted(re.findall(r"^(\w+) +refused after +\d+ s: .+$", table, re.MULTILINE)) == sorted(REFUSED)


@pytest.mark.parametrize("fault", sorted(HEALS))
def test_a_recovery_takes_a_few_plain_starts_at_most(fault: str) -> None:
    table = (STATE / "reports/failure.txt").read_text()
    (plain,) = re.findall(r"^plain_start +serves after +(\d+) s$", table, re.MULTILINE)
    (healed,) = re.findall(rf"^{fault} +serves again after +(\d+) s$", table, re.MULTILINE)
    assert int(healed) <= STARTS * int(plain) + SECONDS


def test_the_probe_watches_every_host(host: Any) -> None:
    assert host.service("llm-probe.timer").is_running
    assert host.service("llm-probe.timer").is_enabled
    name = host.check_output("hostname")
    state = json.loads(host.file("/run/llm-probe/state.json").content_string)
    watched = {"node1": ["llm-ray", "llm-vllm"], "node2": ["llm-ray"], "node3": ["llm-vllm"]}[name]
    assert sorted(key for key in state if key.startswith("llm-")) == watched
    assert {state[key]["kind"] for key in watched} <= {"serving", "busy", "running"}
    assert "llm-probe" in host.check_output("journalctl --no-pager --output=short --unit=llm-probe.service")
    if name != "node2":
        measured = json.loads(host.file("/opt/llm/probe/measured.json").content_string)
        assert measured["bytes_per_second"] > 0
        assert measured["start_seconds"] > 0


def test_ray_lets_nobody_in_without_its_token(host: Any) -> None:
    if host.check_output("hostname") != "node1":
        return
    address = json.loads(host.check_output("docker inspect --format '{{json .Config.Env}}' llm-vllm"))
    head = next(value.partition("=")[2] for value in address if value.startswith("RAY_ADDRESS="))
    ask = f"docker exec -e RAY_AUTH_MODE=disabled llm-ray timeout 60 ray status --address={head}"
    refused = host.run(ask)
    assert refused.rc != 0
    assert host.run(f"docker exec llm-ray ray status --address={head}").rc == 0


def test_the_token_is_in_no_process_list_and_no_container_configuration(host: Any) -> None:
    token = (STATE / "secrets/tiny_split_ray_token").read_text().strip()
    assert len(token) == 40
    assert token not in host.check_output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    for container in CONTAINERS[host.check_output("hostname")]:
        assert token not in host.check_output(f"docker inspect {container}")
