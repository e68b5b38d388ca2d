# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles left on this host to serve, by their records, and how it is removed.

Only what a record names is removed, and of that only what is ours: it has a name or a label of the collection, lies in its folder, or was not there
before the first change (``_before``). A folder goes when nothing is left in it, so what people would miss, such as weights, dashboards or secrets,
stays. A role's record goes last, so that a run that was ended is made up for by the next one.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import stat
from typing import Container, Iterable, Iterator, Mapping, NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._before import Picture
from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping, texts
from ansible_collections.baremetal.llm.plugins.module_utils._engine import LABELS, ask_engine, ask_engine_list
from ansible_collections.baremetal.llm.plugins.module_utils._engines import ENGINES
from ansible_collections.baremetal.llm.plugins.module_utils._evidence import read_record
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs
from ansible_collections.baremetal.llm.plugins.module_utils._served import NAME as NOTE

# In this order: who needs another one goes first, and images go when none of our containers uses them any more. Of all other roles (driver, engine,
# toolkit) everything stays.
SERVING = (*ENGINES, "ray")
ROLES = ("web_ui", "gateway", "monitoring", "monitoring_exporters", *SERVING, "models", "network", "images")
# Names that only the collection gives, and folders in which people do not choose names themselves.
OURS = re.compile(r"(?:llm[-_]|baremetal[-_]llm)")
OUR_PATH = re.compile(r"/(?:etc|run|usr/local|var/lib)/(?:[^/]+/)*" + OURS.pattern)
# The names by which earlier images are kept (tasks/keep.yml of the role of the engine).
KEPT_IMAGE = "llm-kept:"
# It may be that of an environment that was there.
PYTHON = re.compile(r"/bin/python[0-9.]*")
# Why something that a record names stays: it was there before, or nobody knows whether it was, others have made it, it is a secret, or it is one
# rule among those of others.
BEFORE, UNKNOWN, FOREIGN, SECRET, RULES = "before", "unknown", "foreign", "secret", "rules"


class Step(NamedTuple):
    """Something that a role left. ``kind``: unit, container, table, package, image, file, folder or record; of the last three ``name`` is the path."""

    role: str
    kind: str
    name: str


class Stays(NamedTuple):
    """Something that a record names and that stays, and why."""

    role: str
    kind: str
    name: str
    why: str


def records_of(host_dir: str) -> list[tuple[str, str, Mapping[str, object]]]:
    """Role, path and content of each record, in the order in which roles are undone. OSError never: what cannot be read counts as none."""
    below = glob.escape(host_dir)
    paths = glob.glob(os.path.join(below, "records/*.json"))
    paths += glob.glob(os.path.join(below, "deployments/*/records/*.json"))
    found = [(os.path.basename(path)[: -len(".json")], path, read_record(path) or {}) for path in sorted(paths)]
    return sorted(
        (each for each in found if each[0] in ROLES and each[2]), key=lambda each: (ROLES.index(each[0]), each[1])
    )


class Owner:
    """Whether something is ours to remove."""

    def __init__(self, host_dir: str, before: Picture | None) -> None:
        self.host_dir = host_dir.rstrip("/")
        self.before = before

    def why_not(self, kind: str, name: str) -> str:
        """Why it stays; empty where it is ours. ``kind`` is that of a picture: packages, units, images or files."""
        if kind == "files" and PYTHON.search(name):
            return UNKNOWN
        if kind == "files" and (name.startswith(self.host_dir + "/") or OUR_PATH.match(name)):
            return ""
        if kind == "units" and OURS.match(name):
            return ""
        if self.before is None:
            return UNKNOWN
        if kind == "files" and not name.startswith(("/etc/", "/usr/local/")):
            return UNKNOWN  # the picture does not show other folders
        return BEFORE if name in self.before[kind] else ""


def _asked(record: Mapping[str, object], kind: str) -> list[str]:
    return texts(mapping(record.get("subjects")).get(kind))


def _labels(name: str) -> Mapping[str, object] | None:
    """Of a container; None where there is none."""
    said = ask_engine("/containers/{0}/json".format(name))
    return None if said is None else (said.get("Config") or {}).get("Labels") or {}


def planned(
    host_dir: str, before: Picture | None, programs: Programs, packages: Container[str]
) -> tuple[list[Step], list[Stays]]:
    """What is to go, in this order, and what stays, of all that records name and that is there. ``packages`` are those of the host now."""
    owner = Owner(host_dir, before)
    steps: list[Step] = []
    stays: list[Stays] = []
    for role, path, record in records_of(host_dir):
        left = [*_left(role, record, owner, programs, packages), *(_notes(path) if role in ENGINES else ())]
        for kind, name, why in left:
            if why:
                stays.append(Stays(role, kind, name, why))
            else:
                steps.append(Step(role, kind, name))
        steps.append(Step(role, "record", path))
    return list(dict.fromkeys(steps)), list(dict.fromkeys(stays))


def _left(
    role: str, record: Mapping[str, object], owner: Owner, programs: Programs, packages: Container[str]
) -> Iterator[tuple[str, str, str]]:
    """Kind, name and why it stays, of what one record names and is there, in the order in which it goes."""
    for name in _asked(record, "units"):
        unit = name if "." in name else name + ".service"
        if programs.answer("systemctl", "list-unit-files", "--no-legend", "--no-pager", "--", unit).strip():
            yield "unit", unit, owner.why_not("units", unit)
    for name in _asked(record, "containers"):
        labels = _labels(name)
        if labels is not None:
            yield "container", name, "" if any(str(each).startswith(LABELS) for each in labels) else FOREIGN
    for name in _asked(record, "tables"):
        if programs.answer("nft", "list", "table", "inet", name):
            yield "table", name, ""
    for name in _asked(record, "packages"):
        if name in packages:
            yield "package", name, owner.why_not("packages", name)
    for name in _asked(record, "images"):
        said = ask_engine("/images/{0}/json".format(name))
        if said:
            known = [name, *(said.get("RepoTags") or ()), *(said.get("RepoDigests") or ())]
            yield "image", name, next((why for each in known for why in [owner.why_not("images", each)] if why), "")
    for name in _asked(record, "firewalls"):
        yield "firewall", name, RULES
    # The weights of models are trees, which stay, and the paths of images are archives of the bundle.
    if role != "images":
        yield from _paths(_asked(record, "paths"), owner)


def _notes(record_path: str) -> Iterator[tuple[str, str, str]]:
    """What keeps earlier versions of a server (``_served``): the note beside its records, and the names of images that are kept."""
    note = os.path.join(os.path.dirname(os.path.dirname(record_path)), NOTE)
    if os.path.lexists(note):
        yield "file", note, ""
    tags = [str(tag) for image in ask_engine_list("/images/json") or () for tag in image.get("RepoTags") or ()]
    for tag in sorted(tags):
        if tag.startswith(KEPT_IMAGE):
            yield "image", tag, ""


def _paths(paths: Iterable[str], owner: Owner) -> Iterator[tuple[str, str, str]]:
    """Files first, then folders from the inside out."""
    there = {path: os.lstat(path).st_mode for path in paths if os.path.isabs(path) and os.path.lexists(path)}
    folders = sorted((path for path, mode in there.items() if stat.S_ISDIR(mode)), reverse=True)
    for path in sorted(set(there) - set(folders)):
        yield "file", path, SECRET if "/secrets/" in path else owner.why_not("files", path)
    for path in folders:
        # No picture shows folders.
        if not owner.why_not("files", path) and path.rstrip("/") != owner.host_dir:
            yield "folder", path, ""


def serving(steps: Iterable[Step], programs: Programs) -> list[str]:
    """The programs of a deployment that still serve: its containers, which a stop removes, and its units that run, whose files a stop leaves."""
    return [
        step.name
        for step in steps
        if step.role in SERVING
        and (
            step.kind == "container"
            or (
                step.kind == "unit"
                and step.name.endswith(".service")
                and programs.answer("systemctl", "is-active", "--", step.name).strip()
            )
        )
    ]


COMMANDS = {
    "unit": [["systemctl", "disable", "--now", "{0}"]],
    "container": [["docker", "rm", "--force", "{0}"]],
    "table": [["nft", "delete", "table", "inet", "{0}"]],
    # Without force: an image that a container of others uses stays.
    "image": [["docker", "image", "rm", "{0}"]],
}
# These two, unlike apt and dnf, refuse to remove what another package needs. Settings and data of the package stay.
PACKAGE_MANAGERS = (["dpkg", "--remove", "{0}"], ["rpm", "--erase", "{0}"])


def remove(step: Step, programs: Programs) -> str:
    """Remove it. Returns the complaint where it could not be removed; empty where it is gone, or a folder is not empty."""
    if step.kind in ("file", "record"):
        try:
            with _own_files.opened(os.path.dirname(step.name)) as folder:
                _own_files.remove(folder, os.path.basename(step.name))
        except FileNotFoundError:
            return ""
        except OSError as error:
            return str(error)
        return ""
    if step.kind == "folder":
        with contextlib.suppress(OSError):
            os.rmdir(step.name)
        return ""
    if step.kind == "table" and not programs.answer("nft", "list", "table", "inet", step.name):
        return ""  # it went with its unit
    commands = COMMANDS.get(step.kind) or [words for words in PACKAGE_MANAGERS if programs.path(words[0])][:1]
    for words in commands:
        status, _out, err = programs.run([word.format(step.name) for word in words])
        if status:
            return err.strip() or "exit status {0}".format(status)
    return ""


def undone(steps: Iterable[Step], programs: Programs) -> tuple[list[Step], list[Stays]]:
    """Remove all of it: what is gone, and what could not be removed. The record of a role of which something stays so is kept for the next run."""
    gone: list[Step] = []
    failed: list[Stays] = []
    for step in steps:
        if step.kind == "record" and any(each.role == step.role for each in failed):
            continue
        complaint = remove(step, programs)
        if complaint:
            failed.append(Stays(step.role, step.kind, step.name, complaint))
        else:
            gone.append(step)
    return gone, failed
