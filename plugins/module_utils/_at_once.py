# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions that may wait for ever are asked all at once, each in a thread of its own, and those without an answer in time are left alone.

This runs on the host.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, Iterable


def confirmed(asked: Iterable[str], ask: Callable[[str], bool], seconds: float) -> list[str]:
    """Which of these ``ask`` says yes to within so many seconds, in their order. All are asked in this time together."""
    names = list(asked)
    answers: dict[str, bool] = {}

    def keep(name: str) -> None:
        answers[name] = ask(name)

    threads = [threading.Thread(target=keep, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [name for name in names if answers.get(name)]
