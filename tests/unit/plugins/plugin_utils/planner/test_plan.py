# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for the hosts that people have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.arguments import vllm_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.engine_log import parse_engine_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.observations import observation
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment

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


def test_a_model_that_barely_fits_is_relieved(model: Model, v100: dict[str, Any]) -> None:
    plan = plan_deployment(model("Qwen__Qwen2.5-14B"), hosts(v100, 2), {"vllm_version": "0.8.5.post1"})
    assert plan["ok"]
    assert plan["settings"]["max_model_len"] >= 2048
    assert any("max_num_seqs" in reason for reason in plan["reasons"])


def test_a_model_that_does_not_fit_gets_a_ladder(model: Model, v100: dict[str, Any]) -> None:
    plan = plan_deployment(model("Qwen__Qwen2.5-32B"), hosts(v100, 2), {"vllm_version": "0.8.5.post1"})
    assert not plan["ok"]
    assert plan["predicted"]["error"]["code"] == "out_of_memory_loading"
    changes = {one["change"]: one for one in plan["alternatives"]}
    assert changes["a GPTQ 4-bit checkpoint"]["ok"]
    assert any("more host" in change for change in changes)
    assert any(not one["ok"] and one["error"] for one in plan["alternatives"])


def test_uneven_hosts(model: Model, v100: dict[str, Any]) -> None:
    plan = plan_deployment(
        model("Qwen__Qwen2-0.5B"), hosts(v100, 2, 1), {"vllm_version": "0.8.5.post1", "max_model_len": 1024}
    )
    assert plan["ok"]
    assert shape(plan) == (1, 3)


def test_the_weakest_gpu_decides(model: Model, v100: dict[str, Any]) -> None:
    a100 = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}
    nodes = [{"host": "a", "gpus": [a100]}, {"host": "b", "gpus": [v100]}]
    plan = plan_deployment(model("Qwen__Qwen2-0.5B"), nodes, {})
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
    assert started["argv"][-len(words) + 2 :] == words[2:]
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
    past = [observation(v100, config, "0.8.5.post1", first["predicted"], truth)]
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
