# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python environments that were made on this host from wheels of the bundle: whether one is as it was made, and which there are."""

from __future__ import annotations

import hashlib
import json
import os

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_object

# In each environment: what it was made from, and what it was then. Written last, so that one without it is none.
NOTE = "llm-environment.json"
# Beside each environment the wheels that it was made from, in a folder of its name with this end.
WHEELS = ".wheels"
# The lock among the wheels: each package with its version and the SHA-256 of its wheel.
LOCK = "requirements.txt"


def tree_digest(top: str) -> str:
    """A digest of all that lies below a folder, without reading it: 30,000 files take a second. Whoever writes to a file changes its time."""
    found = hashlib.sha256()
    for folder, folders, files in os.walk(top):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = os.path.join(folder, name)
            if folder == top and name == NOTE:
                continue
            status = os.lstat(path)
            parts = [os.path.relpath(path, top), oct(status.st_mode), str(status.st_uid), str(status.st_gid)]
            if os.path.islink(path):
                parts.append(os.readlink(path))
            elif not os.path.isdir(path):
                parts += [str(status.st_size), str(status.st_mtime_ns)]
            found.update("\0".join(parts).encode("utf-8", "surrogateescape") + b"\n")
    return found.hexdigest()


def note_of(top: str) -> dict[str, object]:
    """What an environment says of itself; nothing where there is none."""
    return read_object(os.path.join(top, NOTE))


def write_note(top: str, made_from: str) -> None:
    """Say what an environment was made from, and what it is now."""
    content = {"made_from": made_from, "interpreter": _interpreter(top), "tree": tree_digest(top)}
    with open(os.path.join(top, NOTE), "w", encoding="utf-8") as stream:
        json.dump(content, stream, indent=1, sort_keys=True)
        stream.write("\n")


def is_whole(top: str, made_from: str | None = None) -> bool:
    """Whether an environment is as it was made: all of its files, and the interpreter that it leads to."""
    note = note_of(top)
    try:
        return bool(
            note
            and made_from in (None, note.get("made_from"))
            and os.access(_program(top), os.X_OK)
            and note.get("interpreter") == _interpreter(top)
            and note.get("tree") == tree_digest(top)
        )
    except OSError:
        return False  # a file went away meanwhile


def _program(top: str) -> str:
    return os.path.join(top, "bin", "python3")


def _interpreter(top: str) -> str:
    """The host's program behind that of the environment, as in /usr/bin/python3.10: another release of Python has another name."""
    return os.path.realpath(_program(top))


def environments(folder: str) -> list[str]:
    """What there is in the folder of all environments, those that were left unfinished and wheels among it."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
