# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bundle puts on a host's disks, and what is free there."""

from __future__ import annotations

import os
import posixpath
from typing import Any, Mapping, Sequence

# What the engine needs below its data root to load an archive: it unpacks the archive there before it registers the layers.
_LOAD_FACTOR = 2
_LOAD_FACTOR_COMPRESSED = 4
_COMPRESSED = (".gz", ".tgz", ".zst", ".xz", ".bz2")
# Where an engine notes an image that it has: with its own store, and with containerd's.
_IMAGE_MARKS = (
    "{docker_root}/image/overlay2/imagedb/content/sha256/{digest}",
    "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/{digest}",
)
_PREPARE_KINDS = ("docker", "driver", "nvidia_container_toolkit", "os_packages")


def _records(manifest: Any) -> list[Mapping[str, Any]]:
    files = manifest.get("files") if isinstance(manifest, Mapping) else None
    return [record for record in files or () if isinstance(record, Mapping)]


def _size(record: Mapping[str, Any]) -> int:
    size = record.get("size")
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0


def disk_needs(
    manifest: Any,
    model: str = "",
    host_dir: str = "/opt/llm",
    docker_root: str = "/var/lib/docker",
) -> list[dict[str, Any]]:
    """What a bundle puts on a host's disks.

    Each need has a ``directory``, its ``bytes``, a ``name`` (a file of that name and size below the directory is there
    already) and ``marks``: groups of paths; where one path of each group exists, nothing is needed any more.
    """
    needs: list[dict[str, Any]] = []
    for record in _records(manifest):
        kind = record.get("kind")
        name = posixpath.basename(str(record.get("path") or ""))
        marks: list[list[str]] = []
        if kind == "image":
            images = [image for image in record.get("images") or () if isinstance(image, Mapping)]
            digests = [str(image.get("id") or "").replace("sha256:", "") for image in images]
            if digests and all(digests):
                marks = [
                    [mark.format(docker_root=docker_root.rstrip("/"), digest=digest) for mark in _IMAGE_MARKS]
                    for digest in digests
                ]
            factor = _LOAD_FACTOR_COMPRESSED if name.endswith(_COMPRESSED) else _LOAD_FACTOR
            needs.append({"directory": docker_root, "name": "", "bytes": _size(record) * factor, "marks": marks})
        elif kind == "model":
            if not model or str(record.get("model")) != model:
                continue
        elif kind not in _PREPARE_KINDS:
            continue
        needs.append({"directory": host_dir, "name": name, "bytes": _size(record), "marks": marks})
    return [need for need in needs if need["bytes"]]


def _nearest_folder(path: str) -> str:
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def _mount_of(folder: str, device: int) -> str:
    while os.path.dirname(folder) != folder and os.stat(os.path.dirname(folder)).st_dev == device:
        folder = os.path.dirname(folder)
    return folder


def _files_below(directory: str) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for folder, _folders, files in os.walk(directory):
        for name in files:
            try:
                found.add((name, os.stat(os.path.join(folder, name)).st_size))
            except OSError:
                continue
    return found


def measure_disks(needs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs on the host: per file system what is free there and what it still has to take."""
    disks: dict[int, dict[str, Any]] = {}
    there: dict[str, set[tuple[str, int]]] = {}
    for need in needs:
        directory = os.path.normpath(str(need["directory"]))
        folder = os.path.realpath(_nearest_folder(directory))
        device = os.stat(folder).st_dev
        if device not in disks:
            status = os.statvfs(folder)
            disks[device] = {
                "mount": _mount_of(folder, device),
                "available_bytes": status.f_bavail * status.f_frsize,
                "total_bytes": status.f_blocks * status.f_frsize,
                "needs": {},
            }
        size = int(need["bytes"])
        marks = need.get("marks") or []
        if marks and all(any(os.path.exists(path) for path in group) for group in marks):
            size = 0
        elif need.get("name"):
            if directory not in there:
                there[directory] = _files_below(directory)
            if (str(need["name"]), size) in there[directory]:
                size = 0
        parts = disks[device]["needs"]
        parts[directory] = parts.get(directory, 0) + size
    return [{**disk, "needed_bytes": sum(disk["needs"].values())} for disk in disks.values()]
