# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a run of day two is about: what ``llm_target`` names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import ROOT_GROUP, SERVICE_GROUPS

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
    given = asked.split(",") if isinstance(asked, str) else [str(name) for name in asked or ()]
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
