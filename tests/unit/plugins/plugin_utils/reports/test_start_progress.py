"""What is said while a deployment starts, and when."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.start_phases import PHASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import LANGUAGES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.start_progress import Start
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.start_progress import StartProgress

LOADING = "Starting to load model m...\n"
BAR = "Loading safetensors checkpoint shards:  60% Completed | 3/5 [01:00<00:40, 20.0s/it]\n"


def starting(lang: str = "en", **measured: Any) -> StartProgress:
    progress = StartProgress("tiny_split", "node1", 100.0, lang=lang, **measured)
    progress.phases = PHASES
    return progress


def test_a_line_says_the_part_its_share_and_the_time_left() -> None:
    lines = starting(reading_seconds=80.0, last_seconds=200.0)
    assert lines.line(LOADING, 110.0) == (
        "tiny_split on node1: loading weights, about 80 s left (10 s so far; 3 min the last time)"
    )
    assert lines.line(LOADING + BAR, 150.0) == (
        "tiny_split on node1: loading weights, 3 of 5 shards, about 40 s left (50 s so far; 3 min the last time)"
    )


def test_in_chinese() -> None:
    assert starting("zh").line(LOADING + BAR, 150.0) == (
        "node1 上的 tiny_split：加载权重，第 3 个分片，共 5 个，约剩 40 s（已用 50 s）"
    )


def test_what_is_not_new_is_said_once_a_minute_and_the_time_left_goes_down() -> None:
    lines = starting()
    assert "about 40 s left" in str(lines.line(BAR, 110.0))
    assert [lines.line(BAR, now) for now in (120.0, 169.0)] == [None, None]
    assert lines.left(130.0) == 20.0
    # It was wrong: nothing is said rather than 0 s.
    assert lines.line(BAR, 170.0) == "tiny_split on node1: loading weights, 3 of 5 shards (70 s so far)"


def test_without_a_log_it_is_said_after_a_minute() -> None:
    lines = starting()
    assert lines.line("Error: No such container: llm-vllm", 110.0) is None
    assert (
        lines.line("", 161.0) == "tiny_split on node1: starting; the server has not logged anything yet (61 s so far)"
    )


@pytest.mark.parametrize("lang", LANGUAGES)
def test_each_part_has_a_text(lang: str) -> None:
    for name in ("container", *(name for name, _pattern in PHASES)):
        lines = starting(lang)
        lines.start = Start(name)
        assert lines.what()
    for name in ("gpus", "weights", "graphs"):
        lines.start = Start(name, 1, 2)
        assert "1" in lines.what()
        assert "2" in lines.what()
