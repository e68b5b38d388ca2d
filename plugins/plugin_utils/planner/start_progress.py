# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a start is, read from its log."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

# The parts of a start, as an engine calls them (``start_phases`` of engines/interface.py), that begin one: what the log says above such a line is
# of an earlier start.
BEGINNINGS = ("pause", "gpus", "server")
# A bar of tqdm: what is done, of how much, and how long the rest takes.
_BAR = re.compile(r"(?P<done>\d{1,6})/(?P<total>\d{1,6}) \[[\d:]{1,12}<(?P<left>(?:\d{1,4}:)?\d{1,4}:\d\d)?")


class Start(NamedTuple):
    """The part that a start is in; what the log counts in it, as 3 of 5; and the seconds that this part still takes. None is unknown."""

    phase: str = "container"
    done: int | None = None
    total: int | None = None
    seconds_left: float | None = None


@functools.cache
def _patterns(phases: tuple[tuple[str, str], ...]) -> tuple[tuple[int, re.Pattern[str]], ...]:
    return tuple((number, re.compile(pattern)) for number, (_name, pattern) in enumerate(phases))


def start_progress(text: object, reading_seconds: float | None, phases: Sequence[tuple[str, str]]) -> Start:
    """Of the last start in a log. Ranks log side by side, so a line of a part that another rank has left takes nothing back.

    ``phases`` are those of the engine.
    ``reading_seconds`` is how long the host's disk needs for all weights, as far as it was measured: until the log counts, nothing else is known.
    """
    reached, found, names = -1, Start(), [name for name, _pattern in phases]
    for line in re.split(r"[\r\n]+", str(text or "")):
        for number, pattern in _patterns(tuple(phases)):
            match = pattern.search(line)
            if not match or (number < reached and names[number] not in BEGINNINGS):
                continue
            count = match if "done" in pattern.groupindex else _BAR.search(line)
            if number != reached or count:
                found = _start(names[number], count, found if number == reached else Start())
            reached = number
            break
    if found.phase == "weights" and found.seconds_left is None and reading_seconds:
        rest = 1 - (found.done or 0) / found.total if found.total else 1
        return found._replace(seconds_left=max(float(reading_seconds), 0.0) * rest)
    return found


def _start(phase: str, count: re.Match[str] | None, before: Start) -> Start:
    """The part with what a line counts. A bar that was printed before another one of the same length takes nothing back."""
    if count is None or not int(count["total"]):
        return Start(phase)
    done, total = min(int(count["done"]), int(count["total"])), int(count["total"])
    if total == before.total and done < (before.done or 0):
        return before
    left = count.groupdict().get("left")
    return Start(phase, done, total, _seconds(left) if left and done else None)


def _seconds(text: str) -> float:
    """1:02:03 as seconds."""
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return float(seconds)
