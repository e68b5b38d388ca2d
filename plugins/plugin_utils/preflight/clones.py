# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that were copied from one image, and still take themselves for the same one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import Findings

Told = Callable[[Hosts, str], str]


def _identity(hosts: Hosts, host: str) -> str:
    """That of a machine. A container may have taken over the identity of the machine around it."""
    found = hosts.found(host, "host")
    return "" if found.get("container") else str(found.get("machine_id") or "")


def _name(hosts: Hosts, host: str) -> str:
    return str((hosts.found(host, "host").get("name") or {}).get("name") or "")


# What tells hosts apart, by the code of what is said where it does not.
TOLD: dict[str, Told] = {"hosts_same_machine_id": _identity, "hosts_same_name": _name}


def clone_findings(hosts: Hosts, everybody: Sequence[str]) -> Findings:
    """Machines with one identity or one name. Hosts of the inventory that share a machine count once."""
    for code, told in TOLD.items():
        alike: dict[str, list[str]] = {}
        for host in everybody:
            first = (hosts.get(host, "sharing") or [host])[0]
            if told(hosts, host) and (host == first or first not in everybody):
                alike.setdefault(told(hosts, host), []).append(host)
        for said, mine in alike.items():
            if len(mine) > 1:
                yield hosts.finding(code, mine, said, names=hosts.names(mine))
