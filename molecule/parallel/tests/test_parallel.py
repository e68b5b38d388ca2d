"""One model over two hosts with two GPUs each: the planner splits layers between hosts and each layer within a host."""

from __future__ import annotations

from typing import Any

import openai
import pytest
import testinfra
import yaml

from lab.config import STATE, load
from tests.support import openai_client

testinfra_hosts = ["ssh://node2", "ssh://node3"]


@pytest.fixture(scope="module")
def head() -> Any:
    return testinfra.get_host("ssh://node2", ssh_config=str(STATE / "ssh/config"))


def client() -> openai.OpenAI:
    """OpenAI's own client, for the server on the head."""
    key = (STATE / "secrets/tiny_grid_api_key").read_text().strip()
    url = f"http://{load().nodes['node2'].data}:8000/v1"
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)


def test_two_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node2", "node3"]


def test_each_host_has_two_gpus(host: Any) -> None:
    assert len(host.check_output("nvidia-smi -L").splitlines()) == 2


def test_the_planner_chose_both_kinds_of_parallelism(head: Any) -> None:
    options = yaml.safe_load(head.file("/opt/llm/scripts/vllm.yaml").content_string)
    assert (options["tensor-parallel-size"], options["pipeline-parallel-size"]) == (2, 2)


def test_each_host_runs_two_ranks(host: Any) -> None:
    processes = host.check_output("docker top llm-ray -eo pid,args").splitlines()[1:]
    ranks = [line for line in processes if "ray::RayWorker" in line]
    assert len(ranks) == 2, processes


def test_openai_client_gets_the_same_answer_at_once_and_token_by_token() -> None:
    openai_client.chats_at_once_and_token_by_token(client())


def test_the_probe_says_that_it_serves(head: Any) -> None:
    assert '"kind": "serving"' in head.file("/run/llm-probe/state.json").content_string
