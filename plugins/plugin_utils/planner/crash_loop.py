# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that ends at each start for the same reason: waiting longer does not help."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.failures import ROOT, SYMPTOM
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import UNKNOWN, diagnose_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.start_progress import BEGINNINGS

# So many starts in a row with the same root cause.
SAME_ENDS = 3
# What these layers lack may come by itself: another host of the deployment, or the way to it.
HEALING = ("network", "ray", "client")


class CrashLoop:
    """Reads a server's log again and again, and counts the starts that ended since the first look."""

    def __init__(self, phases: Sequence[tuple[str, str]]) -> None:
        beginnings = [pattern for name, pattern in phases if name in BEGINNINGS]
        # Without a pattern no line begins a start.
        self.beginning = re.compile("|".join(beginnings) if beginnings else r"(?!)")
        # The causes of starts that ended, by the first lines of what followed. None: before the first look.
        self.ends: dict[str, str] | None = None
        self.before: set[str] = set()

    def cause(self, log: str) -> str:
        """The code of the root cause with which the last three starts ended; empty if there is none."""
        ended = dict(_ended_starts(log, self.beginning))
        if self.ends is None:
            self.ends, self.before = {}, set(ended)
        self.ends.update((first, code) for first, code in ended.items() if first not in self.before)
        last = list(self.ends.values())[-SAME_ENDS:]
        return last[0] if len(last) == SAME_ENDS and len(set(last)) == 1 else ""


def _ended_starts(log: object, beginning: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """For each start that another one follows, and that said a root cause: the line with which the next begins, and the cause's code."""
    part: list[str] = []
    for line in str(log or "").splitlines():
        if part and beginning.search(line):
            code = _root(part)
            if code is not None:
                yield line, code
                part = []
        part.append(line)


def _root(lines: list[str]) -> str | None:
    """The first root cause; empty if it may heal, or is unknown; None if these lines are not those of an end."""
    roots = [each for each in diagnose_log("\n".join(lines)) if each["kind"] in (ROOT, SYMPTOM)]
    if not roots:
        return None
    first = roots[0]
    return "" if first["layer"] in HEALING or first["code"] == UNKNOWN else str(first["code"])
