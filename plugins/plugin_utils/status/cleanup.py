# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cleanup frees on each host, what stays and why, and which command mends what a full disk has hurt. As a document, and in lines for people.

A host says what it has, and what keeps it there (``module_utils/_cleanup_rules.py``). What the inventory asks for stays besides. Only what is safe to go,
in a class that was asked for, is ever in the list of what is removed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.module_utils._cleanup import Hurt, Space
from ansible_collections.baremetal.llm.plugins.module_utils._cleanup_rules import (
    CLASSES,
    FOREIGN,
    KEPT,
    SAFE,
    UNKNOWN,
    Gone,
    Item,
    Stayed,
    is_within,
)
from ansible_collections.baremetal.llm.plugins.module_utils._live import Disk
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import (
    image_reference,
    image_to_run,
    stands_for,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import folder_of, needed_models
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

SCHEMA = 1
# Of what goes, each thing has a line, up to so many of a class; of all else a line for each reason has so many names.
LINES, NAMES = 30, 3
# Images of programs besides engines, by the variables that name them.
IMAGES = ("web_ui_image", "monitoring_dcgm_image", "monitoring_grafana_image")
# By the beginning of a name, and by a role, the playbook that makes the thing anew. All else is brought by site.yml.
PLAYBOOKS = (
    ("llm-gateway", "gateway"),
    ("llm-web-ui", "web_ui"),
    ("llm-alert-relay", "monitoring"),
    ("llm-journal", "monitoring"),
    ("llm-grafana", "monitoring"),
    ("llm-textfile", "monitoring"),
    ("llm-exporters", "monitoring"),
    ("llm-dcgm", "monitoring"),
)
ROLES = {
    "gateway": "gateway",
    "web_ui": "web_ui",
    "monitoring": "monitoring",
    "monitoring_exporters": "monitoring",
    "models": "models",
    "images": "images",
}
LINE_OF = {KEPT: "cleanup_kept", UNKNOWN: "cleanup_unknown_item", FOREIGN: "cleanup_foreign"}
# A file system with less is called nearly full.
SCARCE = 0.1


@dataclass(frozen=True)
class Asked:
    """What the inventory asks for on a machine: ``images`` by reference or id, and ``folders`` of models."""

    images: frozenset[str]
    folders: frozenset[str]


class Decided(Item):
    """An item with the last word about it, and whether it goes."""

    goes: bool


class Mended(Hurt):
    """Something damaged, with the playbook that mends it and its options."""

    playbook: str
    options: str


class HostDocument(TypedDict):
    """What is said of one host."""

    host: str
    answered: bool
    # Whether its container engine does.
    engine_answers: NotRequired[bool]
    items: list[Decided]
    # What else is large.
    other: list[Space]
    file_systems: list[Disk]
    damage: list[Mended]
    # After a cleanup: what is no longer there, and what stayed after all.
    removed: NotRequired[list[Gone]]
    stayed: NotRequired[list[Stayed]]
    freed_bytes: NotRequired[int]


class CleanupDocument(TypedDict):
    """All hosts, as it is written."""

    schema: int
    time: str
    # The classes that were asked for.
    what: list[str]
    hosts: list[HostDocument]


def asked_of(machine: Iterable[Mapping[str, object]], records: Sequence[Mapping[str, object]]) -> Asked:
    """By the variables of each deployment of a machine, and what the bundle has (``records``)."""
    images: set[str] = set()
    folders: set[str] = set()
    for variables in machine:
        reference = image_reference(variables)
        images.update({reference, image_to_run(variables, records), *texts(variables.get("llm_images"))})
        images.update(str(variables[name]) for name in IMAGES if variables.get(name))
        held = [image for record in records for image in mappings(record.get("images"))]
        images.update(str(image["id"]) for image in held if image.get("id") and stands_for(image, reference))
        folders.update(posixpath.normpath(folder_of(variables, model)) for model in needed_models(variables))
    return Asked(frozenset(images - {""}), frozenset(folders))


def unknown_classes(what: Iterable[str]) -> list[str]:
    return [name for name in what if name not in CLASSES]


def decided(item: Item, asked: Asked, what: Collection[str]) -> Decided:
    """An item with the last word about it."""
    verdict, why, by = item["verdict"], item["why"], item["by"]
    if verdict == SAFE and _is_asked(item, asked):
        verdict, why, by = KEPT, "asked", ""
    goes = verdict == SAFE and item["class"] in what
    return {**item, "verdict": verdict, "why": why, "by": by, "goes": goes}


def _is_asked(item: Item, asked: Asked) -> bool:
    if item["class"] in ("images", "layers"):
        return bool(asked.images.intersection([item["name"], *item["tags"], *item["digests"]]))
    if item["class"] == "models":
        path = item["name"]
        return any(is_within(*pair) for folder in asked.folders for pair in ((path, folder), (folder, path)))
    return False


def host_document(host: str, found: Mapping[str, Any] | None, asked: Asked, what: Collection[str]) -> HostDocument:
    """What is said of one host; ``found`` is what baremetal.llm.host_cleanup returned, None where the host does not answer."""
    if found is None:
        return {"host": host, "answered": False, "items": [], "other": [], "file_systems": [], "damage": []}
    items = [decided(item, asked, what) for item in found["items"]]
    return {
        "host": host,
        "answered": True,
        "engine_answers": bool(found["engine_answers"]),
        "items": sorted(items, key=lambda each: (CLASSES.index(each["class"]), -each["bytes"], each["name"])),
        "other": list(found["other"]),
        "file_systems": list(found["file_systems"]),
        "damage": [with_command(each, host) for each in found["damage"]],
    }


def with_result(document: HostDocument, done: Mapping[str, Any] | None) -> HostDocument:
    """The same with what was removed, and what is free and damaged afterwards; ``done`` is what the module returned, None where nothing was to go."""
    if not done:
        return {**document, "removed": [], "stayed": [], "freed_bytes": 0}
    before = {disk["mount"]: disk["available_bytes"] for disk in document["file_systems"]}
    after = {disk["mount"]: disk["available_bytes"] for disk in done["file_systems"]}
    mounts = {each["mount"] for each in done["removed"]}
    freed = sum(max(after[mount] - before.get(mount, 0), 0) for mount in mounts if mount in after)
    return {
        **document,
        "removed": done["removed"],
        "stayed": done["stayed"],
        "freed_bytes": freed,
        "file_systems": done["file_systems"],
        "damage": [with_command(each, document["host"]) for each in done["damage"]],
    }


def to_remove(document: HostDocument) -> list[dict[str, object]]:
    """What the host is told to remove."""
    return [{name: item.get(name) for name in SENT if name in item} for item in document["items"] if item["goes"]]


SENT = ("class", "name", "stamp", "bytes", "mount", "tags")


def with_command(hurt: Hurt, host: str) -> Mended:
    """Something damaged with the playbook that mends it."""
    if hurt["kind"] == "begun":
        return {**hurt, "playbook": "upgrade", "options": f"-e llm_target={host}"}
    by_name = (playbook for beginning, playbook in PLAYBOOKS if hurt["name"].startswith(beginning))
    playbook = next(by_name, ROLES.get(hurt["role"], "site"))
    return {**hurt, "playbook": playbook, "options": ""}


def cleanup_document(hosts: Sequence[HostDocument], what: Sequence[str], time: str) -> CleanupDocument:
    return {"schema": SCHEMA, "time": time, "what": list(what), "hosts": list(hosts)}


def plan_lines(hosts: Sequence[HostDocument], what: Collection[str], lang: str) -> list[str]:
    """What takes space on each host, what goes and what stays, before anything is removed."""
    return [line for document in hosts for line in _host_lines(document, what, lang)]


def _host_lines(document: HostDocument, what: Collection[str], lang: str) -> Iterator[str]:
    host = document["host"]
    if not document["answered"]:
        yield message("cleanup_silent", lang, host=host)
        return
    yield from _disk_lines(document, lang)
    if not document["engine_answers"]:
        yield message("cleanup_no_engine", lang, host=host)
    items = document["items"]
    for kind in CLASSES:
        yield from _going(host, [each for each in items if each["class"] == kind and each["goes"]], lang)
    if not any(each["goes"] for each in items):
        yield message("cleanup_nothing", lang, host=host, what=", ".join(what))
    for kind in CLASSES:
        left = [each for each in items if each["class"] == kind and each["verdict"] == SAFE and not each["goes"]]
        if left:
            yield message("cleanup_could", lang, host=host, **_sum(left), kind=_kind(kind, lang), name=kind)
    for grade in (KEPT, UNKNOWN, FOREIGN):
        yield from _staying(host, [each for each in items if each["verdict"] == grade], grade, lang)
    large = [each for each in document["other"] if each["bytes"]]
    if large:
        each = ", ".join(f"{one['name']} {human_bytes(one['bytes'])}" for one in large)
        yield message("cleanup_other", lang, host=host, names=each)
    yield from damage_lines(document, lang)


def _disk_lines(document: HostDocument, lang: str) -> Iterator[str]:
    disks = [disk for disk in document["file_systems"] if disk["total_bytes"]]
    for disk in sorted(disks, key=lambda each: each["available_bytes"] / each["total_bytes"]):
        # btrfs and others have no limit of files, and say 0.
        files = (
            message("cleanup_files", lang, part=_percent(disk["files_free"], disk["files"])) if disk["files"] else ""
        )
        parts = [
            disk["available_bytes"] / disk["total_bytes"],
            disk["files_free"] / disk["files"] if disk["files"] else 1,
        ]
        yield message(
            "cleanup_disk_full" if min(parts) < SCARCE else "cleanup_disk",
            lang,
            host=document["host"],
            mount=disk["mount"],
            free=human_bytes(disk["available_bytes"]),
            total=human_bytes(disk["total_bytes"]),
            part=_percent(disk["available_bytes"], disk["total_bytes"]),
            files=files,
        )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _going(host: str, items: Sequence[Item], lang: str) -> Iterator[str]:
    for each in items[:LINES]:
        yield message("cleanup_goes", lang, host=host, name=_name(each), why=_why(each, lang), **_sum([each]))
    if rest := items[LINES:]:
        yield message("cleanup_more", lang, host=host, kind=_kind(rest[0]["class"], lang), **_sum(rest))


def _staying(host: str, items: Sequence[Item], grade: str, lang: str) -> Iterator[str]:
    """A line for each reason, with the largest by name. Of what is somebody else's the sizes only."""
    reasons: dict[tuple[str, str], list[Item]] = {}
    for each in items:
        reasons.setdefault((each["class"], each["why"]), []).append(each)
    for (kind, _why_code), same in reasons.items():
        names = [] if grade == FOREIGN else [_name(each) for each in same[:NAMES]]
        more = message("cleanup_and_more", lang, count=len(same) - NAMES) if len(same) > NAMES and names else ""
        yield message(
            LINE_OF[grade],
            lang,
            host=host,
            kind=_kind(kind, lang),
            names=": " + ", ".join(names) + more if names else "",
            why=_why(same[0], lang),
            **_sum(same),
        )


class Sum(TypedDict):
    """Several items in a message: how many, their size, and where they lie."""

    count: int
    size: str
    mount: str


def _sum(items: Sequence[Item]) -> Sum:
    mounts = sorted({each["mount"] for each in items if each["mount"]})
    return {
        "count": len(items),
        "size": human_bytes(sum(each["bytes"] for each in items)),
        "mount": ", ".join(mounts) or "-",
    }


def _kind(kind: str, lang: str) -> str:
    return message("cleanup_kind_" + kind, lang)


def _why(item: Item, lang: str) -> str:
    return message("cleanup_why_" + item["why"], lang, by=item["by"])


def _name(item: Item | Gone) -> str:
    """An image by its names, where it has some."""
    return ", ".join(item.get("tags") or ()) or item["name"]


def result_lines(document: HostDocument, lang: str, dry: bool = False) -> list[str]:
    """What was removed on a host, what stayed after all, what is free now, and what is damaged."""
    host = document["host"]
    lines = []
    if removed := document["removed"]:
        size = human_bytes(document["freed_bytes"])
        expected = human_bytes(sum(each["bytes"] for each in removed))
        code = "cleanup_would" if dry else "cleanup_done"
        lines.append(message(code, lang, host=host, count=len(removed), size=size, expected=expected))
    for each in document["stayed"]:
        why = each["said"] or message("cleanup_why_" + each["why"], lang, by="")
        lines.append(message("cleanup_stayed", lang, host=host, name=_name(each), why=why))
    return [*lines, *_disk_lines(document, lang), *damage_lines(document, lang)]


def damage_lines(document: HostDocument, lang: str) -> Iterator[str]:
    """Each damaged thing, and below them the commands that mend all of it."""
    hurt, host = document["damage"], document["host"]
    for kind in dict.fromkeys(each["kind"] for each in hurt):
        same = [each for each in hurt if each["kind"] == kind]
        names = ", ".join(
            f"{each['name']} ({each['said']})" if each["said"] else str(each["name"]) for each in same[:LINES]
        )
        more = message("cleanup_and_more", lang, count=len(same) - LINES) if len(same) > LINES else ""
        yield message("cleanup_hurt_" + kind, lang, host=host, count=len(same), names=names + more)
    # What brings files and images comes before what starts programs.
    order = ("images", "models", "site", "gateway", "web_ui", "monitoring", "upgrade")
    mends = sorted({(order.index(each["playbook"]), each["playbook"], each["options"]) for each in hurt})
    if any(playbook == "site" for _place, playbook, _options in mends):
        # It does what these do.
        mends = [each for each in mends if each[1] in ("site", "upgrade")]
    for _place, playbook, options in mends:
        command = " ".join(filter(None, [f"ansible-playbook playbooks/{playbook}.yml", options]))
        yield message("cleanup_mend", lang, host=host, command=command)
