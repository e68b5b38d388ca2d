"""vLLM on one host with two GPUs, after one setting of it changed; the other deployment was left alone."""

from __future__ import annotations

import json
from typing import Any

import testinfra

from lab.config import STATE, load

testinfra_hosts = ["ssh://node1", "ssh://node3"]
SETTING = ["--max-num-seqs", "16"]


def command(host: Any) -> list[str]:
    found: list[str] = json.loads(host.check_output("docker inspect --format '{{json .Config.Cmd}}' llm-vllm"))
    return found


def test_two_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node1", "node3"]


def test_the_setting_is_on_one_command_line_only(host: Any) -> None:
    found = command(host)
    pairs = [found[number : number + 2] for number in range(len(found))]
    assert (SETTING in pairs) == (host.check_output("hostname") == "node3")


def test_the_other_deployment_runs_on(host: Any) -> None:
    if host.check_output("hostname") == "node1":
        now = host.check_output("docker inspect --format '{{.Id}} {{.State.StartedAt}}' llm-vllm")
        assert now == host.file("/root/marks").content_string.strip()


def test_sizes_follow_from_the_gpus_of_the_hosts(host: Any) -> None:
    found = command(host)
    tensor, pipeline = ("1", "2") if host.check_output("hostname") == "node1" else ("2", "1")
    assert found[found.index("--tensor-parallel-size") + 1] == tensor
    assert found[found.index("--pipeline-parallel-size") + 1] == pipeline


def test_it_generates_a_token(host: Any) -> None:
    address = load().nodes[host.check_output("hostname")].data
    answer = host.check_output(f"docker exec llm-vllm python3 /llm/ask.py http://{address}:8000 tiny Hello 1")
    assert json.loads(answer)["tokens"] == 1


def test_the_key_is_for_root_only(host: Any) -> None:
    file = host.file("/opt/llm/secrets/vllm_api_key")
    assert (file.user, file.mode) == ("root", 0o600)
    assert host.file("/opt/llm/secrets").mode == 0o700


def test_the_controller_keeps_what_the_new_start_measured() -> None:
    kept = json.loads((STATE / "reports/observations/tiny_single-0.32.0.json").read_text())
    assert kept["gpu"] == "Tesla V100-PCIE-16GB"
    assert kept["prediction"]["kv_cache_tokens"] > 0
    assert kept["truth"]["kv_cache_tokens"] > 0
