# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Equal questions are answered once, whatever the hosts are called."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import plan as planning
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

Model = Callable[[str], dict[str, Any]]
V100 = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}
SMALL = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32000}
SMALL.update(num_attention_heads=32, intermediate_size=11008, max_position_embeddings=32768, torch_dtype="float16")
NAMES = st.lists(st.text("abcdefghij-0123456789", min_size=3, max_size=9), min_size=2, max_size=3, unique=True)


def fleet(names: list[str], gpus: int = 2) -> list[dict[str, Any]]:
    return [{"host": name, "gpus": [V100] * gpus} for name in names]


@examples(4)
@given(NAMES, st.sampled_from(["0.8.5.post1", "0.12.0"]), st.sampled_from(["en", "zh"]))
def test_an_answer_has_the_names_of_its_own_hosts(names: list[str], version: str, language: str) -> None:
    request = {"vllm_version": version}
    kept = plan_deployment(SMALL, fleet([f"zq{index}" for index in range(len(names))]), request, language)
    planning._ANSWERS.clear()
    fresh = plan_deployment(SMALL, fleet(names), request, language)
    plan_deployment(SMALL, fleet([f"zq{index}" for index in range(len(names))]), request, language)
    again = plan_deployment(SMALL, fleet(names), request, language)
    assert again == fresh
    assert again is not fresh
    text = json.dumps(again, ensure_ascii=False)
    assert "zq" not in text
    assert "\\u0000" not in text
    assert {node["host"] for node in kept["nodes"]} <= {f"zq{index}" for index in range(len(names))}


def test_what_differs_is_asked_again(model: Model) -> None:
    config = model("Qwen__Qwen3-8B")
    one, two = (plan_deployment(config, fleet(["a"], gpus), {"vllm_version": "0.8.5.post1"}) for gpus in (1, 2))
    assert len(one["gpus"]) == 1
    assert len(two["gpus"]) == 2


def test_fifty_equal_deployments_cost_little(model: Model) -> None:
    config = model("Qwen__Qwen2.5-32B")
    planning._ANSWERS.clear()
    began = time.process_time()
    for index in range(50):
        names = [f"gpu{index}-{number}" for number in range(4)]
        assert plan_deployment(config, fleet(names, 8), {"vllm_version": "0.12.0"})["ok"]
    assert time.process_time() - began < 3
