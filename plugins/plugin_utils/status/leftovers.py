# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts still run or hold that the inventory names no more, from containers, units and records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import serving_roles
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import LABEL
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import Looked

# Whose a container or a unit is, by the beginning of its name. What ends with the part of a deployment is that deployment's.
DEPLOYMENT, WATCHED = "deployment", "watched"
OWNERS = (
    ("llm-probe", DEPLOYMENT),
    ("llm-firewall", DEPLOYMENT),
    ("llm-collective", DEPLOYMENT),
    ("llm-benchmark", DEPLOYMENT),
    ("llm-gateway", "llm_gateway"),
    ("llm-web-ui", "llm_web_ui"),
    ("llm-alert-relay", "llm_monitoring"),
    ("llm-journal-gate", "llm_monitoring"),
    ("llm-grafana", "llm_monitoring"),
    ("llm-textfile", WATCHED),
    ("llm-exporters", WATCHED),
    ("llm-dcgm-exporter", WATCHED),
    ("llm-journal-limit", WATCHED),
    ("llm-models-verify", DEPLOYMENT),
    ("llm-on-request", DEPLOYMENT),
)
# And of a record, by its role.
RECORDS = {
    **dict.fromkeys(("network", "models", "images"), DEPLOYMENT),
    "gateway": "llm_gateway",
    "web_ui": "llm_web_ui",
    "monitoring": WATCHED,
}
# These have no name of a deployment in their own.
_OF_MACHINE = ("llm-models-verify", "llm-on-request")
_SUFFIX = re.compile(r"\.(?:service|timer|path|slice|socket)$")


@dataclass(frozen=True)
class Leftover:
    """Something on a host: ``kind`` (container, unit, record or host), its name, whether it runs, and whose it was."""

    host: str
    kind: str
    name: str
    runs: bool
    owner: str


def leftovers(hosts: Sequence[Looked], former: Mapping[str, str] | None = None) -> list[Leftover]:
    """All of it, by host. ``former`` are hosts of earlier looks that the inventory has no more, each with the day when it was seen last."""
    found = [each for looked in hosts if looked.answered for each in _of_host(looked)]
    gone = [Leftover(host, "host", day, False, "") for host, day in sorted((former or {}).items())]
    return [*dict.fromkeys(found), *gone]


def _of_host(looked: Looked) -> Iterator[Leftover]:
    host = looked.asked.host
    recorded = looked.facts.get("llm_recorded") or ()
    for container in looked.live.get("containers") or ():
        labels = container.get("labels") or {}
        if not labels and container["name"] not in recorded:
            continue  # it is somebody else's
        owner = _foreign(looked, str(container["name"]))
        if not owner and labels.get(LABEL, "") not in ("", *looked.asked.deployments):
            owner = DEPLOYMENT
        if owner:
            yield Leftover(host, "container", str(container["name"]), container["state"] == "running", owner)
    for unit in looked.live.get("units") or ():
        name = str(unit["name"])
        there = unit["load"] != "not-found" and name.endswith((".service", ".timer", ".socket", ".path"))
        if there and (owner := _foreign(looked, _SUFFIX.sub("", name))):
            yield Leftover(host, "unit", name, unit["state"] == "active", owner)
    for role in looked.facts.get("llm_records") or ():
        if not _belongs(looked, owner := DEPLOYMENT if role in serving_roles() else RECORDS.get(role, "")):
            yield Leftover(host, "record", role, False, owner)


def _of_engines() -> list[tuple[str, str]]:
    return [(f"llm-{role}", DEPLOYMENT) for role in serving_roles()]


def _foreign(looked: Looked, name: str) -> str:
    """Whose a name of ours is, where the inventory names the host for that no more; empty where it does, or nobody knows the name."""
    beginning, owner = next(
        ((each, whose) for each, whose in (*_of_engines(), *OWNERS) if name.startswith(each)), ("", "")
    )
    if not owner:
        return ""
    if owner == DEPLOYMENT and beginning not in _OF_MACHINE and looked.asked.deployment:
        return "" if name.removeprefix(beginning) in looked.asked.suffixes else DEPLOYMENT
    return "" if _belongs(looked, owner) else owner


def _belongs(looked: Looked, owner: str) -> bool:
    if owner == DEPLOYMENT:
        return bool(looked.asked.deployment)
    if owner == WATCHED:
        return looked.asked.watched
    return not owner or owner in looked.asked.services


def hosts_of(found: Iterable[Leftover]) -> list[str]:
    return list(dict.fromkeys(each.host for each in found))
