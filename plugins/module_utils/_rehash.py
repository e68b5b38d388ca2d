# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads files of the bundle on a host again, to find those whose content changed although nobody wrote to them.

A module imports it, and the role models also installs it as a program for a timer: it needs nothing but Python's standard library.

    python3 verify_models.py FOLDER RESULT

reads every file that FOLDER/.bundle-state.json knows and writes to RESULT what it found. Its exit status is 1 if a file is not as it was.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import sys
import time
from typing import TypedDict

STATE_NAME = ".bundle-state.json"
CHUNK_BYTES = 1 << 20

# ioprio_set(2): its number (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h), the calling thread, the class idle.
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_WHO_PROCESS, _CLASS_IDLE = 1, 3 << 13


class _Known(TypedDict):
    sha256: str
    # Size and modification time; None for one that has changed although nobody wrote to it.
    stamp: list[int] | None


class Known(_Known, total=False):
    """What is noted of a file when it has arrived."""

    # From where a program copied it.
    source: str


class Reread(TypedDict):
    """What became of the files that were noted."""

    # The time of the end, in seconds since 1970.
    checked: int
    seconds: float
    files: int
    bytes: int
    # Paths below the folder.
    bad: list[str]
    missing: list[str]


def yield_to_others() -> None:
    """From here on this process gets the processor and the disk only when nobody else wants them, as far as the kernel lets it."""
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    number = _IOPRIO_SET.get(platform.machine())
    if number:
        ctypes.CDLL(None, use_errno=True).syscall(number, _WHO_PROCESS, 0, _CLASS_IDLE)


def sha256_on_disk(path: str) -> str:
    """SHA-256 of what the disk holds. What is read of it neither comes from the page cache nor stays there. OSError if it cannot be read."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as stream:
        number = stream.fileno()
        os.fsync(number)  # only what is written can be dropped
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        position = 0
        for piece in iter(lambda: stream.read(CHUNK_BYTES), b""):
            digest.update(piece)
            os.posix_fadvise(number, position, len(piece), os.POSIX_FADV_DONTNEED)
            position += len(piece)
    return digest.hexdigest()


def reread(folder: str) -> Reread:
    """Compare every file that was noted when it arrived."""
    started = time.monotonic()
    found: Reread = {"checked": 0, "seconds": 0.0, "files": 0, "bytes": 0, "bad": [], "missing": []}
    for path, known in sorted(read_state(folder).items()):
        full = os.path.join(folder, path)
        try:
            right = sha256_on_disk(full) == known["sha256"]
            found["bytes"] += os.path.getsize(full)
        except FileNotFoundError:
            found["missing"].append(path)
            continue
        except OSError:
            right = False  # what the disk cannot read is as bad as what it changed
        found["files"] += 1
        if not right:
            found["bad"].append(path)
    found["checked"], found["seconds"] = int(time.time()), round(time.monotonic() - started, 1)
    return found


def distrust(folder: str, paths: list[str]) -> None:
    """Forget that these files were right, so that the next run of a playbook reads them and fetches what is wrong."""
    state = read_state(folder)
    for path in paths:
        if path in state:
            state[path]["stamp"] = None
    write_json(os.path.join(folder, STATE_NAME), state)


def read_state(folder: str) -> dict[str, Known]:
    """The checksums noted when files arrived; an unreadable note, or a part of one, only means that files are read again."""
    try:
        with open(os.path.join(folder, STATE_NAME), encoding="utf-8") as stream:
            state = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return {}
    entries = state.items() if isinstance(state, dict) else ()
    return {path: known for path, known in entries if _is_known(known)}


def _is_known(known: object) -> bool:
    digest = known.get("sha256") if isinstance(known, dict) else None
    return isinstance(digest, str) and digest.isascii()


def write_json(path: str, content: object) -> None:
    """Write it; never half. OSError if the folder cannot be written to."""
    # Whoever may write there knows no name beforehand under which root would follow a link.
    incoming = "{0}.{1}.new".format(path, os.urandom(8).hex())
    with open(incoming, "x", encoding="utf-8") as stream:
        json.dump(content, stream, indent=1, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(incoming, path)


def main() -> None:
    folder, result = sys.argv[1:]
    yield_to_others()
    found = reread(folder)
    if found["bad"]:
        distrust(folder, found["bad"])
    write_json(result, found)
    json.dump(found, sys.stdout, sort_keys=True)
    raise SystemExit(1 if found["bad"] else 0)


if __name__ == "__main__":
    main()
