# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that hold for a part of what a coarser one names: images and new GPUs, zero points, offload, adapters, pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import image_lacks, image_serves
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import releases
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

Model = Callable[[str], dict[str, Any]]
GPUS = {
    "7.0": ("Tesla V100-SXM2-32GB", 32768),
    "7.5": ("Quadro RTX 8000", 49152),
    "8.0": ("NVIDIA A100-SXM4-80GB", 81920),
    "8.9": ("NVIDIA L40S", 46068),
    "9.0": ("NVIDIA H100 80GB HBM3", 81559),
    "10.0": ("NVIDIA B200", 183359),
    "12.0": ("NVIDIA GeForce RTX 5090", 32607),
}


def gpu(capability: str) -> dict[str, Any]:
    name, memory = GPUS[capability]
    return {"name": name, "memory_mib": memory, "compute_capability": capability}


def start(config: dict[str, Any], capability: str, version: str, count: int = 1, **settings: Any) -> dict[str, Any]:
    asked = {"vllm_version": version, "dtype": "half", "max_model_len": 2048, **settings}
    return predict_start(config, [gpu(capability)] * count, asked)


# -- images --------------------------------------------------------------------------------------------------------------
@examples(60)
@given(st.sampled_from(releases()), st.sampled_from(sorted(GPUS)))
def test_an_image_starts_only_on_gpus_that_it_holds_code_for(version: str, capability: str) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 2, "vocab_size": 32000}
    config.update(num_attention_heads=16, intermediate_size=3072, max_position_embeddings=4096, torch_dtype="float16")
    found = start(config, capability, version)
    codes = [error["code"] for error in found["errors"]]
    major, minor = (int(part) for part in capability.split("."))
    assert ("gpu_not_supported" in codes) is not image_serves(version, (major, minor)) or (major, minor) == (7, 0)
    if "vllm_version" in found["change"]:
        assert image_lacks(found["change"]["vllm_version"], (major, minor)) is None
    own = start(config, capability, version, compute_capabilities=[capability])
    assert "gpu_not_supported" not in [error["code"] for error in own["errors"]]


@pytest.mark.parametrize(
    ("capability", "version", "remedy"),
    [("12.0", "0.8.5.post1", "0.9.2"), ("10.0", "0.8.5.post1", "0.9.0.1"), ("12.0", "0.10.0", "0.10.1.1")],
)
def test_an_image_that_is_older_than_the_gpu(model: Model, capability: str, version: str, remedy: str) -> None:
    found = start(model("Qwen__Qwen3-0.6B"), capability, version)
    assert "holds no code" in found["error"]["message"]
    assert found["change"] == {"vllm_version": remedy}


# -- quantisation --------------------------------------------------------------------------------------------------------
def weights(symmetric: bool) -> dict[str, Any]:
    group = {"num_bits": 4, "type": "int", "symmetric": symmetric, "strategy": "group", "group_size": 32}
    groups = {"group_0": {"targets": ["Linear"], "weights": group}}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}


@pytest.mark.parametrize(
    ("version", "symmetric", "ok"), [("0.12.0", True, True), ("0.12.0", False, False), ("0.14.0", False, True)]
)
def test_zero_points_need_marlin(model: Model, version: str, symmetric: bool, ok: bool) -> None:
    config = {**model("Qwen__Qwen3-8B"), "quantization_config": weights(symmetric)}
    assert start(config, "7.5", version)["ok"] is ok


def test_quantised_experts_are_mended(model: Model) -> None:
    config = {**model("Qwen__Qwen3-30B-A3B"), "quantization_config": {"quant_method": "gptq", "bits": 4}}
    config["quantization_config"].update(group_size=128, desc_act=False, sym=True)
    nodes = [{"host": "a", "gpus": [gpu("7.0")] * 2}]
    plan = plan_deployment(config, nodes, {"vllm_version": "0.8.5.post1"})
    assert plan["ok"]
    assert plan["settings"]["quantization"] == "moe_wna16"


# -- what lies in the host's memory --------------------------------------------------------------------------------------
BNB = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}


@pytest.mark.parametrize(
    ("name", "more", "version", "settings", "refused"),
    [
        ("Qwen__Qwen2.5-7B-Instruct", BNB, "0.7.3", {}, "bitsandbytes"),
        ("Qwen__Qwen2.5-7B-Instruct", BNB, "0.9.2", {}, ""),
        ("Qwen__Qwen2.5-7B-Instruct", {}, "0.6.6.post1", {"enable_lora": True}, "enable_lora"),
        ("deepseek-ai__DeepSeek-V2-Lite-Chat", {}, "0.8.2", {}, "latent"),
        ("deepseek-ai__DeepSeek-V2-Lite-Chat", {}, "0.8.5.post1", {}, ""),
    ],
)
def test_v0_loses_what_it_moves(
    model: Model, name: str, more: dict[str, Any], version: str, settings: dict[str, Any], refused: str
) -> None:
    found = start({**model(name), **more}, "8.0", version, cpu_offload_gb=4, **settings)
    assert refused in (found["error"] or {"message": ""})["message"]
    assert found["ok"] is not bool(refused)


# -- adapters ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "version", "refused"),
    [
        ("mistralai__Mistral-Nemo-Instruct-2407", "0.5.2", "vocabulary of 128512"),
        ("mistralai__Mistral-Nemo-Instruct-2407", "0.5.5", ""),
        ("google__gemma-3-1b-it", "0.12.0", "vocabulary of 257024"),
        ("Qwen__Qwen3-30B-A3B", "0.9.2", "Qwen3MoeForCausalLM"),
        ("Qwen__Qwen3-30B-A3B", "0.10.0", ""),
    ],
)
def test_adapters(model: Model, name: str, version: str, refused: str) -> None:
    found = start(model(name), "8.0", version, enable_lora=True, dtype="bfloat16")
    assert found["ok"] is not bool(refused)
    assert refused in (found["error"] or {"message": ""})["message"]


# -- pipelines -----------------------------------------------------------------------------------------------------------
@examples(30)
@given(st.sampled_from(["0.13.0", "0.14.0", "0.15.1", "0.16.0", "0.17.0", "0.33.0"]), st.integers(1, 4))
def test_the_longest_context_starts_and_a_longer_one_does_not(version: str, stages: int) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "num_hidden_layers": 40, "vocab_size": 32000}
    config.update(num_attention_heads=64, intermediate_size=11008, max_position_embeddings=1 << 20)
    settings = {"pipeline_parallel_size": stages, "max_model_len": 1 << 20, "max_num_seqs": 64}
    longest = start(config, "8.0", version, stages, **settings)["longest_context"]
    assert longest is not None
    assert longest < 1 << 20
    assert start(config, "8.0", version, stages, **{**settings, "max_model_len": longest})["ok"]
    assert not start(config, "8.0", version, stages, **{**settings, "max_model_len": longest + 16})["ok"]


def test_some_releases_hold_the_whole_cache_against_one_stage(model: Model) -> None:
    settings = {"pipeline_parallel_size": 2, "max_model_len": 40960}
    held, free = (
        start(model("Qwen__Qwen3-32B"), "8.9", version, 2, **settings)["longest_context"]
        for version in ("0.16.0", "0.17.0")
    )
    assert held < free


# -- replicas inside vLLM, Ray by its old name ----------------------------------------------------------------------------
def test_ray_by_its_old_name(model: Model) -> None:
    nodes = [{"host": "a", "gpus": [gpu("8.0")] * 2}]
    wishes = {"vllm_version": "0.5.4", "worker_use_ray": True, "tensor_parallel_size": 2}
    plan = plan_deployment(model("Qwen__Qwen2.5-7B-Instruct"), nodes, wishes)
    assert plan["ok"], plan["predicted"]["error"]


@pytest.mark.parametrize(("gpus", "copies", "ranks"), [(4, 2, 4), (4, 4, 4), (8, 2, 8), (2, 4, None)])
def test_copies_behind_one_server(model: Model, gpus: int, copies: int, ranks: int | None) -> None:
    nodes = [{"host": "a", "gpus": [gpu("9.0")] * gpus}]
    wishes = {"vllm_version": "0.12.0", "data_parallel_size": copies}
    plan = plan_deployment(model("Qwen__Qwen3-8B"), nodes, wishes)
    assert plan["ok"] is (ranks is not None)
    if ranks is not None:
        assert [len(node["ranks"]) for node in plan["nodes"]] == [ranks]
        assert len(plan["predicted"]["ranks"]) == len(plan["gpus"]) == ranks
        assert plan["settings"]["tensor_parallel_size"] * plan["settings"]["pipeline_parallel_size"] * copies == ranks


@pytest.mark.parametrize(("version", "refused"), [("0.4.0.post1", True), ("0.4.1", False)])
def test_mixtral_of_pickled_files(model: Model, version: str, refused: bool) -> None:
    found = start(model("mistralai__Mixtral-8x7B-v0.1"), "8.0", version, 4, tensor_parallel_size=4, load_format="pt")
    assert any("load_format pt" in error["message"] for error in found["errors"]) is refused
    assert found["ok"] is not refused
    assert not refused or found["change"] == {"load_format": None}


@pytest.mark.parametrize(
    ("version", "adapters", "refused"), [("0.11.0", False, False), ("0.11.0", True, True), ("0.12.0", False, True)]
)
def test_ranks_of_adapters_are_choices_of_the_parser(model: Model, version: str, adapters: bool, refused: bool) -> None:
    found = start(model("Qwen__Qwen3-0.6B"), "8.0", version, max_lora_rank=48, enable_lora=adapters)
    assert found["ok"] is not refused
