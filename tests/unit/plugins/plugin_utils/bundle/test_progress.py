"""How far a long work is."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import Progress, human_seconds


def test_progress_says_how_much_and_how_long() -> None:
    lines: list[str] = []
    now = [0.0]
    progress = Progress("fetch", 100 << 20, lines.append, every=10, clock=lambda: now[0])
    for second in range(1, 26):
        now[0] = second
        progress.add(1 << 20)
    assert lines == [
        "fetch: 10.0 MiB of 100.0 MiB (10 %), 1.0 MiB/s, 2 min left",
        "fetch: 20.0 MiB of 100.0 MiB (20 %), 1.0 MiB/s, 80 s left",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "1 h 30 min"), (12000, "3 h 20 min")]
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert human_seconds(seconds) == text


def test_progress_in_chinese() -> None:
    lines: list[str] = []
    progress = Progress("fetch", 100, lines.append, "zh", every=0)
    progress.add(50)
    assert lines[0].startswith("fetch：50 B / 100 B（50%）")
