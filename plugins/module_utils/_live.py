# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on this host at this moment: containers and units of ours, what the engine and the probe say, disks, errors of GPUs, logs.

Runs on a host that may be half dead, so nothing here fails: what cannot be found out is None, or not there. No value of a secret is read.
"""

from __future__ import annotations

import calendar
import fcntl
import glob
import hashlib
import http.client
import json
import os
import re
import socket
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Mapping, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils import _xid as xid
from ansible_collections.baremetal.llm.plugins.module_utils._content import digits, read_json
from ansible_collections.baremetal.llm.plugins.module_utils._discover import versions
from ansible_collections.baremetal.llm.plugins.module_utils._disks import mounts
from ansible_collections.baremetal.llm.plugins.module_utils._engine import (
    ENGINE_SOCKET,
    LABELS,
    ask_engine,
    ask_engine_list,
)
from ansible_collections.baremetal.llm.plugins.module_utils._engines import PROBED
from ansible_collections.baremetal.llm.plugins.module_utils._left import synchronized
from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import Reread, read_state, reread, yield_to_others

# Beginnings of the names of everything of ours.
OURS = "llm-"
# What a start says that tells ranks, places and networks apart. Nothing else of a command line or an environment is read: it may hold a secret.
ARGUMENTS = (
    *("address", "host", "nnodes", "node-ip-address", "node-rank", "num-gpus", "pipeline-parallel-size", "port"),
    *("served-model-name", "tensor-parallel-size"),
)
ENVIRONMENT = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
UNIT_PROPERTIES = "Id,LoadState,ActiveState,SubState,NRestarts,Result,ActiveEnterTimestampMonotonic"
_FIGURE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{[^}]*\})? ([0-9.]+(?:e[+-]?[0-9]+)?)$", re.MULTILINE)
_PENDING = re.compile(r"^\s*(.+?): (\d+)\+? pending placement groups?", re.MULTILINE)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
# Answers that are larger are none of an engine.
MOST_BYTES = 8 << 20
ASK_SECONDS, RAY_SECONDS, LOG_SECONDS = 4, 30, 20
LOG_LINES, LOG_BYTES, MOST_XIDS = 400, 64 << 10, 50
# Folders whose disks matter: the system's, the engine's, ours, logs, and what programs write to meanwhile.
PLACES = ("/", "/var/lib/docker", "/var/log", "/tmp", "/run", "/dev/shm")
# linux/sockios.h and linux/ethtool.h: what a network card's driver says of itself.
_SIOCETHTOOL, _ETHTOOL_GDRVINFO, _DRVINFO_BYTES = 0x8946, 0x3, 196
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_WRONG = (OSError, ValueError, KeyError, TypeError, AttributeError, http.client.HTTPException)


class Container(TypedDict):
    """A container of ours. None is what the engine does not tell."""

    name: str
    image: str | None
    image_id: str | None
    # Labels that begin with our name.
    labels: dict[str, str]
    state: str | None
    exit_code: int | None
    out_of_memory: bool
    restarts: int | None
    # Seconds since 1970.
    started: float | None
    finished: float | None
    # Those that are read: options by name, variables by name.
    arguments: dict[str, str]
    environment: dict[str, str]


class Unit(TypedDict):
    """A unit of ours, as systemd describes it."""

    name: str
    load: str | None
    state: str | None
    sub: str | None
    restarts: int | None
    result: str | None
    # Seconds since 1970.
    started: float | None


class Metrics(TypedDict):
    """What an engine counts; the error is empty where it answered."""

    url: str
    error: str
    figures: dict[str, float]


class Word(TypedDict, total=False):
    """What the probe found out at its last look; the module gather says what each means."""

    kind: str
    said: str | None
    starts: int | None
    restarts: int | None
    failures: int | None
    silence: float | None
    loading: float | None
    served: bool | None
    start_seconds: float | None
    causes: list[object] | None
    # How many seconds ago that was.
    age: float
    counters: dict[str, float]


class Disk(TypedDict):
    """A file system, its room and its inodes."""

    mount: str
    total_bytes: int
    available_bytes: int
    # btrfs and others have no limit, and say 0.
    files: int
    files_free: int


class Xid(TypedDict):
    """An error that the driver has logged."""

    # Seconds since 1970.
    time: float
    bus_id: str
    xid: int
    action: str


class Series(TypedDict):
    """What Prometheus knows of one thing: ``[time, value]`` each."""

    labels: dict[str, str]
    values: list[list[float]]


class Live(TypedDict, total=False):
    """How a host is at this moment; nothing of it where it was not asked."""

    now: float
    # None where no engine answers.
    containers: list[Container] | None
    units: list[Unit]
    versions: dict[str, str]
    # By program.
    probe: dict[str, Word]
    disks: list[Disk]
    # None where there is no journal to be read.
    xids: list[Xid] | None
    clock_synchronized: bool | None
    # By path, without keys.
    certificates: dict[str, str | None]
    # A digest of the files of each.
    models: dict[str, str]
    # By network interface.
    firmware: dict[str, str | None]
    server: Metrics | None
    # By query.
    series: dict[str, list[Series]] | None
    # By program that is not well.
    logs: dict[str, str]
    # What waits in Ray; None where nobody could be asked.
    pending: list[str] | None
    weights: Reread


def moment(text: object) -> float | None:
    """Seconds since 1970 of a time as Docker writes it, 2026-11-27T23:45:12.123Z; None for its way to say never."""
    try:
        found = calendar.timegm(time.strptime(str(text)[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None
    return float(found) if found > 0 else None


def selected(words: Sequence[object], options: Sequence[str] = ARGUMENTS) -> dict[str, str]:
    """The options of a command line that are asked for, from ``--name value`` and ``--name=value``."""
    found: dict[str, str] = {}
    texts = [str(word) for word in words]
    for place, word in enumerate(texts):
        name, equals, value = word[2:].partition("=") if word.startswith("--") else ("", "", "")
        if name in options:
            found[name] = value if equals else texts[place + 1] if place + 1 < len(texts) else ""
    return found


def own_containers(path: str = ENGINE_SOCKET, addresses: Sequence[str] = ()) -> list[Container] | None:
    """Every container of ours, running or not; None where no engine answers. ``addresses`` are variables that tell a server its address."""
    filters = urllib.parse.quote(json.dumps({"name": ["^/?" + OURS]}))
    listed = ask_engine_list("/containers/json?all=1&filters={0}".format(filters), path)
    if listed is None:
        return None
    found = []
    for entry in listed:
        said = ask_engine("/containers/{0}/json".format(entry.get("Id")), path)
        if said:
            found.append(_container(said, (*ENVIRONMENT, *addresses)))
    return sorted(found, key=lambda each: each["name"])


def _container(said: Mapping[str, Any], variables: Sequence[str]) -> Container:
    state, config = said.get("State") or {}, said.get("Config") or {}
    environment = dict(str(line).partition("=")[::2] for line in config.get("Env") or ())
    return {
        "name": str(said.get("Name") or "").lstrip("/"),
        "image": config.get("Image"),
        "image_id": said.get("Image"),
        # That it is the collection's: a name may be anybody's.
        "labels": {name: value for name, value in (config.get("Labels") or {}).items() if name.startswith(LABELS)},
        "state": state.get("Status"),
        "exit_code": state.get("ExitCode"),
        "out_of_memory": bool(state.get("OOMKilled")),
        "restarts": said.get("RestartCount"),
        "started": moment(state.get("StartedAt")),
        "finished": moment(state.get("FinishedAt")),
        "arguments": selected(said.get("Args") or ()),
        "environment": {name: environment[name] for name in variables if name in environment},
    }


def own_units(programs: Programs) -> list[Unit]:
    """Every unit of ours that systemd knows, and those whose file is there."""
    files = {os.path.basename(path) for path in glob.glob("/etc/systemd/system/{0}*.*".format(OURS))}
    names = sorted(name for name in files if name.endswith((".service", ".timer", ".path", ".slice", ".socket")))
    said = programs.answer("systemctl", "show", "--property=" + UNIT_PROPERTIES, "--", *names, OURS + "*")
    found: dict[str, Unit] = {}
    for block in said.strip().split("\n\n"):
        unit = dict(line.partition("=")[::2] for line in block.splitlines())
        since = digits(unit.get("ActiveEnterTimestampMonotonic"))
        if unit.get("Id"):
            found[unit["Id"]] = {
                "name": unit["Id"],
                "load": unit.get("LoadState"),
                "state": unit.get("ActiveState"),
                "sub": unit.get("SubState"),
                "restarts": digits(unit.get("NRestarts")),
                "result": unit.get("Result"),
                # Since boot, which no setting of the clock moves.
                "started": time.time() - time.monotonic() + since / 1e6 if since else None,
            }
    return [found[name] for name in sorted(found)]


def metrics_of(text: str, names: Mapping[str, str]) -> dict[str, float]:
    """What an engine counts, summed up over its labels. ``names`` are ours, by the engine's own."""
    sums: dict[str, float] = {}
    for name, value in _FIGURE.findall(text):
        if name in names:
            sums[names[name]] = sums.get(names[name], 0.0) + float(value)
    return sums


def ask_metrics(url: str, names: Mapping[str, str], key: str = "") -> Metrics:
    """The figures of the engine at an address, some of which tell them only to who has their key."""
    found: Metrics = {"url": url, "error": "", "figures": {}}
    request = urllib.request.Request(url + "/metrics", headers={"Authorization": "Bearer " + key} if key else {})
    try:
        with _NO_PROXY.open(request, timeout=ASK_SECONDS) as answer:
            found["figures"] = metrics_of(answer.read(MOST_BYTES).decode("utf-8", "replace"), names)
    except _WRONG as error:
        found["error"] = "{0}: {1}".format(type(error).__name__, error)
        return found
    if not found["figures"]:
        found["error"] = "no figures of an engine in the answer"
    return found


def probe_option(suffix: str, name: str) -> str:
    """What the probe of a deployment was told; empty where there is none."""
    unit = read("/etc/systemd/system/{0}probe{1}.service".format(OURS, suffix))
    found = re.search(r"--{0}[\"']?[ =][\"']?([^\s\"']+)".format(name), unit)
    return found.group(1) if found else ""


def server_name(suffix: str) -> str:
    """What the server of a deployment is called, after its engine."""
    return (probe_option(suffix, "server") or PROBED) + suffix


def server_url(suffix: str, containers: Sequence[Container], port: int) -> str:
    """Where the server of a deployment answers: as its probe asks it, else as its container was told, else on this host itself."""
    said = probe_option(suffix, "url")
    if said:
        return said
    name = server_name(suffix)
    arguments: dict[str, str] = next((each["arguments"] for each in containers if each["name"] == name), {})
    host = arguments.get("host") or "127.0.0.1"
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return "http://{0}:{1}".format("[{0}]".format(host) if ":" in host else host, arguments.get("port") or port)


def probe_words(path: str) -> dict[str, Word]:
    """What the probe found out at its last look, by container, and how many seconds ago that was."""
    try:
        states = read_json(read(path))
        written = os.stat(path).st_mtime
    except (OSError, ValueError):
        return {}
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    found: dict[str, Word] = {}
    for name, state in states.items() if isinstance(states, dict) else ():
        if isinstance(state, dict) and "kind" in state:
            counters, seen = state.get("counters"), state.get("now")
            age = now - seen if isinstance(seen, (int, float)) else time.time() - written
            found[name] = {
                "kind": state["kind"],
                "said": state.get("said"),
                "starts": state.get("starts"),
                "restarts": state.get("restarts"),
                "failures": state.get("failures"),
                "silence": state.get("silence"),
                "loading": state.get("loading"),
                "served": state.get("served"),
                "start_seconds": state.get("start_seconds"),
                "causes": state.get("causes"),
                "age": max(age, 0.0),
                "counters": counters if isinstance(counters, dict) else {},
            }
    return found


def disks(places: Sequence[str]) -> list[Disk]:
    """The file systems of these folders, each once."""
    return [
        {
            "mount": mount,
            "total_bytes": space.f_blocks * space.f_frsize,
            "available_bytes": space.f_bavail * space.f_frsize,
            "files": space.f_files,
            "files_free": space.f_favail,
        }
        for mount, space in mounts(places)
    ]


def xids(programs: Programs) -> list[Xid] | None:
    """Errors that the driver logged since the boot, the newest last; None where there is no journal to be read."""
    journal = programs.path("journalctl")
    if not journal:
        return None
    words = [journal, *xid.JOURNAL]
    status, out, _err = programs.run([*words, "--grep", xid.LOGGED])
    # It fails without a word where no line fits, and where there is none at all.
    if status != 0 and not programs.run([*words, "--lines", "1"])[1].strip():
        return None
    found = [(at, each) for at, each in xid.logged(out) if at is not None]
    return [
        {"time": at, "bus_id": each.bus_id, "xid": each.number, "action": each.action}
        for at, each in found[-MOST_XIDS:]
    ]


def card_firmware(name: str) -> str | None:
    """The firmware of a network card; None where its driver does not say it."""
    answer = bytearray(_DRVINFO_BYTES)
    struct.pack_into("=I", answer, 0, _ETHTOOL_GDRVINFO)
    try:
        import ctypes

        buffer = (ctypes.c_char * _DRVINFO_BYTES).from_buffer(answer)
        request = struct.pack("16sP16x", name.encode()[:15], ctypes.addressof(buffer))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
            fcntl.ioctl(channel, _SIOCETHTOOL, request)
        del buffer
    except (OSError, ValueError, ImportError):
        return None
    # struct ethtool_drvinfo: cmd, driver[32], version[32], fw_version[32].
    text = bytes(answer[68:100]).split(b"\0")[0].decode("ascii", "replace").strip()
    return text or None


def physical_cards(sysfs_root: str) -> list[str]:
    """The network interfaces that have a device behind them."""
    return sorted(path.split("/")[-2] for path in glob.glob(os.path.join(sysfs_root, "class/net/*/device")))


def certificates(paths: Sequence[str]) -> dict[str, str | None]:
    """The certificates in files, without the keys that may stand beside them; None where there is none."""
    found = {path: _CERTIFICATE.search(read(path)) for path in paths}
    return {path: match.group(0) if match else None for path, match in found.items()}


def models(folder: str) -> dict[str, str]:
    """A digest of the files of each model that arrived on this host, by what the role models noted then."""
    files: dict[str, list[str]] = {}
    for path, known in sorted(read_state(folder).items()):
        files.setdefault(path.split("/")[0], []).append("{0} {1}".format(path, known["sha256"]))
    return {model: hashlib.sha256("\n".join(lines).encode()).hexdigest() for model, lines in files.items()}


def log_of(programs: Programs, name: str, unit: bool) -> str:
    """The end of the log of a container, or of a unit."""
    lines = str(LOG_LINES)
    command = ["docker", "logs", "--tail", lines, name]
    if unit:
        command = ["journalctl", "--no-pager", "--output=cat", "--lines=" + lines, "--unit=" + name]
    program = programs.path(command[0])
    if not program:
        return ""
    _status, out, err = programs.run([program, *command[1:]])
    return (out + err)[-LOG_BYTES:]


def pending_groups(programs: Programs, name: str) -> list[str] | None:
    """What waits in Ray for GPUs that there are not, as ``ray status`` in the head's container says it; None where that does not answer."""
    docker = programs.path("docker")
    if not docker:
        return None
    status, out, _err = programs.run([docker, "exec", name, "timeout", str(RAY_SECONDS), "ray", "status"])
    return [what.strip() for what, _count in _PENDING.findall(out)] if status == 0 else None


def series(url: str, queries: Mapping[str, str], seconds: int, step: int) -> dict[str, list[Series]] | None:
    """What a Prometheus on this host knows of the last time, by query; None where it does not answer."""
    end = int(time.time())
    found: dict[str, list[Series]] = {}
    for name, query in queries.items():
        asked = urllib.parse.urlencode({"query": query, "start": end - seconds, "end": end, "step": step})
        try:
            with _NO_PROXY.open("{0}/api/v1/query_range?{1}".format(url, asked), timeout=ASK_SECONDS) as answer:
                result = read_json(answer.read(MOST_BYTES).decode("utf-8", "replace"))["data"]["result"]
            found[name] = [
                {"labels": each["metric"], "values": [[float(at), float(value)] for at, value in each["values"]]}
                for each in result
            ]
        except _WRONG:
            return None
    return found


def look(options: Mapping[str, Any], programs: Programs, logged: list[Xid] | None, sysfs_root: str = "/sys") -> Live:
    """All of it together. ``options`` are those of the module gather's ``live``, ``logged`` what ``xids`` returns.

    What waits for others waits side by side: a look is as long as its slowest question.
    """
    # Of this host's programs none is worth a long wait: somebody looks at the screen.
    programs = Programs(programs.module, LOG_SECONDS)
    containers = own_containers(addresses=options["addresses"] or ())
    suffix, places = str(options["suffix"] or ""), [*PLACES, *(options["places"] or ())]
    url = server_url(suffix, containers or (), options["port"] or 8000)
    key_file = probe_option(suffix, "key")
    key = read(key_file).strip() if key_file else ""
    with ThreadPoolExecutor() as pool:
        server = pool.submit(ask_metrics, url, options["figures"] or {}, key) if options["head"] else None
        asked = pool.submit(series, "http://127.0.0.1:9090", **options["series"]) if options["series"] else None
        found: Live = {
            "now": time.time(),
            "containers": containers,
            "units": own_units(programs),
            "versions": versions(programs),
            "probe": probe_words(options["probe_state"]),
            "disks": disks(places),
            "xids": logged,
            "clock_synchronized": synchronized(programs),
            "certificates": certificates(options["certificates"] or ()),
            "models": models(options["models_dir"]),
            "firmware": {name: card_firmware(name) for name in physical_cards(sysfs_root)},
            "server": server.result() if server else None,
            "series": asked.result() if asked else None,
        }
    if options["causes"]:
        add_causes(found, programs, suffix)
    if options["verify_weights"]:
        yield_to_others()
        found["weights"] = reread(options["models_dir"])
    return found


def add_causes(found: Live, programs: Programs, suffix: str) -> None:
    """Add logs of the programs that serve, where they are not well, and what waits in Ray."""
    logs: dict[str, str] = {}
    names = [server_name(suffix), OURS + "ray" + suffix]
    for name in names:
        container = next((each for each in found["containers"] or () if each["name"] == name), None)
        unit = next((each for each in found["units"] if each["name"] == name + ".service"), None)
        program, running = container or unit, "running" if container else "active"
        # The probe calls every server by one name.
        word = (found["probe"].get(PROBED if name == names[0] else OURS + "ray") or {}).get("kind")
        if program and (
            program["state"] != running or program["restarts"] or word not in ("serving", "busy", "running", "asleep")
        ):
            logs[name] = log_of(programs, name if container else name + ".service", not container)
    ray = next((each for each in found["containers"] or () if each["name"] == names[-1]), None)
    head = bool(ray and ray["state"] == "running" and "port" in ray["arguments"])
    found["logs"] = logs
    found["pending"] = pending_groups(programs, names[-1]) if head else None
