"""After node3 went from its environment to a container: nothing of the service is left, and the pair ran on."""

from __future__ import annotations

import json
import re
from typing import Any

import openai
import pytest
import testinfra

from lab.config import STATE, load

HEADS = {"node1": "tiny_split", "node3": "tiny_single"}
testinfra_hosts = ["ssh://node1", "ssh://node2", "ssh://node3"]


def on(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def test_three_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node1", "node2", "node3"]


@pytest.mark.parametrize("head", HEADS)
def test_openai_client_gets_an_answer(head: str) -> None:
    key = (STATE / f"secrets/{HEADS[head]}_api_key").read_text().strip()
    url = f"http://{load().nodes[head].data}:8000/v1"
    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)
    answer = client.completions.create(model="tiny", prompt="Hello", max_tokens=1)
    assert answer.usage
    assert answer.usage.completion_tokens == 1


def test_only_node3_has_a_container(host: Any) -> None:
    if host.check_output("hostname") == "node3":
        assert host.check_output("docker ps --all --format '{{.Names}} {{.State}}'") == "llm-vllm running"
    else:
        assert host.run("command -v docker").rc != 0


def test_nothing_is_left_of_the_service() -> None:
    host = on("node3")
    assert host.check_output("systemctl list-unit-files 'llm-vllm*' --no-legend || true") == ""
    assert not host.file("/opt/llm/secrets/llm-vllm.env").exists
    folder = host.file("/opt/llm/secrets")
    assert (folder.user, folder.group, folder.mode) == ("root", "root", 0o750)
    assert host.file("/opt/llm/secrets/vllm_api_key").group == "root"


def test_the_environment_is_kept_for_a_return_and_no_other() -> None:
    host = on("node3")
    now, before = json.loads(host.check_output("cat /opt/llm/served.json"))["states"]
    assert now["environment"] == ""
    kept = before["environment"].rpartition("/")[2]
    assert kept
    assert host.check_output("ls -A /opt/llm/venvs").split() == [kept, f"{kept}.wheels"]


@pytest.mark.parametrize("name", ["node1", "node2"])
def test_the_pair_ran_on(name: str) -> None:
    host = on(name)
    now = host.check_output("systemctl show --property=Id,InvocationID llm-ray.service llm-vllm.service")
    assert now == host.file("/root/marks").content_string.strip()
    assert re.search("InvocationID=[0-9a-f]{32}", now)
