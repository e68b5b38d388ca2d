# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input gets an error that names the field and says why."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import valid_tp_sizes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.junk import JUNK, places, replaced

Model = Callable[[str], dict[str, Any]]
GPU = {"name": "Tesla T4", "memory_mib": 15360, "compute_capability": "7.5"}
SETTINGS = {"vllm_version": "0.8.5.post1"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"hidden_size": -5}, "hidden_size"),
        ({"vocab_size": 2**60}, "vocab_size"),
        ({"num_attention_heads": "many"}, "num_attention_heads"),
        ({"num_key_value_heads": 99}, "num_key_value_heads"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"quantization_config": {"bits": 4}}, "quant_method"),
        ({"quantization_config": "awq"}, "quantization_config"),
    ],
)
def test_configs(model: Model, change: dict[str, Any], field: str) -> None:
    config = dict(model("Qwen__Qwen3-8B"), **change)
    with pytest.raises(InputError, match=field):
        predict_start(config, [GPU], SETTINGS)


@given(st.data())
@examples(300)
def test_no_value_at_any_place_of_a_config_ends_in_a_raw_error(model: Model, data: st.DataObject) -> None:
    """A config.json comes from a hub, or from whoever made the model."""
    config = model(data.draw(st.sampled_from(["Qwen__Qwen3-32B-FP8", "MiniMaxAI__MiniMax-M2.5", "Qwen__Qwen2.5-14B"])))
    place = data.draw(st.sampled_from([each for each in places(dict(config)) if each]))
    with contextlib.suppress(InputError):
        read_model(replaced(dict(config), place, data.draw(JUNK)))


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": 7},
        {"architectures": {"x": 1}},
        {"architectures": [{}]},
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": [None, 128]}},
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": ["²", []]}},
        {"quantization_config": {"quant_method": "awq", "group_size": "--5"}},
    ],
)
def test_values_of_another_type_are_refused_or_read(model: Model, change: dict[str, Any]) -> None:
    config = {**model("Qwen__Qwen3-8B"), **change}
    refused = ""
    try:
        read_model(config)
    except InputError as error:
        refused = error.field
    assert refused in ("", "config.architectures", "config.quantization_config.weight_block_size")


@pytest.mark.parametrize(
    ("gpus", "field"),
    [
        ([], "gpus"),
        ([{"name": "Tesla T4"}], "memory_mib"),
        ([{"name": "Tesla T4", "memory_mib": -1}], "memory_mib"),
        ([{"name": "Tesla T4", "memory_mib": 16}], "memory_mib"),
        ([{"name": "unheard of", "memory_mib": 1000}], "compute_capability"),
        ([{"name": "x", "memory_mib": 1000, "compute_capability": "new"}], "compute_capability"),
        ("Tesla T4", "gpus"),
    ],
)
def test_gpus(model: Model, gpus: Any, field: str) -> None:
    with pytest.raises(InputError, match=field):
        predict_start(model("Qwen__Qwen3-8B"), gpus, SETTINGS)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({}, "vllm_version"),
        ({"vllm_version": "0.99.0"}, "vllm_version"),
        ({"vllm_version": "0.8.9"}, "vllm_version"),
        ({"vllm_version": "latest"}, "vllm_version"),
        (dict(SETTINGS, tensor_parallel_size=0), "tensor_parallel_size"),
        (dict(SETTINGS, gpu_memory_utilization=1.5), "gpu_memory_utilization"),
        (dict(SETTINGS, gpu_memory_utilization=0), "gpu_memory_utilization"),
        (dict(SETTINGS, max_model_len="long"), "max_model_len"),
        (dict(SETTINGS, enforce_eager="perhaps"), "enforce_eager"),
        (dict(SETTINGS, nodes="two"), "nodes"),
    ],
)
def test_settings(model: Model, settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=field):
        predict_start(model("Qwen__Qwen3-8B"), [GPU], settings)


def test_plans(model: Model) -> None:
    nodes = [{"host": "a", "gpus": [GPU]}]
    for bad, field in (
        ([], "nodes"),
        ([{"gpus": [GPU]}], "host"),
        ([{"host": "a", "gpus": []}], "gpus"),
        (nodes * 2, "twice"),
    ):
        with pytest.raises(InputError, match=field):
            plan_deployment(model("Qwen__Qwen3-8B"), bad, SETTINGS)
    with pytest.raises(InputError, match="objective"):
        plan_deployment(model("Qwen__Qwen3-8B"), nodes, dict(SETTINGS, objective="fame"))
    with pytest.raises(InputError, match="max_gpus"):
        valid_tp_sizes(model("Qwen__Qwen3-8B"), 0, "0.8.5.post1")


def test_a_build_of_a_release_is_warned_about(model: Model) -> None:
    predicted = predict_start(
        model("Qwen__Qwen3-8B"), [GPU], {"vllm_version": "0.8.5.dev169+gce17db808", "dtype": "half"}
    )
    assert any("0.8.5" in warning for warning in predicted["warnings"])


def test_an_unknown_architecture_is_warned_about(model: Model) -> None:
    config = dict(model("Qwen__Qwen3-8B"), architectures=["NeverHeardOfForCausalLM"])
    predicted = predict_start(config, [dict(GPU, memory_mib=81920)], {"vllm_version": "0.8.5.post1", "dtype": "half"})
    assert any("NeverHeardOf" in warning for warning in predicted["warnings"])
    assert predicted["ranks"][0]["weights_gib"] > 10
