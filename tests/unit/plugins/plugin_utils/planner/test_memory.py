# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights, pipeline stages and the KV cache on worked examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.allocator import MIB, Allocator
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import stage_layers
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key, resolve_release

Model = Callable[[str], dict[str, Any]]


def test_the_allocator_splits_unless_told_not_to() -> None:
    free = Allocator(None)
    free.allocate(52 * MIB + MIB // 2)
    assert free.allocated == 52 * MIB + MIB // 2
    whole = Allocator(20 * MIB)
    block = whole.allocate(52 * MIB + MIB // 2)
    assert whole.allocated == block == 54 * MIB
    whole.free(block)
    assert whole.allocate(40 * MIB) == 54 * MIB  # a freed block within 20 MiB is taken whole
    assert whole.allocate(12 * MIB) == 12 * MIB


@pytest.mark.parametrize(
    ("layers", "pp", "version", "expected"),
    [
        (28, 3, "0.7.3", [9, 9, 10]),
        (28, 3, "0.8.0", [9, 10, 9]),
        (61, 8, "0.8.0", [7, 7, 8, 8, 8, 8, 8, 7]),
        (48, 2, "0.25.1", [24, 24]),
    ],
)
def test_stages(layers: int, pp: int, version: str, expected: list[int]) -> None:
    assert stage_layers(layers, pp, release_key(version)) == expected


@pytest.mark.parametrize(("tp", "expected"), [(1, 57344), (2, 28672), (4, 14336)])
def test_kv_bytes_of_a_token(model: Model, tp: int, expected: int) -> None:
    gpu = {"name": "NVIDIA A100 80GB", "memory_mib": 81920, "compute_capability": "8.0"}
    predicted = predict_start(
        model("Qwen__Qwen2.5-7B-Instruct"),
        [gpu] * tp,
        {"vllm_version": "0.10.2", "tensor_parallel_size": tp, "kv_cache_memory_bytes": 16 * 1000 * expected},
    )
    assert predicted["kv_cache_tokens"] == 16000


@pytest.mark.parametrize(
    ("name", "version", "tp", "expected"),
    [
        ("Qwen__Qwen2.5-7B-Instruct", "0.8.5", 1, 14.25),
        ("meta-llama__Llama-3.1-8B", "0.6.4.post1", 1, 14.9888),
        ("Qwen__Qwen2.5-1.5B-Instruct", "0.7.2", 2, 1.4495),
        ("Qwen__Qwen3-30B-A3B", "0.8.5", 4, 14.25),
        ("Qwen__Qwen3-32B", "0.25.1", 2, 30.59),
    ],
)
def test_published_weights(model: Model, name: str, version: str, tp: int, expected: float) -> None:
    gpu = {"name": "NVIDIA A100 80GB", "memory_mib": 81920, "compute_capability": "8.0"}
    predicted = predict_start(
        model(name), [gpu] * tp, {"vllm_version": version, "tensor_parallel_size": tp, "max_model_len": 2048}
    )
    assert predicted["ranks"][0]["weights_gib"] == pytest.approx(expected, rel=0.003)


def test_a_longer_rope_cache_weighs(model: Model) -> None:
    gpu = {"name": "NVIDIA GeForce RTX 2080 Ti 22GB", "memory_mib": 22528, "compute_capability": "7.5"}
    config = dict(model("Qwen__Qwen3-8B"), max_position_embeddings=131072)
    wishes = {"vllm_version": "0.8.5", "tensor_parallel_size": 4, "max_model_len": 2048, "dtype": "half"}
    assert predict_start(config, [gpu] * 4, wishes)["ranks"][0]["weights_gib"] == pytest.approx(3.85, abs=0.005)


def test_offload_frees_what_it_says(model: Model) -> None:
    gpu = {"name": "GeForce", "memory_mib": 20480, "compute_capability": "8.6"}
    wishes = {"vllm_version": "0.8.5.post1", "tensor_parallel_size": 2, "max_model_len": 4096, "enforce_eager": True}
    predicted = predict_start(model("Qwen__Qwen3-8B"), [gpu] * 2, dict(wishes, cpu_offload_gb=5))
    assert predicted["ranks"][0]["weights_gib"] == pytest.approx(2.6077, abs=0.001)


def test_tensors_stand_for_an_unknown_architecture() -> None:
    config = {
        "architectures": ["NewForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": 1024,
        "torch_dtype": "float16",
        "max_position_embeddings": 128,
    }
    tensors = {
        "model.embed_tokens.weight": {"dtype": "BF16", "shape": [1024, 64]},
        "lm_head.weight": {"dtype": "F32", "shape": [1024, 64]},
    }
    for layer in range(2):
        tensors[f"model.layers.{layer}.self_attn.k_proj.weight"] = {"dtype": "BF16", "shape": [32, 64]}
        tensors[f"model.layers.{layer}.mlp.down_proj.weight"] = {"dtype": "BF16", "shape": [64, 128]}
    gpu = {"name": "NVIDIA A100 80GB", "memory_mib": 81920, "compute_capability": "8.0"}
    whole = predict_start({"config": config, "tensors": tensors}, [gpu], {"vllm_version": "0.10.2"})
    expected = (2 * 1024 * 64 + 2 * (32 * 64 + 64 * 128)) * 2 + 128 * 16 * 2
    assert whole["ranks"][0]["weights_gib"] == pytest.approx(expected / 2**30, abs=1e-4)


def test_every_family_reads(model: Model) -> None:
    for name in (
        "deepseek-ai__DeepSeek-R1",
        "openai__gpt-oss-120b",
        "Qwen__Qwen3.5-27B",
        "google__gemma-4-26B-A4B",
        "meta-llama__Llama-4-Maverick-17B-128E-Instruct",
        "deepseek-ai__DeepSeek-V3.2",
        "mistralai__Mixtral-8x22B-v0.1",
    ):
        facts = read_model(model(name))
        assert facts.known
        gpu = {"name": "NVIDIA B200", "memory_mib": 183359, "compute_capability": "10.0"}
        predicted = predict_start(
            model(name), [gpu] * 8, {"vllm_version": "0.33.0", "tensor_parallel_size": 8, "max_model_len": 8192}
        )
        assert predicted["ranks"]


def test_a_first_compilation_holds_the_embedding_once_more(model: Model) -> None:
    gpu = {"name": "NVIDIA H200", "memory_mib": 143771, "compute_capability": "9.0"}
    few = {"vllm_version": "0.25.1", "dtype": "half", "max_num_seqs": 16, "max_num_batched_tokens": 2048}
    eager, compiled = (
        predict_start(model("Qwen__Qwen2.5-7B-Instruct"), [gpu], {**few, "enforce_eager": enforce})["ranks"][0]
        for enforce in (True, False)
    )
    embedding = 152064 * 3584 * 2 / 1024**3
    assert eager["activation_gib"] < 0.4
    assert compiled["activation_gib"] == pytest.approx(embedding + 0.03125, abs=0.001)


@pytest.mark.parametrize(
    ("dtype", "capability", "expected"),
    [("half", "9.0", "dtype_not_supported"), ("bfloat16", "9.0", None), ("half", "8.0", None)],
)
def test_fp8_keys_and_values_on_hopper_want_bfloat16(
    model: Model, dtype: str, capability: str, expected: str | None
) -> None:
    gpu = {"name": "GPU", "memory_mib": 81920, "compute_capability": capability}
    settings = {"vllm_version": "0.25.1", "dtype": dtype, "kv_cache_dtype": "fp8", "max_model_len": 4096}
    error = predict_start(model("Qwen__Qwen2.5-7B-Instruct"), [gpu], settings)["error"]
    assert (error or {}).get("code") == expected


AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}}


def _mixtral(version: str, gpu: dict[str, Any], config: dict[str, Any], **settings: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "vllm_version": version,
        "dtype": "half",
        "tensor_parallel_size": 2,
        "enforce_eager": True,
        **settings,
    }
    predicted: dict[str, Any] = predict_start({**config, **AWQ}, [gpu] * asked["tensor_parallel_size"], asked)
    return predicted


def test_partial_sums_of_awq_decide_whether_mixtral_starts(model: Model) -> None:
    """Issue 2382 of vllm-project/vllm: with 0.2.7 two A10 run out of memory in the profile run, and two A100 start with half of theirs."""
    config = model("mistralai__Mixtral-8x7B-v0.1")
    a10 = {"name": "NVIDIA A10", "memory_mib": 23028, "compute_capability": "8.6"}
    a100 = {"name": "NVIDIA A100 80GB PCIe", "memory_mib": 81920, "compute_capability": "8.0"}
    died = _mixtral("0.2.7", a10, config)
    assert died["error"]["code"] == "no_cache_blocks"
    assert died["change"]
    assert _mixtral("0.2.7", a100, config, gpu_memory_utilization=0.5)["ok"]
    # The peak: w1's result, w3's, and 8 partial sums of it, each of 32768 tokens and 14336 columns; 1.6 is what the allocator holds beyond.
    columns = 32768 * 14336 * 2 / 1024**3
    peak = died["ranks"][0]["activation_gib"] / 1.6
    assert 10 * columns < peak < 11.5 * columns
    # From 0.3.0 on the weight is dequantised for so many tokens.
    assert _mixtral("0.3.0", a10, config)["ranks"][0]["activation_gib"] < died["ranks"][0]["activation_gib"] / 2


def test_experts_in_turn_are_whole_on_a_rank(model: Model) -> None:
    """Mixtral's quantised experts up to 0.10.1 ignore how tensors are split, unless Marlin serves them all at once."""
    config = model("mistralai__Mixtral-8x7B-v0.1")
    a100 = {"name": "NVIDIA A100 80GB PCIe", "memory_mib": 81920, "compute_capability": "8.0"}
    peaks = {
        (name, tp): _mixtral(
            "0.6.6.post1", a100, config, quantization=name, max_model_len=8192, tensor_parallel_size=tp
        )
        for name in ("awq", "awq_marlin")
        for tp in (2, 4)
    }
    held = {key: one["ranks"][0]["activation_gib"] for key, one in peaks.items()}
    assert held["awq", 4] == held["awq", 2]
    assert held["awq_marlin", 4] < held["awq", 4] < held["awq_marlin", 2]


def _r1(model: Model, gpu: dict[str, Any], **settings: Any) -> dict[str, Any]:
    asked = {"vllm_version": "0.7.3", "tensor_parallel_size": 8, "pipeline_parallel_size": 4, "nodes": 8}
    asked |= {"distributed_executor_backend": "ray", "max_model_len": 16384, "trust_remote_code": True}
    predicted: dict[str, Any] = predict_start(model("deepseek-ai__DeepSeek-R1"), [gpu] * 32, {**asked, **settings})
    return predicted


def test_graphs_of_deepseek_in_stages(model: Model) -> None:
    """10 GiB of each H100 (pull request 43 of huggingface/open-r1), so 48 GB start only without graphs (issue 15598 of vllm-project/vllm)."""
    h100 = {"name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "compute_capability": "9.0"}
    l40s = {"name": "NVIDIA L40S", "memory_mib": 46068, "compute_capability": "8.9"}
    assert _r1(model, h100)["ranks"][-1]["cudagraph_gib"] == pytest.approx(10, abs=0.5)
    assert _r1(model, l40s)["error"]["code"] == "out_of_memory_cudagraph"
    assert _r1(model, l40s, enforce_eager=True)["ok"]


def test_v0_captures_graphs_for_every_stage(model: Model) -> None:
    gpu = {"name": "NVIDIA A100 80GB PCIe", "memory_mib": 81920, "compute_capability": "8.0"}
    graphs = {}
    for pp in (1, 2):
        asked = {"vllm_version": "0.6.6.post1", "pipeline_parallel_size": pp, "max_model_len": 4096}
        graphs[pp] = predict_start(model("meta-llama__Llama-3.1-8B"), [gpu] * pp, asked)["ranks"][0]["cudagraph_gib"]
    assert graphs[2] == pytest.approx(graphs[1], rel=0.01)  # half of the layers, twice


@pytest.mark.parametrize(("version", "engine"), [("0.10.2", "V1"), ("0.8.5.post1", "V0"), ("0.6.4.post1", "V0")])
def test_a_budget_of_the_whole_gpu_starts_nothing(model: Model, version: str, engine: str) -> None:
    gpu = {"name": "NVIDIA A100 80GB PCIe", "memory_mib": 81920, "compute_capability": "8.0"}
    asked = {"vllm_version": version, "engine": engine, "max_model_len": 4096, "gpu_memory_utilization": 1.0}
    predicted = predict_start(model("meta-llama__Llama-3.1-8B"), [gpu], asked)
    assert predicted["error"]["code"] == "free_memory_below_utilization"
    assert predicted["change"] == {"gpu_memory_utilization": None}
    assert predict_start(model("meta-llama__Llama-3.1-8B"), [gpu], {**asked, "gpu_memory_utilization": 0.98})["ok"]


def test_releases() -> None:
    assert release_key("0.8.5.post1") > release_key("0.8.5") > release_key("0.8.4")
    assert resolve_release("0.8.5").examined == "0.8.5.post1"
    assert resolve_release("v0.10.1.1").examined == "0.10.1.1"
    assert at([("0.2.7", "a"), ("0.8.0", "b")], release_key("0.7.3")) == "a"
