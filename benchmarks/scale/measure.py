# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a command, and writes what it and everything that it has started cost: measure.py FILE COMMAND...

The connections that ssh keeps open in the background are counted too: they come to this process when their parent ends, and it ends them.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # include/uapi/linux/prctl.h
SAMPLE_SECONDS = 0.5


def descendants(pid: int) -> list[int]:
    """Every process below this one."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def memory_kib(pids: list[int]) -> int:
    """What they hold together: memory that several share is counted once (proportional set size)."""
    total = 0
    for pid in pids:
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total


def main() -> int:
    """Exit status of the command."""
    target, *command = sys.argv[1:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    peak, done = 0, threading.Event()

    def sample() -> None:
        nonlocal peak
        while not done.wait(SAMPLE_SECONDS):
            peak = max(peak, memory_kib(descendants(os.getpid())))

    sampler = threading.Thread(target=sample)
    load, started = os.getloadavg()[0], time.monotonic()
    process = subprocess.Popen(command)
    sampler.start()
    status = process.wait()
    wall = time.monotonic() - started
    done.set()
    sampler.join()
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = {"wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, "peak_mib": peak / 1024, "load": load}
    Path(target).write_text(json.dumps(cost))
    return status


if __name__ == "__main__":
    sys.exit(main())
