"""After a worker and the head were lost and rebuilt: both deployments serve, and the rebuilt hosts are as the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
import testinfra

from lab.config import STATE, load

HOSTS = ["node1", "node2", "node3"]
REBUILT = ["node1", "node2"]
CONTAINERS = {"node1": ["llm-ray", "llm-vllm"], "node2": ["llm-ray"], "node3": ["llm-vllm"]}
GPUS = {"node1": 1, "node2": 1, "node3": 2}
DATA = {name: load().nodes[name].data for name in ("node1", "node3")}
testinfra_hosts = [f"ssh://{name}" for name in HOSTS]


def connect(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def test_three_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node1", "node2", "node3"]


def test_what_belongs_there_runs_and_nothing_else(host: Any) -> None:
    name = host.check_output("hostname")
    assert sorted(host.check_output("docker ps --format '{{.Names}}'").split()) == CONTAINERS[name]
    assert len(host.check_output("nvidia-smi -L").splitlines()) == GPUS[name]
    for unit in ("docker", "nvidia-persistenced"):
        assert host.service(unit).is_running
        assert host.service(unit).is_enabled


@pytest.mark.parametrize("head", sorted(DATA))
def test_a_token_is_generated(head: str) -> None:
    url = f"http://{DATA[head]}:8000"
    answer = connect(head).check_output(f"docker exec llm-vllm python3 /llm/ask.py {url} tiny Hello 4")
    assert json.loads(answer)["tokens"] > 0


def test_the_ranks_run_on_both_rebuilt_hosts() -> None:
    found = connect("node1").check_output(f"docker exec llm-ray python3 /llm/cluster.py {DATA['node1']}:6379")
    assert sorted(json.loads(found)["ranks"]) == REBUILT


@pytest.mark.parametrize("name", REBUILT)
def test_a_worker_process_computes_on_it(name: str) -> None:
    processes = connect(name).check_output("docker top llm-ray -eo pid,args")
    assert len([line for line in processes.splitlines() if "RayWorkerProc" in line]) == 1, processes


@pytest.mark.parametrize("name", REBUILT)
def test_its_new_ssh_host_key_is_the_only_one_known(name: str) -> None:
    host = connect(name)
    address = host.check_output("echo $SSH_CONNECTION").split()[2]
    key = host.file("/etc/ssh/ssh_host_ed25519_key.pub").content_string.split()[1]
    lines = (STATE / "ssh/known_hosts").read_text().splitlines()
    assert [line.split()[2] for line in lines if line.split()[0] == address] == [key]


@pytest.mark.parametrize("deployment", ["tiny_single", "tiny_split"])
def test_the_benchmark_of_the_documentation_measured_each_deployment(deployment: str) -> None:
    files = list((STATE / "reports/benchmarks" / deployment).glob("*.json"))
    assert len(files) == 1
    found = json.loads(files[0].read_text())
    assert (found["num_prompts"], found["completed"], found["max_concurrency"]) == (8, 8, 4)
    assert found["total_output_tokens"] == 8 * 16
    assert 0 < found["median_ttft_ms"] <= found["p99_ttft_ms"]
