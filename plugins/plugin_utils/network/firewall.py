# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's firewall has to let in for its deployment, and from whom, whichever program the firewall is.

Only the deployment's own ports are ever closed. Whatever else listens on a host, SSH above all, is none of our business.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import (
    facts_of,
    items,
    mapping,
    texts,
    whole,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.interfaces import (
    interfaces_from_facts,
    outer_addresses,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import (
    CLIENTS,
    COLLECTORS,
    FLEET,
    ITSELF,
    MEMBERS,
    Port,
    clashes,
    deployment_ports,
    merged,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.sections import (
    Addresses,
    Candidate,
    Commands,
    Dynamic,
    Rules,
    Source,
)

_SSH = 22


def _literal(text: object) -> str:
    try:
        return str(ipaddress.ip_address(str(text)))
    except ValueError:
        return ""


def addresses_of(variables: Mapping[str, object]) -> list[str]:
    """Every address that a host was found to have, without the one that gateways share: that moves, and nothing is sent from it."""
    found = {str(item.ip) for item in outer_addresses(interfaces_from_facts(facts_of(variables)))}
    return sorted(found - {str(variables.get("gateway_virtual_address") or "")})


def _addresses_said(name: str, variables: Mapping[str, object], resolve: Callable[[str], Sequence[str]]) -> list[str]:
    """Where a host comes from that this run does not look at, as the inventory says it."""
    said = str(variables.get("ansible_host") or name)
    found = [text for text in ([_literal(said)] if _literal(said) else resolve(said)) if _literal(text)]
    return sorted({text for text in found if not ipaddress.ip_address(text).is_loopback})


def _networks(texts: Iterable[str]) -> list[str]:
    """Networks and addresses, without those that lie in another: sets of nftables take no overlaps."""
    found = [ipaddress.ip_network(text.strip(), strict=False) for text in texts]
    result: list[str] = []
    for version in (4, 6):
        same: list[Any] = [network for network in found if network.version == version]
        result += [str(network) for network in ipaddress.collapse_addresses(same)]
    return [
        text[: -len(suffix)] if text.endswith(suffix) else text for text in result for suffix in [_host_suffix(text)]
    ]


def _host_suffix(text: str) -> str:
    return "/128" if ":" in text else "/32"


def _by_version(sources: Iterable[str]) -> Addresses:
    sources = list(sources)
    return {"v4": [item for item in sources if ":" not in item], "v6": [item for item in sources if ":" in item]}


def _ranges(ports: Iterable[Port]) -> list[str]:
    return [str(first) if first == last else "{0}-{1}".format(first, last) for first, last in merged(ports)]


class Zone(TypedDict):
    """A zone of firewalld."""

    target: str
    interfaces: list[str]
    sources: list[str]
    # Those that are open, as 8000/tcp or 1025-65535/tcp.
    ports: list[str]
    default: bool


@dataclass(frozen=True)
class Surroundings:
    """What is known around a host, beside the hosts of its deployment."""

    executor: str = ""
    # The networks that would carry the deployment.
    candidates: Sequence[Candidate] = ()
    # Of earlier runs: the addresses of members, for those that do not answer now, and the ports of other people's programs.
    remembered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    open_ports: Iterable[int] = ()
    # The zones of firewalld, and what becomes of a packet that no rule of ufw is about.
    zones: Mapping[str, Zone] = field(default_factory=dict)
    policy: str = ""
    # The hosts of other deployments on the same machine: what the kernel hands out to them stays open to them.
    beside: Sequence[str] = ()
    # Asks for the addresses of a name.
    resolve: Callable[[str], Sequence[str]] = lambda name: ()


def firewall_rules(
    host: str,
    members: Sequence[str],
    others: Mapping[str, Sequence[str]],
    hostvars: Mapping[str, Mapping[str, object]],
    around: Surroundings,
    lang: str = "en",
) -> Rules:
    """The rules of one host.

    ``members`` are the hosts of its deployment; ``others`` names hosts that come as ``clients`` (gateways), ``collectors`` (monitoring) or ``fleet`` (all
    hosts that send their journal).
    """
    mine = hostvars[host]
    facts = facts_of(mine)
    # All that it may come with: a network that was asked for may well be that of a tunnel or a bridge. One that does not answer now
    # comes back with what it had.
    seen = {
        name: {*addresses_of(hostvars[name]), *_agreed(name, hostvars[name], around.candidates)} for name in members
    }
    known = {name: sorted(seen[name] or filter(_literal, around.remembered.get(name) or ())) for name in members}
    inside = [address for name in members for address in known[name]]
    said = mine.get("llm_firewall_api_sources")
    # With a gateway clients come to that, which asks them for their own keys.
    sources = texts(said)
    if said is None and not others.get(CLIENTS):
        # Clients of the networks that the deployment's hosts are in, and nobody from further away.
        sources = [
            str(item.network)
            for name in members
            for item in outer_addresses(interfaces_from_facts(facts_of(hostvars[name])))
        ]
    more = {
        kind: {
            name: addresses_of(hostvars[name]) or _addresses_said(name, hostvars[name], around.resolve)
            for name in names_of_kind
        }
        for kind, names_of_kind in others.items()
    }
    outside = {kind: [address for found in hosts.values() for address in found] for kind, hosts in more.items()}
    ports = deployment_ports(mine, around.executor, watched=bool(others.get(COLLECTORS)))
    allowed = {
        MEMBERS: inside,
        # The metrics of the engine are on the port of the API.
        CLIENTS: [*inside, *sources, *outside.get(CLIENTS, ()), *outside.get(COLLECTORS, ())],
        COLLECTORS: [*inside, *outside.get(COLLECTORS, ())],
        FLEET: [*inside, *outside.get(COLLECTORS, ()), *outside.get(FLEET, ())],
        ITSELF: [],
    }
    by_kind: dict[str, Source] = {
        kind: {
            **_by_version(_networks(who)),
            "ports": _ranges(port for port in ports if port.reached_by == kind),
        }
        for kind, who in allowed.items()
    }
    logins = sorted(map(whole, items(facts.get("llm_ssh_ports"))))
    rules = Rules(
        members=by_kind[MEMBERS],
        clients=by_kind[CLIENTS],
        collectors=by_kind[COLLECTORS],
        fleet=by_kind[FLEET],
        itself=by_kind[ITSELF],
        closed=_ranges(ports),
        ssh=_ssh(logins, mine, ports),
        dynamic=_dynamic(
            facts, around.open_ports, [one for name in around.beside for one in addresses_of(hostvars[name])]
        ),
        zones=_zones(host, facts, around.candidates, around.zones),
        known=known,
        unknown=sorted(name for name in members if not known[name]),
        clashes=[list(pair) for pair in clashes(ports, [("sshd", port) for port in logins])],
        notes=[],
    )
    rules["notes"] = _notes(host, rules, more, around.zones, around.policy, lang)
    return rules


def _agreed(name: str, variables: Mapping[str, object], candidates: Sequence[Candidate]) -> list[str]:
    """The addresses under which others will look for a host, whatever kind of interface they are on."""
    entries = [variables.get("llm_interface"), *(one["interfaces"].get(name) for one in candidates)]
    return [str(entry["address"]) for entry in map(mapping, entries) if entry.get("address")]


def _ssh(logins: Iterable[int], mine: Mapping[str, object], ports: Sequence[Port]) -> list[int]:
    """Where logins come in. What the inventory says may be the port of a router that translates: it opens none of ours."""
    said = {_SSH, whole(mine.get("ansible_port") or _SSH)}
    return sorted({*logins, *(at for at in said if not any(port.first <= at <= port.last for port in ports))})


def _dynamic(facts: Mapping[str, object], open_ports: Iterable[int], beside: Sequence[str]) -> Dynamic | None:
    """The ports that the kernel hands out. Most of what gets one listens on every address, and who adds a route reaches each of them."""
    found = mapping(facts.get("llm_dynamic_ports"))
    if not found:
        return None
    first, last = whole(found["first"]), whole(found["last"])
    # What was open once stays so: a program that is restarted just now is not shut out.
    others = {whole(port) for port in (*items(facts.get("llm_foreign_ports")), *open_ports)}
    kept = sorted(port for port in others if first <= port <= last)
    dynamic = Dynamic(ports="{0}-{1}".format(first, last), open=kept)
    if beside:
        dynamic["beside"] = _by_version(_networks(beside))
    return dynamic


def _zones(
    host: str,
    facts: Mapping[str, object],
    candidates: Sequence[Candidate],
    zones: Mapping[str, Zone],
) -> list[str]:
    """The zones of firewalld that traffic from elsewhere comes in through: the default one for interfaces that are in none.

    A zone with sources comes before those of the interfaces.
    """
    interfaces = {
        str(entry["name"]) for entry in interfaces_from_facts(facts) if any(True for _one in outer_addresses([entry]))
    }
    interfaces |= {str(one["interfaces"][host]["interface"]) for one in candidates if host in one["interfaces"]}
    of_interface = {name: zone for zone, entry in zones.items() for name in entry["interfaces"]}
    default = [zone for zone, entry in zones.items() if entry["default"]]
    by_source = [zone for zone, entry in zones.items() if entry["sources"]]
    by_interface = [zone for name in interfaces for zone in ([of_interface[name]] if name in of_interface else default)]
    return sorted({*by_source, *by_interface})


def _notes(
    host: str,
    rules: Rules,
    others: Mapping[str, Mapping[str, Sequence[str]]],
    zones: Mapping[str, Zone],
    policy: str,
    lang: str,
) -> list[str]:
    lost = sorted({name for hosts in others.values() for name, found in hosts.items() if not found})
    accepting = [zone for zone in rules["zones"] if zones[zone]["target"] == "ACCEPT"]
    opened = [
        "{0} ({1})".format(zone, ", ".join(found))
        for zone in rules["zones"]
        if zone not in accepting
        for found in [_opened(zones[zone]["ports"], rules)]
        if found
    ]
    return [
        message(code, lang, host=host, names=names(found, lang))
        for code, found in (
            ("firewall_member_unknown", rules["unknown"]),
            ("firewall_unresolved", lost),
            ("firewall_zone_accepts", accepting),
            ("firewall_zone_ports", opened),
            ("firewall_ufw_accepts", [policy] if policy == "ACCEPT" else []),
        )
        if found
    ]


def _opened(ports: Iterable[str], rules: Rules) -> list[str]:
    """What of a zone's ports lets everybody in to the deployment: a port of its own, or a range of those that the kernel hands out.

    A single port of that range is some program's.
    """
    ours = [_range(text) for text in rules["closed"]]
    given = [_range(rules["dynamic"]["ports"])] if rules["dynamic"] else []
    return [
        text
        for text in ports
        for first, last in [_range(text)]
        if any(first <= top and low <= last for low, top in (ours if first == last else [*ours, *given]))
    ]


def _range(text: str) -> tuple[int, int]:
    """First and last port of a text such as ``8000``, ``6379-6384`` or ``1025-65535/tcp``."""
    bounds = text.partition("/")[0].split("-")
    return int(bounds[0]), int(bounds[-1])


def firewalld_zones(default: str, text: str) -> dict[str, Zone]:
    """Target, interfaces, sources and TCP ports of each zone, from ``firewall-cmd --list-all-zones``, and which is the default."""
    found: dict[str, Zone] = {}
    for block in re.split(r"^(?=\S)", text, flags=re.M):
        values = dict(re.findall(r"^  ([\w-]+):[ \t]*(.*)$", block, re.M))
        if "target" in values:
            name = block.split()[0]
            found[name] = Zone(
                target=values.get("target", ""),
                interfaces=values.get("interfaces", "").split(),
                sources=values.get("sources", "").split(),
                ports=[port for port in values.get("ports", "").split() if port.endswith("/tcp")],
                default=name == default.strip(),
            )
    return found


def _allowed(rules: Rules) -> list[tuple[str, list[str]]]:
    """Who is let in, and to which ports. Members to any: gloo and NCCL choose theirs when they start."""
    others = [rules["clients"], rules["collectors"], rules["fleet"]]
    members = [(address, [""]) for address in rules["members"]["v4"] + rules["members"]["v6"]]
    return members + [(address, source["ports"]) for source in others for address in source["v4"] + source["v6"]]


def ufw_rules(rules: Rules) -> list[dict[str, str]]:
    """Rules of ufw, in order: the first that fits decides."""
    found = [{"rule": "allow", "from": source, "ports": ports} for source, every in _allowed(rules) for ports in every]
    return found + [{"rule": "deny", "from": "any", "ports": ports} for ports in rules["closed"]]


def firewalld_rules(rules: Rules) -> list[dict[str, str]]:
    """Rich rules of firewalld. Its zones refuse whatever no rule lets in."""
    found = []
    for source, every in _allowed(rules):
        head = 'rule family="{0}" source address="{1}"'.format("ipv6" if ":" in source else "ipv4", source)
        for ports in every:
            middle = ' port port="{0}" protocol="tcp"'.format(ports) if ports else ""
            found.append(head + middle + " accept")
    return [{"zone": zone, "rule": rule} for zone in rules["zones"] for rule in found]


COMMANDS: Mapping[str, Callable[[Rules], list[dict[str, str]]]] = {"ufw": ufw_rules, "firewalld": firewalld_rules}


def firewall_commands(program: str, rules: Rules | None, previous: Sequence[Mapping[str, str]]) -> Commands:
    """What to remove, and then what to add in this order, so that after ``previous`` the rules hold; no rules: take back all."""
    wanted = COMMANDS[program](rules) if rules else []
    # What is added comes last. Behind a rule that denies it would mean nothing, so that goes first and comes back after it.
    late = any(rule not in previous for rule in wanted if rule["rule"] != "deny")
    gone = [dict(rule) for rule in previous if rule not in wanted or (late and rule["rule"] == "deny")]
    return {"runs": True, "remove": gone, "add": wanted}
