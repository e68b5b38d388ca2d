"""After all drills: both deployments serve, with the containers that belong there and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
import testinfra

from lab.config import STATE, load

CONTAINERS = {"node1": ["llm-ray", "llm-vllm"], "node2": ["llm-ray"], "node3": ["llm-vllm"]}
DATA = {name: node.data for name, node in load().nodes.items()}


def connect(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def test_three_hosts_are_looked_at() -> None:
    assert [connect(name).check_output("hostname") for name in CONTAINERS] == list(CONTAINERS)


@pytest.mark.parametrize("name", CONTAINERS)
def test_what_belongs_there_runs_and_nothing_else(name: str) -> None:
    assert sorted(connect(name).check_output("docker ps --format '{{.Names}}'").split()) == CONTAINERS[name]


@pytest.mark.parametrize("head", ["node1", "node3"])
def test_a_token_is_generated(head: str) -> None:
    url = f"http://{DATA[head]}:8000"
    answer = connect(head).check_output(f"docker exec llm-vllm python3 /llm/ask.py {url} tiny Hello 4")
    assert json.loads(answer)["tokens"] > 0


@pytest.mark.parametrize("deployment", ["tiny_single", "tiny_split"])
def test_the_benchmark_of_the_documentation_measured_each_deployment(deployment: str) -> None:
    files = list((STATE / "reports/benchmarks" / deployment).glob("*.json"))
    assert len(files) == 1
    found = json.loads(files[0].read_text())
    assert (found["num_prompts"], found["completed"], found["max_concurrency"]) == (8, 8, 4)
    assert found["total_output_tokens"] == 8 * 16
    assert 0 < found["median_ttft_ms"] <= found["p99_ttft_ms"]
