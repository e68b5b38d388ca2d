# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle: its manifest, which of its files a host needs, and whether a file is what the manifest says."""

from __future__ import annotations

import collections
import hashlib
import os
import posixpath
import re
from typing import Any, Callable, Dict, Iterable, Mapping, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._content import is_integer
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import Known

SCHEMA = 1
MANIFEST_NAME = "manifest.yml"
SIGNATURE_NAME = "manifest.yml.sig"
CHUNK_BYTES = 1 << 20
KINDS = ("docker", "driver", "image", "model", "nvidia_container_toolkit", "os_packages", "python")

# What the making of a bundle keeps beside the files for its own use; no part of the bundle.
STATE_DIR = ".state"

# Each of them is one line of a list, and of what people read.
_NOT_IN_A_PATH = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# What a record may say of a file besides, in one word each.
_WORDS = ("environment", "model", "revision", "version", "vllm_version")
_LONGEST_SHOWN = 200

Record = Dict[str, Any]


class Wanted(TypedDict):
    """A file of the bundle or of a model."""

    # Below the folder of its kind.
    path: str
    size: int
    sha256: str


class Check(TypedDict):
    """When a file was read, what it was, and what changes with every writing (``fingerprint``)."""

    sha256: str
    mark: list[int]


class BundleError(CodedError):
    """A manifest that cannot be used."""


def safe_path(path: str) -> str:
    """Return path if it stays inside the bundle: relative, normal, no way up, in one line. Raise BundleError otherwise."""
    if not isinstance(path, str) or _NOT_IN_A_PATH.search(path):
        raise BundleError("manifest_path_outside", path=shown(path))
    if path in ("", ".") or posixpath.isabs(path) or posixpath.normpath(path) != path or path.split("/")[0] == "..":
        raise BundleError("manifest_path_outside", path=shown(path))
    return path


def shown(value: object) -> str:
    """A value of a manifest as an error shows it."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def check_manifest(manifest: object) -> list[Record]:
    """Return the records of a parsed manifest, or raise BundleError with everything that is wrong with it."""
    if not isinstance(manifest, Mapping) or manifest.get("schema") != SCHEMA:
        found = manifest.get("schema") if isinstance(manifest, Mapping) else manifest
        raise BundleError("manifest_schema", found=shown(found), allowed=SCHEMA)
    files = manifest.get("files")
    if files is not None and not isinstance(files, list):
        raise BundleError("manifest_no_list", found=shown(files))
    problems: list[BundleError] = []
    records: list[Record] = []
    for number, record in enumerate(files or [], start=1):
        try:
            records.append(_check_record(record))
        except BundleError as error:
            problems.append(BundleError("manifest_file", number=number, reason=error))
    listed = collections.Counter(record["path"] for record in records)
    problems += [BundleError("manifest_listed_twice", path=path) for path, count in sorted(listed.items()) if count > 1]
    if problems:
        raise BundleError("manifest_problems", problems=problems)
    return records


def _check_record(record: object) -> Record:
    if not isinstance(record, Mapping):
        raise BundleError("manifest_no_record", found=shown(record))
    safe_path(record.get("path") or "")
    if record.get("kind") not in KINDS:
        raise BundleError(
            "manifest_kind", path=record["path"], found=shown(record.get("kind")), allowed=", ".join(KINDS)
        )
    if not is_integer(record.get("size")) or not 0 <= record["size"] < 1 << 63:
        raise BundleError("manifest_size", path=record["path"], found=shown(record.get("size")))
    digest = record.get("sha256")
    if not isinstance(digest, str) or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise BundleError("manifest_sha256", path=record["path"], found=shown(digest))
    for name in _WORDS:
        if isinstance(record.get(name), (Mapping, list)):
            raise BundleError("manifest_word", path=record["path"], name=name, found=shown(record[name]))
    for image in _images(record):
        if not isinstance(image, Mapping) or not isinstance(image.get("reference"), str):
            raise BundleError("manifest_image", path=record["path"], found=shown(image))
    # YAML reads a version such as 535.54 as a number.
    return {**record, **({"version": str(record["version"])} if "version" in record else {})}


def _images(record: Mapping[str, object]) -> list[object]:
    """What a record says to be images; all of it, if that is no list."""
    images = record.get("images")
    return [] if images is None else images if isinstance(images, list) else [images]


def select(records: Iterable[Record], kind: str, match: Mapping[str, object] | None = None) -> list[Record]:
    """Records of one kind whose fields equal those of match; values are compared as text (YAML reads 12 as a number)."""
    wanted = {name: str(value) for name, value in (match or {}).items()}
    return [
        record
        for record in records
        if record["kind"] == kind and all(str(record.get(name)) == value for name, value in wanted.items())
    ]


def sha256_of(path: str, add: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file, read in pieces; `add` is called with each piece's size."""
    result = hashlib.sha256()
    with open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(CHUNK_BYTES), b""):
            result.update(piece)
            if add:
                add(len(piece))
    return result.hexdigest()


def stamp(path: str) -> list[int] | None:
    """Size and modification time of a regular file (no link), to tell cheaply that it was not touched since it was read."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def is_right(path: str, file: Wanted, known: Mapping[str, Known]) -> bool:
    """Whether path holds the file's bytes. Read only if its stamp is not the one of its last check (known: path -> check)."""
    now = stamp(path)
    if now is None or now[0] != file["size"]:
        return False
    last = known.get(file["path"])
    if last and last.get("stamp") == now:
        return last["sha256"] == file["sha256"]
    return sha256_of(path) == file["sha256"]


def human_bytes(size: int) -> str:
    """12.3 MiB."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def make_record(
    root: str, path: str, kind: str, fields: Mapping[str, object], seen: dict[str, Check] | None = None
) -> Record:
    """The manifest's record of a file that lies in the bundle. What `seen` (path -> last check) knows is not read again."""
    full = inside(root, path)
    if full is None:
        raise BundleError("manifest_link", path=path, bundle=root)
    mark = fingerprint(full)
    last = (seen or {}).get(path)
    digest = last["sha256"] if last and last.get("mark") == mark else sha256_of(full)
    if seen is not None:
        seen[path] = {"sha256": digest, "mark": mark}
    found = {"path": path, "kind": kind, "size": os.path.getsize(full), "sha256": digest}
    # Whoever says more of a file says nothing else of it.
    return {**found, **fields, **found}


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


def inside(root: str, path: str) -> str | None:
    """Full path of what a manifest calls `path`; None if it, or a folder on the way to it, is a link."""
    full = os.path.realpath(root)
    for part in safe_path(path).split("/"):
        full = os.path.join(full, part)
        if os.path.islink(full):
            return None
    return full


def fingerprint(path: str) -> list[int]:
    """What changes when a file is written, replaced or brought from elsewhere, whatever its modification time says."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
