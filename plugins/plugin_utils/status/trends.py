# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How disks fill: from Prometheus where there is one, else from the earlier looks that the controller keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, TypeGuard

from ansible_collections.baremetal.llm.plugins.module_utils._live import Series
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import Looked

# What is asked of Prometheus, by name: over so long, in such steps. Each host and deployment is a label there (plugin_utils/monitoring/targets.py).
SERIES_SECONDS, SERIES_STEP = 24 * 3600, 900
SERIES = {
    "running": "sum by (deployment) (llm:requests_running)",
    "tokens": "sum by (deployment) (avg_over_time(llm:generation_tokens:rate2m[15m]))",
    "free_bytes": 'node_filesystem_avail_bytes{fstype!~"tmpfs|ramfs|overlay|squashfs"}',
    "free_files": 'node_filesystem_files_free{fstype!~"tmpfs|ramfs|overlay|squashfs"}',
}
# Of earlier looks one an hour is kept, for so many days, and hosts that the inventory has no more are forgotten after that time.
LOOK_SECONDS, KEPT_SECONDS = 3600, 14 * 86400
SCHEMA = 1
# What is shorter says nothing: a model or an image that arrives takes an hour.
LEAST_SECONDS = 6 * 3600
Points = Sequence[tuple[float, float]]


class Look(TypedDict):
    """What was free at a time (seconds since 1970) on each disk: by host and mount point bytes and inodes."""

    time: float
    hosts: dict[str, dict[str, list[int]]]


class Looks(TypedDict):
    """The looks that are kept, the oldest first."""

    schema: int
    looks: list[Look]


# By name of a query.
KnownSeries = Mapping[str, Sequence[Series]]


def kept_looks(before: object, hosts: Sequence[Looked], now: float) -> Looks:
    """What the controller keeps of its looks at disks."""
    looks: list[Look] = list(before["looks"]) if _is_ours(before) else []
    looks = [each for each in looks if now - KEPT_SECONDS <= each["time"] <= now]
    mine: Look = {"time": now, "hosts": {looked.asked.host: _free(looked) for looked in hosts if looked.answered}}
    # Between two that are kept the newest takes the place of the one before it.
    if len(looks) > 1 and looks[-1]["time"] - looks[-2]["time"] < LOOK_SECONDS:
        looks.pop()
    return {"schema": SCHEMA, "looks": [*looks, mine]}


def _is_ours(before: object) -> TypeGuard[Mapping[str, list[Look]]]:
    """Whether somebody else, or another release, wrote it."""
    if not isinstance(before, Mapping) or before.get("schema") != SCHEMA or not isinstance(before.get("looks"), list):
        return False
    return all(
        isinstance(each, Mapping) and isinstance(each.get("time"), (int, float)) and isinstance(each.get("hosts"), dict)
        for each in before["looks"]
    )


def _free(looked: Looked) -> dict[str, list[int]]:
    return {str(disk["mount"]): [disk["available_bytes"], disk["files_free"]] for disk in looked.live["disks"]}


def former_hosts(looks: Looks, named: Sequence[str]) -> dict[str, float]:
    """Hosts of earlier looks that the inventory has no more, with the time when they were seen last."""
    found: dict[str, float] = {}
    for each in looks["looks"]:
        found.update({host: float(each["time"]) for host in each["hosts"] if host not in named})
    return found


def points(
    looks: Looks, series: KnownSeries | None, host: str, mount: str
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """What was free at which time on a disk of a host: bytes, and inodes."""
    if series:
        found = [_points_of(series.get(name) or (), host, mount) for name in ("free_bytes", "free_files")]
        if found[0]:
            return found[0], found[1]
    kept = [(each["time"], (each["hosts"].get(host) or {}).get(mount)) for each in looks["looks"]]
    known = [(at, free) for at, free in kept if isinstance(free, list) and len(free) == 2]
    return [(at, float(free[0])) for at, free in known], [(at, float(free[1])) for at, free in known]


def _points_of(entries: Sequence[Series], host: str, mount: str) -> list[tuple[float, float]]:
    for entry in entries:
        if entry["labels"].get("host") == host and entry["labels"].get("mountpoint") == mount:
            return [(float(at), float(value)) for at, value in entry["values"]]
    return []


def days_until_nothing(found: Points) -> float | None:
    """In how many days nothing is free, if it goes on as it did; None where it does not shrink, or too little is known.

    The slope of the least squares: one file that comes and goes moves it little.
    """
    if len(found) < 2 or found[-1][0] - found[0][0] < LEAST_SECONDS:
        return None
    middle = sum(at for at, _free in found) / len(found), sum(free for _at, free in found) / len(found)
    spread = sum((at - middle[0]) ** 2 for at, _free in found)
    slope = sum((at - middle[0]) * (free - middle[1]) for at, free in found) / spread
    return None if slope >= 0 else found[-1][1] / -slope / 86400


def check_series(series: KnownSeries | None) -> None:
    """Raise TypeError, ValueError or KeyError where what a Prometheus answered is not what is asked of it here."""
    for entries in (series or {}).values():
        for entry in entries:
            dict(entry["labels"]), [(float(at), float(value)) for at, value in entry["values"]]


def deployment_series(series: KnownSeries | None, name: str, deployment: str) -> list[tuple[float, float]]:
    """What Prometheus knows of a deployment; nothing where there is none."""
    for entry in (series or {}).get(name) or ():
        if entry["labels"].get("deployment") == deployment:
            return [(float(at), float(value)) for at, value in entry["values"]]
    return []
