# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner against starts of a real engine (vLLM 0.25.1 on H200): every figure of every start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start

from tests.support.each import check_each

DATA = Path(__file__).resolve().parents[5] / "tests" / "data" / "planner" / "measured_starts.json"
SOURCE = json.loads(DATA.read_text(encoding="utf-8"))
H200 = {"name": "NVIDIA H200", "memory_mib": 143771, "compute_capability": "9.0"}

# How far the activation may be off. Without torch.compile it is counted exactly, and two decimals are logged; what the compiler
# keeps is not known for every model.
EAGER_GIB, COMPILED_GIB = 0.03, 0.15


def predict(start: dict[str, Any]) -> dict[str, Any]:
    settings = dict(start["args"], vllm_version=start["vllm"], usage="offline")
    world = settings.get("tensor_parallel_size", 1) * settings.get("pipeline_parallel_size", 1)
    return predict_start(SOURCE["configs"][start["model"]], [H200] * world, settings)


def test_every_start_ends_and_measures_as_predicted() -> None:
    check_each({start["id"]: start for start in SOURCE["starts"]}, check)


def check(start: dict[str, Any]) -> None:
    predicted = predict(start)
    assert predicted["ok"] == start["ok"]
    if not start["ok"]:
        return
    logged = sorted(rank["weights_gib"] for rank in start["ranks"])
    ours = sorted(rank["weights_gib"] for rank in predicted["ranks"])
    for mine, real in zip(ours, logged, strict=True):
        assert mine == pytest.approx(real, rel=0.005)
    compiled = not start["args"].get("enforce_eager")
    activation = sorted(rank["peak_activation_gib"] for rank in start["ranks"])
    for mine, real in zip(sorted(rank["activation_gib"] for rank in predicted["ranks"]), activation, strict=True):
        assert mine == pytest.approx(real, abs=COMPILED_GIB if compiled else EAGER_GIB)
    assert predicted["kv_cache_tokens"] == pytest.approx(start["kv_tokens"], rel=0.04)
    assert predicted["max_concurrency"] == pytest.approx(start["max_concurrency"], rel=0.04)


def test_the_engine_names_the_vocabulary_first() -> None:
    start = next(one for one in SOURCE["starts"] if one["args"].get("tensor_parallel_size") == 3)
    assert predict(start)["error"]["code"] == "vocab_not_divisible"
