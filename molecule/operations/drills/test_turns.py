"""After a change of two settings of one deployment, for which both replicas were started anew in turns."""

from __future__ import annotations

import json

import openai
import testinfra

from lab.config import STATE, load
from tests.support import openai_client


def on(name: str, command: str) -> str:
    answer: str = testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config")).check_output(command)
    return answer


def test_one_server_only_has_the_setting() -> None:
    options = {name: on(name, "docker exec llm-vllm cat /llm/vllm.yaml").splitlines() for name in ("node1", "node3")}
    assert {name: "max-num-seqs: 16" in lines for name, lines in options.items()} == {"node1": False, "node3": True}


def test_openai_client_gets_the_call_of_a_tool() -> None:
    """From the deployment that has a parser for them now."""
    key = (STATE / "secrets/tiny_single_api_key").read_text().strip()
    url = f"http://{load().nodes['node3'].data}:8000/v1"
    openai_client.gets_the_call_of_a_tool(openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120))


def test_the_controller_keeps_what_the_new_start_measured() -> None:
    kept = json.loads((STATE / "reports/observations/tiny_single-0.32.0.json").read_text())
    assert kept["gpu"] == "Tesla V100-PCIE-16GB"
    assert kept["prediction"]["kv_cache_tokens"] > 0
    assert kept["truth"]["kv_cache_tokens"] > 0
