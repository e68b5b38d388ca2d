# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights in the host's memory: the combination that the planner finds where nothing else fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.gpus import as_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start

ROOT = Path(__file__).resolve().parents[5]
LLAMA = json.loads((ROOT / "inventories/models/Llama-3.1-70B-AWQ.json").read_text(encoding="utf-8"))
QWEN = json.loads((ROOT / "tests/data/models/Qwen__Qwen2.5-14B.json").read_text(encoding="utf-8"))
VERSION = "0.8.5.post1"


def gpu(memory_mib: int, capability: str = "8.6") -> dict[str, Any]:
    return {"name": "NVIDIA GeForce", "memory_mib": memory_mib, "compute_capability": capability}


def plan(config: Any, gpus: list[dict[str, Any]], memory_mib: int | None = None, **request: Any) -> dict[str, Any]:
    node = {"host": "gpu01", "gpus": gpus, **({"memory_mib": memory_mib} if memory_mib else {})}
    return plan_deployment(config, [node], {"vllm_version": VERSION, **request})


def offloaded(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in found["alternatives"] if one["settings"].get("cpu_offload_gb")]


@pytest.mark.parametrize(
    ("memory_mib", "capability"), [(8192, "8.6"), (12288, "8.6"), (15360, "7.5"), (24576, "8.6"), (32768, "8.9")]
)
def test_the_combination_is_complete_and_the_least_that_serves(memory_mib: int, capability: str) -> None:
    device = gpu(memory_mib, capability)
    found = plan(LLAMA, [device])
    assert not found["ok"]
    (one,) = offloaded(found)
    assert (one["ok"], one["verdict"]) == (True, "starts")
    assert one["max_model_len"] >= 4096
    # It starts as it is named, and what is named is what has to be set.
    said = {step.split()[0] for step in one["change"].split(", ")}
    assert {"cpu_offload_gb", "max_model_len"} <= said
    settings = {name: value for name, value in one["settings"].items() if value is not None}
    assert predict_start(LLAMA, [device], {**settings, "vllm_version": VERSION})["verdict"] == "starts"
    assert set(settings) - said <= {
        *("tensor_parallel_size", "pipeline_parallel_size", "gpu_memory_utilization", "dtype"),
    }
    # Less is too little for a context of 4,096 tokens.
    size = one["settings"]["cpu_offload_gb"]
    less = plan(LLAMA, [device], cpu_offload_gb=size - 1)
    assert less["verdict"] != "starts" or less["settings"]["max_model_len"] < 4096


def test_embedding_and_head_have_to_fit() -> None:
    assert not offloaded(plan(LLAMA, [gpu(5120)]))


def test_the_hosts_memory_is_the_limit() -> None:
    devices = [gpu(12288)]
    (one,) = offloaded(plan(LLAMA, devices, memory_mib=64 * 1024))
    size = one["settings"]["cpu_offload_gb"]
    assert offloaded(plan(LLAMA, devices, memory_mib=(size + 2) * 1024)) == [one]
    assert not offloaded(plan(LLAMA, devices, memory_mib=(size + 1) * 1024))
    # Each GPU of a host takes as much, and the V0 engine pins its swap space as well.
    volta = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
    request = {"tensor_parallel_size": 2, "pipeline_parallel_size": 1}
    (one,) = offloaded(plan({**QWEN, "num_hidden_layers": 96}, [volta] * 2, **request))
    size = one["settings"]["cpu_offload_gb"]
    least = (2 * (size + 4) + 2) * 1024
    assert offloaded(plan({**QWEN, "num_hidden_layers": 96}, [volta] * 2, least, **request))
    assert not offloaded(plan({**QWEN, "num_hidden_layers": 96}, [volta] * 2, least - 1, **request))
    assert offloaded(plan({**QWEN, "num_hidden_layers": 96}, [volta] * 2, least - 1, **request, swap_space=0))


def test_what_is_asked_for_is_not_offered() -> None:
    assert not [
        one for one in plan(LLAMA, [gpu(8192)], cpu_offload_gb=1)["alternatives"] if "cpu_offload" in one["change"]
    ]
    # Releases before 0.5.3 cannot.
    device = gpu(24576)
    found = plan_deployment(LLAMA, [{"host": "h", "gpus": [device]}], {"vllm_version": "0.5.1"})
    assert all("vllm_version" in one["change"] for one in offloaded(found))


def test_bitsandbytes_is_offered_for_a_checkpoint_that_is_not_quantised() -> None:
    found = plan(QWEN, [gpu(24576)])
    (one,) = (one for one in found["alternatives"] if one["settings"].get("quantization") == "bitsandbytes")
    assert one["ok"]
    assert one["settings"]["load_format"] == "bitsandbytes"
    assert not [one for one in plan(LLAMA, [gpu(24576)])["alternatives"] if "bitsandbytes" in one["change"]]


def test_the_sample_inventory_starts() -> None:
    path = ROOT / "inventories/low_memory/group_vars/llama31_70b.yml"
    said = yaml.safe_load(path.read_text(encoding="utf-8"))
    request = {
        **said["vllm_options"],
        "vllm_version": said["vllm_version"],
        "max_model_len": said["vllm_max_model_len"],
    }
    node = {"host": "gpu01", "gpus": as_gpus(said["llm_gpus"]), "memory_mib": 64 * 1024}
    found = plan_deployment(LLAMA, [node], request)
    assert found["verdict"] == "starts"
    assert found["settings"]["cpu_offload_gb"] == 20
