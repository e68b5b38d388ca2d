# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who changes this host at the moment: one run of a playbook at a time.

A file says who holds the host, and how many runs have given it back so far. A run that looked at the host before another one gave it back
decided by what is no longer so, and does not get it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import Iterator, Mapping, TextIO, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils import _journal
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json

FORMAT = 1


class Lock(TypedDict):
    """The content of the file."""

    format: int
    # How many runs have given the host back so far.
    given_back: int
    # The run that has it, which says ``run`` (machine, pid, started), ``since`` and what the journal notes of it.
    holder: Mapping[str, object] | None


class Taken(TypedDict):
    """Whether a run has got the host, and who has it instead (None: a run that is over by now)."""

    taken: bool
    holder: Mapping[str, object] | None


FREE: Lock = {"format": FORMAT, "given_back": 0, "holder": None}


def understood(text: str) -> Lock:
    """The content of the file; as if there was none where it cannot be understood."""
    try:
        found = read_json(text)
    except ValueError:
        return FREE.copy()
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("given_back"), int):
        return FREE.copy()
    holder = found.get("holder")
    return {**FREE, "given_back": found["given_back"], "holder": holder if _names_a_run(holder) else None}


def _names_a_run(holder: object) -> bool:
    """Whether a holder says which run it is, and since when."""
    if not isinstance(holder, dict):
        return False
    run = holder.get("run")
    return isinstance(run, dict) and isinstance(run.get("pid"), int) and isinstance(holder.get("since"), (int, float))


def read_lock(path: str) -> Lock:
    """Who holds the host, and how many runs have given it back."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return understood(stream.read())
    except OSError:
        return FREE.copy()


def claimed(found: Lock, mine: Mapping[str, object], seen: Lock, ended: Mapping[str, object] | None) -> Lock | None:
    """The lock as it is once ``mine`` has it; None where somebody else has it, or had it since it was ``seen``.

    ``ended`` is a holder whose run is over, although it did not give the host back.
    """
    holder = found["holder"]
    if holder and holder["run"] not in (mine["run"], (ended or {}).get("run")):
        return None
    if found["given_back"] != seen["given_back"]:
        return None
    return {**found, "holder": mine}


def given_back(found: Lock, mine: Mapping[str, object]) -> Lock | None:
    """The lock as it is without ``mine``; None where somebody else has it, or nobody."""
    if not found["holder"] or found["holder"]["run"] != mine["run"]:
        return None
    return {**found, "given_back": found["given_back"] + 1, "holder": None}


@contextlib.contextmanager
def opened(path: str) -> Iterator[TextIO]:
    """The file, for nobody else on this host in the meantime."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream


def write(stream: TextIO, content: Lock) -> None:
    """In place, and only then shorter: what has its room on the disk already needs no more of it, so a full disk keeps nobody out."""
    stream.seek(0)
    json.dump(content, stream)
    stream.flush()
    stream.truncate(len(json.dumps(content)))
    os.fsync(stream.fileno())


def take(path: str, mine: Mapping[str, object], seen: Lock, ended: Mapping[str, object] | None) -> Taken:
    """Take the host."""
    with opened(path) as stream:
        found = understood(stream.read())
        content = claimed(found, mine, seen, ended)
        if content is None:
            return {"taken": False, "holder": found["holder"]}
        write(stream, content)
        if (found["holder"] or {}).get("run") != mine["run"]:
            # A disk that is full, or no file where the journal belongs, stops no run.
            with contextlib.suppress(OSError):
                _journal.begun(_journal.path_beside(path), mine)
        return {"taken": True, "holder": None}


def give_back(path: str, mine: Mapping[str, object]) -> bool:
    """Give the host back. Returns whether it was held by this run."""
    if not os.path.exists(path):
        return False
    with opened(path) as stream:
        content = given_back(understood(stream.read()), mine)
        if content is None:
            return False
        with contextlib.suppress(OSError):
            _journal.ended(_journal.path_beside(path), mine)
        write(stream, content)
        return True
