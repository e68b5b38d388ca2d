# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle onto a disk and off it again. FAT32 holds no file of 4 GiB or more, so large ones travel in parts.

Parts of a file lie beside where it would be, as NAME.part-000 and so on; `parts.json` names them with their checksums. A bundle may
be spread over several disks. What has been copied is recognised, so that an interrupted transfer goes on.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NotRequired, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    CHUNK_BYTES,
    MANIFEST_NAME,
    SIGNATURE_NAME,
    BundleError,
    Check,
    Record,
    fingerprint,
    human_bytes,
    inside,
    safe_path,
    sha256_of,
)
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_check import read_checks, write_checks
from ansible_collections.baremetal.llm.plugins.module_utils._coded import coded
from ansible_collections.baremetal.llm.plugins.module_utils._content import is_integer, load_json, mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import script
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.files import require_room, write_text
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import Artefact
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.lists import PLAN_NAME
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import (
    manifest_of,
    read_manifest,
    records_in,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.models import incomplete_models
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import Progress
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.signature import require_trusted
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, message

PARTS_NAME = "parts.json"
UNFINISHED = ".new"
SUMS_NAME = "SHA256SUMS"
MIB = 1 << 20
NOTED_BYTES = 64 * MIB

# path of a file -> its parts in order, each {path, size, sha256}


class Part(TypedDict):
    """A part of a file that is larger than a disk takes."""

    path: str
    sha256: str
    size: int


Parts = dict[str, list[Part]]
Add = Callable[[int], None]
Say = Callable[[str], None]


class Reporter(NamedTuple):
    """Who hears of a copy: of bytes as they go, and of each file that is complete, by its size."""

    add: Add
    copied: Add = lambda size: None


class Sending(TypedDict):
    """What is asked of an export: ``split_mib`` is the size of parts, 0 for whole files."""

    bundle: str
    checks: str
    export: str
    split_mib: int
    language: str


class Receiving(TypedDict):
    """What is asked of an import, from the folders ``sources``."""

    bundle: str
    checks: str
    sources: list[str]
    manifest_sha256: NotRequired[str]
    allowed_signers: NotRequired[str]
    language: str


class Transferred(TypedDict):
    """What was copied, or would be, and what the manifest is to hold besides."""

    copied: list[str]
    artefacts: list[Artefact]


def send(options: Sending, say: Say, check: bool) -> Transferred:
    """Export a bundle, as the action plugin bundle_transfer is asked to."""
    target, checks = options["export"], options["checks"]
    lang = options["language"]
    records = _records(options["bundle"])
    seen = read_checks(checks, target)
    progress = Progress(
        message("progress_export", lang, folder=target), sum(record["size"] for record in records), say, lang
    )
    notes, limit = _Notes(checks, target, seen), options["split_mib"] * MIB
    try:
        copied = export(options["bundle"], records, target, limit, seen, Reporter(progress.add, notes.add), check)
    finally:
        if not check:
            notes.write()
    return {"copied": copied, "artefacts": []}


def receive(options: Receiving, say: Say, warn: Say, check: bool) -> Transferred:
    """Import a bundle, or what the script of the lists has fetched, as the action plugin bundle_transfer is asked to."""
    bundle, folders, checks = options["bundle"], options["sources"], options["checks"]
    lang = options["language"]
    home = next((one for one in folders if os.path.isfile(os.path.join(one, MANIFEST_NAME))), None)
    plan: script.Listed = script.read_plan(folders) if home is None else {}
    if home is None and not plan:
        raise Refused("transfer_no_source", folders=", ".join(folders), manifest=MANIFEST_NAME, plan=PLAN_NAME)
    pinned, signers = options.get("manifest_sha256", ""), options.get("allowed_signers", "")
    if home is None and (pinned.strip() or signers.strip()):
        # What a script has fetched is signed by nobody.
        raise Refused("transfer_unsigned", folders=", ".join(folders), plan=PLAN_NAME, manifest=MANIFEST_NAME)
    manifest = require_trusted(home, pinned, signers).content if home else b""
    records = _records_in(home, manifest) if home else script.fetched_records(folders, plan)
    # What is spread over disks is looked at when it has arrived.
    broken = [error for folder in folders for error in incomplete_models(folder, records)]
    if broken:
        raise Refused("transfer_models", models=[coded(error.code, **error.values) for error in broken])
    seen = read_checks(checks, bundle)
    progress = Progress(
        message("progress_import", lang, folder=bundle), sum(record["size"] for record in records), say, lang
    )
    notes = _Notes(checks, bundle, seen)
    try:
        copied = bring_in(folders, records, bundle, seen, Reporter(progress.add, notes.add), check)
        artefacts = [] if home else script.adopt(folders, plan, bundle, warn, lang, check)
    finally:
        if not check:
            notes.write()
    if home and not check:
        copied += _copy_manifest(home, manifest, bundle)
    return {"copied": copied, "artefacts": artefacts}


class _Notes:
    """What was copied, noted while it goes on: whoever pulls the plug loses no more than the file under way."""

    def __init__(self, checks: str, folder: str, seen: Mapping[str, object]) -> None:
        self.write = functools.partial(write_checks, checks, folder, seen)
        self.pending = 0

    def add(self, size: int) -> None:
        """A file is complete. Small ones are noted together, and read again if that was not to be."""
        self.pending += size
        if self.pending >= NOTED_BYTES:
            self.write()
            self.pending = 0


def _copy_manifest(source: str, manifest: bytes, target: str) -> list[str]:
    """The manifest that was compared, with its signature or without one. Returns the names of the files that changed."""
    changed = []
    full = os.path.join(target, SIGNATURE_NAME)
    if os.path.isfile(os.path.join(source, SIGNATURE_NAME)):
        with open(os.path.join(source, SIGNATURE_NAME), encoding="utf-8") as stream:
            changed += [SIGNATURE_NAME] if write_text(full, stream.read()) else []
    elif os.path.lexists(full):
        os.unlink(full)
        changed.append(SIGNATURE_NAME)
    return changed + ([MANIFEST_NAME] if write_text(os.path.join(target, MANIFEST_NAME), manifest.decode()) else [])


def _records(bundle: str) -> list[Record]:
    try:
        return read_manifest(bundle)
    except BundleError as error:
        raise Refused("bundle_unusable", bundle=bundle, reason=error) from error


def _records_in(bundle: str, manifest: bytes) -> list[Record]:
    try:
        return records_in(manifest)
    except BundleError as error:
        raise Refused("bundle_unusable", bundle=bundle, reason=error) from error


def part_sizes(size: int, limit: int) -> list[int]:
    """The sizes of a file's parts, none above the limit; nothing if it can stay whole."""
    if not limit or size <= limit:
        return []
    return [min(limit, size - start) for start in range(0, size, limit)]


def part_name(path: str, number: int) -> str:
    return f"{path}.part-{number:03d}"


def planned_parts(records: Sequence[Record], limit: int) -> dict[str, list[tuple[str, int]]]:
    """Per file that has to be split the names and sizes of its parts."""
    return {
        record["path"]: [
            (part_name(record["path"], number), size) for number, size in enumerate(part_sizes(record["size"], limit))
        ]
        for record in records
        if part_sizes(record["size"], limit)
    }


def export(
    bundle: str,
    records: Sequence[Record],
    target: str,
    limit: int,
    seen: dict[str, Check],
    report: Reporter,
    check: bool = False,
) -> list[str]:
    """Copy a bundle to a folder, files of more than `limit` bytes in parts. Returns what was copied, or would be.

    `seen` (path -> last check) is brought up to date; what is there already is not copied again.
    """
    split = planned_parts(records, limit)
    wanted: list[tuple[Record, str, int, int]] = []
    for record in records:
        start = 0
        for name, size in split.get(record["path"], [(record["path"], record["size"])]):
            wanted.append((record, name, start, size))
            start += size
    todo = [
        one for one in wanted if not _there(os.path.join(target, one[1]), one[1], one[3], _whole(one[0], one[1]), seen)
    ]
    for _record, _name, _start, size in [one for one in wanted if one not in todo]:
        report.add(size)
    changed = [name for _record, name, _start, _size in todo]
    if check:
        return changed
    _require_room(target, {name: size for _record, name, _start, size in todo}, "bundle_export")
    for record, name, start, size in todo:
        source = inside(bundle, record["path"])
        if source is None or not os.path.isfile(source):
            raise Refused("bundle_not_a_file", path=record["path"], bundle=bundle)
        full = os.path.join(target, name)
        digest = _copy([(source, start, size)], full, report.add)
        if name == record["path"] and digest != record["sha256"]:
            os.unlink(full)
            raise Refused("transfer_differs", path=name, bundle=bundle)
        seen[name] = {"sha256": digest, "mark": fingerprint(full)}
        report.copied(size)
    parts: Parts = {
        path: [{"path": name, "size": size, "sha256": seen[name]["sha256"]} for name, size in pieces]
        for path, pieces in split.items()
    }
    sums = "".join(f"{seen[name]['sha256']}  {name}\n" for _record, name, _start, _size in wanted)
    texts = {PARTS_NAME: json.dumps(parts, indent=1, sort_keys=True), SUMS_NAME: sums}
    changed += [name for name, text in texts.items() if write_text(os.path.join(target, name), text)]
    return changed + _copy_manifest(bundle, manifest_of(bundle), target)


def _require_room(folder: str, sizes: Mapping[str, int], variable: str) -> None:
    """Refuse where there is too little room. What an interrupted copy has left is written over."""
    left = [os.path.join(folder, name + UNFINISHED) for name in sizes]
    require_room(
        folder, sum(sizes.values()) - sum(os.path.getsize(path) for path in left if os.path.isfile(path)), variable
    )


def _whole(record: Record, name: str) -> str | None:
    """The SHA-256 of a file that is not split; that of a part is not known before it was copied."""
    return str(record["sha256"]) if name == record["path"] else None


def _there(full: str, name: str, size: int, digest: str | None, seen: dict[str, Check]) -> bool:
    """Whether a file is there already. One that is not known is read, as far as it is known what it has to be."""
    if not os.path.isfile(full) or os.path.getsize(full) != size:
        return False
    mark, last = fingerprint(full), mapping(seen.get(name))
    if last.get("mark") == mark:
        return digest is None or last.get("sha256") == digest
    if digest is None or sha256_of(full) != digest:
        return False
    seen[name] = {"sha256": digest, "mark": mark}
    return True


def _copy(pieces: Sequence[tuple[str, int, int]], target: str, add: Add) -> str:
    """Write pieces (file, start, size) one after the other to target, under its name only when complete. Returns the SHA-256."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    digest = hashlib.sha256()
    with open(target + UNFINISHED, "wb") as out:
        for path, start, size in pieces:
            with open(path, "rb") as stream:
                stream.seek(start)
                left = size
                while left:
                    piece = stream.read(min(CHUNK_BYTES, left))
                    if not piece:
                        raise Refused("transfer_short", path=path, missing=human_bytes(left))
                    out.write(piece)
                    digest.update(piece)
                    add(len(piece))
                    left -= len(piece)
        out.flush()
        os.fsync(out.fileno())
    os.replace(target + UNFINISHED, target)
    return digest.hexdigest()


def read_parts(folders: Sequence[str]) -> Parts:
    """The parts that the folders' lists name. BundleError if a list is none or leads out of its folder."""
    found: Parts = {}
    for folder in folders:
        path = os.path.join(folder, PARTS_NAME)
        if not os.path.exists(path):
            continue
        try:
            with open(path, encoding="utf-8") as stream:
                listed = load_json(stream)
            for name, pieces in listed.items():
                safe_path(name)
                for piece in pieces:
                    safe_path(piece["path"])
                    if len(str(piece["sha256"])) != 64 or not is_integer(piece["size"]) or piece["size"] < 0:
                        raise Refused("transfer_part_without_sum")
                found[name] = pieces
        except (Refused, ValueError, TypeError, KeyError, AttributeError) as error:
            raise BundleError("transfer_no_list", path=path, reason=error) from error
    return found


def bring_in(
    folders: Sequence[str],
    records: Sequence[Record],
    bundle: str,
    seen: dict[str, Check],
    report: Reporter,
    check: bool = False,
) -> list[str]:
    """Copy what a bundle lacks from the folders (disks), parts put together, everything checked. Returns what was brought.

    `seen` (path -> last check) is brought up to date.
    Refused names all files that are on none of the disks, and all parts that are damaged.
    """
    parts = read_parts(folders)
    todo, missing = [], []
    for record in records:
        full = inside(bundle, record["path"])
        if full is None:
            raise Refused("bundle_link", path=record["path"], bundle=bundle)
        if _there(full, record["path"], record["size"], record["sha256"], seen):
            report.add(record["size"])
            continue
        pieces, lacking = _pieces(folders, record, parts)
        missing += lacking
        todo.append((record, full, pieces))
    if missing:
        raise Refused("transfer_missing", folders=", ".join(folders), files=_lines(missing))
    if check:
        return [record["path"] for record, _full, _pieces in todo]
    _require_room(bundle, {record["path"]: record["size"] for record, _full, _pieces in todo}, "llm_bundle_dir")
    wrong = []
    for record, full, pieces in todo:
        digest = _copy(pieces, full, report.add)
        if digest == record["sha256"]:
            seen[record["path"]] = {"sha256": digest, "mark": fingerprint(full)}
            report.copied(record["size"])
            continue
        os.unlink(full)
        wrong += _damaged(record, pieces, parts)
    if wrong:
        raise Refused("transfer_damaged", files=_lines(wrong))
    return [record["path"] for record, _full, _pieces in todo]


def _lines(paths: Sequence[str]) -> str:
    return "\n".join(f"  {path}" for path in paths)


def _find(folders: Sequence[str], path: str, size: int) -> str | None:
    for folder in folders:
        full = inside(folder, path)
        if full and os.path.isfile(full) and os.path.getsize(full) == size:
            return full
    return None


def _pieces(folders: Sequence[str], record: Record, parts: Parts) -> tuple[list[tuple[str, int, int]], list[str]]:
    whole = _find(folders, record["path"], record["size"])
    if whole:
        return [(whole, 0, record["size"])], []
    listed = parts.get(record["path"])
    if not listed:
        return [], [record["path"]]
    found = [(_find(folders, piece["path"], piece["size"]), piece) for piece in listed]
    return (
        [(path, 0, piece["size"]) for path, piece in found if path],
        [piece["path"] for path, piece in found if not path],
    )


def _damaged(record: Record, pieces: Sequence[tuple[str, int, int]], parts: Parts) -> list[str]:
    """Which of a file's parts are not what the list says; the file itself if that is not known."""
    digests = {piece["path"]: piece["sha256"] for piece in parts.get(record["path"], [])}
    if len(pieces) > 1:
        wrong = [
            name
            for (path, _start, _size), (name, digest) in zip(pieces, digests.items(), strict=True)
            if sha256_of(path) != digest
        ]
        if wrong:
            return wrong
    return [record["path"]]
