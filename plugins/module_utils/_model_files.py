# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a model on a host: fetched from a hub or by a program, and read where they lie already."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Iterable, Mapping, Sequence
from urllib.request import OpenerDirector

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Wanted, sha256_of, stamp
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import (
    INCOMING,
    incoming_name,
    place,
    write_state,
)
from ansible_collections.baremetal.llm.plugins.module_utils._coded import Coded, CodedError, coded
from ansible_collections.baremetal.llm.plugins.module_utils._download import download
from ansible_collections.baremetal.llm.plugins.module_utils._model_check import WEIGHTS, is_part, require_model
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import Known, read_state

PARALLEL = 4


class OfHub(Wanted):
    """A file of a model, and where a hub has it."""

    urls: list[str]


def fetch(
    dest: str, files: Sequence[OfHub], headers: Mapping[str, str], opener: OpenerDirector, attempts: int = 5
) -> list[Coded]:
    """Bring files of a hub below `dest`. What an interrupted try left is continued. Returns what could not be had, as coded messages."""
    state, lock = read_state(dest), threading.Lock()

    def bring(file: OfHub) -> Coded | None:
        target = os.path.join(dest, INCOMING, incoming_name(file))
        try:
            download({**file, "headers": headers}, target, opener, attempts=attempts)
            with lock:
                place(dest, file, target, state)
                write_state(dest, state)
        except CodedError as error:
            return coded(error.code, **error.values)
        except OSError as error:
            return coded("as_given", reason="{0}: {1}".format(file["path"], error))
        return None

    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        return [wrong for wrong in pool.map(bring, files) if wrong]


def listed(folder: str) -> list[str]:
    """The files of a model in a folder, links to files included, without what is hidden; paths below the folder."""
    found = []
    for root, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [one for one in folders if not one.startswith(".")]
        found += [os.path.relpath(os.path.join(root, name), folder) for name in names if not name.startswith(".")]
    return sorted(found)


def hashed(folder: str, names: Iterable[str], known: Mapping[str, Known]) -> dict[str, Known]:
    """The SHA-256 of each file with its stamp. What `known` has with the same stamp is not read again."""
    found: dict[str, Known] = {}
    for name in names:
        full = os.path.realpath(os.path.join(folder, name))
        now, last = stamp(full), known.get(name)
        digest = last["sha256"] if last and now and last.get("stamp") == now else sha256_of(full)
        found[name] = {"sha256": digest, "stamp": now}
    return found


def matters(names: Iterable[str]) -> list[str]:
    """Of a model's files those that serve it."""
    return [name for name in names if is_part(name)]


def pull_command(source: str, folder: str, wanted: Sequence[str]) -> list[str]:
    """The program that copies a model into a folder: rsync for rsync://HOST/MODULE/PATH, rclone for everything else (REMOTE:PATH)."""
    rules = ["+ " + pattern for pattern in wanted] + (["- *" + ending for ending in WEIGHTS] if wanted else [])
    filters = [word for rule in rules for word in ("--filter", rule)]
    if source.startswith("rsync:"):
        options = ["--recursive", "--copy-links", "--times", "--partial", "--exclude=.*"]
        return ["rsync", *options, *filters, "--", source.rstrip("/") + "/", folder + "/"]
    return ["rclone", "copy", "--copy-links", "--filter", "- .*", "--filter", "- .*/**", *filters, "--", source, folder]


def take_pulled(dest: str, folder: str, arrived: str, source: str, tokenizer: bool = False) -> list[str]:
    """Check what a program has copied, note its SHA-256, and give it its place below `dest`. ModelError if it is no whole model."""
    names = matters(listed(arrived))
    require_model(arrived, names, True, tokenizer, source, said=source)
    state = read_state(dest)
    for name in names:
        full = os.path.join(arrived, name)
        path = folder + "/" + name
        place(dest, {"path": path, "size": os.path.getsize(full), "sha256": sha256_of(full)}, full, state)
        state[path]["source"] = source
    write_state(dest, state)
    return names


def has_pulled(dest: str, folder: str, source: str) -> bool:
    """Whether a model is there as it came from this source."""
    mine = {path: known for path, known in read_state(dest).items() if path.startswith(folder + "/")}
    return bool(mine) and all(
        known.get("source") == source and known.get("stamp") and known["stamp"] == stamp(os.path.join(dest, path))
        for path, known in mine.items()
    )
