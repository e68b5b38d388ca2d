# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the clocks of hosts are apart, from one question to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Hosts, amount
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import Findings


def clock_offset(theirs: float, before: float, after: float) -> dict[str, float]:
    """How far their clock is ahead of ours, if they looked at it at some moment between two looks at ours."""
    return {
        "offset_seconds": round(theirs - (before + after) / 2, 3),
        "uncertainty_seconds": round((after - before) / 2, 3),
    }


def clocks_apart(clocks: Mapping[str, Mapping[str, float]], limit_seconds: float) -> tuple[str, dict[str, float]]:
    """The host in the middle, and how far at least those are off from it that are off by more than the limit.

    Ahead is positive. What the measurement itself may be wrong by is on the host's side.
    """
    if not clocks:
        return "", {}
    order = sorted(clocks, key=lambda host: (clocks[host]["offset_seconds"], host))
    # Of two in the middle, the one that is nearer to the controller's clock.
    middle = min(
        order[(len(order) - 1) // 2], order[len(order) // 2], key=lambda host: abs(clocks[host]["offset_seconds"])
    )
    apart: dict[str, float] = {}
    for host, clock in clocks.items():
        off = clock["offset_seconds"] - clocks[middle]["offset_seconds"]
        doubt = clock["uncertainty_seconds"] + clocks[middle]["uncertainty_seconds"]
        least = abs(off) - doubt
        if least > limit_seconds:
            apart[host] = round(least if off > 0 else -least, 1)
    return middle, apart


# How far the clocks of all hosts may be off together: certificates and lists of packages are valid from the moment on at which they were made, and
# those who make them leave about so much. https://cabforum.org (dates), apt-secure(8) (Date, Acquire::Max-FutureTime is 10 s)
CONTROLLER_LIMIT_SECONDS = 300


def clock_findings(hosts: Hosts, everybody: Sequence[str]) -> Findings:
    asked = {host: hosts.found(host, "host").get("clock") for host in everybody}
    clocks = {host: clock for host, clock in asked.items() if clock}
    limit = amount(hosts.limits.get("clock_limit_seconds"))
    middle, apart = clocks_apart(clocks, limit)
    for host, seconds in apart.items():
        yield hosts.finding("clock_differs", [host], value=f"{seconds:+.1f} s", host=host, middle=middle, limit=limit)
    if not middle:
        return
    off, doubt = clocks[middle]["offset_seconds"], clocks[middle]["uncertainty_seconds"]
    if abs(off) - doubt > max(CONTROLLER_LIMIT_SECONDS, limit):
        same = [host for host in clocks if host not in apart]
        said, most = hosts.names(same), CONTROLLER_LIMIT_SECONDS
        yield hosts.finding("clock_of_controller", same, value=f"{off:+.1f} s", names=said, host=middle, limit=most)
