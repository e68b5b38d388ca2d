# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line for every step, and a sign of life for the long ones."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

ALIVE_SECONDS = 15


class LabError(Exception):
    """Something that the person at the keyboard has to know; printed without a traceback."""


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print what begins, every 15 s that it still runs, and how long it took."""
    started = time.monotonic()
    done = threading.Event()

    def alive() -> None:
        while not done.wait(ALIVE_SECONDS):
            say(f"  ... {what} ({time.monotonic() - started:.0f} s)")

    say(f"lab: {what}")
    threading.Thread(target=alive, daemon=True).start()
    try:
        yield
    finally:
        done.set()
    took = time.monotonic() - started
    if took >= 3:
        say(f"  done in {took:.0f} s")


def say(line: str) -> None:
    """Print at once, also when the output is a file."""
    print(line, flush=True, file=sys.stdout)
