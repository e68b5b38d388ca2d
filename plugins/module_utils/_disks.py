# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is free on a host's disks, and what is still to come to them."""

from __future__ import annotations

import os
from typing import Iterable, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING

# In the paths of a need: the engine's data root, which only the host may know.
DOCKER_ROOT = "{docker_root}"


class _Place(TypedDict):
    directory: str
    bytes: int


class Need(_Place, total=False):
    """What something takes in a directory."""

    # A file of this name and size below the directory is there already.
    name: str
    # Groups of paths: where one path of each group exists, nothing is needed any more.
    marks: Sequence[Sequence[str]]


class DiskNeeds(TypedDict):
    """A file system, and what it still has to take."""

    mount: str
    available_bytes: int
    total_bytes: int
    # Files that can still be made; None where the file system has no fixed number.
    free_inodes: int | None
    # Bytes by directory, and their sum.
    needs: dict[str, int]
    needed_bytes: int


def _nearest_folder(path: str) -> str:
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def _mount_of(folder: str, device: int) -> str:
    while os.path.dirname(folder) != folder and os.stat(os.path.dirname(folder)).st_dev == device:
        folder = os.path.dirname(folder)
    return folder


def mounts(places: Iterable[str]) -> list[tuple[str, os.statvfs_result]]:
    """The file systems of some folders, each once, with what is free on them. A folder that is not there counts where it would be made."""
    found: dict[int, tuple[str, os.statvfs_result]] = {}
    for place in places:
        folder = os.path.realpath(_nearest_folder(place))
        try:
            device, space = os.stat(folder).st_dev, os.statvfs(folder)
            found.setdefault(device, (_mount_of(folder, device), space))
        except OSError:
            continue
    return list(found.values())


def _files_below(directory: str) -> tuple[set[tuple[str, int]], int]:
    """Name and size of what lies there, and the bytes that interrupted transfers have left: they are used or removed by the next."""
    found: set[tuple[str, int]] = set()
    left = 0
    for folder, _folders, files in os.walk(directory):
        for name in files:
            try:
                size = os.stat(os.path.join(folder, name)).st_size
            except OSError:
                continue
            if os.path.basename(folder) == INCOMING:
                left += size
            else:
                found.add((name, size))
    return found, left


def _is_loaded(marks: Sequence[Sequence[str]], docker_root: str) -> bool:
    """Whether of each group of paths one exists."""
    groups = [[path.replace(DOCKER_ROOT, docker_root) for path in group] for group in marks]
    return bool(groups) and all(any(map(os.path.exists, group)) for group in groups)


def measure_disks(needs: Sequence[Need], docker_root: str) -> list[DiskNeeds]:
    """Per file system what is free there and what it still has to take.

    What an interrupted transfer has left below a directory of named files is room for the rest of it.
    """
    disks: dict[int, DiskNeeds] = {}
    there: dict[str, set[tuple[str, int]]] = {}
    left: dict[str, int] = {}
    for need in needs:
        directory = os.path.normpath(str(need["directory"]).replace(DOCKER_ROOT, docker_root))
        folder = os.path.realpath(_nearest_folder(directory))
        device = os.stat(folder).st_dev
        if device not in disks:
            status = os.statvfs(folder)
            disks[device] = {
                "mount": _mount_of(folder, device),
                "available_bytes": status.f_bavail * status.f_frsize,
                "total_bytes": status.f_blocks * status.f_frsize,
                "free_inodes": status.f_favail if status.f_files else None,
                "needs": {},
                "needed_bytes": 0,
            }
        size = need["bytes"]
        if _is_loaded(need.get("marks") or [], docker_root):
            size = 0
        elif need.get("name"):
            if directory not in there:
                there[directory], left[directory] = _files_below(directory)
            if (str(need["name"]), size) in there[directory]:
                size = 0
        parts = disks[device]["needs"]
        parts[directory] = parts.get(directory, 0) + size
    for disk in disks.values():
        for directory, size in disk["needs"].items():
            disk["needs"][directory] = max(0, size - left.get(directory, 0))
        disk["needed_bytes"] = sum(disk["needs"].values())
    return list(disks.values())
