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
from typing import Iterable, Mapping, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    Wanted,
    human_bytes,
    is_right,
    sha256_of,
    stamp,
)
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._download import PART
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import (
    STATE_NAME,
    Known,
    read_state,
    sha256_on_disk,
    write_json,
    yield_to_others,
)

INCOMING = ".incoming"
# Small files arrive in one archive of this name, each as a member with the name under which it would arrive alone.
PACKED = "packed.tar"


class Looked(TypedDict):
    """Files of a folder, by their paths: which of them it lacks, which of these were right once, and which have arrived."""

    missing: list[str]
    rotten: list[str]
    taken: list[str]


def write_state(dest: str, state: Mapping[str, Known]) -> None:
    """Note the checksums of what arrived; never half. OSError if the folder cannot be written to."""
    write_json(os.path.join(dest, STATE_NAME), state)


def incoming_name(file: Mapping[str, object]) -> str:
    """The name under which a file arrives. Two files of the same content have two names: each of them is moved away."""
    place = hashlib.sha256(str(file["path"]).encode("utf-8", "surrogateescape")).hexdigest()
    return "{0}-{1}".format(file["sha256"], place[:16])


def commit(dest: str, file: Wanted, arrived: str, state: dict[str, Known]) -> str:
    """Give a file that arrived its name and note it in `state`. Returns its SHA-256; if that is the wrong one the file is removed.

    The content is on the disk before the name is: after a loss of power no name stands for content that is not there.
    """
    found = sha256_of(arrived) if stamp(arrived) else "none"
    if found != file["sha256"]:
        _remove(arrived)
        return found
    place(dest, file, arrived, state)
    return found


def place(dest: str, file: Wanted, arrived: str, state: dict[str, Known]) -> None:
    """The same for a file whose content was compared just now."""
    final = os.path.join(dest, file["path"])
    os.makedirs(os.path.dirname(final), mode=0o755, exist_ok=True)
    with open(arrived, "rb") as stream:
        os.fsync(stream.fileno())
    os.chmod(arrived, 0o644)
    if os.geteuid() == 0:
        os.chown(arrived, 0, 0)
    os.replace(arrived, final)
    state[file["path"]] = {"sha256": file["sha256"], "stamp": stamp(final)}


def unpack(dest: str, files: Iterable[Mapping[str, object]]) -> None:
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


def take_over(dest: str, files: Iterable[Wanted], state: dict[str, Known]) -> list[str]:
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


def remove_leftovers(dest: str, files: Iterable[Mapping[str, object]] = ()) -> None:
    """Remove whatever lies where files arrive, of files that nobody asks for any more or of other kinds; all but what these files began."""
    incoming = os.path.join(dest, INCOMING)
    kept = {incoming_name(file) for file in files}
    for name in os.listdir(incoming):
        if name.partition(".")[0] not in kept:
            _remove(os.path.join(incoming, name))


def look(dest: str, files: Sequence[Wanted], content: bool, check_mode: bool, variable: str) -> Looked:
    """See which files a folder lacks, and make room for those of them that have not arrived, where the connection's user may put it.

    With `content` every file is read, else only one that was touched. `variable` names the folder's setting, for the refusal
    where there is no room (CodedError).
    """
    state = read_state(dest)
    if content:
        yield_to_others()
    missing = [file for file in files if not _is_right(os.path.join(dest, file["path"]), file, state, content)]
    rotten = [file["path"] for file in missing if _is_rotten(os.path.join(dest, file["path"]), file, state)]
    incoming, taken = os.path.join(dest, INCOMING), []
    if missing and not check_mode:
        os.makedirs(incoming, mode=0o700, exist_ok=True)
        with _own_files.opened(incoming) as folder:  # through no link of others
            os.chown("/proc/self/fd/{0}".format(folder), int(os.environ.get("SUDO_UID", "-1")), -1)
        taken = take_over(dest, missing, state)
        if taken:
            write_state(dest, state)
        _require_room(dest, [file for file in missing if file["path"] not in taken], variable)
    return {"missing": [file["path"] for file in missing], "rotten": rotten, "taken": taken}


def _require_room(dest: str, files: Sequence[Wanted], variable: str) -> None:
    """CodedError if there is no room for files, not even without what other interrupted runs have left. What they began themselves counts."""
    begun = [stamp(os.path.join(dest, INCOMING, incoming_name(file) + PART)) for file in files]
    needed = sum(file["size"] for file in files) - sum(there[0] for there in begun if there)
    if needed > _free_bytes(dest):
        remove_leftovers(dest, files)
    free = _free_bytes(dest)
    if needed > free:
        sizes = {"free": human_bytes(free), "needed": human_bytes(needed)}
        raise CodedError("no_room", folder=dest, variable=variable, **sizes)


def _free_bytes(folder: str) -> int:
    """What everybody may still write there."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _is_right(path: str, file: Wanted, state: Mapping[str, Known], content: bool) -> bool:
    """Whether a file is there, by its note or, with `content`, by what the disk holds."""
    if not content:
        return is_right(path, file, state)
    there = stamp(path)
    try:
        return there is not None and there[0] == file["size"] and sha256_on_disk(path) == file["sha256"]
    except OSError:
        return False  # what the disk cannot read is fetched again


def _is_rotten(path: str, file: Wanted, state: Mapping[str, Known]) -> bool:
    """Whether a file that is wrong was right once, and nobody has written to it since. The timer leaves no stamp of such a file."""
    last = state.get(file["path"])
    there = stamp(path)
    if there is None or there[0] != file["size"] or not last or last.get("sha256") != file["sha256"]:
        return False
    return last.get("stamp") in (None, there)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
