"""One model over two hosts, every layer shared by two GPUs. side_effect.yml runs this while each host has one GPU, so that a layer is on both hosts; in the end
each host has two and half of the layers."""

from __future__ import annotations

import json
import os
from typing import Any

import openai
import pytest
import testinfra
import yaml

from lab.config import STATE, load
from tests.support import openai_client

GPUS_OF_A_HOST = int(os.environ.get("GPUS_OF_A_HOST", "2"))
# What the plan says, and why.
REASONS = {
    1: ["tensor parallel over 2 GPUs across hosts", "for the network between the hosts"],
    2: ["tensor parallel over 2 GPUs inside a host", "pipeline parallel over 2 stages on 2 hosts"],
}
testinfra_hosts = ["ssh://node1", "ssh://node2"]


@pytest.fixture(scope="module")
def head() -> Any:
    return testinfra.get_host("ssh://node1", ssh_config=str(STATE / "ssh/config"))


def client() -> openai.OpenAI:
    """OpenAI's own client, for the server on the head."""
    key = (STATE / "secrets/tiny_grid_api_key").read_text().strip()
    url = f"http://{load().nodes['node1'].data}:8000/v1"
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)


def test_two_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node1", "node2"]


def test_each_host_has_its_gpus(host: Any) -> None:
    assert len(host.check_output("nvidia-smi -L").splitlines()) == GPUS_OF_A_HOST


def test_the_server_has_the_sizes(head: Any) -> None:
    options = yaml.safe_load(head.file("/opt/llm/scripts/vllm.yaml").content_string)
    assert (options["tensor-parallel-size"], options["pipeline-parallel-size"]) == (2, GPUS_OF_A_HOST)
    assert options["distributed-executor-backend"] == "ray"


def test_plan_and_report_say_where_the_model_is_split() -> None:
    plan = json.loads((STATE / "reports/decision.json").read_text())["plans"]["tiny_grid"]
    for reason in REASONS[GPUS_OF_A_HOST]:
        assert any(reason in said for said in plan["reasons"]), plan["reasons"]
    ranks = [(node["host"], len(node["ranks"])) for node in plan["nodes"]]
    assert ranks == [("node1", GPUS_OF_A_HOST), ("node2", GPUS_OF_A_HOST)]
    report = (STATE / "reports/report.txt").read_text()
    assert f"plan: tensor parallel 2 x pipeline parallel {GPUS_OF_A_HOST}, executor ray" in report


def test_each_gpu_has_a_rank(host: Any) -> None:
    processes = host.check_output("docker top llm-ray -eo pid,args").splitlines()[1:]
    ranks = [line for line in processes if "ray::RayWorker" in line]
    assert len(ranks) == GPUS_OF_A_HOST, processes


def test_openai_client_gets_the_same_answer_at_once_and_token_by_token() -> None:
    openai_client.chats_at_once_and_token_by_token(client())


def test_the_probe_says_that_it_serves(head: Any) -> None:
    assert '"kind": "serving"' in head.file("/run/llm-probe/state.json").content_string
