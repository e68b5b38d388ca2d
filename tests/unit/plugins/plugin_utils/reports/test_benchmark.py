"""What the report says of vLLM's benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.benchmark import (
    benchmark_lines,
    latest_benchmarks,
    room_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.summary import Run, report_lines

from tests.support.run_figures import FIGURES


def figures(**more: Any) -> dict[str, Any]:
    """Those of a run, with ``more``."""
    return {"measured": "2026-11-23T101500Z", **FIGURES, **more}


def test_the_figures_of_a_first_run() -> None:
    assert benchmark_lines([figures(completed=15, total_input_tokens=960, total_output_tokens=480)], {}) == [
        "  benchmark of 2026-11-23T101500Z: 16 requests of 64 + 32 tokens, 4 at a time, 1 failed",
        "    generated tokens a second: 64.0",
        "    requests a second: 2.0",
        "    time to first token, ms: median 40.0, 99 % below 90.0",
        "    time between tokens, ms: median 10.0, 99 % below 30.0",
    ]
    assert benchmark_lines([], {}) == []


def test_a_run_without_an_answer_is_told_as_one() -> None:
    none = figures(completed=0, total_input_tokens=0, total_output_tokens=0)
    lines = benchmark_lines([none], {"predicted": {"kv_cache_tokens": 100}})
    assert "16 failed" in lines[0]
    assert "room" not in "\n".join(lines)


def test_the_run_before_of_the_same_load_stands_beside_it() -> None:
    former = figures(measured="yesterday", output_throughput=80.0, median_ttft_ms=20.0)
    text = "\n".join(benchmark_lines([figures(), former], {}))
    assert "generated tokens a second: 64.0 (on yesterday: 80.0, -20 %)" in text
    assert "median 40.0, 99 % below 90.0 (on yesterday: 20.0, +100 %)" in text
    other = {**former, "max_concurrency": 8}
    assert "yesterday" not in "\n".join(benchmark_lines([figures(), other], {}))


@pytest.mark.parametrize(
    ("plan", "room"),
    [
        ({}, 0),
        ({"predicted": {"kv_cache_tokens": 959}}, 9),
        ({"predicted": {"kv_cache_tokens": 96000}, "settings": {"max_num_seqs": 256}}, 256),
    ],
)
def test_the_plan_has_room_for_so_many_at_a_time(plan: dict[str, Any], room: int) -> None:
    assert room_of(plan, 96) == room
    said = "\n".join(benchmark_lines([figures()], plan))
    assert ("room for" in said) == bool(room)
    assert not room or f"the planned KV cache has room for {room} such requests at a time" in said


def test_the_newest_two_files_are_read(tmp_path: Path) -> None:
    assert latest_benchmarks(tmp_path) == []
    for day in (1, 3, 2):
        (tmp_path / f"2026-11-0{day}T000000Z.json").write_text(json.dumps(figures(num_prompts=day)))
    found = latest_benchmarks(tmp_path)
    assert [run["num_prompts"] for run in found] == [3, 2]
    assert found[0]["measured"] == "2026-11-03T000000Z"


def test_the_report_has_them_with_their_deployment() -> None:
    lines = report_lines(Run(deployments={"d": {"hosts": ["a"], "head": "a"}}, benchmarks={"a": [figures()]}), "zh")
    assert [line for line in lines if "2026-11-23T101500Z 的基准测试" in line], lines
