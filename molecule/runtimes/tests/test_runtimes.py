"""After a deployment went from a container to a Python environment, and back: nothing of the environment's service is left."""

from __future__ import annotations

from typing import Any

import openai
import testinfra

from lab.config import STATE, load

testinfra_hosts = ["ssh://node1", "ssh://node3"]


def test_two_hosts_are_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node1", "node3"]


def test_openai_client_gets_an_answer(host: Any) -> None:
    name = host.check_output("hostname")
    key = (STATE / f"secrets/{ {'node1': 'tiny_split', 'node3': 'tiny_single'}[name] }_api_key").read_text().strip()
    url = f"http://{load().nodes[name].data}:8000/v1"
    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)
    answer = client.completions.create(model="tiny", prompt="Hello", max_tokens=1)
    assert answer.usage
    assert answer.usage.completion_tokens == 1


def test_it_is_a_container_again(host: Any) -> None:
    names = host.check_output("docker ps --format '{{.Names}}'").split()
    assert sorted(names) == (["llm-ray", "llm-vllm"] if host.check_output("hostname") == "node1" else ["llm-vllm"])


def test_nothing_is_left_of_the_service(host: Any) -> None:
    assert host.check_output("systemctl list-unit-files 'llm-vllm*' --no-legend || true") == ""
    assert not host.file("/opt/llm/secrets/llm-vllm.env").exists
    folder = host.file("/opt/llm/secrets")
    assert (folder.user, folder.group, folder.mode) == ("root", "root", 0o750)
    assert host.file("/opt/llm/secrets/vllm_api_key").group == "root"


def test_the_other_deployment_ran_on(host: Any) -> None:
    if host.check_output("hostname") == "node1":
        now = host.check_output("docker inspect --format '{{.Id}} {{.State.StartedAt}}' llm-ray llm-vllm")
        assert now == host.file("/root/marks").content_string.strip()
