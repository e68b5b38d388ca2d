"""vLLM and llama.cpp beside each other: a token from each through one gateway, both frozen and back by the same probe, both in status.yml.

node1 serves the model tiny with vLLM, node3 the model tiny-gguf with llama.cpp; the gateway is on node2.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import testinfra

from lab.config import CHECKOUT, STATE, load

LAB = load()
GATEWAY = f"https://{LAB.nodes['node2'].mgmt}/v1"
# By model its host, container and secret.
SERVED = {"tiny": ("node1", "llm-vllm", "by_vllm"), "tiny-gguf": ("node3", "llm-llama_cpp", "by_llama")}
# Of the issue: back within one and a half times a start, and half a minute.
STARTS, SECONDS = 1.5, 30
# Two looks of the probe, of which each waits for an answer and for the counters.
FROZEN_SECONDS = 90
testinfra_hosts = ["ssh://node1", "ssh://node2", "ssh://node3"]


def on(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def secret(name: str) -> str:
    return (STATE / "secrets" / name).read_text().strip()


def through_gateway() -> openai.OpenAI:
    trusting = httpx2.Client(
        verify=ssl.create_default_context(cafile=str(STATE / "secrets/gateway_ca.crt")), timeout=120
    )
    return openai.OpenAI(base_url=GATEWAY, api_key=secret("gateway_key_alice"), http_client=trusting, max_retries=0)


def direct(model: str) -> openai.OpenAI:
    host, _container, deployment = SERVED[model]
    url = f"http://{LAB.nodes[host].data}:8000/v1"
    return openai.OpenAI(base_url=url, api_key=secret(f"{deployment}_api_key"), max_retries=0, timeout=60)


def tokens(client: openai.OpenAI, model: str) -> int:
    answer = client.completions.create(model=model, prompt="Hello", max_tokens=1)
    assert answer.usage
    return answer.usage.completion_tokens


def test_each_host_runs_the_server_of_its_engine_and_nothing_else() -> None:
    found = {name: on(name).check_output("docker ps --all --format '{{.Names}}'").split() for name in LAB.nodes}
    assert found == {"node1": ["llm-vllm"], "node2": [], "node3": ["llm-llama_cpp"]}


@pytest.mark.parametrize("model", SERVED)
def test_each_generates_a_token_through_the_gateway(model: str) -> None:
    assert tokens(through_gateway(), model) == 1


def test_the_gateway_lists_both() -> None:
    assert {model.id for model in through_gateway().models.list()} == set(SERVED)


@pytest.mark.parametrize("model", SERVED)
def test_without_its_key_nobody_gets_an_answer(model: str) -> None:
    with pytest.raises(openai.AuthenticationError):
        tokens(direct(model).with_options(api_key="0" * 40), model)


def test_the_key_is_in_no_command_line_and_in_no_environment() -> None:
    host = on("node3")
    key = secret("by_llama_api_key")
    shown = host.check_output(
        "docker inspect llm-llama_cpp; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '; cat /proc/*/environ 2>/dev/null"
    )
    assert "--api-key-file" in shown
    assert key not in shown
    keys = "docker exec llm-llama_cpp stat -c '%a %U' /var/tmp/llm-llama.keys"
    assert host.check_output(keys) == "600 root"


def test_its_layers_are_split_over_both_gpus() -> None:
    command = json.loads(on("node3").check_output("docker inspect --format '{{json .Config.Cmd}}' llm-llama_cpp"))
    split = command[command.index("--tensor-split") + 1].split(",")
    assert len(split) == 2
    assert sum(map(int, split)) == int(command[command.index("--gpu-layers") + 1])


def since(model: str) -> float:
    """Until there is a token again."""
    began = time.monotonic()
    while True:
        try:
            if tokens(direct(model).with_options(timeout=10), model):
                return time.monotonic() - began
        except openai.OpenAIError:
            assert time.monotonic() - began < 600
            time.sleep(1)


@pytest.fixture(scope="module")
def starts() -> dict[str, float]:
    """How long a start takes until the token, by model."""
    found = {}
    for model, (name, container, _deployment) in SERVED.items():
        on(name).check_output(f"docker restart --time 5 {container}")
        found[model] = since(model)
    return found


@pytest.mark.parametrize("model", SERVED)
def test_one_that_is_frozen_is_restarted_by_the_probe(model: str, starts: dict[str, float]) -> None:
    name, container, _deployment = SERVED[model]
    host = on(name)
    before = host.check_output(f"docker inspect --format '{{{{.State.StartedAt}}}}' {container}")
    host.check_output(f"docker top {container} -eo pid | tail -n +2 | xargs kill -STOP")
    took = since(model)
    after = host.check_output(f"docker inspect --format '{{{{.State.StartedAt}}}}' {container}")
    assert after != before
    # Besides the start, the silence that tells a frozen server from one that computes, over two looks.
    assert took <= STARTS * starts[model] + SECONDS + FROZEN_SECONDS, f"{took:.0f} s; starts: {starts}"


@pytest.mark.parametrize("model", SERVED)
def test_one_that_is_killed_is_back(model: str, starts: dict[str, float]) -> None:
    name, container, _deployment = SERVED[model]
    on(name).check_output(f"kill -9 $(docker inspect --format '{{{{.State.Pid}}}}' {container})")
    took = since(model)
    assert took <= STARTS * starts[model] + SECONDS, f"{took:.0f} s; starts: {starts}"


def test_both_are_in_the_status() -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MOLECULE_"))}
    inventory = CHECKOUT / "molecule/engines/inventory"
    program = Path(sys.executable).parent / "ansible-playbook"
    done = subprocess.run(
        [program, "playbooks/status.yml", "-i", inventory], cwd=CHECKOUT, env=kept, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:]
    rows = {row["host"]: row for row in json.loads((STATE / "reports/status.json").read_text())["rows"]}
    for name, _container, _deployment in SERVED.values():
        assert 0 <= rows[name]["last_token_seconds"] < 180, rows[name]
        assert rows[name]["changed"] == []
