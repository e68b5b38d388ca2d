# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a host may be removed to free space, by what the host itself knows. Plain data in, plain data out.

The controller asks before it says what goes, and the host again at the moment when something is removed. What the inventory asks for, only the
controller knows (``plugin_utils/status/cleanup.py``).

An item is something that may go. ``evidence`` is what keeps things.
"""

from __future__ import annotations

import os
from typing import Iterable, NamedTuple, TypedDict

# What may go, what stays for a reason, what nobody knows enough about, and what is somebody else's. Only the first is ever removed.
SAFE, KEPT, UNKNOWN, FOREIGN = "safe", "kept", "unknown", "foreign"
# The classes that a cleanup frees unless it is told which ones, and those that it frees only when they are named: people may want to read these.
OURS = ("images", "layers", "models", "transfers", "caches", "runs")
NAMED = ("journals", "cores", "packages")
CLASSES = (*OURS, *NAMED)
# A name by which an image is kept for a return (roles/common/tasks/keep.yml).
KEPT_IMAGE = "llm-kept:"
# Who copies writes more often than that; a run is over after that; and a tree of a kept model may be noted that much later (_served.py).
TRANSFER_SECONDS, RUN_SECONDS, TREE_SECONDS = 600, 86400, 3600
DAY_SECONDS = 86400
# What records and notes of versions may name.
_NOTED = ("images", "layers", "models", "transfers", "caches")


_Classed = TypedDict("_Classed", {"class": str})


class _Named(_Classed):
    # A path, or the id of an image.
    name: str
    bytes: int
    # The mount point of its file system.
    mount: str


class Gone(_Named):
    """Something that went, or was to go."""

    tags: list[str] | None


class Stayed(Gone):
    """Something that was to go and stayed: the code of the reason, or what the system says."""

    why: str
    said: str


class _Seen(_Named):
    # By which it is known again.
    stamp: list[int] | list[str]


class More(TypedDict, total=False):
    """What is seen of items of some classes only, and what comes of it."""

    # Of a model: whether it is second names that are kept, and how many of its files we brought, and others did.
    kept_tree: bool
    noted: int
    unnoted: int
    # Of a transfer: whether it is an archive of images.
    archive: bool
    # Of a cache: whether its deployment has served.
    served: bool
    # Of a run or a journal: whether it is ours, whether it goes on, and the container whose log it is.
    ours: bool
    current: bool
    of: str
    # Of what lies at a path: where that leads, its files, and the seconds since one of them was written.
    real: str
    files: int
    age: float
    # Whether a program has it open, and whether other hosts see it, too.
    open: bool
    network_disk: bool
    # Of an image: its names, whether it has a label of ours, and the containers that use it.
    tags: list[str]
    digests: list[str]
    labelled: bool
    containers: list[str]
    # What the host says: one of the grades above, the code of the reason, and a name that belongs to it.
    verdict: str
    why: str
    by: str


class Item(_Seen, More):
    """Something that may go."""


class Mount(TypedDict):
    """A folder that a container sees."""

    source: str
    container: str
    ours: bool


class Evidence(TypedDict):
    """What keeps things on a host."""

    # Notes and records that cannot be understood.
    unreadable: list[str]
    # Names of images that records name, and the ids of these; ids that may be returned to, and by id the names by which we brought an image.
    references: list[str]
    recorded_images: list[str]
    pinned_images: list[str]
    brought: dict[str, list[str]]
    # Names of images that were there before us; None where nobody looked.
    before: Iterable[str] | None
    # Folders: of records, kept for a return, served from or returned to, and of compiled code.
    folders: list[str]
    pinned_models: list[str]
    return_folders: list[str]
    caches: list[str]
    # Archives of images that were loaded.
    archives: list[str]
    mounts: list[Mount]
    # How long journals are kept.
    keep_days: int


class Verdict(NamedTuple):
    """``grade`` is one of the four above, ``why`` the code of its reason, ``by`` a name that belongs to the reason."""

    grade: str
    why: str
    by: str = ""


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder, or lies below it."""
    path, folder = os.path.normpath(path), os.path.normpath(folder)
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _named(item: Item, folders: Iterable[str]) -> bool:
    """Whether one of these folders is this item, lies in it, or holds it; by its path, or by where that leads."""
    paths = {str(item["name"]), str(item["real"])}
    return any(is_within(path, each) or is_within(each, path) for path in paths for each in folders)


def judged(item: Item, evidence: Evidence) -> Verdict:
    """What the host says about an item. One that says nothing that is understood is not known, and stays."""
    try:
        found = _RULES[str(item["class"])](item, evidence)
        if found.grade == SAFE and evidence["unreadable"] and item["class"] in _NOTED:
            return Verdict(UNKNOWN, "unreadable_notes", ", ".join(str(path) for path in evidence["unreadable"]))
        return found
    except (KeyError, TypeError, ValueError, AttributeError):
        return Verdict(UNKNOWN, "unreadable")


def _image(item: Item, evidence: Evidence) -> Verdict:
    image, tags = str(item["name"]), [str(tag) for tag in item["tags"]]
    names = [*tags, *(str(name) for name in item["digests"])]
    if item["containers"]:
        return Verdict(KEPT, "used", ", ".join(str(name) for name in item["containers"]))
    if image in evidence["pinned_images"]:
        return Verdict(KEPT, "pinned")
    if image in evidence["recorded_images"] or set(names).intersection(evidence["references"]):
        return Verdict(KEPT, "recorded")
    ours_by_label = bool(item["labelled"])
    brought = {str(name) for name in evidence["brought"].get(image, ())}
    kept_here = [tag for tag in tags if tag.startswith(KEPT_IMAGE)]
    if not ours_by_label and not brought and not kept_here:
        return Verdict(FOREIGN, "foreign")
    if not ours_by_label and evidence["before"] is None:
        return Verdict(UNKNOWN, "no_picture")
    if set(names).intersection(evidence["before"] or ()):
        return Verdict(FOREIGN, "before")
    others = sorted(set(tags) - brought - set(kept_here))
    if others:
        return Verdict(UNKNOWN, "other_name", ", ".join(others))
    return Verdict(SAFE, "unneeded" if tags else "dangling")


def _model(item: Item, evidence: Evidence) -> Verdict:
    if _named(item, evidence["pinned_models"]):
        return Verdict(KEPT, "pinned")
    if _named(item, evidence["folders"]):
        return Verdict(KEPT, "recorded")
    if _named(item, evidence["return_folders"]):
        return Verdict(KEPT, "pinned")
    busy = _busy(item, evidence)
    if busy:
        return busy
    if item["network_disk"]:
        return Verdict(UNKNOWN, "shared_disk")
    if item["kept_tree"]:
        # A second name of files; only the collection gives such names.
        return Verdict(KEPT, "young") if item["age"] <= TREE_SECONDS else Verdict(SAFE, "unpinned")
    if not item["noted"]:
        return Verdict(FOREIGN, "foreign")
    if item["unnoted"]:
        return Verdict(UNKNOWN, "mixed", str(item["unnoted"]))
    return Verdict(SAFE, "unneeded")


def _busy(item: Item, evidence: Evidence) -> Verdict | None:
    """A program has it open, or a container sees it: one of others through whatever folder, ours through more than the folder of all models."""
    if item["open"]:
        return Verdict(KEPT, "open")
    for mount in evidence["mounts"]:
        source = str(mount["source"])
        for path in (str(item["name"]), str(item["real"])):
            if source != "/" and (is_within(source, path) or (not mount["ours"] and is_within(path, source))):
                return Verdict(KEPT, "mounted", str(mount["container"]))
    return None


def _transfer(item: Item, evidence: Evidence) -> Verdict:
    path = str(item["name"])
    busy = _busy(item, evidence)
    if busy:
        return busy
    if path in evidence["archives"]:
        return Verdict(KEPT, "recorded")
    if item["network_disk"]:
        return Verdict(UNKNOWN, "shared_disk")
    if item["age"] <= TRANSFER_SECONDS:
        return Verdict(KEPT, "young")
    return Verdict(SAFE, "archive" if item["archive"] else "unfinished")


def _cache(item: Item, evidence: Evidence) -> Verdict:
    if _named(item, evidence["caches"]):
        return Verdict(KEPT, "pinned")
    busy = _busy(item, evidence)
    if busy:
        return busy
    if not item["served"]:
        return Verdict(UNKNOWN, "never_served")
    return Verdict(SAFE, "unneeded")


def _run(item: Item, evidence: Evidence) -> Verdict:
    if item["current"]:
        return Verdict(KEPT, "current")
    busy = _busy(item, evidence)
    if busy:
        return busy
    if item["age"] <= RUN_SECONDS:
        return Verdict(KEPT, "young")
    if not item["ours"]:
        return Verdict(FOREIGN, "foreign")
    return Verdict(SAFE, "over")


def _journal(item: Item, evidence: Evidence) -> Verdict:
    if not item["ours"]:
        return Verdict(FOREIGN, "foreign")
    if item["current"]:
        return Verdict(KEPT, "current")
    if item["age"] <= evidence["keep_days"] * DAY_SECONDS:
        return Verdict(KEPT, "days", str(evidence["keep_days"]))
    return Verdict(SAFE, "old", str(evidence["keep_days"]))


def _file(item: Item, _evidence: Evidence) -> Verdict:
    """Core files and packages of the package manager's cache: both can go at any time, and only where somebody asks for it."""
    return (
        Verdict(KEPT, "open") if item["open"] else Verdict(SAFE, "again" if item["class"] == "packages" else "crashed")
    )


_RULES = {
    "images": _image,
    "layers": _image,
    "models": _model,
    "transfers": _transfer,
    "caches": _cache,
    "runs": _run,
    "journals": _journal,
    "cores": _file,
    "packages": _file,
}
