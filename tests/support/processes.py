"""Run the programs of tests/run.py, and end them with all that they have started themselves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

MINUTE = 60
HEARTBEAT_SECONDS = 60
# What is asked to end gets this long before it is killed.
GRACE_SECONDS = 20
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
# What runs now. Who keeps the gate keeps everything from being started or reported.
RUNNING: set[int] = set()
GATE = threading.Lock()


def say(text: str) -> None:
    """One write, so that lines of stages that run side by side do not mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def alive(family: set[int]) -> set[int]:
    """Who of these processes is alive. What they have started joins them, what made a session of its own (setsid) included."""
    living = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent, _, session = path.read_text(errors="replace").rpartition(")")[2].split()[:4]
            if state not in "ZX":
                living.append((int(path.parent.name), {int(parent), int(session)}))
    while joining := {pid for pid, origins in living if origins & family} - family:
        family |= joining
    return family & {pid for pid, _ in living}


def end(family: set[int]) -> None:
    """End them all. A daemon that has left them (its parent is gone, and it made a session), such as Docker's engine, stays."""
    deadline = time.monotonic() + GRACE_SECONDS
    asked: set[int] = set()
    while left := alive(family):
        late = time.monotonic() > deadline
        for pid in left if late else left - asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        asked |= left
        time.sleep(0.1)


def end_at_signals() -> None:
    """From here on, a signal that ends this program ends all that it has started first."""

    def interrupted(number: int, _: FrameType | None) -> None:
        for ignored in SIGNALS:
            signal.signal(ignored, signal.SIG_IGN)
        GATE.acquire()  # for good
        with contextlib.suppress(OSError):
            os.write(1, f"interrupted by {signal.Signals(number).name}; ending what runs\n".encode())
        end(set(RUNNING))
        os._exit(128 + number)

    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, interrupted)


def run(name: str, command: tuple[str, ...], environment: dict[str, str], log: Path, limit_seconds: int) -> str:
    """Run it with its output in its log. Returns what went wrong, or nothing."""
    started = time.monotonic()
    late = False
    with log.open("w") as output:
        try:
            with GATE:
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                RUNNING.add(process.pid)
        except OSError as error:
            output.write(f"{error}\n")
            return f"could not be started: {error}"
        while process.poll() is None:
            try:
                process.wait(HEARTBEAT_SECONDS)
            except subprocess.TimeoutExpired:
                seconds = time.monotonic() - started
                if late := seconds > limit_seconds:
                    end({process.pid})
                else:
                    lines = log.read_text(errors="replace").split("\n")
                    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
                    say(f"{'':7} {name:34} {seconds:12.0f} s  {last[:100]}")
        with GATE:
            RUNNING.discard(process.pid)
    if late:
        return f"not done after {limit_seconds // MINUTE} minutes"
    return f"exit status {process.returncode}" if process.returncode else ""
