"""What is decided of a server that is loaded when somebody asks for it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names, removal
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.on_request import (
    inner_port,
    is_local,
    on_request_section,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.probe import probe_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine, engine_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.collective import collective_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.server import vllm_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import deployment_ports

from tests.support import deployments

LLAMA: dict[str, Any] = {
    "llm_engine": "llama_cpp",
    "llama_cpp_model": "lab/tiny",
    "llama_cpp_version": "b11549",
    "llama_cpp_port": 8001,
    "llama_cpp_api_key_enabled": True,
    "llama_cpp_probe_failures": 3,
    "llama_cpp_probe_interval_seconds": 10,
}
ASKED = {**LLAMA, "llm_on_request": True}


def member(**more: Any) -> Member:
    return deployments.member(executor="uni", ranks=(1,), **{**ASKED, **more})


def test_the_program_is_told_all_it_needs() -> None:
    found = on_request_section(member(llm_on_request_idle_seconds=600))
    assert found["path"] == "/etc/llm-on-request/llm-vllm.json"  # the names of a host that nobody has named
    settings = found["settings"]
    assert (settings["listen"], settings["inner"]) == (["0.0.0.0", 8001], ["127.0.0.1", 18001])
    assert settings["keys"] == [f"/opt/llm/secrets/llama_cpp_api_key{end}" for end in ("", ".gateway", ".previous")]
    assert (settings["ready"], settings["rivals"], settings["idle_seconds"]) == ("/health", [], 600)
    assert settings["stay_seconds"] is None


def test_a_server_without_a_key_is_asked_by_its_own_host_only() -> None:
    settings = on_request_section(member(llama_cpp_api_key_enabled=False))["settings"]
    assert (settings["listen"], settings["keys"]) == (["127.0.0.1", 8001], [])


def test_others_keep_their_port() -> None:
    mine = deployments.member(executor="uni", ranks=(1,), **LLAMA)
    assert on_request_section(mine) == {}
    assert (inner_port(mine.variables), is_local(mine.variables)) == (8001, False)
    assert "--on-request" not in probe_section(mine, [])["command"]


def test_the_probe_asks_the_server_and_not_who_would_load_it() -> None:
    command = probe_section(member(), [])["command"]
    assert command[command.index("--url") + 1] == "http://127.0.0.1:18001"
    assert "--on-request" in command


@pytest.mark.parametrize(("port", "said", "behind"), [(8000, None, 18000), (60000, None, 50000), (8000, 9000, 9000)])
def test_the_port_behind(port: int, said: int | None, behind: int) -> None:
    variables = {**ASKED, "llama_cpp_port": port, "llm_on_request_port": said}
    assert inner_port(variables) == behind
    assert [each.first for each in deployment_ports(variables)] == [port, behind]


def test_the_file_goes_with_the_names_of_a_deployment() -> None:
    assert "/etc/llm-on-request/llm-llama_cpp-a.json" in removal(names("a", engine="llama_cpp"), "/opt/llm")["paths"]


def test_which_engines_can_do_it() -> None:
    assert [name for name in engine_names() if not engine(name).on_request] == ["ollama"], "it has models come and go"


# -- vLLM ----------------------------------------------------------------------------------------------------------------
def vllm(**more: Any) -> Member:
    said = {"llm_on_request": True, "vllm_port": 8001, **more}
    return deployments.member(executor="mp", ranks=(2,), gpus=2, **said)


def test_vllm_listens_behind_the_program_and_is_started_by_it_alone() -> None:
    mine = vllm()
    section = vllm_section(mine, {})
    command = section["container"]["command"]
    assert command[command.index("--host") : command.index("--host") + 4] == ["--host", "127.0.0.1", "--port", "18001"]
    settings = section["on_request"]["settings"]
    assert (settings["listen"], settings["inner"]) == (["0.0.0.0", 8001], ["127.0.0.1", 18001])
    assert (settings["state"], settings["look_seconds"], settings["counted_seconds"]) == ("/run/llm-probe", 30, 3)
    assert section["url"] == "http://10.0.0.1:8001"
    assert "--seconds=900" in section["ask"]
    # No pauses of its own between starts.
    assert section["container"]["environment"]["LLM_STARTS_FILE"] == "/dev/null"
    assert collective_section(mine, {}) == {"possible": False}, "the GPUs may be another deployment's"


def test_vllm_that_is_always_loaded_is_as_before() -> None:
    section = vllm_section(vllm(llm_on_request=False), {})
    command = section["container"]["command"]
    assert command[command.index("--host") : command.index("--host") + 4] == ["--host", "0.0.0.0", "--port", "8001"]
    assert section["on_request"] == {}
    assert "LLM_STARTS_FILE" not in section["container"]["environment"]
    assert collective_section(vllm(llm_on_request=False), {})["possible"]


def test_vllm_without_a_key_is_open_to_clients_as_it_is_elsewhere() -> None:
    settings = on_request_section(vllm(vllm_api_key_enabled=False))["settings"]
    assert (settings["listen"], settings["keys"]) == (["0.0.0.0", 8001], [])
