# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a run of day two is about: what ``llm_target`` names, and what it stops there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import ROOT_GROUP, SERVICE_GROUPS
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

ALL = "all"


@dataclass(frozen=True)
class Target:
    """``hosts`` in the order of the inventory; ``unknown`` names that are neither host nor deployment; ``allowed`` everything that can be named."""

    hosts: tuple[str, ...]
    unknown: tuple[str, ...]
    allowed: tuple[str, ...]


def target_of(
    asked: str | Sequence[str] | None, groups: Mapping[str, Sequence[str]], deployments: Sequence[str]
) -> Target:
    """The hosts that ``asked`` names: hosts, deployments or V(all), as a list or with commas between.

    ``groups`` are Ansible's, by name. A name that is both a host and a deployment is the host, which is the smaller of the two. ``all`` is every
    host of a deployment or of a group of services; another machine of the inventory is taken only by its own name.
    """
    given = [str(name) for name in asked] if isinstance(asked, (list, tuple)) else str(asked or "").split(",")
    names = [name.strip() for name in given if name.strip()]
    machines = [host for host in groups.get("all", ()) if host != "localhost"]
    ours = {host for group in (ROOT_GROUP, *SERVICE_GROUPS) for host in groups.get(group, ())}
    meant: set[str] = set()
    unknown = []
    for name in dict.fromkeys(names):
        if name in machines:
            meant.add(name)
        elif name in deployments:
            meant.update(groups.get(name, ()))
        elif name == ALL:
            meant |= ours
        else:
            unknown.append(name)
    return Target(
        hosts=tuple(host for host in machines if host in meant),
        unknown=tuple(unknown),
        allowed=tuple(dict.fromkeys([ALL, *deployments, *machines])),
    )


@dataclass(frozen=True)
class Stop:
    """What a run stops: by ``hosts`` the deployment that each serves, and the same in ``lines`` for people."""

    hosts: dict[str, str]
    lines: list[str]


def stop_of(hosts: Sequence[str], deployments: Mapping[str, DeploymentHosts], language: str) -> Stop:
    """Everything that serves with one of these hosts. A deployment answers with all of its hosts or not at all, so that it stops as a whole.

    ``deployments`` are those of the inventory check, by name, each with its ``hosts``.
    """
    asked = set(hosts)
    stopped = {name: each["hosts"] for name, each in deployments.items() if asked.intersection(each["hosts"])}
    lines = [
        message("stop_deployment", language, deployment=name, hosts=", ".join(members))
        for name, members in stopped.items()
    ]
    if lines:
        lines.append(message("stop_stays", language))
    return Stop({host: name for name, members in stopped.items() for host in members}, lines)
