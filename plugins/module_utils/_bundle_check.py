# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a bundle what its manifest says? Every file is read, in parallel, unless it was read before and not touched since."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Iterable, Mapping

from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import (
    MANIFEST_NAME,
    SIGNATURE_NAME,
    STATE_DIR,
    Check,
    Record,
    fingerprint,
    inside,
    sha256_of,
)
from ansible_collections.baremetal.llm.plugins.module_utils._coded import coded
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_object


def read_checks(path: str, bundle: str) -> dict[str, Check]:
    """What earlier checks of a bundle found, from a file beside the inventory. An unreadable file only means more reading."""
    found = read_object(path).get(os.path.realpath(bundle))
    return found if isinstance(found, dict) else {}


def write_checks(path: str, bundle: str, checks: Mapping[str, object]) -> None:
    """Note what was checked; other bundles in the file stay."""
    everything = read_object(path)
    everything[os.path.realpath(bundle)] = dict(checks)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    _own_files.write(path, json.dumps(everything, indent=1, sort_keys=True).encode("utf-8"))


def verify(
    root: str,
    records: list[Record],
    seen: dict[str, Check],
    content: bool = True,
    threads: int = 0,
    add: Callable[[int], None] = lambda size: None,
) -> dict[str, list[object]]:
    """Compare a bundle with its manifest's records. Returns what is wrong, by kind of fault: a file's path, or a message that has it.

    `seen` (path -> last check) is brought up to date: a file that was right and was not touched since is not read again.
    Without `content` only presence and sizes are compared. `add` is called with the number of bytes that are done.
    """
    faults: dict[str, list[object]] = {
        fault: [] for fault in ("missing", "link", "size", "corrupt", "swapped", "extra")
    }
    to_read: list[tuple[Record, str]] = []
    for record in records:
        full = inside(root, record["path"])
        if full is None:
            faults["link"].append(record["path"])
        elif not os.path.isfile(full):
            faults["missing"].append(record["path"])
        elif os.path.getsize(full) != record["size"]:
            faults["size"].append(
                coded("fault_size_of", path=record["path"], found=os.path.getsize(full), wanted=record["size"])
            )
        else:
            last = seen.get(record["path"])
            if content and (
                not last or last.get("mark") != fingerprint(full) or last.get("sha256") != record["sha256"]
            ):
                to_read.append((record, full))
            else:
                add(record["size"])

    def digest(item: tuple[Record, str]) -> tuple[str, list[int]]:
        mark = fingerprint(item[1])  # before it is read: what is written meanwhile counts as a change
        return sha256_of(item[1], add), mark

    owners: dict[str, str] = {record["sha256"]: record["path"] for record in records}
    with ThreadPoolExecutor(max_workers=threads or min(8, os.cpu_count() or 1)) as pool:
        for (record, _dummy), (found, mark) in zip(to_read, pool.map(digest, to_read)):
            path = record["path"]
            if found == record["sha256"]:
                seen[path] = {"sha256": found, "mark": mark}
                continue
            seen.pop(path, None)
            if found in owners:
                faults["swapped"].append(coded("fault_swapped_with", path=path, other=owners[found]))
            else:
                faults["corrupt"].append(path)
    for path in set(seen) - {record["path"] for record in records}:
        del seen[path]
    faults["extra"] += extra_files(root, records)
    return {fault: names for fault, names in faults.items() if names}


def extra_files(root: str, records: Iterable[Record]) -> list[str]:
    """Files below the bundle's folder that its manifest does not know. Nothing uses them."""
    known = {record["path"] for record in records} | {MANIFEST_NAME, SIGNATURE_NAME}
    found = []
    for folder, folders, files in os.walk(root):
        if os.path.samefile(folder, root) and STATE_DIR in folders:
            folders.remove(STATE_DIR)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in files + links:
            path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
            if path not in known and not any(other.startswith(path + "/") for other in known):
                found.append(path)
    return sorted(found)
