# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the variables of all hosts, and what the tasks registered, to what a look is judged by."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.module_utils._facts import Facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.decide import served_name
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import SERVICE_GROUPS
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import FleetInventory, with_memory
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.memory import memory_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import Asked, Looked, looked_at
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.trends import KnownSeries

# What the task that looks registers on each host.
REGISTERED = "__preflight_looked"
# What the controller keeps of its looks, in llm_report_dir.
LOOKS = "looks.json"
WATCHERS = "llm_monitoring"


def asked_of(
    host: str,
    inventory: FleetInventory,
    groups: Mapping[str, Sequence[str]],
    variables: Mapping[str, object],
) -> Asked:
    """What the inventory says of a host; ``inventory`` is that of the inventory check."""
    services = tuple(group for group in SERVICE_GROUPS if host in (groups.get(group) or ()))
    deployments = inventory["deployments"]
    name = next((name for name, each in deployments.items() if host in each["hosts"]), "")
    watched = bool(groups.get(WATCHERS)) and bool(name or WATCHERS in services)
    if not name:
        return Asked(host, names=names_on(host, {}), services=services, watched=watched, suffixes=())
    known = inventory.get("names") or {}
    mine = names_on(host, known)
    return Asked(
        host,
        name,
        str(deployments[name]["head"]),
        tuple(deployments[name]["hosts"]),
        mine,
        served_name(variables),
        posixpath.basename(model_path(variables)),
        services,
        tuple(str(names_on(other, known)["suffix"]) for other in mine["sharing"]),
        tuple(each for each, entry in deployments.items() if set(mine["sharing"]).intersection(entry["hosts"])),
        watched,
    )


def looked_of_run(
    fleet: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Sequence[str]], inventory: FleetInventory
) -> list[Looked]:
    """The hosts that this run looked at, in the order of the inventory. One that nobody names and that does not answer is nobody's business."""
    inventory = remembered(fleet, inventory)
    found = []
    for host in fleet:
        registered = fleet[host].get(REGISTERED) if host != "localhost" else None
        if not isinstance(registered, Mapping) or registered.get("skipped"):
            continue
        answered = _answered(registered)
        facts = (fleet[host].get("ansible_facts") if answered else None) or Facts()
        said = str(registered.get("said") or registered.get("msg") or "")
        looked = looked_at(asked_of(host, inventory, groups, fleet[host]), facts, "" if answered else short(said))
        if looked.answered or looked.asked.deployment or looked.asked.services:
            found.append(looked)
    return found


def remembered(fleet: Mapping[str, Mapping[str, Any]], inventory: FleetInventory) -> FleetInventory:
    """The inventory as the hosts remember it that answered this run's look: without those that do not take part."""
    states = {}
    for host in (each for entry in inventory["deployments"].values() for each in entry["hosts"]):
        registered = fleet[host].get(REGISTERED)
        if isinstance(registered, Mapping) and not registered.get("skipped") and _answered(registered):
            states[host] = memory_of(fleet[host].get("ansible_facts") or {})
    return with_memory(inventory, states)


def _answered(registered: Mapping[str, object]) -> bool:
    return "said" not in registered and not registered.get("failed")


def short(said: str) -> str:
    """Of what ssh or a shell said, the last line that says something."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return (lines or ["-"])[-1][:200]


def read_looks(folder: str) -> object:
    """What is kept of earlier looks; None where there is nothing that can be read."""
    try:
        return read_json(Path(os.path.join(folder, LOOKS)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def series_of(hosts: Sequence[Looked]) -> KnownSeries | None:
    """What the first Prometheus says that answers."""
    found = (looked.live.get("series") for looked in hosts if looked.answered)
    return next((each for each in found if each), None)
