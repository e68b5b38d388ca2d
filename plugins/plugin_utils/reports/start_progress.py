# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment does while it starts, for people who wait for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import human_seconds
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.start_progress import Start, start_progress

# What is new is told at once, what is not once a minute.
REPEAT_SECONDS = 60.0


class StartProgress:
    """Reads the log again and again, and says a line where there is something to say."""

    def __init__(
        self,
        name: str,
        host: str,
        now: float,
        reading_seconds: float | None = None,
        last_seconds: float | None = None,
        lang: str = "en",
    ) -> None:
        self.name, self.host, self.lang = name, host, lang
        # Of the engine that starts.
        self.phases: Sequence[tuple[str, str]] = ()
        self.reading_seconds, self.last_seconds = reading_seconds, last_seconds
        self.start, self.began, self.since, self.told = Start(), now, now, now

    def line(self, log: str, now: float) -> str | None:
        """What there is to say of this log now."""
        start = start_progress(log, self.reading_seconds, self.phases)
        is_new = start != self.start
        if is_new:
            self.start, self.since = start, now
        if not is_new and now - self.told < REPEAT_SECONDS:
            return None
        self.told = now
        return message(
            "start_progress",
            self.lang,
            deployment=self.name,
            host=self.host,
            what=self.what(),
            left=self._seconds("start_progress_left", self.left(now)),
            waited=human_seconds(now - self.began),
            last=self._seconds("start_progress_last", self.last_seconds),
        )

    def what(self) -> str:
        """Loading weights, 3 of 5 shards."""
        start = self.start
        phase = Text("start_phase_" + start.phase)
        if start.total is None:
            return phase.say(self.lang)
        count = Text("start_count_" + start.phase, done=start.done, total=start.total)
        return message("start_progress_counted", self.lang, phase=phase, count=count)

    def left(self, now: float) -> float | None:
        """The seconds that this part still takes; None where that is unknown, or was wrong."""
        if self.start.seconds_left is None:
            return None
        left = self.start.seconds_left - (now - self.since)
        return left if left >= 1 else None

    def _seconds(self, code: str, seconds: float | None) -> str:
        return message(code, self.lang, time=human_seconds(seconds)) if seconds else ""
