# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a prediction may be off, and what is said of a start that leaves less."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.gpus import as_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.uncertainty import (
    COMPARED,
    ENOUGH_STARTS,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import planner as benchmark

ROOT = Path(__file__).resolve().parents[5]
MODELS = ROOT / "tests" / "data" / "models"
V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
H200 = {"name": "NVIDIA H200", "memory_mib": 143771, "compute_capability": "9.0"}
T4 = {"name": "Tesla T4", "memory_mib": 15360, "compute_capability": "7.5"}
OLD = {"vllm_version": "0.8.5.post1"}
# Qwen2.5-7B leaves a V100 of 16 GiB a few hundred MiB for its cache.
TIGHT = {**OLD, "dtype": "half", "gpu_memory_utilization": 0.95, "max_num_seqs": 8, "enforce_eager": True}

Model = Callable[[str], dict[str, Any]]


def qwen7b() -> dict[str, Any]:
    config: dict[str, Any] = json.loads((MODELS / "Qwen__Qwen2.5-7B-Instruct.json").read_text(encoding="utf-8"))
    return config


def one_host(gpu: dict[str, Any], count: int = 1) -> list[dict[str, Any]]:
    return [{"host": "gpu01", "gpus": [gpu] * count}]


def test_the_table_is_what_the_compared_starts_show() -> None:
    found = benchmark.differences(benchmark.measured(), benchmark.published())
    assert {engine: set(rows) for engine, rows in found.items()} == {
        engine: set(rows) for engine, rows in COMPARED.items()
    }
    for engine, rows in COMPARED.items():
        for name, (count, worst) in rows.items():
            assert found[engine][name][0] == count
            assert found[engine][name][1] == pytest.approx(worst, abs=0.001)


@pytest.mark.parametrize(
    ("gpu", "version", "says", "gib"),
    [
        (H200, "0.25.1", "67 starts of engine V1 on Hopper", COMPARED["V1"]["Hopper"][1]),
        (V100, "0.8.5.post1", "only 0 of the 14 starts of engine V0", COMPARED["V0"]["Turing"][1]),
        (T4, "0.6.6", "only 5 of the 14 starts of engine V0", COMPARED["V0"]["Turing"][1]),
    ],
)
def test_few_measurements_make_a_wider_margin(gpu: dict[str, Any], version: str, says: str, gib: float) -> None:
    margin = predict_start(qwen7b(), [gpu], {"vllm_version": version, "dtype": "half"})["margin"]
    assert says in margin["reason"]
    assert margin["uncertainty_gib"] == pytest.approx(gib, abs=0.001)
    assert COMPARED["V1"]["Hopper"][0] >= ENOUGH_STARTS > COMPARED["V0"]["Turing"][0]


@pytest.mark.parametrize(
    ("length", "verdict"), [(1024, "starts"), (4096, "starts_narrowly"), (16384, "does_not_start")]
)
def test_the_verdict(length: int, verdict: str) -> None:
    settings = {**TIGHT, "gpu_memory_utilization": 0.98, "max_model_len": length}
    found = predict_start(qwen7b(), [V100], settings)
    assert found["verdict"] == verdict
    assert found["ok"] == (verdict != "does_not_start")
    margin = found["margin"]
    if verdict == "starts":
        assert margin["spare_gib"] >= margin["uncertainty_gib"]
    else:
        assert margin["spare_gib"] is None or margin["spare_gib"] < margin["uncertainty_gib"]


@given(
    length=st.integers(64, 8192),
    utilization=st.sampled_from([0.9, 0.93, 0.95, 0.97, 0.99]),
    version=st.sampled_from(["0.5.5", "0.6.6", "0.8.5.post1"]),
)
def test_what_is_spare_decides_and_a_safe_context_is_safe(length: int, utilization: float, version: str) -> None:
    settings = {**TIGHT, "vllm_version": version, "gpu_memory_utilization": utilization, "max_model_len": length}
    found = predict_start(qwen7b(), [V100], settings)
    margin = found["margin"]
    if found["ok"]:
        assert (found["verdict"] == "starts") == (margin["spare_gib"] >= margin["uncertainty_gib"])
        # The cache is what is spare beside one request of this length: 28 layers, 4 heads of 128, key and value, 2 bytes.
        request = -(-length // 16) * 16 * 28 * 4 * 128 * 2 * 2 / 1024**3
        smallest = min(rank["kv_cache_gib"] for rank in found["ranks"])
        assert margin["spare_gib"] <= smallest - request + 0.001
    if margin["longest_safe_context"]:
        shorter = predict_start(qwen7b(), [V100], {**settings, "max_model_len": margin["longest_safe_context"]})
        assert shorter["verdict"] == "starts"


def test_a_cache_whose_size_is_said_has_no_doubt() -> None:
    settings = {**TIGHT, "max_model_len": 1024, "num_gpu_blocks_override": 64}
    found = predict_start(qwen7b(), [V100], settings)
    assert found["verdict"] == "starts"


def test_the_next_safe_plan_is_preferred() -> None:
    # The context is the planner's: it is one that leaves enough.
    free = plan_deployment(qwen7b(), one_host(V100), OLD)
    assert free["verdict"] == "starts"
    assert free["settings"]["max_model_len"] < 4096
    # The context is the user's, the other settings leave more than the first ones that start.
    asked = plan_deployment(qwen7b(), one_host(V100, 2), {**OLD, "max_model_len": 30000})
    assert asked["verdict"] == "starts"
    # Nothing is left to choose.
    fixed = plan_deployment(qwen7b(), one_host(V100), {**TIGHT, "gpu_memory_utilization": 0.98, "max_model_len": 4096})
    assert (fixed["ok"], fixed["verdict"]) == (True, "starts_narrowly")
    assert fixed["predicted"]["verdict"] == "starts_narrowly"
    assert any(one["verdict"] == "starts" for one in fixed["alternatives"])


def test_starts_of_this_model_make_the_margin_smaller() -> None:
    request = {**TIGHT, "gpu_memory_utilization": 0.98, "max_model_len": 4096}
    before = plan_deployment(qwen7b(), one_host(V100), request)
    seen = {
        "gpu": V100["name"],
        "model": qwen7b(),
        "vllm_version": "0.8.5.post1",
        "prediction": before["predicted"],
        "truth": {"kv_cache_gib": before["predicted"]["ranks"][0]["kv_cache_gib"]},
    }
    after = plan_deployment(qwen7b(), one_host(V100), {**request, "observations": [seen]})
    assert (before["verdict"], after["verdict"]) == ("starts_narrowly", "starts")
    assert "before" in after["predicted"]["margin"]["reason"]
    # Another model on this GPU says less.
    other = {**seen, "model": "Qwen3ForCausalLM"}
    assert (
        plan_deployment(qwen7b(), one_host(V100), {**request, "observations": [other]})["verdict"] == before["verdict"]
    )


def inventory_group(inventory: str, group: str) -> dict[str, Any]:
    path = ROOT / "inventories" / inventory / "group_vars" / f"{group}.yml"
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def test_the_inventories_are_not_narrow() -> None:
    said = inventory_group("offline_v100", "qwen25_14b")
    config = json.loads((ROOT / "tests/data/models/Qwen__Qwen2.5-14B.json").read_text(encoding="utf-8"))
    request = {"vllm_version": said["vllm_version"], "max_model_len": said["vllm_max_model_len"]}
    hosts = [{"host": f"gpu{number}", "gpus": as_gpus(said["llm_gpus"])} for number in range(3)]
    assert plan_deployment(config, hosts, request)["verdict"] == "starts"
    assert plan_deployment(config, hosts[:2], request)["verdict"] == "starts"


@pytest.mark.parametrize("more", [{}, {"max_num_seqs": 16}])
@pytest.mark.parametrize("counts", [(1, 1), (2,)])
def test_the_lab_is_not_narrow(counts: tuple[int, ...], more: dict[str, Any]) -> None:
    said = inventory_group("lab", "llm_deployments")
    source = (ROOT / "lab/files/make_model.py").read_text(encoding="utf-8")
    sizes = {name: int(value) for name, value in re.findall(r"^    (\w+)=(\d+),$", source, re.M)}
    config = {**sizes, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "float16"}
    request = {"vllm_version": said["vllm_version"], "max_model_len": said["vllm_max_model_len"], **more}
    # The image of the lab computes on the CPU, so it holds no code for GPUs: a V100 counts as one that it has code for.
    hosts = [{"host": f"node{number}", "gpus": [V100] * count} for number, count in enumerate(counts)]
    plan = plan_deployment(config, hosts, {**request, "compute_capabilities": ["7.0"], "image_has_ray": True})
    assert (plan["verdict"], plan["predicted"]["error"]) == ("starts", None)
    assert plan["predicted"]["margin"]["spare_gib"] > 5
