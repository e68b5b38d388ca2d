# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passing files on from host to host: who takes part, what the controller hands over, and who hands it over to whom.

The controller sends about one copy. It is cut into segments, and each of its workers, one a host, takes the next segment that nobody has taken yet
for its own host: a slow host takes few of them, and one that is gone none. Hosts exchange all the rest among themselves. A segment of which a
host still lacks something long after it was taken is taken again, so that neither a slow host nor one that died keeps the others waiting.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NotRequired, TypedDict, TypeVar

from ansible_collections.baremetal.llm.plugins.module_utils._fanout import Status
from ansible_collections.baremetal.llm.plugins.module_utils._pieces import piece_bytes, piece_count
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import Item

MIB = 1 << 20
# A smaller file takes less time to be sent to each host than it takes to be passed on.
SMALLEST_BYTES = 8 * MIB
SESSIONS = 4
# Whom a host talks to at most: in a large cluster nobody needs to know everybody.
MOST_PEERS = 24
SMALLEST_SEGMENT_BYTES, LARGEST_SEGMENT_BYTES = 4 * MIB, 64 * MIB
# How many segments there are for each host, so that a slow one has taken none for long.
SEGMENTS_A_HOST = 8
POLL_SECONDS = 2.0
AGAIN_SECONDS = 12.0
STALLED_SECONDS = 90.0

# libtorrent (BSD) has wheels for glibc 2.17 and later on x86_64: https://pypi.org/project/libtorrent/2.1.1/#files, and for Python 3.8
# https://pypi.org/project/libtorrent/2.0.9/#files
LIBTORRENT = {"3.8": "2.0.9", **dict.fromkeys(("3.9", "3.10", "3.11", "3.12", "3.13"), "2.1.1")}

FANOUT, COPY, EXISTS = "fanout", "copy", "exists"
MODES = (FANOUT, COPY, EXISTS)


class File(TypedDict):
    """A file below the folder of its kind; where the controller has it, empty where it has not; and its session."""

    path: str
    size: int
    sha256: str
    source: NotRequired[str]
    session: NotRequired[int]
    # Of its pieces (module_utils/_pieces.py).
    root: NotRequired[str]
    layer: NotRequired[str]


Have = Mapping[str, Sequence[Sequence[int]]]
One = TypeVar("One")


class Segment(NamedTuple):
    """Pieces of a file that belong together on their way from the controller."""

    path: str
    start: int
    size: int


@dataclass(frozen=True)
class Looked:
    """What a host said when it was asked: which paths it lacks, where others reach it, and why it cannot take part, if so."""

    missing: Sequence[str]
    address: str
    unfit: str = ""


def is_below(path: str, offers: Iterable[str]) -> bool:
    """Whether a path is one of these or lies below one of them, without leaving it."""
    return ".." not in path.split("/") and any(path == one or path.startswith(one + "/") for one in offers)


def wheel_items() -> list[Item]:
    """What a bundle has to hold so that hosts can pass files on, whichever of these Pythons they have."""
    return [
        {
            "kind": "python",
            "path": f"python/fanout/{python}",
            "source": f"pip:{python}",
            "packages": [f"libtorrent=={release}"],
            "fields": {"fanout_python": python},
        }
        for python, release in LIBTORRENT.items()
    ]


def participants(looked: Mapping[str, Looked], wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """Of the hosts those that exchange files, in the order of the play; nobody where less than two could.

    ``wanted`` has for each host the paths that it shall have. A host that lacks nothing takes part where it has what another one lacks.
    """
    able = [host for host, one in looked.items() if one.address and not one.unfit]
    lacked = {path for host in able for path in looked[host].missing}
    found = [host for host in able if lacked.intersection(wanted[host])]
    return found if lacked and len(found) > 1 else []


class Standing(TypedDict):
    """What the engine of a host has of the images that the host needs, by reference, and whether it can pass images on."""

    missing: Sequence[str]
    present: Sequence[str]
    exchanges: bool


class ImageWays(TypedDict):
    """Of the images of a host those that it pulls from a registry, gives to other hosts, and takes from another host."""

    pull: list[str]
    give: list[str]
    take: list[str]


def image_ways(hosts: Mapping[str, Standing], host: str) -> ImageWays:
    """How a host without a bundle gets its images. One host gives an image: the first that has it, or, where two or more lack it, the first of these.

    An image that is named by a digest is pulled: an engine knows it by that name only where it came from a registry.
    """
    found: ImageWays = {"pull": [], "give": [], "take": []}
    mine = hosts[host]
    for reference in (*mine["missing"], *mine["present"]):
        able = [name for name, one in hosts.items() if one["exchanges"] and "@" not in reference]
        takers = [name for name in able if reference in hosts[name]["missing"]]
        having = [name for name in able if reference in hosts[name]["present"]]
        giver = (having or takers)[0] if len(takers) > (0 if having else 1) else ""
        if host == giver:
            found["give"].append(reference)
        if reference in mine["missing"]:
            found["take" if giver and host in takers and host != giver else "pull"].append(reference)
    return found


def in_sessions(files: Iterable[File], most: int = SESSIONS) -> list[File]:
    """The files with the ``session`` that each belongs to, so that all have about the same to do: one network thread is the limit of each."""
    load = [0] * most
    found: list[File] = []
    for file in files:
        session = load.index(min(load))
        load[session] += file["size"]
        found.append({**file, "session": session})
    return found


def session_count(files: Sequence[File]) -> int:
    """How many sessions these files need."""
    return 1 + max((file["session"] for file in files), default=0)


def neighbours(hosts: Sequence[One], at: int, most: int = MOST_PEERS) -> list[One]:
    """Whom the host at this place talks to: everybody or, where there are many, those at distances that double, both ways, and those beside them.

    Whoever is somebody's neighbour has that one as a neighbour, too, and each host is a few steps away from all others.
    """
    count = len(hosts)
    if count - 1 <= most:
        return [host for place, host in enumerate(hosts) if place != at]
    distances: dict[int, None] = {}
    step = 1
    while step <= count // 2:
        distances[step] = None
        step *= 2
    distances.update(dict.fromkeys(range(1, count // 2)))
    chosen = list(distances)[: most // 2]
    places = [(at + sign * distance) % count for distance in chosen for sign in (1, -1)]
    return [hosts[place] for place in dict.fromkeys(places) if place != at]


def segment_bytes(total: int, hosts: int) -> int:
    """How large segments are: a multiple of every size of pieces."""
    size = SMALLEST_SEGMENT_BYTES
    while size < LARGEST_SEGMENT_BYTES and size * SEGMENTS_A_HOST * hosts < total:
        size *= 2
    return size


def segments(files: Sequence[File], have: Iterable[Have], hosts: int) -> list[Segment]:
    """What no host has any piece of, in the order of the files. ``have`` has for each host its ranges of pieces by path."""
    there: dict[str, set[int]] = {}
    for one in have:
        for path, ranges in one.items():
            for first, last in ranges:
                there.setdefault(path, set()).update(range(first, last + 1))
    lacking = {
        file["path"]: [
            number for number in range(piece_count(file["size"])) if number not in there.get(file["path"], ())
        ]
        for file in files
    }
    total = sum(piece_bytes(file["size"]) * len(lacking[file["path"]]) for file in files)
    most = segment_bytes(total, hosts)
    found: list[Segment] = []
    for file in files:
        piece, size = piece_bytes(file["size"]), file["size"]
        most_here = max(most, piece)
        for number in lacking[file["path"]]:
            start, length = number * piece, min(piece, size - number * piece)
            before = found[-1] if found else None
            if before and before[:2] == (file["path"], start - before.size) and before.size < most_here:
                found[-1] = before._replace(size=before.size + length)
            else:
                found.append(Segment(file["path"], start, length))
    return found


def lacks(segment: Segment, size: int, have: Sequence[Sequence[int]]) -> bool:
    """Whether a host with these ranges of pieces lacks some of a segment of a file of this size."""
    piece = piece_bytes(size)
    first, last = segment.start // piece, (segment.start + segment.size - 1) // piece
    return not any(begin <= first and last <= end for begin, end in have)


class Claims:
    """Which segment was taken when: files in a folder of the controller, because its workers are processes of their own."""

    def __init__(self, folder: str, count: int) -> None:
        self.folder, self.count, self.position = folder, count, 0

    def next(self) -> int | None:
        """The next segment that nobody has taken, which is taken now."""
        while self.position < self.count:
            number, self.position = self.position, self.position + 1
            if self._take(number, 0):
                return number
        return None

    def again(self, number: int, after: float) -> bool:
        """Take a segment again that was last taken so many seconds ago, or never; of several who want that at once, one gets it."""
        if self._take(number, 0):
            return True
        turn = 0
        while os.path.exists(self._path(number, turn + 1)):
            turn += 1
        age = time.time() - os.stat(self._path(number, turn)).st_mtime
        return age >= after and self._take(number, turn + 1)

    def _path(self, number: int, turn: int) -> str:
        return os.path.join(self.folder, f"{number}.{turn}")

    def _take(self, number: int, turn: int) -> bool:
        try:
            os.close(os.open(self._path(number, turn), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        return True


class Handed(Status):
    """The last status of a host, the bytes that were handed over to it, and the paths that it lacks."""

    handed: int
    left: list[str]


class Brought(Status):
    """What is kept of it; where nothing was handed over, only the status. ``took`` are seconds since the run began."""

    handed: NotRequired[int]
    took: NotRequired[float]


class Figures(TypedDict):
    """Of a fan-out: seconds by host, bytes that the controller has sent, and how many copies that are."""

    seconds: dict[str, float]
    handed: int
    copies: float
    cpu_seconds_per_gib: float
    mib_per_second: float


@dataclass
class Ways:
    """How a worker reaches its host: hand a segment over, ask for its status, and tell people. OSError where that fails."""

    put: Callable[[Segment], None]
    ask: Callable[[], Status]
    tell: Callable[[Status], None] = lambda status: None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    poll_seconds: float = POLL_SECONDS
    again_seconds: float = AGAIN_SECONDS
    stalled_seconds: float = STALLED_SECONDS


def hand_on(
    plan: Sequence[Segment], claims: Claims, sizes: Mapping[str, int], wanted: Sequence[str], ways: Ways
) -> Handed:
    """What one worker does for its host until that has every wanted path, or nothing moves any more. Returns its last status, with ``handed``, the
    bytes that were handed over, and ``left``, the paths that it lacks.

    Of the plan, what claims count is handed over once in any case. A worker whose host gets nothing any more takes what that host lacks, the rest of
    the plan included: other hosts were to have it, and did not pass it on."""
    handed, asked, moved, before, slowest = 0, float("-inf"), ways.clock(), -1, 0.0
    status: Status  # the first round asks for it
    while True:
        number = claims.next()
        if number is None or ways.clock() - asked >= ways.poll_seconds:
            status, asked = ways.ask(), ways.clock()
            ways.tell(status)
            now = status["received"] + status["slices"] + handed
            if now != before:
                moved, before = ways.clock(), now
        left = [path for path in wanted if not status["files"][path]["done"]]
        idle = ways.clock() - moved
        if number is None:
            if not set(left) - set(status["wrong"]):
                break
            # Over a slow link other workers take as long as this one.
            after = max(ways.again_seconds, 3 * slowest)
            # What still moves may bring it; who has waited for one answer in vain is kept waiting by somebody.
            within = plan if idle >= after else plan[: claims.count] if idle >= ways.poll_seconds else []
            number = _overdue(within, claims, sizes, status, left, after)
        if number is not None:
            began = ways.clock()
            ways.put(plan[number])
            slowest = max(slowest, ways.clock() - began)
            handed += plan[number].size
        elif idle > ways.stalled_seconds:
            break
        else:
            ways.sleep(min(ways.poll_seconds / 4, 1.0))
    return {**status, "handed": handed, "left": left}


def _overdue(
    plan: Sequence[Segment],
    claims: Claims,
    sizes: Mapping[str, int],
    status: Status,
    left: Sequence[str],
    after: float,
) -> int | None:
    for number, segment in enumerate(plan):
        lacking = segment.path in left and lacks(segment, sizes[segment.path], status["files"][segment.path]["have"])
        if lacking and claims.again(number, after):
            return number
    return None


def apart(
    reached: Mapping[str, Iterable[str]], addresses: Mapping[str, str], peers: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """Pairs of hosts that should have talked to each other and did not, neither way: by host the addresses that it reached."""
    seen = {host: set(found) for host, found in reached.items()}
    return [
        [host, other]
        for host, others in peers.items()
        for other in others
        if host < other
        and host in seen
        and other in seen
        and addresses[other] not in seen[host]
        and addresses[host] not in seen[other]
    ]


def figures(statuses: Mapping[str, Brought], size: int, seconds: float) -> Figures:
    """What a fan-out took: seconds by host, bytes sent by the controller, CPU-s per GiB that arrived."""
    received = sum(one["received"] + one["slices"] for one in statuses.values())
    cpu = sum(one["cpu_seconds"] for one in statuses.values())
    return {
        "seconds": {host: one["seconds"] for host, one in statuses.items()},
        "handed": sum(one.get("handed", 0) for one in statuses.values()),
        "copies": round(sum(one.get("handed", 0) for one in statuses.values()) / size, 2) if size else 0,
        "cpu_seconds_per_gib": round(cpu / (received / (1 << 30)), 1) if received else 0,
        "mib_per_second": round(size / MIB / seconds, 1) if seconds else 0,
    }
