# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may do what at the same time: locks on what labs share, and the owner of a lab."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.config import CACHE, SUFFIX
from lab.progress import LabError, say

LOCKS = CACHE / "locks"
OWNER = LOCKS / f"lab{SUFFIX}.owner"


@contextmanager
def lock(name: str, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold what is called name, against other processes; wait for it, or raise BlockingIOError. The kernel frees it when a holder dies."""
    LOCKS.mkdir(parents=True, exist_ok=True)
    with (LOCKS / f"{name}.lock").open("w") as file:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise
            say(f"lab: another process works on {name}; waiting for it")
            fcntl.flock(file, kind)
        yield


def claim() -> None:
    """Make the lab this run's until its process ends. Refused while another run has it.

    A run of molecule starts many processes one after the other: the run is their common ancestor.
    """
    with lock(OWNER.stem):
        owner = _owner()
        mine = list(_ancestors())
        if owner and owner["pid"] not in {pid for pid, _ in mine}:
            since = time.strftime("%H:%M:%S", time.localtime(owner["since"]))
            raise LabError(
                f"the lab is in use: {owner['what']} (process {owner['pid']}, since {since}). "
                "Wait until it has ended, or take the other lab with LLM_LAB=2 in the environment."
            )
        if not owner:
            # The interpreter and its script: python .../bin/molecule test ...
            runs = (one for one in mine if "molecule" in [Path(word).name for word in one[1].split()[:2]])
            pid, what = next(runs, mine[0])
            OWNER.write_text(json.dumps({"pid": pid, "start": _start(pid), "what": what, "since": time.time()}))


def _owner() -> dict[str, Any] | None:
    """The run that has the lab, if its process still lives."""
    try:
        owner: dict[str, Any] = json.loads(OWNER.read_text())
    except (OSError, ValueError):
        return None
    return owner if owner["start"] == _start(int(owner["pid"])) else None


def _ancestors() -> Iterator[tuple[int, str]]:
    """This process and those that led to it: process id and command line, the nearest first."""
    pid = os.getpid()
    while pid > 1:
        try:
            what = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return
        yield pid, what
        pid = int(_stat(pid)[1])


def _start(pid: int) -> str:
    """When the process began: a process id alone may have been given away again."""
    try:
        return _stat(pid)[19]
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold blanks and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
