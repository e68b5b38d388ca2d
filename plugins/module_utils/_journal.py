# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who changed this host, when and with what: a line for each run that took the host, and one when it gave the host back.

The file is the host's own, so it is there for whoever comes next, from whatever controller. Times are the host's.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
from typing import Any, Mapping, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.module_utils._private_file import write_private

# When there are more lines than that, the older half goes.
MOST_LINES = 1000
MOST_BYTES = 1 << 20
# What a run says of itself. Anything else in the file is left out, and so are texts that are longer.
TEXTS = ("who", "playbook", "collection", "limit", "tags")
MOST_TEXT = 200


class Told(TypedDict, total=False):
    """What a run says of itself."""

    who: str
    playbook: str
    # The version.
    collection: str
    limit: str
    tags: str


class Run(Told):
    """A run that took the host. Times are seconds since 1970."""

    # machine, pid, started
    run: dict[str, object]
    begun: int
    # None where that was not said.
    ended: int | None
    # Those whose records it has written.
    roles: list[str]


def path_beside(lock_file: str) -> str:
    """The journal of a host lies beside its lock."""
    return os.path.join(os.path.dirname(lock_file), "journal.jsonl")


def begun(path: str, mine: Mapping[str, object]) -> None:
    """A run has taken the host. ``mine``: the ``run`` (machine, pid, started), and what it says of itself."""
    _append(
        path, {"run": mine["run"], "begun": int(time.time()), **{name: mine[name] for name in TEXTS if mine.get(name)}}
    )


def ended(path: str, mine: Mapping[str, object]) -> None:
    """A run gives the host back; the roles are those whose records it has written."""
    earlier = next(
        (each for each in read(path, MOST_LINES) if each["run"] == mine["run"] and each["ended"] is None), None
    )
    if earlier is None:
        # The disk was full when the run began, and this run has made room.
        begun(path, mine)
    roles = written_since(os.path.dirname(path), earlier["begun"]) if earlier else []
    _append(path, {"run": mine["run"], "ended": int(time.time()), "roles": roles})


def written_since(folder: str, since: float) -> list[str]:
    """The roles whose records of this host, or of one of its deployments, were written since then."""
    found = set()
    for place in ("records", "deployments/*/records"):
        for path in glob.glob(os.path.join(glob.escape(folder), place, "*.json")):
            with contextlib.suppress(OSError):
                if os.path.getmtime(path) >= since:
                    found.add(os.path.basename(path)[: -len(".json")])
    return sorted(found)


def read(path: str, most: int = 20) -> list[Run]:
    """The last ``most`` runs, the newest first."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(os.fstat(stream.fileno()).st_size - MOST_BYTES, 0))
            lines = stream.read(MOST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []
    runs: dict[str, Run] = {}
    for line in lines:
        entry: Any = _understood(line)
        if not entry:
            continue
        key = json.dumps(entry["run"], sort_keys=True)
        if "begun" in entry:
            runs.pop(key, None)
            runs[key] = entry
        elif key in runs:
            runs[key]["ended"], runs[key]["roles"] = entry["ended"], entry["roles"]
    return list(runs.values())[: -most - 1 : -1]


def _understood(line: str) -> dict[str, object]:
    """An entry with nothing in it but what is known; an empty one where the line is no entry."""
    try:
        found = read_json(line)
    except ValueError:
        return {}
    if not isinstance(found, dict) or not isinstance(found.get("run"), dict):
        return {}
    if isinstance(found.get("begun"), int):
        texts = {name: found[name][:MOST_TEXT] for name in TEXTS if isinstance(found.get(name), str)}
        return {"run": found["run"], "begun": found["begun"], "ended": None, "roles": [], **texts}
    if isinstance(found.get("ended"), int):
        roles = found.get("roles")
        known = [each[:MOST_TEXT] for each in roles if isinstance(each, str)] if isinstance(roles, list) else []
        return {"run": found["run"], "ended": found["ended"], "roles": known}
    return {}


def _append(path: str, entry: Mapping[str, object]) -> None:
    """Add a line. Whoever calls it holds the lock's file, so nobody else writes."""
    line = json.dumps(entry) + "\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace") as stream:
        lines = stream.read().splitlines(keepends=True)
        if len(lines) < MOST_LINES:
            stream.write(line)
            return
    write_private(path, "".join([*lines[-MOST_LINES // 2 :], line]))
