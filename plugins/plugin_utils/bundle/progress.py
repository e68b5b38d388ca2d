# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a long work with files is, for people who wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message


class Progress:
    """Bytes done of bytes to do, printed at most once in `every` seconds. Threads may share it."""

    def __init__(
        self,
        what: str,
        total: int,
        say: Callable[[str], None],
        lang: str = "en",
        every: float = 10,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.what, self.total, self.say, self.lang, self.every = what, total, say, lang, every
        self.clock = clock or time.monotonic
        self.done = 0
        self.started = self.printed = self.clock()
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        with self._lock:
            self.done += size
            now = self.clock()
            if now - self.printed < self.every:
                return
            self.printed = now
            line = self.line(now)
        self.say(line)

    def line(self, now: float) -> str:
        """verify: 12.3 GiB of 412.0 GiB (3 %), 210.5 MiB/s, 32 min left."""
        rate = self.done / max(now - self.started, 0.001)
        left = human_seconds((self.total - self.done) / rate) if rate and self.total > self.done else human_seconds(0)
        share = 100 * self.done // self.total if self.total else 100
        return message(
            "progress",
            self.lang,
            what=self.what,
            done=human_bytes(self.done),
            total=human_bytes(self.total),
            share=share,
            rate=human_bytes(int(rate)),
            left=left,
        )


def human_seconds(seconds: float) -> str:
    """45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
