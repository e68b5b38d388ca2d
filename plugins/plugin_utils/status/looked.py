# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory says of a host, what was found there, and in which state that is. Plain data in, plain data out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits, mapping
from ansible_collections.baremetal.llm.plugins.module_utils._engine import ON_REQUEST
from ansible_collections.baremetal.llm.plugins.module_utils._engines import PROBED
from ansible_collections.baremetal.llm.plugins.module_utils._facts import Facts
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import Gpu
from ansible_collections.baremetal.llm.plugins.module_utils._live import Container, Live, Unit, Word

# A word of the probe that is older counts for nothing: its longest look takes about 120 s, and the next one follows soon.
PROBE_SECONDS = 180
# How good a state is.
GOOD, WARNING, BAD, UNKNOWN = "good", "warning", "bad", "unknown"
# Every state of a program that serves: those that the probe says, and those that are seen without one.
STATES = {
    "serving": GOOD,
    "busy": GOOD,
    "running": GOOD,
    "idle": GOOD,
    "asleep": GOOD,
    "refused": WARNING,
    "loading": WARNING,
    "waiting": WARNING,
    "failed": BAD,
    "crashing": BAD,
    "stopped": BAD,
    "absent": BAD,
    "unproved": UNKNOWN,
    "engine_silent": UNKNOWN,
    "silent": UNKNOWN,
    "garbage": UNKNOWN,
}
ANSWERS = ("serving", "busy")
# What comes of a value in the place of another one.
_GARBAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
Made = TypeVar("Made")


@dataclass(frozen=True)
class Asked:
    """What the inventory says of a host. One outside of all deployments has no ``deployment``."""

    host: str
    deployment: str = ""
    head: str = ""
    members: tuple[str, ...] = ()
    # As plugin_utils/deployment/names.py makes them, of this host and of every deployment of its machine.
    names: Mapping[str, object] = field(default_factory=dict)
    served_model: str = ""
    model_folder: str = ""
    # Groups of services that it is in: llm_gateway, llm_monitoring, llm_web_ui.
    services: tuple[str, ...] = ()
    # What containers and units of the machine's other deployments end with.
    suffixes: tuple[str, ...] = ("",)
    # The deployments of the machine.
    deployments: tuple[str, ...] = ()
    watched: bool = False

    @property
    def is_head(self) -> bool:
        return bool(self.deployment) and self.host == self.head


@dataclass(frozen=True)
class Looked:
    """What was found: the facts of gather, or why there are none."""

    asked: Asked
    facts: Facts = field(default_factory=Facts)
    said: str = ""

    @property
    def live(self) -> Live:
        found = self.facts.get("llm_live") or {}
        return found if isinstance(found, Mapping) else {}

    @property
    def gpus(self) -> list[Gpu]:
        return list(self.facts.get("llm_gpus_found") or ())

    @property
    def answered(self) -> bool:
        return bool(self.live)

    def container(self, name: str) -> Container | None:
        return next((each for each in self.live.get("containers") or () if each["name"] == name), None)

    def unit(self, name: str) -> Unit | None:
        """One that is loaded: of a unit that was removed systemd may still know the name."""
        found = (each for each in self.live.get("units") or () if each["name"] == name and each["load"] != "not-found")
        return next(found, None)

    @property
    def program(self) -> tuple[str, Container | Unit | None]:
        """The program of the deployment by which this host is judged, with its name: the server, or what takes part in its cluster."""
        kinds = ("server",) if self.asked.is_head else ("ray", "server")
        names = [str(self.asked.names[kind]) for kind in kinds]
        for name in names:
            found = self.container(name) or self.unit(f"{name}.service")
            if found:
                return name, found
        return names[-1], None

    @property
    def word(self) -> Word:
        """What the probe said of that program at its last look; nothing where that is too old, or there is no probe."""
        name, _found = self.program
        suffix = str(self.asked.names.get("suffix") or "")
        words = self.live.get("probe") or {}
        said = words.get(PROBED) if name == self.asked.names["server"] else None
        said = said or words.get(name.removesuffix(suffix) if suffix else name)
        return said if said and said["age"] <= PROBE_SECONDS else {}


@dataclass(frozen=True)
class State:
    """A state of ``STATES``, the line of the probe or of an error about it, and for how many seconds its program runs; None is unknown."""

    code: str
    said: str = ""
    seconds: float | None = None

    @property
    def grade(self) -> str:
        return STATES[self.code]


def looked_at(asked: Asked, facts: Facts, said: str) -> Looked:
    """A host of whose answer something can be made; facts in which nothing is where it should be are none, and ``said`` tells so."""
    looked = Looked(asked, facts, said)
    if not facts:
        return looked
    try:
        # What rows and checks touch first.
        sizes = [int(disk["total_bytes"]) for disk in looked.live["disks"] if str(disk["mount"])]
        names = [each["name"] for each in [*looked.live["units"], *(looked.live["containers"] or ())] if each["state"]]
        read = (state_of(looked), figures_of(looked), gpu_errors(looked), ranks_of(looked), sizes, names)
        usable = len(read) > 0 and isinstance(looked.facts.get("llm_host"), Mapping)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        usable = False
    return looked if usable else Looked(asked, {}, said or "garbage")


def made_of(hosts: Sequence[Looked], make: Callable[[Sequence[Looked]], Made]) -> Made:
    """What ``make`` makes of these hosts. Where it fails, each host is tried alone, and those with which it fails count as hosts of whose answer nothing
    can be made: what one host says in the wrong place is no other's trouble."""

    def without_garbage(looked: Looked) -> Looked:
        try:
            make([looked])
        except _GARBAGE:
            return Looked(looked.asked, {}, "garbage")
        return looked

    try:
        return make(hosts)
    except _GARBAGE:
        kept = [without_garbage(looked) if looked.answered else looked for looked in hosts]
    return make(kept)


def not_seen(looked: Looked) -> str:
    """Why nothing is known of a host: ``silent``, ``garbage``, or empty."""
    if looked.answered:
        return ""
    return "garbage" if looked.said == "garbage" else "silent"


def state_of(looked: Looked) -> State:
    """The state of what a host does for its deployment."""
    if code := not_seen(looked):
        return State(code, looked.said if code == "silent" else "")
    if not looked.asked.deployment:
        return State("idle")
    _name, program = looked.program
    if program is None:
        return State("engine_silent" if looked.live["containers"] is None else "absent")
    started = program["started"]
    seconds = float(looked.live["now"]) - float(started) if started else None
    if program["state"] == "restarting":
        return State("crashing", "", None)
    if program["state"] in ("created", "exited") and mapping(program.get("labels")).get(ON_REQUEST) == "true":
        return State("asleep")
    if program["state"] not in ("running", "active"):
        status = program.get("exit_code")
        return State("stopped", "" if status is None else f"exit {status}", None)
    word = looked.word
    if not word or word["kind"] not in STATES:
        return State("unproved", str(word.get("said") or ""), seconds)
    return State(str(word["kind"]), str(word.get("said") or ""), seconds)


def last_token(looked: Looked) -> float | None:
    """Seconds since the engine's last token that somebody knows of; None where nobody knows one."""
    word = looked.word if looked.answered and looked.asked.is_head else {}
    if not word:
        return None
    if word["kind"] in ANSWERS:
        return float(word["age"])
    if word["kind"] == "failed" and word.get("served"):
        return float(word["age"]) + float(word.get("silence") or 0)
    return None


def figures_of(looked: Looked) -> Mapping[str, float]:
    """What the engine counts; nothing where it does not answer."""
    server = looked.live.get("server") if looked.answered else None
    return server["figures"] if server else {}


def ranks_of(looked: Looked) -> list[int] | None:
    """The ranks on a host where its program says them; None where only Ray knows."""
    if not looked.answered or not looked.asked.deployment:
        return None
    server = looked.container(str(looked.asked.names["server"]))
    told = server["arguments"] if server else {}
    if len(looked.asked.members) == 1:
        return list(range(len(looked.gpus))) if looked.program[1] else []
    nodes = digits(str(told.get("nnodes") or ""))
    if "node-rank" in told and nodes:
        sizes = [int(told.get(name) or 1) for name in ("tensor-parallel-size", "pipeline-parallel-size")]
        each = sizes[0] * sizes[1] // nodes
        first = int(told["node-rank"]) * each
        return list(range(first, first + each))
    return None


def gpu_errors(looked: Looked) -> int | None:
    """Errors that the cards and their driver know of since the boot; None where one of them does not tell and the other knows none."""
    if not looked.answered or not looked.gpus:
        return None
    counts = [gpu["ecc"]["volatile"]["uncorrected"] for gpu in looked.gpus]
    logged = looked.live.get("xids")
    known = sum(count or 0 for count in counts) + len(logged or ())
    # Cards without error correction have nothing to tell.
    return None if logged is None and not known else known


def machines_once(hosts: Sequence[Looked], key: Callable[[Looked], str]) -> list[Looked]:
    """Of the names of a machine the first that answered."""
    found: dict[str, Looked] = {}
    for looked in hosts:
        if looked.answered:
            found.setdefault(key(looked), looked)
    return list(found.values())
