"""Two deployments on one machine, after it was rebuilt: each has its own GPU, containers, units, folder, table and records."""

from __future__ import annotations

import math
from typing import Any

import openai
import pytest
import testinfra

from lab.config import STATE, load

DEPLOYMENTS = {"tiny_one": 8000, "tiny_two": 8001}
# What is prepared once for the machine, and what each deployment has.
OF_THE_MACHINE = ["docker", "images", "models", "nvidia_container_toolkit", "nvidia_driver"]
OF_A_DEPLOYMENT = ["network", "ray", "vllm"]
testinfra_hosts = ["ssh://node3"]


def test_one_host_is_looked_at() -> None:
    hosts = [testinfra.get_host(name, ssh_config=str(STATE / "ssh/config")) for name in testinfra_hosts]
    assert [host.check_output("hostname") for host in hosts] == ["node3"]


def test_each_deployment_has_a_server_and_nothing_else_runs(host: Any) -> None:
    names = host.check_output("docker ps --all --format '{{.Names}}'").split()
    assert sorted(names) == [f"llm-vllm-{name}" for name in DEPLOYMENTS]


def client(name: str) -> openai.OpenAI:
    """OpenAI's own client, for a deployment."""
    key = (STATE / f"secrets/{name}_api_key").read_text().strip()
    url = f"http://{load().nodes['node3'].data}:{DEPLOYMENTS[name]}/v1"
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)


def test_the_first_generates_a_token() -> None:
    answer = client("tiny_one").completions.create(model="tiny", prompt="Hello", max_tokens=1)
    assert answer.usage
    assert answer.usage.completion_tokens == 1


def test_the_second_embeds_texts() -> None:
    """Of length one, the same for the same text, and another for another text."""
    answer = client("tiny_two").embeddings.create(model="tiny-embed", input=["Hello", "Hello", "Good bye"])
    first, second, other = ([*row.embedding] for row in answer.data)
    assert math.isclose(math.hypot(*first), 1, rel_tol=1e-2)
    assert first == pytest.approx(second, abs=1e-3)
    assert first != pytest.approx(other, abs=1e-3)


def test_each_has_its_own_key() -> None:
    stranger = client("tiny_two").with_options(api_key=client("tiny_one").api_key)
    with pytest.raises(openai.AuthenticationError):
        stranger.embeddings.create(model="tiny-embed", input="Hello")


def test_each_server_sees_a_gpu_of_its_own(host: Any) -> None:
    seen = [host.check_output(f"docker exec llm-vllm-{name} nvidia-smi -L").splitlines() for name in DEPLOYMENTS]
    assert [len(lines) for lines in seen] == [1, 1]
    cards = [lines[0].partition("UUID: ")[2] for lines in seen]
    assert cards == [line.partition("UUID: ")[2] for line in host.check_output("nvidia-smi -L").splitlines()]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_its_units_folder_and_table_have_its_name(host: Any, name: str) -> None:
    for unit in (f"llm-probe-{name}.timer", f"llm-firewall-{name}.service"):
        assert host.service(unit).is_running, unit
        assert host.service(unit).is_enabled, unit
    assert host.file(f"/opt/llm/deployments/{name}/secrets/vllm_api_key").mode == 0o640
    assert '"kind": "serving"' in host.file(f"/run/llm-probe-{name}/state.json").content_string
    host.check_output(f"nft list table inet baremetal_llm_{name}")


def test_nothing_has_the_names_of_a_machine_with_one_deployment(host: Any) -> None:
    for path in ("/opt/llm/scripts", "/opt/llm/secrets", "/run/llm-probe", "/etc/llm-firewall.nft"):
        assert not host.file(path).exists, path


def test_the_machine_was_prepared_once_and_each_deployment_has_records(host: Any) -> None:
    def records(folder: str) -> list[str]:
        return sorted(name.removesuffix(".json") for name in host.file(folder).listdir())

    assert records("/opt/llm/records") == OF_THE_MACHINE
    for name in DEPLOYMENTS:
        assert records(f"/opt/llm/deployments/{name}/records") == OF_A_DEPLOYMENT
