# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of what roles left on this host, and whether it is still so.

A record is one file for each role: the digest of what was asked for, and evidence of what was left. Evidence is asked for by kind
(``KINDS``), each with a list of subjects, and is a mapping by kind and subject, so that what differs has a name. A record is never
trusted: each time it counts, everything in it is looked at again.
"""

from __future__ import annotations

import functools
import glob
import grp
import hashlib
import json
import os
import re
import stat
import time
from typing import Any, Callable, Mapping, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import sha256_of
from ansible_collections.baremetal.llm.plugins.module_utils._content import digits, load_json, mapping, read_json
from ansible_collections.baremetal.llm.plugins.module_utils._driver_host import is_driver_package, list_packages
from ansible_collections.baremetal.llm.plugins.module_utils._engine import ON_REQUEST, ask_engine
from ansible_collections.baremetal.llm.plugins.module_utils._environment import is_whole
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import GpuFacts
from ansible_collections.baremetal.llm.plugins.module_utils._private_file import write_private
from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import read_state

# Of the file: another one is not understood.
FORMAT = 1
# Up to this size a file is read each time. A larger one is read when its time or inode is another, and one that is larger than the
# second limit is taken for another file then.
READ_ALWAYS_BYTES = 1 << 20
READ_AT_MOST_BYTES = 256 << 20
# How many images of earlier records a record remembers.
MOST_EARLIER = 100
# What a container is made from. The rest of its description changes while it runs.
CONTAINER_SETTINGS = ("Config", "HostConfig")
UNIT_PROPERTIES = ("LoadState", "ActiveState", "UnitFileState", "FragmentPath", "NeedDaemonReload")
# What the probe says of a server or a container that does what it should.
WELL = ("serving", "busy", "running", "asleep")
COUNTERS = re.compile(r"counter packets \d+ bytes \d+")


class Described(TypedDict, total=False):
    """What there is at a path: a link with where it leads, or a file or folder with mode and owner."""

    link: str
    mode: str
    uid: int
    gid: int
    # Of a file. A large one has time and inode, which only save the reading, and one that is larger still no digest.
    size: int
    sha256: str
    mtime_ns: int | None
    inode: int | None


class Firewalld(TypedDict):
    """Whether firewalld runs, and then what it lets in."""

    running: bool
    default_zone: str
    # As it prints them.
    zones: str


class _Record(TypedDict):
    # Of what was asked for.
    digest: str
    # The version of the collection.
    collection: str
    # Both by kind.
    subjects: dict[str, object]
    evidence: dict[str, dict[str, object]]


class Record(_Record, total=False):
    """What a role left on this host."""

    # Images that the role images has brought before, by id their reference.
    earlier: dict[str, str]


class Differs(TypedDict):
    """A record now: what it was made from, and what differs, as ``KIND SUBJECT``."""

    digest: str
    collection: str
    differs: list[str]


class Host:
    """What the kinds of evidence ask."""

    def __init__(self, programs: Programs, gpus: GpuFacts | None) -> None:
        self.programs = programs
        self.gpus = gpus

    @functools.cached_property
    def packages(self) -> dict[str, str]:
        """Status and version of the host's packages, by name."""
        lines = (line.split("\t") for line in list_packages(self.programs).splitlines())
        return {cells[1]: "{0} {1}".format(cells[0].strip(), cells[2]) for cells in lines if len(cells) == 3}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def describe(path: str, known: Described | None = None) -> Described | None:
    """What there is at a path; None where there is nothing. ``known`` is an earlier description, whose digest may still count."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return {"link": os.readlink(path)}
        found: Described = {"mode": oct(status.st_mode), "uid": status.st_uid, "gid": status.st_gid}
        if not stat.S_ISREG(status.st_mode):
            return found
        found["size"] = status.st_size
        at: Described = {"mtime_ns": status.st_mtime_ns, "inode": status.st_ino}
        if status.st_size > READ_AT_MOST_BYTES:
            return {**found, **at}
        if status.st_size > READ_ALWAYS_BYTES:
            same = known and all(known.get(name) == value for name, value in [*at.items(), ("size", status.st_size)])
            found["sha256"] = known["sha256"] if known and same else sha256_of(path)
            # A file that was copied back is the same file.
            before = known or at
            return {**found, "mtime_ns": before.get("mtime_ns"), "inode": before.get("inode")}
        return {**found, "sha256": sha256_of(path)}
    except OSError:
        return None


def paths(subjects: Sequence[str], _host: Host, known: Mapping[str, Described]) -> dict[str, Described | None]:
    """Files, links and folders, and paths where nothing is."""
    return {path: describe(path, known.get(path)) for path in subjects}


def trees(subjects: Sequence[str], _host: Host, known: Mapping[str, Described]) -> dict[str, Described | None]:
    """Folders with all that is below them."""
    found: dict[str, Described | None] = {}
    for top in subjects:
        found[top] = describe(top, known.get(top))
        for folder, folders, files in os.walk(top):
            for name in sorted([*folders, *files]):
                path = os.path.join(folder, name)
                found[path] = describe(path, known.get(path))
    return found


def environments(subjects: Sequence[str], _host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """Python environments that were made here: whether each is as it was made."""
    return {path: {"whole": is_whole(path)} for path in subjects}


def links(subjects: Sequence[str], _host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """The links of a pattern, such as /usr/local/bin/*, that lead below a folder: ``PATTERN -> FOLDER``."""
    found: dict[str, object] = {}
    for subject in subjects:
        pattern, _arrow, folder = subject.partition(" -> ")
        for path in sorted(glob.glob(pattern)):
            if os.path.islink(path) and os.readlink(path).startswith(folder + "/"):
                found[path] = {"link": os.readlink(path)}
    return found


def settings(subjects: Mapping[str, object], _host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """Some keys of a JSON file whose other keys belong to others, by path: a mapping with the shape of what is looked at."""
    found: dict[str, object] = {}
    for path, shape in subjects.items():
        try:
            content = read_json(read(path) or "null")
        except ValueError:
            content = None
        found[path] = {"mode": mapping(describe(path)).get("mode"), "values": _shaped(content, shape)}
    return found


def _shaped(content: object, shape: object) -> object:
    if not isinstance(shape, Mapping) or not shape or not isinstance(content, Mapping):
        return content
    return {key: _shaped(content.get(key), part) for key, part in shape.items()}


def distrusted(subjects: Sequence[str], _host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """Files of these folders that are not as they arrived, found by the timer that reads them again."""
    return {
        folder: sorted(path for path, known in read_state(folder).items() if known.get("stamp") is None)
        for folder in subjects
    }


def units(subjects: Sequence[str], host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """Whether units of systemd run, are enabled, and are those whose files were read."""
    if not subjects:
        return {}
    out = host.programs.answer("systemctl", "show", "--property", ",".join(UNIT_PROPERTIES), "--", *subjects)
    answers = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in out.strip().split("\n\n")]
    if len(answers) != len(subjects):
        return dict.fromkeys(subjects)
    return dict(zip(subjects, answers))


def packages(subjects: Sequence[str], host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """Packages with their status (held or not) and version; None where one is not known."""
    return {name: host.packages.get(name) for name in subjects}


def groups(subjects: Sequence[str], _host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """Whether groups of users exist."""
    there = {entry.gr_name for entry in grp.getgrall()}
    return {name: name in there for name in subjects}


def driver(_subjects: Sequence[str], host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """The driver that is loaded and the one that is installed with its packages, and the GPUs that it shows."""
    gpus = host.gpus
    if gpus is None:
        return {}
    found = {name: gpus["driver"].get(name) for name in ("installed", "loaded", "kernel_module", "mismatch")}
    cards = [[gpu["name"], gpu["uuid"], gpu["memory_mib"]] for gpu in gpus["gpus"]]
    parts = {name: said for name, said in host.packages.items() if is_driver_package(name)}
    return {"driver": {**found, "source": gpus["source"]}, "gpus": cards, "packages": parts}


def images(subjects: Sequence[str], _host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """The ids of images, by reference."""
    return {name: (ask_engine("/images/{0}/json".format(name)) or {}).get("Id") for name in subjects}


def given(settings: object) -> object:
    """Settings without those that are empty: an engine that restarts reads null as an empty list, and no other setting has become another."""
    if isinstance(settings, dict):
        found = {key: given(value) for key, value in settings.items()}
        return {key: value for key, value in found.items() if value not in (None, False, 0, "", [], {})}
    return settings


def is_on_request(said: Mapping[str, object]) -> bool:
    """Whether a container, as the engine describes it, is started when somebody asks for its server."""
    return mapping(mapping(said.get("Config")).get("Labels")).get(ON_REQUEST) == "true"


def containers(subjects: Sequence[str], _host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """What containers are made from, and whether they run; None where there is none."""
    found: dict[str, object] = {}
    for name in subjects:
        said = ask_engine("/containers/{0}/json".format(name))
        if said is None:
            found[name] = None
            continue
        made = json.dumps(given({key: said.get(key) for key in CONTAINER_SETTINGS}), sort_keys=True)
        state = said.get("State") or {}
        runs = bool(state.get("Running")) and not state.get("Restarting") and not state.get("Paused")
        # One that is started on request may be asleep.
        runs = runs or (state.get("Status") in ("created", "exited") and is_on_request(said))
        found[name] = {"image": said.get("Image"), "settings": digest(made.encode()), "runs": runs}
    return found


def _started(name: str, programs: Programs) -> float | None:
    """When a service of systemd or a container was started, in seconds since 1970 by the clock as it is set now; None if it does not run."""
    if name.endswith(".service"):
        said = programs.answer("systemctl", "show", "--property", "ExecMainStartTimestampMonotonic,MainPID", "--", name)
        found = dict(line.partition("=")[::2] for line in said.splitlines())
        since = digits(found.get("ExecMainStartTimestampMonotonic"))
        if found.get("MainPID", "0") == "0" or since is None:
            return None
        # Since boot, which no setting of the clock moves.
        return time.time() - time.monotonic() + since / 1e6
    state = (ask_engine("/containers/{0}/json".format(name)) or {}).get("State") or {}
    born = _born(int(state.get("Pid") or 0)) if state.get("Running") else None
    return None if born is None else time.time() - time.monotonic() + born


def _born(pid: int) -> float | None:
    """When a process started, in seconds since boot; None where there is none. The engine's own time is that of a clock that may have been set."""
    try:
        with open("/proc/{0}/stat".format(pid), encoding="utf-8", errors="replace") as stream:
            ticks = stream.read().rpartition(")")[2].split()[19]  # field 22 of proc(5), counted behind the name
    except OSError:
        return None
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def started(subjects: Mapping[str, Sequence[str]], host: Host, known: Mapping[str, object]) -> dict[str, object]:
    """Whether services and containers were started after the files were written that they read then.

    A role ends with a restart where it wrote one of them. One that was ended before leaves files as they should be, and a process that has read
    others. What does not run has read none.
    """
    found: dict[str, object] = {}
    for name, files in subjects.items():
        since = _started(name, host.programs) if name in known else None
        written = [os.lstat(path).st_mtime for path in files if os.path.lexists(path)]
        # The clock was set back since a file was written that is of tomorrow: nobody knows when it was.
        found[name] = {"has_read": since is None or all(moment <= since for moment in written if moment <= time.time())}
    return found


def runtimes(subjects: Sequence[str], _host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """The runtimes of containers that the running engine knows."""
    there = (ask_engine("/info") or {}).get("Runtimes") or {}
    return {name: name in there for name in subjects}


def firewalld(programs: Programs) -> Firewalld:
    """Whether firewalld runs, and then what it lets in: not to know that would be worse than to fail."""
    found: Firewalld = {"running": False, "default_zone": "", "zones": ""}
    systemctl = programs.path("systemctl")
    if systemctl and programs.run([systemctl, "is-active", "firewalld.service"])[0] == 0:
        found["running"] = True
        found["default_zone"], found["zones"] = (
            programs.run(["firewall-cmd", question], must_succeed=True)[1].rstrip("\n")
            for question in ("--get-default-zone", "--list-all-zones")
        )
    return found


def tables(subjects: Sequence[str], host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """The tables of nftables in force, without their counters; None where there is none."""
    found: dict[str, object] = {}
    for name in subjects:
        said = host.programs.answer("nft", "list", "table", "inet", name)
        found[name] = digest(COUNTERS.sub("counter", said).encode()) if said else None
    return found


def firewalls(subjects: Sequence[str], host: Host, _known: Mapping[str, object]) -> dict[str, object]:
    """The rules of ufw and firewalld in force."""
    rules = {
        "ufw": lambda: host.programs.answer("ufw", "status", "numbered"),
        "firewalld": lambda: json.dumps(firewalld(host.programs), sort_keys=True),
    }
    return {name: digest(rules[name]().encode()) for name in subjects}


def probes(subjects: Sequence[str], _host: Host, known: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Whether all is well that the probe with this state watches, each by a name of its own.

    A role leaves a deployment that has just generated a token. Afterwards it is the probe that knows: a server that loads, waits or fails, or
    that nobody has looked at since the host was started, is not what was left. What the probe said before that token says nothing
    about the time after it, so ``seen_ns`` keeps the time of that state.
    """
    found: dict[str, object] = {}
    for path in subjects:
        try:
            state = read_json(read(path) or "{}")
            written_ns = os.stat(path).st_mtime_ns
        except (OSError, ValueError):
            state, written_ns = {}, None
        kinds = [one.get("kind") for one in state.values() if isinstance(one, dict)] if isinstance(state, dict) else []
        kinds = [kind for kind in kinds if kind]
        before = known.get(path)
        seen_ns = before.get("seen_ns") if before else written_ns
        same = written_ns is not None and written_ns == seen_ns
        well = before is None or same or (bool(kinds) and all(kind in WELL for kind in kinds))
        found[path] = {"well": well, "seen_ns": seen_ns}
    return found


# Each is called with subjects, the host, and what is known of this kind.
KINDS: dict[str, Callable[..., Mapping[str, object]]] = {
    "paths": paths,
    "trees": trees,
    "environments": environments,
    "links": links,
    "settings": settings,
    "distrusted": distrusted,
    "units": units,
    "packages": packages,
    "groups": groups,
    "driver": driver,
    "images": images,
    "containers": containers,
    "started": started,
    "runtimes": runtimes,
    "tables": tables,
    "firewalls": firewalls,
    "probes": probes,
}


def collect(
    subjects: Mapping[str, object], host: Host, known: Mapping[str, Mapping[str, object]] | None = None
) -> dict[str, dict[str, object]]:
    """The evidence of these subjects, by kind. ``known`` is earlier evidence, which saves reading large files again."""
    found = {}
    for kind, asked in subjects.items():
        said = KINDS[kind](asked, host, (known or {}).get(kind) or {})
        # As it is after a way through JSON, so that it compares.
        found[kind] = json.loads(json.dumps(said))
    return found


def differences(before: Mapping[str, Mapping[str, object]], now: Mapping[str, Mapping[str, object]]) -> list[str]:
    """What differs, as ``KIND SUBJECT``."""
    found = []
    for kind in sorted({*before, *now}):
        was, is_now = before.get(kind) or {}, now.get(kind) or {}
        found += [
            "{0} {1}".format(kind, subject)
            for subject in sorted({*was, *is_now})
            if was.get(subject) != is_now.get(subject) or (subject in was) != (subject in is_now)
        ]
    return found


def write_record(folder: str, role: str, content: Mapping[str, object]) -> bool:
    """Write a role's record in one step, readable by root only. Returns whether it is another one than before."""
    text = json.dumps({"format": FORMAT, **content}, indent=1, sort_keys=True) + "\n"
    path = os.path.join(folder, role + ".json")
    if read_record(path) == json.loads(text):
        return False
    write_private(path, text)
    return True


def brought_before(record: Mapping[str, object] | None) -> dict[str, str]:
    """The images that the role images has brought to this host so far, by id their reference: what the record that is replaced names, and what that
    one knew of earlier ones. By it a cleanup knows later whose an image is that nobody names any more."""
    earlier = (record or {}).get("earlier")
    found = dict(earlier) if isinstance(earlier, dict) else {}
    evidence = (record or {}).get("evidence")
    named = evidence.get("images") if isinstance(evidence, dict) else None
    found.update({image: name for name, image in named.items() if image} if isinstance(named, dict) else {})
    return dict(list(found.items())[-MOST_EARLIER:])


def recorded_names(host_dir: str) -> list[str]:
    """The containers and units, these without their ending, that any record of this host names: those of the machine and of each deployment."""
    found = set()
    for path in glob.glob(os.path.join(glob.escape(host_dir), "records", "*.json")) + glob.glob(
        os.path.join(glob.escape(host_dir), "deployments", "*", "records", "*.json")
    ):
        subjects = (read_record(path) or {}).get("subjects")
        for kind in ("containers", "units"):
            names = subjects.get(kind) if isinstance(subjects, dict) else None
            found |= {str(name) for name in names} if isinstance(names, list) else set()
    return sorted(name[: -len(".service")] if name.endswith(".service") else name for name in found)


def read_record(path: str) -> dict[str, Any] | None:
    """A record as it was written; None for one that somebody else could have written, or that cannot be read or understood."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None
        with open(path, encoding="utf-8") as stream:
            content = load_json(stream)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("format") == FORMAT else None


def verify_records(folder: str, host: Host) -> dict[str, Differs]:
    """What has become of each role's record."""
    found: dict[str, Differs] = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        record = read_record(path)
        if record is None:
            continue
        role = os.path.basename(path)[: -len(".json")]
        try:
            before = record["evidence"]
            differs = differences(before, collect(record["subjects"], host, before))
            found[role] = {"digest": record["digest"], "collection": record["collection"], "differs": differs}
        except (KeyError, TypeError, AttributeError, ValueError):
            continue  # of another collection: it counts as none
    return found


def make_record(subjects: Mapping[str, object], host: Host, made_from: str, collection: str) -> Record:
    """A record of what there is now."""
    return {
        "digest": made_from,
        "collection": collection,
        "subjects": dict(subjects),
        "evidence": collect(subjects, host),
    }
