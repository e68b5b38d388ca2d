# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with GPUs of several kinds, and fleets of several kinds of hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

Model = Callable[[str], dict[str, Any]]
OLD = {"name": "NVIDIA GeForce RTX 2080 Ti", "memory_mib": 11264, "compute_capability": "7.5"}
V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
R3090 = {"name": "NVIDIA GeForce RTX 3090", "memory_mib": 24576, "compute_capability": "8.6"}
R4090 = {"name": "NVIDIA GeForce RTX 4090", "memory_mib": 24564, "compute_capability": "8.9"}
A6000 = {"name": "NVIDIA RTX A6000", "memory_mib": 49140, "compute_capability": "8.6"}
CARDS = (OLD, V100, R3090, R4090, A6000)


def plan(config: dict[str, Any], *hosts: list[dict[str, Any]], **request: Any) -> dict[str, Any]:
    nodes = [{"host": f"h{index}", "gpus": gpus} for index, gpus in enumerate(hosts)]
    return plan_deployment(config, nodes, {"vllm_version": "0.12.0", **request})


def test_a_card_that_cannot_is_left_out(model: Model) -> None:
    for gpus, place in (([OLD, R3090], 1), ([R3090, OLD], 0)):
        found = plan(model("openai__gpt-oss-20b"), gpus, max_model_len=8192)
        assert found["ok"]
        assert found["gpu_places"] == {"h0": [place]}
        assert [gpu["name"] for gpu in found["gpus"]] == [R3090["name"]]
        assert any("RTX 3090" in reason and "RTX 2080 Ti" in reason for reason in found["reasons"])


def test_all_are_taken_where_all_are_needed(model: Model) -> None:
    found = plan(model("Qwen__Qwen2.5-14B"), [R3090, A6000], pipeline_parallel_size=2)
    assert found["ok"]
    assert found["gpu_places"] == {}
    assert any("weakest" in reason for reason in found["reasons"])


def test_kinds_of_hosts_are_offered(model: Model) -> None:
    found = plan(model("Qwen__Qwen3-8B"), [R4090] * 2, [R4090] * 2, [A6000] * 2)
    first = found["alternatives"][0]
    assert "3 replicas" in first["change"]
    assert all(card["name"] in first["gain"] for card in (R4090, A6000))
    assert any("only" in one["change"] and "RTX 4090" in one["change"] for one in found["alternatives"])


def test_replicas_come_first_where_a_host_holds_the_model(model: Model) -> None:
    found = plan(model("Qwen__Qwen3-8B"), [R4090] * 2, [R4090] * 2)
    assert "2 replicas" in found["alternatives"][0]["change"]


@examples(60)
@given(st.lists(st.sampled_from(CARDS), min_size=1, max_size=4), st.sampled_from(["0.8.5.post1", "0.12.0", "0.19.1"]))
def test_a_mixed_host_serves_what_one_of_its_kinds_serves(gpus: list[dict[str, Any]], version: str) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32000}
    config.update(num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336, torch_dtype="bfloat16")
    config["max_position_embeddings"] = 8192
    mixed = plan(config, gpus, vllm_version=version)
    kinds = [[one for one in gpus if one is kind] for kind in CARDS if kind in gpus]
    alone = [plan(config, kind, vllm_version=version)["verdict"] for kind in kinds]
    assert mixed["verdict"] == "starts" or "starts" not in alone
    places = mixed["gpu_places"].get("h0", list(range(len(gpus))))
    used = [gpus[place]["name"] for place in places][: len(mixed["gpus"])]
    assert used == [gpu["name"] for gpu in mixed["gpus"]]
