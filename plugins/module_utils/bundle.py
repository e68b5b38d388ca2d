# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle: its manifest, which of its files a host needs, and whether a file is what the manifest says."""

from __future__ import annotations

import hashlib
import os
import posixpath
from typing import Any, Dict, Iterable, Mapping

SCHEMA = 1
MANIFEST_NAME = "manifest.yml"
CHUNK_BYTES = 1 << 20
KINDS = ("docker", "driver", "image", "model", "nvidia_container_toolkit", "os_packages", "python")

Record = Dict[str, Any]


class BundleError(Exception):
    """A manifest that cannot be used; the text names the file and what is wrong with it."""


def safe_path(path: str) -> str:
    """Return path if it stays inside the bundle: relative, normal, no way up. Raise BundleError otherwise."""
    if not path or posixpath.isabs(path) or posixpath.normpath(path) != path or path.split("/")[0] == "..":
        raise BundleError(
            f"{MANIFEST_NAME}: path {path!r} does not stay inside the bundle; allowed: a plain relative path"
        )
    return path


def check_manifest(manifest: Any) -> list[Record]:
    """Return the records of a parsed manifest, or raise BundleError with everything that is wrong with it."""
    if not isinstance(manifest, Mapping) or manifest.get("schema") != SCHEMA:
        found = manifest.get("schema") if isinstance(manifest, Mapping) else manifest
        raise BundleError(f"{MANIFEST_NAME}: schema {found!r} is not known; allowed: {SCHEMA}. Make the bundle again.")
    problems: list[str] = []
    records: list[Record] = []
    for number, record in enumerate(manifest.get("files") or [], start=1):
        try:
            records.append(_check_record(record))
        except BundleError as error:
            problems.append(f"file {number}: {error}")
    paths = [record["path"] for record in records]
    problems += [f"{path} is listed twice" for path in sorted({path for path in paths if paths.count(path) > 1})]
    if problems:
        raise BundleError("\n".join(problems))
    return records


def _check_record(record: Any) -> Record:
    if not isinstance(record, Mapping):
        raise BundleError(f"{record!r} is no mapping of path, kind, size and sha256")
    safe_path(str(record.get("path") or ""))
    if record.get("kind") not in KINDS:
        raise BundleError(f"{record['path']}: kind {record.get('kind')!r} is not known; allowed: {', '.join(KINDS)}")
    if not isinstance(record.get("size"), int) or record["size"] < 0:
        raise BundleError(f"{record['path']}: size {record.get('size')!r} is no number of bytes")
    digest = record.get("sha256")
    if not isinstance(digest, str) or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise BundleError(f"{record['path']}: sha256 {digest!r} is no SHA-256 in hexadecimal")
    return dict(record)


def select(records: Iterable[Record], kind: str, match: Mapping[str, Any] | None = None) -> list[Record]:
    """Records of one kind whose fields equal those of match; values are compared as text (YAML reads 12 as a number)."""
    wanted = {name: str(value) for name, value in (match or {}).items()}
    return [
        record
        for record in records
        if record["kind"] == kind and all(str(record.get(name)) == value for name, value in wanted.items())
    ]


def sha256_of(path: str) -> str:
    """SHA-256 of a file, read in pieces."""
    result = hashlib.sha256()
    with open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(CHUNK_BYTES), b""):
            result.update(piece)
    return result.hexdigest()


def stamp(path: str) -> list[int] | None:
    """Size and modification time of a regular file (no link), to tell cheaply that it was not touched since it was read."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def is_right(path: str, record: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether path holds the record's bytes. Read only if its stamp is not the one of its last check (known: path -> check)."""
    now = stamp(path)
    if now is None or now[0] != record["size"]:
        return False
    last = known.get(record["path"])
    if isinstance(last, Mapping) and last.get("stamp") == now:
        return bool(last.get("sha256") == record["sha256"])
    return bool(sha256_of(path) == record["sha256"])


def human_bytes(size: int) -> str:
    """12.3 MiB."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def make_record(root: str, path: str, kind: str, fields: Mapping[str, Any]) -> Record:
    """The manifest's record of a file that lies in the bundle."""
    full = os.path.join(root, safe_path(path))
    record = {"path": path, "kind": kind, "size": os.path.getsize(full), "sha256": sha256_of(full)}
    return {**record, **fields}


def walk(source: str) -> list[tuple[str, str]]:
    """(full path, path below source) of every file below a folder, or of the file itself; sorted, links are followed."""
    if os.path.isfile(source):
        return [(source, os.path.basename(source))]
    found: list[tuple[str, str]] = []
    for folder, names, files in os.walk(source, followlinks=True):
        names.sort()
        for name in sorted(files):
            full = os.path.join(folder, name)
            found.append((full, os.path.relpath(full, source).replace(os.sep, "/")))
    return found
