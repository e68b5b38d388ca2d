# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that stop a start, each on the case that people meet."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.compatibility import image_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.inputs import plan_inputs
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import (
    valid_pp_sizes,
    valid_tp_sizes,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start

Model = Callable[[str], dict[str, Any]]


def code(predicted: dict[str, Any]) -> str | None:
    return predicted["error"]["code"] if predicted["error"] else None


def gpu(capability: str = "8.0", gib: int = 80) -> dict[str, Any]:
    return {"name": "GPU", "memory_mib": gib * 1024, "compute_capability": capability}


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("Qwen__Qwen2.5-14B", {"tensor_parallel_size": 3}, "heads_not_divisible"),
        ("Qwen__Qwen2.5-1.5B-Instruct", {"tensor_parallel_size": 6}, "vocab_not_divisible"),
        ("Qwen__Qwen2.5-7B-Instruct", {"tensor_parallel_size": 7}, "vocab_not_divisible"),
        ("Qwen__Qwen3-30B-A3B-FP8", {"tensor_parallel_size": 8}, "quant_group_not_divisible"),
        ("Qwen__Qwen2.5-7B-Instruct", {"tensor_parallel_size": 16}, "heads_not_divisible"),
        ("Qwen__Qwen3-8B", {"vllm_version": "0.3.0"}, "architecture_not_supported"),
        ("openai__gpt-oss-20b", {"vllm_version": "0.8.5.post1"}, "architecture_not_supported"),
        ("meta-llama__Llama-2-7b-chat-hf", {"pipeline_parallel_size": 2, "vllm_version": "0.5.0"}, "pp_not_supported"),
        ("meta-llama__Llama-3.1-8B", {"pipeline_parallel_size": 33}, "layers_fewer_than_stages"),
        ("meta-llama__Llama-3.1-8B", {"enforce_eagre": True}, "unknown_option"),
        ("meta-llama__Llama-3.1-8B", {"swap_space": 4, "vllm_version": "0.25.1"}, "unknown_option"),
        ("meta-llama__Llama-3.1-8B", {"quantization": "nonsense"}, "quantization_not_supported"),
        ("meta-llama__Llama-3.1-8B", {"quantization": "gguf", "vllm_version": "0.33.0"}, "quantization_not_supported"),
        ("meta-llama__Meta-Llama-3.1-70B", {}, "out_of_memory_loading"),
        (
            "meta-llama__Llama-3.1-8B",
            {"max_model_len": 4096, "max_num_batched_tokens": 1024, "vllm_version": "0.7.3"},
            "batched_tokens_too_few",
        ),
        ("meta-llama__Llama-3.1-8B", {"data_parallel_size": 2}, "world_size_exceeds_gpus"),
    ],
)
def test_refusals(model: Model, name: str, settings: dict[str, Any], expected: str) -> None:
    wishes = dict({"vllm_version": "0.10.2"}, **settings)
    world = wishes.get("tensor_parallel_size", 1) * wishes.get("pipeline_parallel_size", 1)
    predicted = predict_start(model(name), [gpu()] * world, wishes)
    assert code(predicted) == expected
    assert predicted["error"]["message"]
    assert predicted["error"]["remedy"]


def test_more_ranks_than_gpus(model: Model) -> None:
    predicted = predict_start(model("Qwen__Qwen3-8B"), [gpu()], {"vllm_version": "0.10.2", "tensor_parallel_size": 2})
    assert code(predicted) == "world_size_exceeds_gpus"


@pytest.mark.parametrize(
    ("version", "settings", "expected"),
    [
        ("0.10.2", {}, None),
        ("0.12.0", {}, "world_size_exceeds_gpus"),
        ("0.12.0", {"distributed_executor_backend": "ray"}, None),
        ("0.12.0", {"distributed_executor_backend": "mp"}, None),
        ("0.10.2", {"distributed_executor_backend": "mp"}, "world_size_exceeds_gpus"),
    ],
)
def test_executors_across_nodes(model: Model, version: str, settings: dict[str, Any], expected: str | None) -> None:
    wishes = dict(settings, vllm_version=version, tensor_parallel_size=2, pipeline_parallel_size=2, nodes=[2, 2])
    assert code(predict_start(model("Qwen__Qwen3-8B"), [gpu()] * 4, wishes)) == expected


@pytest.mark.parametrize(
    ("version", "dtype", "expected", "served"),
    [
        ("0.8.5.post1", "auto", "dtype_not_supported", "float16"),
        ("0.8.5.post1", "half", None, "float16"),
        ("0.10.2", "auto", None, "float16"),
        ("0.10.2", "bfloat16", "dtype_not_supported", "float16"),
    ],
)
def test_bfloat16_on_a_v100(model: Model, version: str, dtype: str, expected: str | None, served: str) -> None:
    predicted = predict_start(
        model("Qwen__Qwen2-0.5B"), [gpu("7.0", 16)], {"vllm_version": version, "dtype": dtype, "max_model_len": 4096}
    )
    assert code(predicted) == expected
    assert predicted["dtype"] == served


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.3.0", None),
        ("0.8.5.post1", None),
        ("0.9.2", "gpu_not_supported"),
        ("0.10.1.1", "gpu_not_supported"),
        ("0.10.2", None),
        ("0.19.1", None),
        ("0.20.0", "gpu_not_supported"),
        ("0.33.0", "gpu_not_supported"),
    ],
)
def test_official_images_on_a_v100(model: Model, version: str, expected: str | None) -> None:
    wishes = {
        "vllm_version": version,
        "dtype": "half",
        "max_model_len": 2048,
        "max_num_seqs": 16,
        "gpu_memory_utilization": 0.8,
    }
    assert code(predict_start(model("Qwen__Qwen2-0.5B"), [gpu("7.0", 16)], wishes)) == expected


def test_slow_kernels_are_warned_about(model: Model) -> None:
    wishes = {"dtype": "half", "max_model_len": 2048}
    for version, warned in (("0.8.5.post1", False), ("0.10.2", True), ("0.19.1", True)):
        predicted = predict_start(model("Qwen__Qwen2-0.5B"), [gpu("7.0", 16)], dict(wishes, vllm_version=version))
        assert any("V100" in warning for warning in predicted["warnings"]) is warned
    old_engine = {"vllm_version": "0.10.2", "environment": {"VLLM_USE_V1": "0"}}
    assert predict_start(model("Qwen__Qwen2-0.5B"), [gpu("7.0", 16)], dict(wishes, **old_engine))["warnings"] == []


def test_a_self_built_image_decides_by_its_own_code(model: Model) -> None:
    wishes = {
        "vllm_version": "0.33.0",
        "dtype": "half",
        "max_model_len": 2048,
        "max_num_seqs": 16,
        "gpu_memory_utilization": 0.8,
    }
    small = model("Qwen__Qwen2-0.5B")
    assert code(predict_start(small, [gpu("7.0", 16)], dict(wishes, compute_capabilities=["7.0"]))) is None
    assert (
        code(predict_start(small, [gpu("8.6", 16)], dict(wishes, compute_capabilities=["7.0"]))) == "gpu_not_supported"
    )
    assert code(predict_start(small, [gpu("8.6", 16)], dict(wishes, compute_capabilities=["8.0"]))) is None
    assert code(predict_start(small, [gpu("12.0", 16)], dict(wishes, compute_capabilities=["9.0"]))) is not None
    assert code(predict_start(small, [gpu("12.0", 16)], dict(wishes, compute_capabilities=["9.0+PTX"]))) is None
    assert code(predict_start(small, [gpu("8.6", 16)], dict(wishes, compute_capabilities=[]))) == "gpu_not_supported"


@pytest.mark.parametrize(
    "built_for",
    [
        {"vllm": ["sm_70", "sm_80"], "torch": ["sm_70", "sm_80", "compute_80"]},
        {"vllm": ["sm_80", "compute_80"], "torch": ["sm_90", "compute_75"]},
        {"vllm": ["sm_90a", "sm_120f"], "torch": ["sm_90", "sm_120"]},
        {"vllm": [], "torch": ["sm_80"]},
    ],
)
def test_planner_and_guard_judge_an_image_alike(model: Model, built_for: dict[str, list[str]]) -> None:
    config = model("Qwen__Qwen2-0.5B")
    image = {
        "reference": "mine:1",
        "contents": {"libraries": {name: {"built_for": x} for name, x in built_for.items()}},
    }
    manifest = {"files": [{"path": "images.tar", "images": [image]}]}
    wishes = {"dtype": "half", "max_model_len": 2048, "max_num_seqs": 16, "gpu_memory_utilization": 0.8}
    for capability in ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"):
        hostvars = {"a": {"vllm_version": "0.33.0", "vllm_image": "mine:1", "llm_gpus": [gpu(capability, 16)]}}
        asked = plan_inputs({"hosts": ["a"], "head": "a"}, hostvars, manifest)
        planned = code(predict_start(config, asked["nodes"][0]["gpus"], {**wishes, **asked["request"]}))
        expected = "gpu_not_supported" if image_problems("chat", image, [capability]) else None
        assert planned == expected, capability


def test_awq_needs_turing(model: Model) -> None:
    config = dict(
        model("Qwen__Qwen2.5-7B-Instruct"), quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128}
    )
    wishes = {"vllm_version": "0.8.5.post1", "dtype": "half", "max_model_len": 4096}
    assert code(predict_start(config, [gpu("7.0", 16)], wishes)) == "quantization_not_supported"
    assert code(predict_start(config, [gpu("7.5", 16)], wishes)) is None


def test_less_is_free_than_asked_for(model: Model) -> None:
    wishes = {"vllm_version": "0.12.0", "free_memory_mib": 20000, "max_model_len": 4096}
    assert code(predict_start(model("Qwen__Qwen3-8B"), [gpu()], wishes)) == "free_memory_below_utilization"


def test_sizes(model: Model) -> None:
    assert valid_tp_sizes(model("Qwen__Qwen2.5-14B"), 8, "0.8.5.post1") == [1, 2, 4, 8]
    assert valid_tp_sizes(model("Qwen__Qwen2.5-7B-Instruct"), 8, "0.8.5.post1") == [1, 2, 4]
    assert valid_tp_sizes(model("Qwen__Qwen2.5-7B-Instruct"), 8, "0.8.5.post1", "awq") == [1, 2, 4]
    assert valid_pp_sizes(model("Qwen__Qwen2.5-14B"), 3, "0.5.0") == [1]
    assert valid_pp_sizes(model("Qwen__Qwen2.5-14B"), 3, "0.8.5.post1") == [1, 2, 3]


A100 = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}
GPTQ_SECTION = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
AWQ_SECTION = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
YARN = {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}
FOUND_BY_FRESH_VERDICTS: list[tuple[str, dict[str, Any], int, dict[str, Any], str, dict[str, Any]]] = [
    # model, what its config.json has else, GPUs, settings, the code, what starts instead
    (
        "Qwen__Qwen3-30B-A3B",
        {"quantization_config": GPTQ_SECTION},
        1,
        {"vllm_version": "0.8.5.post1", "quantization": "gptq", "dtype": "half"},
        "quantization_not_supported",
        {"quantization": None},
    ),
    (
        "Qwen__Qwen2.5-7B-Instruct",
        {},
        2,
        {"vllm_version": "0.5.3.post1", "pipeline_parallel_size": 2},
        "pp_not_supported",
        {"pipeline_parallel_size": None},
    ),
    (
        "mistralai__Mixtral-8x7B-v0.1",
        {"quantization_config": AWQ_SECTION},
        2,
        {"vllm_version": "0.5.4", "pipeline_parallel_size": 2, "quantization": "awq", "dtype": "half"},
        "pp_not_supported",
        {"pipeline_parallel_size": None},
    ),
    (
        "Qwen__Qwen2.5-7B-Instruct",
        YARN,
        1,
        {"vllm_version": "0.4.2", "max_model_len": 40000, "dtype": "half"},
        "architecture_not_supported",
        {"max_model_len": 32768},
    ),
    (
        "Qwen__Qwen2.5-7B-Instruct",
        {},
        2,
        {"vllm_version": "0.10.2", "tensor_parallel_size": 2, "decode_context_parallel_size": 3},
        "options_conflict",
        {"decode_context_parallel_size": None},
    ),
    (
        "Qwen__Qwen2.5-7B-Instruct",
        {},
        4,
        {"vllm_version": "0.12.0", "tensor_parallel_size": 4, "decode_context_parallel_size": 2},
        "options_conflict",
        {"decode_context_parallel_size": None},
    ),
    (
        "Qwen__Qwen2.5-7B-Instruct",
        {},
        1,
        {"vllm_version": "0.8.5.post1", "max_num_batched_tokens": 512},
        "batched_tokens_too_few",
        {"max_num_seqs": 512},
    ),
    (
        "Qwen__Qwen2.5-7B-Instruct",
        {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}},
        4,
        {"vllm_version": "0.8.5.post1", "pipeline_parallel_size": 4, "max_num_batched_tokens": 256},
        "batched_tokens_too_few",
        {"max_num_batched_tokens": None},
    ),
]


@pytest.mark.parametrize(("name", "overrides", "count", "settings", "code", "change"), FOUND_BY_FRESH_VERDICTS)
def test_what_fresh_verdicts_showed(
    model: Model,
    name: str,
    overrides: dict[str, Any],
    count: int,
    settings: dict[str, Any],
    code: str,
    change: dict[str, Any],
) -> None:
    asked = {"max_model_len": 4096, **settings}
    predicted = predict_start({**model(name), **overrides}, [A100] * count, asked)
    assert predicted["error"]["code"] == code
    assert predicted["change"] == change


def test_quantised_experts_run_on_a_v100_with_the_method_that_has_kernels(model: Model) -> None:
    v100 = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}
    config = {**model("Qwen__Qwen3-30B-A3B"), "quantization_config": GPTQ_SECTION}
    asked = {"vllm_version": "0.8.5.post1", "quantization": "gptq", "dtype": "half", "max_model_len": 4096}
    predicted = predict_start(config, [v100], asked)
    assert predicted["change"] == {"quantization": "moe_wna16"}
    assert predict_start(config, [v100], {**asked, "quantization": "moe_wna16"})["ok"]


def test_old_releases_keep_two_tables_of_a_tied_model(model: Model) -> None:
    """0.3.3 builds Qwen2 with a head of its own, whatever tie_word_embeddings says."""
    config = model("Qwen__Qwen2-0.5B")
    held = {
        version: predict_start(config, [A100], {"vllm_version": version, "dtype": "half"})["ranks"][0]["weights_gib"]
        for version in ("0.3.3", "0.4.0.post1")
    }
    assert held["0.3.3"] - held["0.4.0.post1"] == pytest.approx(151936 * 896 * 2 / 1024**3, rel=0.02)


V100 = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}
A100 = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}


@pytest.mark.parametrize(
    ("gpu", "version", "settings", "refused"),
    [
        # The V1 engine where it was asked for and cannot run (_is_v1_supported_oracle of 0.8.0 to 0.10.2 raises).
        (V100, "0.8.5.post1", {"environment": {"VLLM_USE_V1": "1"}}, "V1"),
        (V100, "0.8.5.post1", {"environment": {"VLLM_USE_V1": "0"}}, None),
        (V100, "0.7.3", {"environment": {"VLLM_USE_V1": "1"}}, "V1"),
        (A100, "0.8.5.post1", {"environment": {"VLLM_USE_V1": "1"}}, None),
        (A100, "0.8.5.post1", {"environment": {"VLLM_USE_V1": "1"}, "kv_cache_dtype": "fp8"}, "V1"),
        # Backends that the environment names.
        (V100, "0.8.5.post1", {"environment": {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}}, "FLASHINFER"),
        (V100, "0.11.2", {"environment": {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}}, "FLASH_ATTN"),
        (V100, "0.8.5.post1", {"environment": {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}}, None),
        (V100, "0.8.5.post1", {"environment": {"VLLM_ATTENTION_BACKEND": "XFORMERS"}}, None),
        # Several steps at a time (multi_step_model_runner.py).
        (V100, "0.8.5.post1", {"num_scheduler_steps": 8}, "num_scheduler_steps"),
        (V100, "0.8.5.post1", {"num_scheduler_steps": 1}, None),
        (A100, "0.8.5.post1", {"num_scheduler_steps": 8}, None),
        (V100, "0.6.3.post1", {"worker_use_ray": True, "distributed_executor_backend": "mp"}, "worker_use_ray"),
        # Blocks above 32 are refused by vllm/config.py of 0.6.6, no longer by that of 0.7.0.
        (A100, "0.6.6", {"block_size": 64}, "block_size"),
        (A100, "0.7.0", {"block_size": 64}, None),
        # LoRA's kernels before Triton's (punica.py).
        (V100, "0.4.2", {"enable_lora": True}, "enable_lora"),
        (V100, "0.6.3.post1", {"enable_lora": True}, None),
        (V100, "0.5.4", {"enable_lora": True}, "vocabulary of 128512"),
        (A100, "0.4.2", {"enable_lora": True}, "vocabulary of 128512"),
        (A100, "0.8.5.post1", {"enable_auto_tool_choice": True}, "tool_call_parser"),
        (A100, "0.8.5.post1", {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"}, None),
        # Values that are not of an option's type.
        (A100, "0.8.5.post1", {"swap_space": "16GiB"}, "swap_space"),
        (A100, "0.8.5.post1", {"max_logprobs": "many"}, "max_logprobs"),
        (A100, "0.8.5.post1", {"seed": "1"}, None),
        (A100, "0.8.5.post1", {"rope_scaling": "{'rope_type': 'yarn'}"}, "rope_scaling"),
    ],
)
def test_what_a_newcomer_sets(
    model: Model, gpu: dict[str, Any], version: str, settings: dict[str, Any], refused: str | None
) -> None:
    start = {"vllm_version": version, "dtype": "half", "max_model_len": 4096, **settings}
    predicted = predict_start(model("Qwen__Qwen2.5-7B-Instruct"), [gpu], start)
    if refused is None:
        assert predicted["ok"], predicted["error"]
        return
    assert refused in predicted["error"]["message"]
    assert predicted["change"]  # what to leave out, or other variables of the environment


def test_a_mapping_as_json_is_read(model: Model) -> None:
    """Four times the context by YaRN, written as on a command line."""
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    start = {"vllm_version": "0.8.5.post1", "max_model_len": 131072}
    config = model("Qwen__Qwen2.5-7B-Instruct")
    said = [predict_start(config, [A100], {**start, "rope_scaling": one}) for one in (scaling, json.dumps(scaling))]
    assert said[0]["ok"]
    assert said[0] == said[1]
