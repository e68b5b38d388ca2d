# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for the hosts that people have."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.arguments import vllm_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.engine_log import parse_engine_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.plan import plan_deployment

Model = Callable[[str], dict[str, Any]]


def hosts(gpu: dict[str, Any], *counts: int) -> list[dict[str, Any]]:
    return [{"host": f"gpu{index + 1:02}", "gpus": [gpu] * count} for index, count in enumerate(counts)]


def shape(plan: dict[str, Any]) -> tuple[int, int]:
    return plan["settings"]["tensor_parallel_size"], plan["settings"]["pipeline_parallel_size"]


def test_pipeline_across_hosts_and_tensors_inside(model: Model, v100: dict[str, Any]) -> None:
    request = {"vllm_version": "0.8.5.post1", "max_model_len": 2048}
    apart = plan_deployment(model("Qwen__Qwen2-0.5B"), hosts(v100, 1, 1), request)
    assert apart["ok"]
    assert shape(apart) == (1, 2)
    assert apart["settings"]["distributed_executor_backend"] == "ray"
    assert apart["nodes"] == [{"host": "gpu01", "ranks": [0]}, {"host": "gpu02", "ranks": [1]}]
    together = plan_deployment(model("Qwen__Qwen2-0.5B"), hosts(v100, 2), request)
    assert shape(together) == (2, 1)
    assert together["settings"]["distributed_executor_backend"] == "mp"
    assert together["settings"]["dtype"] == "half"
    single = plan_deployment(model("Qwen__Qwen2-0.5B"), hosts(v100, 1), request)
    assert single["settings"]["distributed_executor_backend"] is None
    assert single["executor"] == "uni"


def test_hosts_go_without_ray_where_the_image_has_none(model: Model) -> None:
    a100 = {"name": "NVIDIA A100-PCIE-40GB", "memory_mib": 40960, "compute_capability": "8.0"}
    request = {"vllm_version": "0.32.0", "max_model_len": 2048, "image_has_ray": False}
    plan = plan_deployment(model("Qwen__Qwen2-0.5B"), hosts(a100, 1, 1), request)
    assert plan["ok"]
    assert plan["executor"] == "mp"
    assert "image_has_ray" not in plan["settings"]
    # Each host has to hold the same number of ranks: three GPUs are not used, two are.
    uneven = plan_deployment(model("Qwen__Qwen2-0.5B"), hosts(a100, 2, 1), request)
    assert uneven["ok"]
    assert len({len(node["ranks"]) for node in uneven["nodes"] if node["ranks"]}) == 1
    # Before 0.11.1 there is nothing but Ray.
    old = plan_deployment(
        model("Qwen__Qwen2-0.5B"), hosts(a100, 1, 1), {**request, "vllm_version": "0.10.2", "pipeline_parallel_size": 2}
    )
    assert not old["ok"]


def test_a_model_that_barely_fits_gets_settings_that_save_memory(model: Model, v100: dict[str, Any]) -> None:
    plan = plan_deployment(model("Qwen__Qwen2.5-14B"), hosts(v100, 2), {"vllm_version": "0.8.5.post1"})
    assert plan["ok"]
    assert plan["settings"]["max_model_len"] >= 2048
    assert any("max_num_seqs" in reason for reason in plan["reasons"])


def test_a_model_that_does_not_fit_gets_alternatives(model: Model, v100: dict[str, Any]) -> None:
    plan = plan_deployment(model("Qwen__Qwen2.5-32B"), hosts(v100, 2), {"vllm_version": "0.8.5.post1"})
    assert not plan["ok"]
    assert plan["predicted"]["error"]["code"] == "out_of_memory_loading"
    changes = {one["change"]: one for one in plan["alternatives"]}
    assert changes["a GPTQ 4-bit checkpoint"]["ok"]
    assert any("more host" in change for change in changes)
    assert any(not one["ok"] and one["error"] for one in plan["alternatives"])


def test_uneven_hosts(model: Model, v100: dict[str, Any]) -> None:
    plan = plan_deployment(
        model("Qwen__Qwen2.5-7B-Instruct"), hosts(v100, 2, 1), {"vllm_version": "0.8.5.post1", "max_model_len": 1024}
    )
    assert plan["ok"]
    assert shape(plan) == (1, 3)


def test_the_weakest_gpu_decides(model: Model, v100: dict[str, Any]) -> None:
    a100 = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}
    nodes = [{"host": "a", "gpus": [a100]}, {"host": "b", "gpus": [v100]}]
    plan = plan_deployment(model("Qwen__Qwen2-0.5B"), nodes, {"pipeline_parallel_size": 2})
    assert plan["vllm_version"] == "0.8.5.post1"
    assert plan["settings"]["dtype"] == "half"
    assert any("weakest" in reason for reason in plan["reasons"])


def test_replicas_are_offered(model: Model, v100: dict[str, Any]) -> None:
    plan = plan_deployment(
        model("Qwen__Qwen2-0.5B"), hosts(v100, 1, 1), {"vllm_version": "0.8.5.post1", "max_model_len": 1024}
    )
    assert any("replicas" in one["change"] for one in plan["alternatives"])


@pytest.mark.parametrize("objective", ["throughput", "latency", "context"])
def test_what_the_user_says_is_kept(model: Model, v100: dict[str, Any], objective: str) -> None:
    request = {
        "vllm_version": "0.8.5.post1",
        "max_model_len": 1024,
        "max_num_seqs": 7,
        "pipeline_parallel_size": 1,
        "objective": objective,
        "served_model_name": "small",
    }
    plan = plan_deployment(model("Qwen__Qwen2-0.5B"), hosts(v100, 2), request)
    assert plan["settings"]["max_num_seqs"] == 7
    assert plan["settings"]["pipeline_parallel_size"] == 1
    words = vllm_arguments(plan["settings"], "0.8.5.post1")
    assert words[:2] == ["--served-model-name", "small"]
    assert not any("objective" in word or "version" in word for word in words)
    (started,) = plan["launch"].values()
    assert started["argv"][-len(words) : -2] == words[2:]
    assert started["argv"][-2] == "--middleware"
    assert started["argv"].count("--served-model-name") == 1
    assert started["argv"][started["argv"].index("--served-model-name") + 1] == "small"


def test_a_self_built_image_on_a_v100(model: Model, v100: dict[str, Any]) -> None:
    request = {"vllm_version": "0.33.0", "compute_capabilities": ["7.0"], "max_model_len": 1024}
    plan = plan_deployment(model("Qwen__Qwen2-0.5B"), hosts(v100, 1), request)
    assert plan["ok"]
    assert "compute_capabilities" not in plan["settings"]
    assert plan_deployment(model("Qwen__Qwen2-0.5B"), hosts(v100, 1), {"vllm_version": "0.33.0"})["ok"] is False


def test_a_plan_learns(model: Model, v100: dict[str, Any]) -> None:
    config = model("Qwen__Qwen2-0.5B")
    request = {"vllm_version": "0.8.5.post1", "max_model_len": 1024}
    first = plan_deployment(config, hosts(v100, 1), request)
    kv = first["predicted"]["ranks"][0]["kv_cache_gib"]
    truth = {"ranks": [{"kv_cache_gib": kv - 1.0}], "kv_cache_tokens": 1000}
    past = [{**request, "gpu": v100, "model": config, "prediction": first["predicted"], "truth": truth}]
    second = plan_deployment(config, hosts(v100, 1), dict(request, observations=past))
    assert second["predicted"]["ranks"][0]["kv_cache_gib"] == pytest.approx(kv - 1.0, abs=0.01)
    assert second["past"]["observations"] == 1
    assert second["past"]["level"] == "this GPU, model and release"


def test_the_engines_log_is_a_truth(model: Model, v100: dict[str, Any]) -> None:
    log = (
        "INFO worker.py:267] model weights take 2.88GiB; non_torch_memory takes 0.08GiB; PyTorch activation peak memory takes 1.40GiB; "
        "the rest of the memory reserved for KV Cache is 33.37GiB.\nINFO executor_base.py:110] # cuda blocks: 78115, # CPU blocks: 9362"
    )
    truth = parse_engine_log(log)
    assert truth["complete"]
    assert truth["engine"] == "V0"
    assert truth["kv_cache_tokens"] == 78115 * 16
    assert truth["ranks"] == [
        {"weights_gib": 2.88, "non_torch_gib": 0.08, "activation_gib": 1.4, "kv_cache_gib": 33.37}
    ]


def test_no_plan_for_more_gpus_than_there_are(model: Model, v100: dict[str, Any]) -> None:
    request = {"vllm_version": "0.8.5.post1", "tensor_parallel_size": 4, "pipeline_parallel_size": 4}
    plan = plan_deployment(model("Qwen__Qwen2.5-14B"), hosts(v100, 1), request)
    assert not plan["ok"]
    assert plan["predicted"]["error"]["code"] == "world_size_exceeds_gpus"


def test_an_open_context_on_a_v100_generates(model: Model) -> None:
    """Above 32768 tokens V0 turns chunked prefill on by itself, and the first prompt would kill the server."""
    v100 = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}
    plan = plan_deployment(model("Qwen__Qwen2.5-7B"), hosts(v100, 4), {"vllm_version": "0.8.5.post1"})
    assert plan["ok"]
    assert plan["settings"]["max_model_len"] > 32768
    assert plan["settings"]["enable_chunked_prefill"] is False
    (started,) = plan["launch"].values()
    assert "--no-enable-chunked-prefill" in started["argv"]
    assert any("chunked prefill kills the server" in reason for reason in plan["reasons"])
    for one in plan["alternatives"]:
        if one["ok"] and one["max_model_len"] > 32768:
            assert one["settings"]["enable_chunked_prefill"] is False
    newer = {"name": "NVIDIA A100-SXM4-40GB", "memory_mib": 40960, "compute_capability": "8.0"}
    assert (
        "enable_chunked_prefill"
        not in plan_deployment(model("Qwen__Qwen2.5-7B"), hosts(newer, 4), {"vllm_version": "0.8.5.post1"})["settings"]
    )


@pytest.mark.parametrize(
    ("version", "capability", "method", "set_to"),
    [
        ("0.8.5.post1", "7.0", "gptq", "gptq"),
        ("0.5.4", "7.0", "gptq", "gptq"),
        ("0.5.4", "7.5", "awq", "awq"),
        ("0.8.2", "7.0", "gptq", None),
        ("0.8.5.post1", "8.0", "gptq", None),
    ],
)
def test_the_plan_of_a_4_bit_checkpoint_starts(
    model: Model, version: str, capability: str, method: str, set_to: str | None
) -> None:
    """Where a release would take kernels that are not there, the plan names the method."""
    section = {"quant_method": method, "bits": 4, "group_size": 128}
    section |= {"desc_act": False, "sym": True} if method == "gptq" else {"zero_point": True}
    config = {**model("Qwen__Qwen2.5-7B-Instruct"), "quantization_config": section}
    gpu = {"name": "GPU", "memory_mib": 32768, "compute_capability": capability}
    plan = plan_deployment(config, hosts(gpu, 1), {"vllm_version": version})
    assert plan["ok"]
    assert plan["settings"].get("quantization") == set_to


def test_the_network_is_weighed_and_not_avoided(model: Model, v100: dict[str, Any]) -> None:
    """Six V100 in three hosts, and a release without pipelines: four GPUs of two hosts hold nine times the context of one host."""
    request = {"vllm_version": "0.3.0"}
    plan = plan_deployment(model("Qwen__Qwen2.5-14B"), hosts(v100, 2, 2, 2), request)
    assert shape(plan) == (4, 1)
    assert plan["settings"]["max_model_len"] >= 32768
    (cost,) = [reason for reason in plan["reasons"] if "network" in reason]
    assert "14.4 ms" in cost
    assert "vllm_interconnect slow" in cost
    fast = plan_deployment(model("Qwen__Qwen2.5-14B"), hosts(v100, 2, 2, 2), {**request, "interconnect": "fast"})
    assert any("1.9 ms" in reason for reason in fast["reasons"])


def test_a_fast_network_changes_the_choice(model: Model) -> None:
    """Over TCP one request is answered sooner by one host alone, over RDMA by tensors split over both."""
    a100 = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}
    request = {"vllm_version": "0.10.2", "max_model_len": 8192, "objective": "latency"}
    chosen = {
        network: shape(
            plan_deployment(model("Qwen__Qwen2.5-7B"), hosts(a100, 1, 1), {**request, "interconnect": network})
        )
        for network in ("slow", "fast")
    }
    assert chosen == {"slow": (1, 1), "fast": (2, 1)}


def test_the_decisive_reason_comes_first(model: Model, v100: dict[str, Any]) -> None:
    """No shape of 32B fits six V100 with 16 GB: the pipeline, which 0.3.0 lacks as well, is not what it fails at."""
    plan = plan_deployment(model("Qwen__Qwen2.5-32B"), hosts(v100, 2, 2, 2), {"vllm_version": "0.3.0"})
    assert not plan["ok"]
    assert plan["predicted"]["error"]["code"] == "no_cache_blocks"
    assert "a GPTQ 4-bit checkpoint" in plan["predicted"]["error"]["remedy"]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.5.1", None),
        ("0.5.4", "--enable-chunked-prefill=False"),
        ("0.7.3", "--enable-chunked-prefill=False"),
        ("0.8.5.post1", "--no-enable-chunked-prefill"),
    ],
)
def test_chunked_prefill_is_off_on_the_command_line_where_a_release_turns_it_on(
    model: Model, version: str, said: str | None
) -> None:
    """Above 32,768 tokens V0 turns it on by itself since 0.5.3, and kills a V100 with it."""
    v100 = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}
    plan = plan_deployment(
        model("meta-llama__Llama-3.1-8B") | {"rope_scaling": None},
        [{"host": "gpu01", "gpus": [v100] * 4}],
        {"vllm_version": version, "max_model_len": 65536},
    )
    assert plan["ok"]
    (started,) = plan["launch"].values()
    assert [word for word in started["argv"] if "chunked-prefill" in word] == ([said] if said else [])


def test_sizes_that_do_not_fit_are_answered_with_those_that_do(model: Model, v100: dict[str, Any]) -> None:
    request = {"vllm_version": "0.8.5.post1", "max_model_len": 4096}
    for wrong in ({"tensor_parallel_size": 3}, {"tensor_parallel_size": 4, "pipeline_parallel_size": 2}):
        plan = plan_deployment(model("Qwen__Qwen2.5-7B-Instruct"), hosts(v100, 2), {**request, **wrong})
        assert plan["predicted"]["error"]["code"] == "world_size_exceeds_gpus"
        remedy = plan["predicted"]["error"]["remedy"]
        asked = ", ".join(f"{name} {size}" for name, size in wrong.items())
        assert f"take tensor_parallel_size 2, pipeline_parallel_size 1, not {asked}" in remedy


def test_the_environment_is_part_of_a_remedy(model: Model, v100: dict[str, Any]) -> None:
    environment = {"VLLM_USE_V1": "1", "NCCL_DEBUG": "INFO"}
    request = {"vllm_version": "0.8.5.post1", "max_model_len": 4096, "environment": environment}
    plan = plan_deployment(model("Qwen__Qwen2.5-7B-Instruct"), hosts(v100, 2), request)
    assert plan["predicted"]["error"]["remedy"].startswith("set environment={'NCCL_DEBUG': 'INFO'}")


def test_the_name_of_a_model_is_no_option_of_a_launch(model: Model, v100: dict[str, Any]) -> None:
    request = {"vllm_version": "0.8.5.post1", "max_model_len": 4096, "model": "/models/other"}
    plan = plan_deployment(model("Qwen__Qwen2.5-7B-Instruct"), hosts(v100, 2), request)
    assert plan["ok"]
    assert "/models/other" not in json.dumps(plan["launch"])
