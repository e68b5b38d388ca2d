# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the clocks of hosts are apart, from one question to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import number
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Hosts, amount
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR, WARNING, Findings

# A certificate begins so long before it is made (gateway/tls.py): on hosts that are further behind the controller it is not valid yet.
CONTROLLER_SECONDS = 3600


# Signed lists of packages and tokens of others bear less (apt-secure(8), Acquire::Max-FutureTime): from here on it is worth a word.
NOTED_SECONDS = 300


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


def controller_off(clock: Mapping[str, object] | None, limit: float = CONTROLLER_SECONDS) -> float:
    """How many seconds a host is ahead of the controller at least; 0 where certificates that are made on the controller are good on the host."""
    if not clock:
        return 0
    off = number(clock["offset_seconds"])
    least = abs(off) - number(clock["uncertainty_seconds"])
    return (least if off > 0 else -least) if least > limit else 0


def clock_findings(hosts: Hosts, everybody: Sequence[str]) -> Findings:
    clocks = {host: hosts.found(host, "host").get("clock") for host in everybody}
    limit = amount(hosts.limits.get("clock_limit_seconds"))
    middle, apart = clocks_apart({host: clock for host, clock in clocks.items() if clock}, limit)
    if seconds := controller_off(clocks.get(middle), NOTED_SECONDS):
        severity = ERROR if controller_off(clocks.get(middle)) else WARNING
        values = {"severity": severity, "host": middle, "limit": str(NOTED_SECONDS)}
        yield hosts.finding("clock_of_controller", [middle], value=f"{-seconds:+.0f} s", **values)
    for host, seconds in apart.items():
        yield hosts.finding("clock_differs", [host], value=f"{seconds:+.1f} s", host=host, middle=middle, limit=limit)
