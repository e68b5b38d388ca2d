# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What takes space on this host, what of it could go, what keeps it, and what a full disk has hurt; and how single things are removed.

Works on a disk without any room: nothing is written before something is removed. Nothing is followed through a link, and nothing is removed that is not
found again as it was, by its path or its id, at that moment.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import pwd
import re
import stat
import time
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._before import read_picture
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING, write_state
from ansible_collections.baremetal.llm.plugins.module_utils._cleanup_rules import SAFE, Evidence, Item, More, judged
from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping, read_json
from ansible_collections.baremetal.llm.plugins.module_utils._engine import (
    LABELS,
    ask_engine,
    ask_engine_list,
    remove_image,
)
from ansible_collections.baremetal.llm.plugins.module_utils._evidence import read_record
from ansible_collections.baremetal.llm.plugins.module_utils._live import PLACES, Disk, disks, own_containers, own_units
from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import STATE_NAME, read_state
from ansible_collections.baremetal.llm.plugins.module_utils._served import KEPT, pins, read_served, served_files

# File systems of several hosts: what this host does not need, another one may.
NETWORK_DISKS = re.compile(
    r"(nfs|cifs|smb|ceph|lustre|gluster|beegfs|gpfs|fuse\.(?!overlay)|9p|afs|orangefs|ocfs2|gfs2|wekafs)"
)
# What a run leaves that was ended while it wrote a file (_own_files.incoming, _rehash.write_json).
HALF_FILE = re.compile(r"\..+\.[0-9a-f]{16}\.incoming|.+\.[0-9a-f]{16}\.new")
ENGINE_SECONDS = 30
# Before something is removed it was looked at no longer ago than that.
SEEN_SECONDS = 2


class Where(NamedTuple):
    """The folders of a host. ``system`` is the beginning of all paths that are not ours to choose; empty but in tests."""

    host_dir: str
    models_dir: str
    docker_root: str
    system: str = ""

    @property
    def bundle(self) -> str:
        return os.path.join(self.host_dir, "bundle")

    @property
    def folders(self) -> list[str]:
        """Of the machine, and of each of its deployments."""
        return [self.host_dir, *sorted(glob.glob(os.path.join(glob.escape(self.host_dir), "deployments", "*")))]


class Space(TypedDict):
    """Something that takes space."""

    name: str
    bytes: int
    mount: str


class Survey(TypedDict):
    """The items, what else is large, and whether the engine could be asked."""

    items: list[Item]
    other: list[Space]
    engine_answers: bool


class Hurt(TypedDict):
    """Something that is not as it should be."""

    # unit, container, record, note, begun, missing or short
    kind: str
    name: str
    # The role whose it is, where that is known.
    role: str
    said: str


class Surroundings(NamedTuple):
    """What all items are looked at with: the inodes that programs have open, the file systems by device, those of several hosts, and the time."""

    open: frozenset[tuple[int, int]]
    mounts: Mapping[int, str]
    network: frozenset[str]
    now: float


def open_inodes(proc: str = "/proc") -> frozenset[tuple[int, int]]:
    """What any program of this host has open."""
    found = set()
    for path in glob.iglob(os.path.join(proc, "[0-9]*", "fd", "*")):
        with contextlib.suppress(OSError):
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                found.add((status.st_dev, status.st_ino))
    return frozenset(found)


def network_mounts(text: str) -> frozenset[str]:
    """The mount points of file systems that other hosts see, too, of /proc/self/mountinfo (proc(5))."""
    found = set()
    for line in text.splitlines():
        left, _dash, right = line.partition(" - ")
        kind, cells = right.partition(" ")[0], left.split()
        if len(cells) > 4 and NETWORK_DISKS.match(kind):
            found.add(cells[4])
    return frozenset(found)


def surroundings(places: Sequence[str]) -> Surroundings:
    by_device = {}
    for disk in disks(places):
        with contextlib.suppress(OSError):
            by_device[os.stat(disk["mount"]).st_dev] = disk["mount"]
    return Surroundings(open_inodes(), by_device, network_mounts(read("/proc/self/mountinfo")), time.time())


def files_below(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Everything at a path and below, without following a link."""
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        yield path, status
        if stat.S_ISDIR(status.st_mode):
            for folder, folders, files in os.walk(path):
                for name in (*folders, *files):
                    with contextlib.suppress(OSError):
                        yield os.path.join(folder, name), os.lstat(os.path.join(folder, name))


def item(kind: str, path: str, around: Surroundings, more: More) -> Item | None:
    """Something at a path; None where there is nothing. A file with several names counts in parts, so that a sum is what the disk gets back."""
    found = list(files_below(path))
    if not found:
        return None
    top = found[0][1]
    regular = [status for _path, status in found if stat.S_ISREG(status.st_mode)]
    mount = around.mounts.get(top.st_dev, "")
    seen: Item = {
        "class": kind,
        "name": path,
        "real": os.path.realpath(path),
        "bytes": sum(status.st_blocks * 512 // max(status.st_nlink, 1) for status in regular),
        "files": len(regular),
        "mount": mount,
        # By which it is known again.
        "stamp": [top.st_dev, top.st_ino, top.st_mtime_ns, len(found)],
        "age": max(0.0, around.now - max(status.st_mtime for _path, status in found)),
        "open": any((status.st_dev, status.st_ino) in around.open for status in regular),
        "network_disk": mount in around.network,
        **more,
    }
    return seen


def _below(folder: str, pattern: str = "*", linked: bool = False) -> list[str]:
    """What lies in a folder, what begins with a dot as well. With ``linked`` it may be a link of root's, as to a larger disk."""
    try:
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) and not (linked and _own_files.is_trusted(status.st_uid)):
            return []
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if fnmatch.fnmatch(name, pattern))
    except OSError:
        return []


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def models(where: Where, around: Surroundings) -> Iterator[Item | None]:
    """The folders of models with how many of their files we brought, and the second names of those that are kept for a return."""
    noted = set(read_state(where.models_dir))
    for path in _below(where.models_dir, linked=True):
        name = os.path.basename(path)
        if name.startswith(".") or not _is_folder(path):
            continue
        files = [each for each, status in files_below(path) if not stat.S_ISDIR(status.st_mode)]
        brought = [each for each in files if os.path.relpath(each, where.models_dir) in noted]
        counts: More = {"noted": len(brought), "unnoted": len(files) - len(brought)}
        yield item("models", path, around, {"kept_tree": False, **counts})
    for path in _below(os.path.join(where.models_dir, KEPT)):
        if _is_folder(path) and not path.endswith(".half"):
            yield item("models", path, around, {"kept_tree": True, "noted": 0, "unnoted": 0})


def transfers(where: Where, around: Surroundings) -> Iterator[Item | None]:
    """Where files of the bundle and of models arrive, halves of files that we wrote, and archives of images that were loaded or not."""
    places = [os.path.join(where.models_dir, INCOMING), os.path.join(where.bundle, INCOMING)]
    for path in (each for place in places for each in _below(place)):
        yield item("transfers", path, around, {"archive": False})
    for path in _below(os.path.join(where.models_dir, KEPT), "*.half"):
        yield item("transfers", path, around, {"archive": False})
    parts = ("", "records", "scripts", "secrets")
    own = [os.path.join(folder, part) if part else folder for folder in where.folders for part in parts]
    for path in (each for folder in (*own, where.models_dir, where.bundle) for each in _below(folder)):
        if HALF_FILE.fullmatch(os.path.basename(path)) and not _is_folder(path):
            yield item("transfers", path, around, {"archive": False})
    for path in sorted(read_state(where.bundle)):
        if path.startswith("images/") and os.path.normpath(path) == path:
            yield item("transfers", os.path.join(where.bundle, path), around, {"archive": True})


def caches(where: Where, around: Surroundings) -> Iterator[Item | None]:
    """What engines compiled, a folder for each image or release."""
    for folder in where.folders:
        served = bool(read_served(os.path.join(folder, "served.json"))["states"])
        for path in _below(os.path.join(folder, "cache")):
            if _is_folder(path):
                yield item("caches", path, around, {"served": served})


def runs(where: Where, around: Surroundings) -> Iterator[Item | None]:
    """What runs that are over left: results of tasks in the background, folders of modules, sessions of Ray, and states of probes that are gone."""
    for home in homes():
        for path in _below(os.path.join(where.system + home, ".ansible_async")):
            ours = where.host_dir in read(path) or "baremetal.llm" in read(path)
            yield item("runs", path, around, {"ours": ours, "current": False})
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        for path in _below(where.system + folder, "ansible_*_payload_*"):
            ours = fnmatch.fnmatch(os.path.basename(path), "ansible_*baremetal.llm.*_payload_*")
            yield item("runs", path, around, {"ours": ours, "current": False})
    for folder in where.folders:
        for sessions in glob.glob(os.path.join(glob.escape(folder), "tmp*", "ray")):
            latest = os.path.realpath(os.path.join(sessions, "session_latest"))
            for path in _below(sessions, "session_*"):
                if _is_folder(path):
                    # Inside of the container the folder is /tmp.
                    same = os.path.basename(latest) == os.path.basename(path)
                    yield item("runs", path, around, {"ours": True, "current": same})
    for path in _below(where.system + "/run", "llm-probe*"):
        unit = "{0}/etc/systemd/system/{1}.service".format(where.system, os.path.basename(path))
        yield item("runs", path, around, {"ours": True, "current": os.path.lexists(unit)})


def homes() -> list[str]:
    """Of root, and of whoever became root for this."""
    uids = {0, int(os.environ.get("SUDO_UID") or 0)}
    found = []
    for uid in sorted(uids):
        with contextlib.suppress(KeyError):
            found.append(pwd.getpwuid(uid).pw_dir)
    return found


def journals(where: Where, around: Surroundings, engine: Engine | None) -> Iterator[Item | None]:
    """Files of systemd's journal, and logs of containers. What is still written to is no archive."""
    for folder in ("/var/log/journal", "/run/log/journal"):
        for path in (each for machine in _below(where.system + folder) for each in _below(machine)):
            archived = "@" in os.path.basename(path) or path.endswith(".journal~")
            yield item("journals", path, around, {"ours": True, "current": not archived})
    for container in engine.containers if engine else ():
        folder = os.path.join(where.docker_root, "containers", container["id"])
        for path in _below(folder, "*-json.log*"):
            current = path.endswith("-json.log")
            said: More = {"ours": container["ours"], "current": current, "of": container["name"]}
            yield item("journals", path, around, said)


def cores(where: Where, around: Surroundings) -> Iterator[Item | None]:
    """What systemd kept of programs that crashed, and what such programs left in our folders."""
    for folder in ("/var/lib/systemd/coredump", "/var/crash"):
        for path in _below(where.system + folder):
            yield item("cores", path, around, {})
    for folder in where.folders:
        for path in glob.glob(os.path.join(glob.escape(folder), "tmp*", "core*")):
            if re.fullmatch(r"core(\.\d+)?", os.path.basename(path)) and not _is_folder(path):
                yield item("cores", path, around, {})


def packages(where: Where, around: Surroundings) -> Iterator[Item | None]:
    """Packages that are installed by now, or never were; the manager fetches them again."""
    apt, found = where.system + "/var/cache/apt/archives", []
    for folder in (apt, os.path.join(apt, "partial")):
        found += _below(folder, "*.deb")
    for cache in ("/var/cache/dnf", "/var/cache/yum"):
        for folder, _folders, names in os.walk(where.system + cache):
            found += sorted(os.path.join(folder, name) for name in names if name.endswith(".rpm"))
    for path in found:
        yield item("packages", path, around, {})


class EngineImage(TypedDict):
    """An image as the engine lists it."""

    id: str
    tags: list[str]
    digests: list[str]
    # What no other image has of it.
    bytes: int
    # Whether it has a label of ours.
    labelled: bool


class EngineContainer(TypedDict):
    """A container as the engine lists it."""

    id: str
    name: str
    image: str
    ours: bool
    # The folders of the host that it sees.
    sources: list[str]


class Engine(NamedTuple):
    """What the engine knows: images and containers as it lists them, and the sizes of what is neither."""

    images: list[EngineImage]
    containers: list[EngineContainer]
    usage: dict[str, int]


def read_engine_space(sizes: bool = True) -> Engine | None:
    """None where no engine answers. Without ``sizes`` an image counts as a whole, also what others have of it."""
    listed, running = ask_engine_list("/images/json", timeout=ENGINE_SECONDS), ask_engine_list("/containers/json?all=1")
    if listed is None or running is None:
        return None
    containers: list[EngineContainer] = [
        {
            "id": str(entry.get("Id")),
            "name": str((entry.get("Names") or [""])[0]).lstrip("/"),
            "image": str(entry.get("ImageID")),
            "ours": any(str(label).startswith(LABELS) for label in entry.get("Labels") or {}),
            "sources": [str(mount.get("Source")) for mount in entry.get("Mounts") or () if mount.get("Source")],
        }
        for entry in running
    ]
    # It measures everything that containers wrote, so it may take too long.
    said = (ask_engine("/system/df", timeout=ENGINE_SECONDS) if sizes else None) or {}
    shared = {entry.get("Id"): entry.get("SharedSize") for entry in said.get("Images") or ()}
    images: list[EngineImage] = []
    for entry in listed:
        together = shared.get(entry.get("Id"))
        size = int(entry.get("Size") or 0)
        images.append(
            {
                "id": str(entry.get("Id")),
                "tags": [tag for tag in entry.get("RepoTags") or () if tag != "<none>:<none>"],
                "digests": [name for name in entry.get("RepoDigests") or () if name != "<none>@<none>"],
                # What other images have as well stays.
                "bytes": max(size - together, 0) if isinstance(together, int) and together > 0 else size,
                "labelled": any(str(label).startswith(LABELS) for label in entry.get("Labels") or {}),
            }
        )
    usage = {
        "layers": int(said.get("LayersSize") or 0),
        "volumes": sum(max((entry.get("UsageData") or {}).get("Size") or 0, 0) for entry in said.get("Volumes") or ()),
        "written": sum(max(entry.get("SizeRw") or 0, 0) for entry in said.get("Containers") or ()),
        "build_cache": sum(max(entry.get("Size") or 0, 0) for entry in said.get("BuildCache") or ()),
    }
    return Engine(images, containers, usage)


def images(where: Where, around: Surroundings, engine: Engine | None) -> Iterator[Item]:
    """The engine's images; those without a name are layers that nothing has."""
    mount = ""
    with contextlib.suppress(OSError):
        mount = around.mounts.get(os.stat(where.docker_root).st_dev, "")
    for image in engine.images if engine else ():
        yield {
            "class": "images" if image["tags"] or image["digests"] else "layers",
            "name": image["id"],
            "bytes": image["bytes"],
            "mount": mount,
            "stamp": sorted([*image["tags"], *image["digests"]]),
            "tags": sorted(image["tags"]),
            "digests": sorted(image["digests"]),
            "labelled": image["labelled"],
            "containers": sorted(
                each["name"] for each in (engine.containers if engine else ()) if each["image"] == image["id"]
            ),
        }


def _records(where: Where) -> list[tuple[str, dict[str, Any] | None]]:
    """The path of each record with its content, None where it cannot be understood."""
    found = [path for folder in where.folders for path in _below(os.path.join(folder, "records"), "*.json")]
    return [(path, read_record(path)) for path in found]


def evidence(where: Where, engine: Engine | None, keep_days: int) -> Evidence:
    """What keeps things on this host: records, versions to go back to, mounts of containers, and what was there before us."""
    records = _records(where)
    before = read_picture(where.host_dir)
    there = engine.images if engine else []
    known = {name: image["id"] for image in there for name in (*image["tags"], *image["digests"])}
    references: set[str] = set()
    folders: set[str] = set()
    archives: set[str] = set()
    brought: dict[str, set[str]] = {}
    for path, found in records:
        content = found or {}
        subjects, said = content.get("subjects") or {}, content.get("evidence") or {}
        references.update(str(name) for name in subjects.get("images") or ())
        folders.update(str(name) for name in subjects.get("trees") or ())
        if os.path.basename(path) == "images.json":
            archives.update(path for path, there in (said.get("paths") or {}).items() if there)
            for name, image in [*(said.get("images") or {}).items(), *_turned(content.get("earlier"))]:
                if image:
                    brought.setdefault(str(image), set()).add(str(name))
    notes = {path: read_served(path)["states"] for path in served_files(where.host_dir)}
    states = [state for noted in notes.values() for state in noted]
    # What somebody may want to go back to, or has recorded, stands there, and nobody knows what it is.
    unknown = [path for path, noted in notes.items() if not noted and (read_record(path) or {}).get("states") != []]
    unknown += [path for path, content in records if content is None]
    for state in states:
        if state["image"]["id"]:
            brought.setdefault(state["image"]["id"], set()).add(state["image"]["reference"])
    kept = pins(where.host_dir)
    sections = [state["section"] for state in states]
    return {
        "unreadable": sorted(unknown),
        "references": sorted(references),
        "recorded_images": sorted(known[name] for name in references if name in known),
        "pinned_images": kept["images"],
        "brought": {image: sorted(names) for image, names in brought.items()},
        "before": before.get("images") or [] if before else None,
        "folders": _both(folders),
        "pinned_models": _both(kept["models"]),
        "return_folders": _both(_return_folders(where.host_dir)),
        "caches": _both(str(section["cache"]) for section in sections if section.get("cache")),
        "archives": sorted(archives),
        "mounts": [
            {"source": source, "container": each["name"], "ours": each["ours"]}
            for each in (engine.containers if engine else ())
            for source in each["sources"]
        ],
        "keep_days": keep_days,
    }


def _both(paths: Iterable[str]) -> list[str]:
    """Paths as they are written down, and where they lead."""
    named = set(paths)
    return sorted(named | {os.path.realpath(path) for path in named})


def _turned(earlier: object) -> list[tuple[str, str]]:
    """``[(reference, id)]`` of what a record of images knows of earlier ones."""
    return [(str(name), str(image)) for image, name in earlier.items()] if isinstance(earlier, dict) else []


def _return_folders(host_dir: str) -> set[str]:
    """Where models lie that serve, or to whose files somebody may go back."""
    found = set()
    for path in served_files(host_dir):
        for index, state in enumerate(read_served(path)["states"]):
            for model in state["models"]:
                if index == 0 or model["kept"]:
                    found.add(model["folder"])
    return found


def own_space(where: Where, around: Surroundings, engine: Engine | None) -> list[Space]:
    """What else is large, by name: the parts of our folder, and what the engine has besides images."""
    found: list[Space] = []
    for path in _below(where.host_dir):
        seen = item("other", path, around, {})
        if seen and not _own_files.is_of_system(path):
            found.append({"name": seen["name"], "bytes": seen["bytes"], "mount": seen["mount"]})
    for name, size in engine.usage.items() if engine else ():
        found.append({"name": "docker " + name, "bytes": size, "mount": ""})
    return found


def survey(where: Where, kinds: Sequence[str], keep_days: int, sizes: bool = True) -> Survey:
    """All items of these classes, each with the host's verdict, and with ``sizes`` what else is large."""
    around = surroundings([*PLACES, where.docker_root, where.host_dir, where.models_dir])
    engine = read_engine_space(sizes)
    keeps = evidence(where, engine, keep_days)
    looks = {
        "models": lambda: models(where, around),
        "transfers": lambda: transfers(where, around),
        "caches": lambda: caches(where, around),
        "runs": lambda: runs(where, around),
        "journals": lambda: journals(where, around, engine),
        "cores": lambda: cores(where, around),
        "packages": lambda: packages(where, around),
    }
    found: list[Item | None] = [each for each in images(where, around, engine) if each["class"] in kinds]
    found += [each for kind, look in looks.items() if kind in kinds for each in look()]
    items = [_judged(each, keeps) for each in found if each]
    other = own_space(where, around, engine) if sizes else []
    return {"items": items, "other": other, "engine_answers": engine is not None}


def _judged(each: Item, keeps: Evidence) -> Item:
    verdict = judged(each, keeps)
    return {**each, "verdict": verdict.grade, "why": verdict.why, "by": verdict.by}


def file_systems(where: Where) -> list[Disk]:
    return disks([*PLACES, where.docker_root, where.host_dir, where.models_dir])


def why_not(wanted: Item, found: Sequence[Item]) -> tuple[Item, str]:
    """The thing as it is now, and why it must not go: it is not there any more, is another one by now, or something keeps it."""
    same = (each for each in found if (each["class"], each["name"]) == (wanted["class"], wanted["name"]))
    now = next(same, None)
    if now is None:
        return wanted, "gone"
    if now["stamp"] != wanted["stamp"]:
        return wanted, "changed"
    return now, "" if now["verdict"] == SAFE else str(now["why"])


class Look:
    """Items of the host, seen not long ago."""

    def __init__(self, where: Where, keep_days: int) -> None:
        self.where = where
        self.keep_days = keep_days
        self.seen: dict[str, tuple[float, list[Item]]] = {}

    def items(self, kind: str) -> list[Item]:
        at, found = self.seen.get(kind, (0.0, []))
        if time.monotonic() - at > SEEN_SECONDS or not at:
            found = survey(self.where, [kind], self.keep_days, sizes=False)["items"]
            self.seen[kind] = (time.monotonic(), found)
        return found


def remove(each: Item, where: Where) -> str:
    """Remove one item. Returns the complaint where that fails; what went meanwhile is no failure."""
    try:
        if each["class"] in ("images", "layers"):
            return _remove_image(each)
        with _own_files.opened(os.path.dirname(each["name"])) as folder:
            _own_files.remove(folder, os.path.basename(each["name"]))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return str(error)
    _forget(each, where)
    return ""


def _remove_image(each: Item) -> str:
    """Each of its names, without force: the engine refuses what a container uses. Layers that others need stay."""
    for tag in each["tags"]:
        complaint = remove_image(tag)
        if complaint:
            return complaint
    # One that was pulled by its digest may have no other name.
    return remove_image(each["name"]) if ask_engine("/images/{0}/json".format(each["name"])) else ""


def _forget(each: Item, where: Where) -> None:
    """Files that are gone need no checksum any more. The note only says that they would be missing, so that it may stay where it cannot be written."""
    for folder in (where.models_dir, where.bundle):
        prefix = os.path.relpath(each["name"], folder)
        state = read_state(folder)
        left = {path: known for path, known in state.items() if path != prefix and not path.startswith(prefix + "/")}
        if len(left) < len(state):
            with contextlib.suppress(OSError):
                write_state(folder, left)


def damage(where: Where, programs: Programs) -> list[Hurt]:
    """What is not as it should be, as a full disk leaves it. Nothing is read that is large."""
    found = []
    for unit in own_units(programs):
        if unit["state"] == "failed":
            found.append(_hurt("unit", unit["name"], "", str(unit["result"] or "")))
    for container in own_containers() or ():
        # One that ended well was to end.
        ended = container["state"] == "exited" and container["exit_code"] != 0
        if container["labels"] and (ended or container["state"] in ("restarting", "dead")):
            found.append(
                _hurt("container", container["name"], "", "{0} {1}".format(container["state"], container["exit_code"]))
            )
    for path, content in _records(where):
        role = os.path.basename(path)[: -len(".json")]
        if content is None:
            found.append(_hurt("record", path, role, ""))
            continue
        for kind, name in _shorter(content):
            found.append(_hurt(kind, name, role, ""))
    for folder in where.folders:
        for name in ("served.json", "network.json"):
            if _is_half(os.path.join(folder, name)):
                found.append(_hurt("note", os.path.join(folder, name), "", ""))
        begun = read_served(os.path.join(folder, "served.json"))["begun"]
        if begun:
            found.append(
                _hurt("begun", str(begun.get("image") or begun.get("version")), "", str(begun.get("at") or ""))
            )
    for folder in (where.models_dir, where.bundle):
        if _is_half(os.path.join(folder, STATE_NAME)):
            found.append(
                _hurt("note", os.path.join(folder, STATE_NAME), "models" if folder == where.models_dir else "", "")
            )
    return found


def _hurt(kind: str, name: str, role: str, said: str) -> Hurt:
    return {"kind": kind, "name": name, "role": role, "said": said}


def _shorter(record: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The files that a record names and that are missing (``missing``), or smaller than they were (``short``)."""
    said = mapping(record.get("evidence"))
    for kind in ("paths", "trees"):
        for path, was in mapping(said.get(kind)).items():
            size = mapping(was).get("size")
            if not isinstance(size, int):
                continue
            try:
                now = os.lstat(path).st_size
            except OSError:
                yield "missing", path
                continue
            if now < size:
                yield "short", path


def _is_half(path: str) -> bool:
    """Whether a note is there that is no JSON."""
    text = read(path)
    try:
        read_json(text)
    except ValueError:
        return os.path.lexists(path)
    return False
