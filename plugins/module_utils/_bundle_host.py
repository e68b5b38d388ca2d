# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle's files on a host: what is known of them, where they arrive, and how they get their names.

A file arrives under a name that follows from its content and its place, so that a later run finds it again. What lies there is
evidence of nothing: it is read before it gets its final name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from typing import Any, Iterable, Mapping

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import sha256_of, stamp
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import STATE_NAME, write_json

INCOMING = ".incoming"
# Small files arrive in one archive of this name, each as a member with the name under which it would arrive alone.
PACKED = "packed.tar"


def write_state(dest: str, state: Mapping[str, Any]) -> None:
    """Note the checksums of what arrived; never half. OSError if the folder cannot be written to."""
    write_json(os.path.join(dest, STATE_NAME), state)


def incoming_name(file: Mapping[str, Any]) -> str:
    """The name under which a file arrives. Two files of the same content have two names: each of them is moved away."""
    place = hashlib.sha256(str(file["path"]).encode("utf-8", "surrogateescape")).hexdigest()
    return "{0}-{1}".format(file["sha256"], place[:16])


def commit(dest: str, file: Mapping[str, Any], arrived: str, state: dict[str, Any]) -> str:
    """Give a file that arrived its name and note it in `state`. Returns its SHA-256; if that is the wrong one the file is removed.

    The content is on the disk before the name is: after a loss of power no name stands for content that is not there.
    """
    found = sha256_of(arrived) if stamp(arrived) else "none"
    if found != file["sha256"]:
        _remove(arrived)
        return found
    final = os.path.join(dest, file["path"])
    os.makedirs(os.path.dirname(final), mode=0o755, exist_ok=True)
    with open(arrived, "rb") as stream:
        os.fsync(stream.fileno())
    os.chmod(arrived, 0o644)
    if os.geteuid() == 0:
        os.chown(arrived, 0, 0)
    os.replace(arrived, final)
    state[file["path"]] = {"sha256": found, "stamp": stamp(final)}
    return found


def unpack(dest: str, files: Iterable[Mapping[str, Any]]) -> None:
    """Put what came in the archive where it would have arrived alone, and remove the archive.

    Only regular members with the names of these files are looked at. What a damaged archive does not give is missing afterwards.
    """
    incoming = os.path.join(dest, INCOMING)
    packed, wanted = os.path.join(incoming, PACKED), {incoming_name(file) for file in files}
    try:
        with tarfile.open(packed, "r:") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() and member.name in wanted else None
                if content is not None:
                    arrived = os.path.join(incoming, member.name)
                    _remove(arrived)
                    with open(arrived, "xb") as stream:
                        shutil.copyfileobj(content, stream)
    except tarfile.TarError:
        pass  # commit says which files are not there
    _remove(packed)


def take_over(dest: str, files: Iterable[Mapping[str, Any]], state: dict[str, Any]) -> list[str]:
    """Commit those of the files that an interrupted run left complete, and remove what it left of the others.

    Returns the paths of the former.
    """
    taken = []
    for file in files:
        arrived = os.path.join(dest, INCOMING, incoming_name(file))
        there = stamp(arrived)
        if there and there[0] == file["size"] and commit(dest, file, arrived, state) == file["sha256"]:
            taken.append(file["path"])
        else:
            _remove(arrived)
    return taken


def remove_leftovers(dest: str) -> None:
    """Remove whatever lies where files arrive: of files that nobody asks for any more, or of other kinds."""
    incoming = os.path.join(dest, INCOMING)
    for name in os.listdir(incoming):
        _remove(os.path.join(incoming, name))


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
