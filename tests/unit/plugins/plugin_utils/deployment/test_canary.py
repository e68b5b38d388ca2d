"""Whether the first replica of an upgrade serves as well as before."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import canary


def run(output: float, completed: int = 8, requests: int = 8) -> dict[str, Any]:
    return {
        "output_throughput": output,
        "completed": completed,
        "num_prompts": requests,
        "total_input_tokens": 32 * completed,
        "total_output_tokens": 16 * completed,
        "max_concurrency": 4,
        "measured": "then",
    }


@pytest.mark.parametrize(("output", "worse"), [(100.0, False), (91.0, False), (89.0, True), (150.0, False)])
def test_a_replica_may_be_a_little_slower(output: float, worse: bool) -> None:
    found, compared = canary.slower(run(output), [run(100.0)], 10)
    assert (bool(found), compared) == (worse, True)


def test_runs_of_another_load_are_not_compared() -> None:
    assert canary.slower(run(10.0), [run(100.0, requests=64, completed=64)], 10) == ([], False)
    assert canary.slower(run(10.0), [], 10) == ([], False)
    found, _compared = canary.slower(run(10.0), [run(100.0, requests=64, completed=64), run(100.0)], 10)
    assert found == [
        "the benchmark gives 10.0 tokens a second, 90 % less than 100.0 on then; 10 % are allowed (vllm_canary_slower_percent)"
    ]


def test_requests_without_an_answer_are_worse_whatever_was_before() -> None:
    assert canary.slower(run(100.0, completed=7), [], 10)[0] == ["1 of 8 requests of the benchmark failed"]


def alert(name: str, state: str = "firing", at: str = "2026-01-01T00:00:30.5Z", **labels: str) -> dict[str, Any]:
    return {"labels": {"alertname": name, **labels}, "state": state, "activeAt": at, "annotations": {"summary": "said"}}


def test_only_new_alerts_about_the_replica_count() -> None:
    mine = alert("RestartLoop", deployment="chat", host="gpu1")
    of_host = alert("DiskFull", host="gpu1")
    others = [
        alert("RestartLoop", deployment="other", host="gpu1"),
        alert("DiskFull", host="gpu9"),
        alert("RestartLoop", state="pending", deployment="chat"),
    ]
    assert canary.new_alerts([mine, of_host, *others], [], "chat", ["gpu1"]) == [mine, of_host]
    assert canary.new_alerts([mine, of_host], [mine], "chat", ["gpu1"]) == [of_host]
    # It waited before, and fires now.
    assert canary.new_alerts([mine], [{**mine, "state": "pending"}], "chat", ["gpu1"]) == [mine]
    assert canary.alert_lines([mine]) == ["alert RestartLoop since 2026-01-01T00:00:30: said"]


def test_meanwhile_an_alert_of_the_start_itself_does_not_end_the_watch() -> None:
    token = 1767225600.0  # 2026-01-01T00:00:00Z
    early, late = alert("NotReady", at="2025-12-31T23:59:00Z", deployment="chat"), alert("NotReady", deployment="chat")
    assert canary.new_alerts([early, late], [], "chat", [], token) == [late]
    assert canary.new_alerts([{**late, "activeAt": "?"}], [], "chat", [], token) == []
