"""What only the controller knows, as metrics that Prometheus reads."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.figures import (
    bundle_metrics,
    plan_metrics,
    together,
)

from tests.support.debian import promtool

OBSERVED: dict[str, Any] = {
    "prediction": {
        "kv_cache_tokens": 15072000,
        "ranks": [{"weights_gib": 0.5, "kv_cache_gib": 14.0}, {"weights_gib": 0.25, "kv_cache_gib": 14.0}],
    },
    "truth": {"kv_cache_tokens": 1048576, "ranks": [{"weights_gib": 0.5, "worker": "Worker_TP0"}]},
}


def test_both_sides_have_tokens_and_memory_by_rank() -> None:
    lines = plan_metrics(OBSERVED).splitlines()
    assert "llm_planned_kv_cache_tokens 15072000" in lines
    assert "llm_measured_kv_cache_tokens 1048576" in lines
    assert 'llm_planned_rank_bytes{rank="1",part="weights"} 268435456' in lines
    assert 'llm_measured_rank_bytes{rank="0",part="weights"} 536870912' in lines
    assert sum(line.startswith("llm_measured_rank_bytes") for line in lines) == 1


def test_those_of_several_deployments_stand_together_with_their_names() -> None:
    page = together(plan_metrics(OBSERVED, "one"), together(plan_metrics(OBSERVED, "two"), bundle_metrics(1.7e9)))
    lines = page.splitlines()
    assert 'llm_planned_kv_cache_tokens{deployment="two"} 15072000' in lines
    assert 'llm_planned_rank_bytes{deployment="one",rank="1",part="weights"} 268435456' in lines
    names = [line.split()[2] for line in lines if line.startswith("# HELP")]
    assert len(names) == len(set(names)) == 5
    assert together(plan_metrics(OBSERVED), "") == plan_metrics(OBSERVED)


@pytest.mark.parametrize("empty", [{}, {"prediction": {"kv_cache_tokens": None, "ranks": []}, "truth": None}])
def test_what_is_not_known_is_left_out(empty: dict[str, Any]) -> None:
    assert plan_metrics(empty) == ""


@pytest.mark.slow
def test_promtool_reads_them() -> None:
    done = subprocess.run(
        [promtool(), "check", "metrics"],
        input=together(plan_metrics(OBSERVED, "one"), plan_metrics(OBSERVED, "two"), bundle_metrics(1.7e9)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
