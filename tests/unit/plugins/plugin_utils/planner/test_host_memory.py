# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a start takes beside the sum of a rank: the memory of the host, the warm-up of the sampler, the names of devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

Model = Callable[[str], dict[str, Any]]
A100 = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}
SMALL = {"architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 4, "vocab_size": 128256}
SMALL.update(num_attention_heads=16, intermediate_size=3072, max_position_embeddings=8192, torch_dtype="float16")


def start(config: dict[str, Any], version: str, count: int = 1, **settings: Any) -> dict[str, Any]:
    return predict_start(config, [A100] * count, {"vllm_version": version, "max_model_len": 2048, **settings})


@pytest.mark.parametrize(
    ("version", "memory", "settings", "change"),
    [
        ("0.9.2", 4403, {}, {"swap_space": 3}),
        ("0.9.2", 8192, {}, {}),
        ("0.17.1", 4403, {}, {"swap_space": 3}),
        ("0.18.0", 4403, {}, {}),
        ("0.3.3", 16384, {"swap_space": 12}, {"swap_space": 11}),
        ("0.12.0", 16384, {"cpu_offload_gb": 20}, {"cpu_offload_gb": None}),
    ],
)
def test_the_memory_of_the_host(version: str, memory: int, settings: dict[str, Any], change: dict[str, Any]) -> None:
    found = start(SMALL, version, host_memory_mib=memory, **settings)
    assert found["change"] == change
    assert found["ok"] is (not change)


@examples(60)
@given(
    st.sampled_from(["0.3.3", "0.8.5.post1", "0.12.0", "0.33.0"]),
    st.integers(1, 4),
    st.integers(1, 64),
    st.integers(0, 64),
    st.integers(0, 8),
)
def test_more_memory_of_the_host_never_hinders(version: str, tp: int, gib: int, more: int, offload: int) -> None:
    settings = {"tensor_parallel_size": 2 ** (tp - 1), **({"cpu_offload_gb": offload} if version != "0.3.3" else {})}
    less, enough = (
        start(SMALL, version, 8, host_memory_mib=memory * 1024, **settings)["ok"] for memory in (gib, gib + more)
    )
    assert enough or not less
    assert start(SMALL, version, 8, **settings)["ok"] or not enough


def test_the_planner_chooses_less_swap_space() -> None:
    nodes = [{"host": "a", "gpus": [A100], "memory_mib": 4403}]
    plan = plan_deployment(SMALL, nodes, {"vllm_version": "0.9.2"})
    assert plan["ok"]
    assert plan["settings"]["swap_space"] == 3


@pytest.mark.parametrize(("memory", "verdict"), [(11264, "starts_narrowly"), (22528, "starts")])
def test_the_sampler_is_warmed_up_after_the_graphs(memory: int, verdict: str) -> None:
    gpu = {"name": "NVIDIA GeForce RTX 2080 Ti", "memory_mib": memory, "compute_capability": "7.5"}
    config = {**SMALL, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
    config.update(num_key_value_heads=8, intermediate_size=14336)
    config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
    settings = {"vllm_version": "0.13.0", "max_model_len": 4096}
    assert predict_start(config, [gpu], settings)["verdict"] == verdict
    assert predict_start(config, [gpu], {**settings, "enforce_eager": True})["verdict"] == "starts"


@pytest.mark.parametrize(
    ("version", "devices", "ok"),
    [
        ("0.20.0", "MIG-377e0049-554c-540b-93c6-d0976f8426cb", False),
        ("0.8.5.post1", "GPU-1", False),
        ("0.8.5.post1", "0,1", True),
        ("0.24.0", "GPU-1", True),
    ],
)
def test_devices_by_name(version: str, devices: str, ok: bool) -> None:
    found = start(SMALL, version, environment={"CUDA_VISIBLE_DEVICES": devices})
    assert found["ok"] is ok
    assert ok or "CUDA_VISIBLE_DEVICES" in found["error"]["message"]
