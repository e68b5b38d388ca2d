# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts of the inventory take part in their deployments: all of them, but for those that a run has left out.

The hosts that take part remember the others, in the file beside their firewall in which they remember their network. So every controller knows,
and a host that was switched off and comes back with an older memory does not change it: the memory of the latest turn counts.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NotRequired, TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Names
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem

# The key of the memory in network.json, and in a deployment of the settled inventory.
ABSENT: Final = "absent"
# Why a host does not take part: it was left out (llm_on_remaining), or removed (playbooks/remove_nodes.yml).
LEFT_OUT, REMOVED = "left_out", "removed"
WHY = (LEFT_OUT, REMOVED)


class Absent(TypedDict):
    """``deployment`` is whose memory it is: a host may have served another one. ``turn`` counts the changes.

    ``hosts`` are hosts of the inventory by name, ``former`` hosts that have left it unasked.
    """

    deployment: str
    turn: int
    hosts: dict[str, dict[str, str]]
    former: dict[str, dict[str, str]]


class DeploymentHosts(TypedDict):
    """A deployment: its hosts that take part in the order of the inventory, and the one of them that clients ask."""

    hosts: list[str]
    head: str
    # Without hosts that do not take part there is no memory.
    absent: NotRequired[Absent]
    # Those that this run takes out, and that answer.
    leaving: NotRequired[list[str]]


class FleetInventory(TypedDict):
    """What a run knows of its inventory (``llm_inventory``): the result of the inventory check, and once settled who takes part."""

    deployments: Mapping[str, DeploymentHosts]
    hosts: NotRequired[Sequence[str]]
    names: NotRequired[Mapping[str, Names]]
    out: NotRequired[Sequence[str]]
    silent: NotRequired[Sequence[str]]
    former: NotRequired[Mapping[str, Mapping[str, str]]]
    leaving: NotRequired[Sequence[str]]
    served_by: NotRequired[Mapping[str, str]]


@dataclass(frozen=True)
class Request:
    """What a run asks for: hosts that are ``left_out`` or ``removed`` from now on, that come ``back``, and former ones that are forgotten."""

    left_out: Sequence[str] = ()
    removed: Sequence[str] = ()
    back: Sequence[str] = ()
    forgotten: Sequence[str] = ()


@dataclass(frozen=True)
class Settled:
    """The inventory with the hosts that take part, and what is to be refused.

    Of the inventory of the inventory check it changes ``deployments`` and ``hosts``; a deployment with a memory has it as ``absent``. ``out`` are
    all hosts of deployments that do not take part, ``leaving`` those of them that this run takes out and that answer, ``served_by`` by head that leaves
    now the deployment that it has served, ``silent`` those that did not answer, and ``former`` those that have left the inventory unasked.
    """

    inventory: FleetInventory
    problems: list[dict[str, str]] = field(default_factory=list)


def memory(deployment: str, states: Mapping[str, Mapping[str, object]], members: Sequence[str]) -> Absent:
    """What the members remember that answered: of the latest turn. A memory that nobody of ours wrote counts as none."""
    found = [said for host in members if (said := _read(deployment, (states.get(host) or {}).get(ABSENT)))]
    nothing = Absent(deployment=deployment, turn=0, hosts={}, former={})
    return max(found, key=lambda each: each["turn"], default=nothing)


def _read(deployment: str, said: object) -> Absent | None:
    if not isinstance(said, Mapping) or not isinstance(said.get("turn"), int) or said.get("deployment") != deployment:
        return None
    hosts, former = said.get("hosts"), said.get("former")
    if not isinstance(hosts, Mapping) or not isinstance(former, Mapping):
        return None
    return Absent(deployment=deployment, turn=said["turn"], hosts=_entries(hosts), former=_entries(former))


def _entries(said: Mapping[str, object]) -> dict[str, dict[str, str]]:
    return {
        str(host): {str(key): str(value) for key, value in entry.items()}
        for host, entry in said.items()
        if isinstance(entry, Mapping)
    }


def settle(
    inventory: FleetInventory,
    states: Mapping[str, Mapping[str, object]],
    silent: Mapping[str, str],
    request: Request,
    known: Sequence[str],
    now: str,
    language: str = "en",
) -> Settled:
    """Who takes part in each deployment that this run is about.

    ``inventory`` is that of the inventory check, ``states`` what each host that answered remembers of its network, ``silent`` by host why it did not
    answer, ``known`` the hosts of all deployments of the inventory. A host that does not answer and takes part is refused; so is a deployment
    of which nobody is left, unless all of it is removed. ``now`` is the time as it is remembered (UTC).
    """
    deployments: dict[str, DeploymentHosts] = {}
    before: Mapping[str, DeploymentHosts] = inventory["deployments"]
    out: list[str] = []
    served_by: dict[str, str] = {}
    asked_out = {*request.left_out, *request.removed}
    problems: list[dict[str, str]] = []
    for name, entry in before.items():
        members = list(entry["hosts"])
        if not any(host in states or host in silent for host in members):
            deployments[name] = entry
            continue
        absent = _absent(name, members, states, request, known, now)
        left = [host for host in members if host not in absent["hosts"]]
        took_part = [host for host in members if host not in memory(name, states, members)["hosts"]]
        leaving = [host for host in took_part if host in asked_out and host in states]
        if _head(entry, took_part) in leaving:
            served_by[_head(entry, took_part)] = name
        out += [host for host in members if host in absent["hosts"]]
        if not left:
            if any(host in request.left_out for host in members):
                problems.append(_nobody_left(name, members, language))
            continue
        deployments[name] = {**entry, "hosts": left, "head": _head(entry, left)}
        if absent["turn"]:
            deployments[name][ABSENT] = absent
        if leaving:
            deployments[name]["leaving"] = leaving
    # Hosts of services, or of none of our groups, that are removed.
    members_of_all = [host for entry in before.values() for host in entry["hosts"]]
    out += [host for host in request.removed if host not in members_of_all]
    hosts = [host for host in inventory["hosts"] if host not in out]
    lost = {host: said for host, said in silent.items() if host not in out}
    if lost:
        problems.append(_lost(lost, deployments, language))
    former = {
        host: {"deployment": name, **said}
        for name, entry in deployments.items()
        for host, said in (entry[ABSENT]["former"] if ABSENT in entry else {}).items()
    }
    settled: FleetInventory = {
        **inventory,
        "deployments": deployments,
        "hosts": hosts,
        "out": out,
        "silent": list(silent),
        "former": former,
        "leaving": [host for host in out if host in asked_out and host not in silent],
        "served_by": served_by,
    }
    return Settled(settled, problems)


def _head(entry: DeploymentHosts, left: Sequence[str]) -> str:
    """The head of those that take part: the one of the inventory, else the first; empty where nobody does."""
    return entry["head"] if entry["head"] in left else (*left, "")[0]


def _absent(
    deployment: str,
    members: Sequence[str],
    states: Mapping[str, Mapping[str, object]],
    request: Request,
    known: Sequence[str],
    now: str,
) -> Absent:
    before = memory(deployment, states, members)
    hosts = {host: said for host, said in before["hosts"].items() if host in members and host not in request.back}
    for why, asked in ((LEFT_OUT, request.left_out), (REMOVED, request.removed)):
        hosts |= {host: {"since": now, **hosts.get(host, {}), "why": why} for host in members if host in asked}
    former = {host: said for host, said in before["former"].items() if host not in (*known, *request.forgotten)}
    for host, said in before["hosts"].items():
        # Nobody has removed what it holds.
        if said.get("why") != REMOVED and host not in (*known, *request.forgotten):
            former[host] = {"since": said.get("since", now), "address": ""}
    for host in members:
        for other, addresses in mapping((states.get(host) or {}).get("members")).items():
            gone = other not in known and other not in request.forgotten and other not in before["hosts"]
            if gone and other not in former:
                former[other] = {"since": now, "address": next(iter(texts(addresses)), "")}
    changed = hosts != before["hosts"] or former != before["former"]
    return Absent(deployment=deployment, turn=before["turn"] + changed, hosts=hosts, former=former)


def with_memory(inventory: FleetInventory, states: Mapping[str, Mapping[str, object]]) -> FleetInventory:
    """The inventory as the hosts remember it, for a look that asks for nothing and refuses nothing."""
    members = [host for entry in inventory["deployments"].values() for host in entry["hosts"]]
    if not members:
        return inventory
    whole: FleetInventory = {"hosts": members, **inventory}
    found = settle(whole, states, {}, Request(), [*members, *_former_of(states)], "").inventory
    return {**found, "silent": [host for host in members if host not in states]}


def _former_of(states: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Everybody whom a state names as a member: a look makes nobody a former host."""
    return [host for state in states.values() for host in mapping(state.get("members"))]


def _nobody_left(name: str, members: Sequence[str], language: str) -> dict[str, str]:
    where = message("where_group", language, group=name)
    return problem("members_nobody_left", language, value=names(members, language), where=where, deployment=name)


def _lost(lost: Mapping[str, str], deployments: Mapping[str, DeploymentHosts], language: str) -> dict[str, str]:
    host = next(iter(lost))
    concerned = [name for name, entry in deployments.items() if not set(lost).isdisjoint(entry["hosts"])]
    said = "; ".join(f"{each}: {why}" for each, why in lost.items())
    where = message("where_inventory", language)
    values = {"hosts": names(list(lost), language), "host": host, "deployments": names(concerned, language)}
    return problem("members_silent", language, value=said, where=where, **values)


def requested(asked: Mapping[str, object], known_names: Mapping[str, Names]) -> Request:
    """What the variables of a run ask for; a machine with several names is meant with all of them."""

    def machines(hosts: Sequence[str]) -> list[str]:
        return list(
            dict.fromkeys(
                name for host in hosts for name in (known_names[host]["sharing"] if host in known_names else [host])
            )
        )

    return Request(*(machines(texts(asked.get(key))) for key in (LEFT_OUT, REMOVED, "back", "forgotten")))


def absent_of(deployment: DeploymentHosts) -> Mapping[str, Mapping[str, str]]:
    """Its hosts that do not take part."""
    return deployment[ABSENT]["hosts"] if ABSENT in deployment else {}


def change_lines(
    plans: Mapping[str, Mapping[str, object]], inventory: FleetInventory, request: Request, language: str
) -> list[str]:
    """What a run is about to do to hosts that leave or come, and to their deployments. ``inventory`` is the settled one, ``plans`` those of the decision."""
    silent, lines = inventory.get("silent") or (), []
    for code, hosts in (("member_left_out", request.left_out), ("member_removed", request.removed)):
        lines += [message(code + ("_silent" if host in silent else ""), language, host=host) for host in hosts]
    lines += [message("member_back", language, host=host) for host in request.back]
    concerned = {*request.left_out, *request.removed, *request.back}
    for name, entry in inventory["deployments"].items():
        if concerned.isdisjoint([*entry["hosts"], *absent_of(entry)]) or name not in plans:
            continue
        settings = mapping(plans[name].get("settings"))
        sizes = {short: settings.get(f"{short}_parallel_size", 1) for short in ("tensor", "pipeline")}
        values = {"deployment": name, "hosts": names(entry["hosts"], language), **sizes}
        lines.append(message("member_plan", language, context=settings.get("max_model_len", "-"), **values))
    return lines


def absentees(inventory: FleetInventory) -> list[dict[str, str]]:
    """Hosts that do not take part, and those that have left the inventory and may still run something.

    Each with its ``code`` in the catalogue, ``deployment``, ``host``, ``since``, ``address`` and ``answer``, the code of whether it answers.
    """
    silent, found = inventory.get("silent") or (), []
    for name, entry in inventory["deployments"].items():
        for host, said in absent_of(entry).items():
            code = "absent_removed" if said.get("why") == REMOVED else "absent_left_out"
            found.append(_absentee(code, name, host, said, "absent_silent" if host in silent else "absent_answers"))
    for host, said in (inventory.get("former") or {}).items():
        found.append(_absentee("absent_former", said.get("deployment", ""), host, said, "absent_silent"))
    return found


def _absentee(code: str, deployment: str, host: str, said: Mapping[str, str], answer: str) -> dict[str, str]:
    since, address = day(said.get("since", "")), said.get("address") or host
    return {"code": code, "deployment": deployment, "host": host, "since": since, "address": address, "answer": answer}


def absent_lines(inventory: FleetInventory, language: str) -> list[str]:
    """What every run says of them."""
    return [absent_line(each, language) for each in absentees(inventory)]


def absent_line(each: Mapping[str, str], language: str) -> str:
    values = {name: said for name, said in each.items() if name != "code"}
    return message(each["code"], language, **{**values, "answer": message(each["answer"], language)})


def seen_members(
    before: object, inventory: FleetInventory, addresses: Mapping[str, str], now: str
) -> dict[str, dict[str, str]]:
    """What the controller keeps of this: by host its deployment, its address and when a run saw it last. Hosts that have left the inventory stay."""
    kept = _entries(mapping(before))
    for name, entry in inventory["deployments"].items():
        kept |= {
            host: {"deployment": name, "address": addresses.get(host) or host, "since": now} for host in entry["hosts"]
        }
    return kept


def with_seen(settled: FleetInventory, before: object, known: Sequence[str], request: Request) -> FleetInventory:
    """The settled inventory whose ``former`` has the hosts that only the controller remembers, as those of a whole deployment that is gone."""
    kept = _entries(mapping(before))
    gone = {host: said for host, said in kept.items() if host not in known and host not in request.forgotten}
    return {**settled, "former": {**gone, **(settled.get("former") or {})}}


def day(since: str) -> str:
    """2026-11-28 03:12 UTC, from how it is remembered."""
    return since.replace("T", " ").removesuffix("Z")[:16] + " UTC" if since else "-"


def utc(moment: datetime.datetime) -> str:
    """A time as it is remembered."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ")
