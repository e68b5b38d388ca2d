"""vLLM on one host with two GPUs, after one setting of it changed; the other deployment was left alone."""

from __future__ import annotations

import json
from typing import Any

import openai
import testinfra
import yaml

from lab.config import STATE, load
from tests.support import openai_client

testinfra_hosts = ["ssh://node1", "ssh://node3"]


def options(host: Any) -> dict[str, Any]:
    """What the server was started with, as its container sees it."""
    command = json.loads(host.check_output("docker inspect --format '{{json .Config.Cmd}}' llm-vllm"))
    file = command[command.index("--config") + 1]
    read: dict[str, Any] = yaml.safe_load(host.check_output(f"docker exec llm-vllm cat {file}"))
    return read


def client(host: Any) -> openai.OpenAI:
    """OpenAI's own client, for the server on a head."""
    name = host.check_output("hostname")
    deployment = {"node1": "tiny_split", "node3": "tiny_single"}[name]
    key = (STATE / f"secrets/{deployment}_api_key").read_text().strip()
    return openai.OpenAI(base_url=f"http://{load().nodes[name].data}:8000/v1", api_key=key, max_retries=0, timeout=120)


def test_two_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node1", "node3"]


def test_one_server_only_has_the_setting(host: Any) -> None:
    assert (options(host).get("max-num-seqs") == 16) == (host.check_output("hostname") == "node3")


def test_the_other_deployment_runs_on(host: Any) -> None:
    if host.check_output("hostname") == "node1":
        now = host.check_output("docker inspect --format '{{.Id}} {{.State.StartedAt}}' llm-vllm")
        assert now == host.file("/root/marks").content_string.strip()


def test_sizes_follow_from_the_gpus_of_the_hosts(host: Any) -> None:
    found = options(host)
    sizes = (1, 2) if host.check_output("hostname") == "node1" else (2, 1)
    assert (found["tensor-parallel-size"], found["pipeline-parallel-size"]) == sizes


def test_it_generates_a_token(host: Any) -> None:
    address = load().nodes[host.check_output("hostname")].data
    answer = host.check_output(f"docker exec llm-vllm python3 /llm/ask.py http://{address}:8000 tiny Hello 1")
    assert json.loads(answer)["tokens"] == 1


def test_openai_client_chats_at_once_and_token_by_token(host: Any) -> None:
    openai_client.chats_at_once_and_token_by_token(client(host))


def test_openai_client_gets_the_call_of_a_tool(host: Any) -> None:
    """From the deployment that has a parser for them."""
    if host.check_output("hostname") == "node3":
        openai_client.gets_the_call_of_a_tool(client(host))


def test_openai_client_is_refused_with_another_key(host: Any) -> None:
    openai_client.is_refused_with_another_key(client(host))


def test_the_key_is_for_root_and_its_group_only(host: Any) -> None:
    file = host.file("/opt/llm/secrets/vllm_api_key")
    assert (file.user, file.group, file.mode) == ("root", "root", 0o640)
    folder = host.file("/opt/llm/secrets")
    assert (folder.user, folder.group, folder.mode) == ("root", "root", 0o750)


def test_nothing_in_the_containers_runs_as_root(host: Any) -> None:
    names = ["llm-vllm", "llm-ray"] if host.check_output("hostname") == "node1" else ["llm-vllm"]
    assert sorted(host.check_output("docker ps --format '{{.Names}}'").split()) == sorted(names)
    for name in names:
        lines = [
            line.split(None, 2) for line in host.check_output(f"docker top {name} -eo pid,uid,args").splitlines()[1:]
        ]
        assert len(lines) > 1
        assert {uid for _pid, uid, _command in lines} == {"70000"}, lines
        status = host.check_output(f"docker exec {name} cat /proc/self/status")
        assert {f"Cap{kind}:\t{0:016x}" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} <= set(status.splitlines())
    for folder in ("/opt/llm/tmp-70000", "/opt/llm/cache/vllm-openai-v0.32.0-cpu-7.0-70000"):
        assert (host.file(folder).mode, host.file(folder).uid) == (0o700, 70000)


def test_what_was_compiled_is_kept_outside_of_the_container(host: Any) -> None:
    kept = host.check_output("find /opt/llm/cache/vllm-openai-v0.32.0-cpu-7.0-70000/vllm -type f")
    assert kept
    assert not host.check_output("docker exec llm-vllm sh -c 'ls ~/.cache/vllm 2>/dev/null || true'")


def test_the_controller_keeps_what_the_new_start_measured() -> None:
    kept = json.loads((STATE / "reports/observations/tiny_single-0.32.0.json").read_text())
    assert kept["gpu"] == "Tesla V100-PCIE-16GB"
    assert kept["prediction"]["kv_cache_tokens"] > 0
    assert kept["truth"]["kv_cache_tokens"] > 0
