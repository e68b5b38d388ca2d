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
from typing import Any

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

_SSH = 22


def _literal(text: object) -> str:
    try:
        return str(ipaddress.ip_address(str(text)))
    except ValueError:
        return ""


def addresses_of(variables: Mapping[str, Any]) -> list[str]:
    """Every address that a host was found to have, without the one that gateways share: that moves, and nothing is sent from it."""
    facts = variables.get("ansible_facts") or {}
    found = {str(item.ip) for item in outer_addresses(interfaces_from_facts(facts))}
    return sorted(found - {str(variables.get("gateway_virtual_address") or "")})


def _addresses_said(name: str, variables: Mapping[str, object], resolve: Callable[[str], Sequence[str]]) -> list[str]:
    """Where a host comes from that this run does not look at, as the inventory says it."""
    said = str(variables.get("ansible_host") or name)
    found = [text for text in ([_literal(said)] if _literal(said) else resolve(said)) if _literal(text)]
    return sorted({text for text in found if not ipaddress.ip_address(text).is_loopback})


def _networks(texts: Iterable[Any]) -> list[str]:
    """Networks and addresses, without those that lie in another: sets of nftables take no overlaps."""
    found = [ipaddress.ip_network(str(text).strip(), strict=False) for text in texts]
    result: list[str] = []
    for version in (4, 6):
        same: list[Any] = [network for network in found if network.version == version]
        result += [str(network) for network in ipaddress.collapse_addresses(same)]
    return [
        text[: -len(suffix)] if text.endswith(suffix) else text for text in result for suffix in [_host_suffix(text)]
    ]


def _host_suffix(text: str) -> str:
    return "/128" if ":" in text else "/32"


def _by_version(sources: Iterable[str]) -> dict[str, list[str]]:
    sources = list(sources)
    return {"v4": [item for item in sources if ":" not in item], "v6": [item for item in sources if ":" in item]}


def _ranges(ports: Iterable[Any]) -> list[str]:
    return [str(first) if first == last else "{0}-{1}".format(first, last) for first, last in merged(ports)]


@dataclass(frozen=True)
class Surroundings:
    """What is known around a host, beside the hosts of its deployment."""

    executor: str = ""
    # The networks that would carry the deployment.
    candidates: Sequence[Mapping[str, Any]] = ()
    # Of earlier runs: the addresses of members, for those that do not answer now, and the ports of other people's programs.
    remembered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    open_ports: Iterable[Any] = ()
    # The zones of firewalld, and what becomes of a packet that no rule of ufw is about.
    zones: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    policy: str = ""
    # The hosts of other deployments on the same machine: what the kernel hands out to them stays open to them.
    beside: Sequence[str] = ()
    # Asks for the addresses of a name.
    resolve: Callable[[str], Sequence[str]] = lambda name: ()


def firewall_rules(
    host: str,
    members: Sequence[str],
    others: Mapping[str, Sequence[str]],
    hostvars: Mapping[str, Mapping[str, Any]],
    around: Surroundings,
    lang: str = "en",
) -> dict[str, Any]:
    """The rules of one host.

    ``members`` are the hosts of its deployment; ``others`` names hosts that come as ``clients`` (gateways), ``collectors`` (monitoring) or ``fleet`` (all
    hosts that send their journal).

    Returns ``members``, ``clients``, ``collectors`` and ``fleet``, each ``{v4, v6, ports}`` with ports as nftables writes them, ``closed``, the
    ports of them all and those that only the host itself may use, ``dynamic`` (the interface and range where gloo and NCCL listen,
    and what stays open there), ``ssh``, ``zones`` and ``notes`` for people; where the rules cannot be known, ``unknown``, hosts
    without an address, and ``clashes``, pairs with one port.
    """
    mine = hostvars[host]
    facts = mine.get("ansible_facts") or {}
    # All that it may come with: a network that was asked for may well be that of a tunnel or a bridge. One that does not answer now
    # comes back with what it had.
    seen = {
        name: {*addresses_of(hostvars[name]), *_agreed(name, hostvars[name], around.candidates)} for name in members
    }
    known = {name: sorted(seen[name] or filter(_literal, around.remembered.get(name) or ())) for name in members}
    inside = [address for name in members for address in known[name]]
    sources = mine.get("llm_firewall_api_sources")
    if sources is None and others.get(CLIENTS):
        # Clients come to the gateway, which asks them for their own keys.
        sources = []
    if sources is None:
        # Clients of the networks that the deployment's hosts are in, and nobody from further away.
        sources = [
            str(item.network)
            for name in members
            for item in outer_addresses(interfaces_from_facts(hostvars[name].get("ansible_facts") or {}))
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
    rules: dict[str, Any] = {
        kind: {
            **_by_version(_networks(who)),
            "ports": _ranges(port for port in ports if port.reached_by == kind),
        }
        for kind, who in allowed.items()
    }
    logins = sorted(int(port) for port in facts.get("llm_ssh_ports") or ())
    rules.update(
        closed=_ranges(ports),
        ssh=_ssh(logins, mine, ports),
        dynamic=_dynamic(
            facts, around.open_ports, [one for name in around.beside for one in addresses_of(hostvars[name])]
        ),
        zones=_zones(host, facts, around.candidates, around.zones),
        known=known,
        unknown=sorted(name for name in members if not known[name]),
        clashes=[list(pair) for pair in clashes(ports, [("sshd", port) for port in logins])],
    )
    rules["notes"] = _notes(host, rules, more, around.zones, around.policy, lang)
    return rules


def _agreed(name: str, variables: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> list[str]:
    """The addresses under which others will look for a host, whatever kind of interface they are on."""
    entries = [variables.get("llm_interface"), *(one["interfaces"].get(name) for one in candidates)]
    return [str(entry["address"]) for entry in entries if entry and entry.get("address")]


def _ssh(logins: Iterable[int], mine: Mapping[str, Any], ports: Sequence[Port]) -> list[int]:
    """Where logins come in. What the inventory says may be the port of a router that translates: it opens none of ours."""
    said = {_SSH, int(mine.get("ansible_port") or _SSH)}
    return sorted({*logins, *(at for at in said if not any(port.first <= at <= port.last for port in ports))})


def _dynamic(facts: Mapping[str, Any], open_ports: Iterable[Any], beside: Sequence[str]) -> dict[str, Any] | None:
    """The ports that the kernel hands out. Most of what gets one listens on every address, and who adds a route reaches each of them."""
    found = facts.get("llm_dynamic_ports")
    if not found:
        return None
    first, last = int(found["first"]), int(found["last"])
    # What was open once stays so: a program that is restarted just now is not shut out.
    others = {int(port) for ports in (facts.get("llm_foreign_ports"), open_ports) for port in ports or ()}
    kept = sorted(port for port in others if first <= port <= last)
    more = {"beside": _by_version(_networks(beside))} if beside else {}
    return {"ports": "{0}-{1}".format(first, last), "open": kept, **more}


def _zones(
    host: str,
    facts: Mapping[str, Any],
    candidates: Sequence[Mapping[str, Any]],
    zones: Mapping[str, Mapping[str, Any]],
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
    rules: Mapping[str, Any],
    others: Mapping[str, Mapping[str, Sequence[str]]],
    zones: Mapping[str, Mapping[str, Any]],
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


def _opened(ports: Iterable[str], rules: Mapping[str, Any]) -> list[str]:
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


def firewalld_zones(default: str, text: str) -> dict[str, dict[str, object]]:
    """Target, interfaces, sources and TCP ports of each zone, from ``firewall-cmd --list-all-zones``, and which is the default."""
    found: dict[str, dict[str, object]] = {}
    for block in re.split(r"^(?=\S)", text, flags=re.M):
        values = dict(re.findall(r"^  ([\w-]+):[ \t]*(.*)$", block, re.M))
        if "target" in values:
            name = block.split()[0]
            found[name] = {
                "target": values.get("target", ""),
                "interfaces": values.get("interfaces", "").split(),
                "sources": values.get("sources", "").split(),
                "ports": [port for port in values.get("ports", "").split() if port.endswith("/tcp")],
                "default": name == default.strip(),
            }
    return found


def ufw_rules(rules: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rules of ufw, in order: the first that fits decides."""
    found = []
    for kind in (MEMBERS, CLIENTS, COLLECTORS, FLEET):
        for source in rules[kind]["v4"] + rules[kind]["v6"]:
            # Members on any port: gloo and NCCL choose theirs when they start.
            for ports in [""] if kind == MEMBERS else rules[kind]["ports"]:
                found.append({"rule": "allow", "from": source, "ports": ports})
    return found + [{"rule": "deny", "from": "any", "ports": ports} for ports in rules["closed"]]


def firewalld_rules(rules: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rich rules of firewalld. Its zones refuse whatever no rule lets in."""
    found = []
    for kind in (MEMBERS, CLIENTS, COLLECTORS, FLEET):
        for source in rules[kind]["v4"] + rules[kind]["v6"]:
            head = 'rule family="{0}" source address="{1}"'.format("ipv6" if ":" in source else "ipv4", source)
            for ports in [""] if kind == MEMBERS else rules[kind]["ports"]:
                middle = ' port port="{0}" protocol="tcp"'.format(ports) if ports else ""
                found.append(head + middle + " accept")
    return [{"zone": zone, "rule": rule} for zone in rules["zones"] for rule in found]


COMMANDS: Mapping[str, Any] = {"ufw": ufw_rules, "firewalld": firewalld_rules}


def firewall_commands(
    program: str, rules: Mapping[str, Any], previous: Sequence[Mapping[str, str]]
) -> dict[str, list[Any]]:
    """What to remove, and then what to add in this order, so that after ``previous`` the rules hold; no rules: take back all."""
    wanted = COMMANDS[program](rules) if rules else []
    # What is added comes last. Behind a rule that denies it would mean nothing, so that goes first and comes back after it.
    late = any(rule not in previous for rule in wanted if rule["rule"] != "deny")
    return {
        "remove": [rule for rule in previous if rule not in wanted or (late and rule["rule"] == "deny")],
        "add": wanted,
    }
