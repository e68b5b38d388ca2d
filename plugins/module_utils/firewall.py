# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's firewall has to let in for its deployment, and from whom, whichever program the firewall is.

Only the deployment's own ports are ever closed. Whatever else listens on a host, SSH above all, is none of our business.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils.network import interfaces_from_facts, outer_addresses
from ansible_collections.baremetal.llm.plugins.module_utils.ports import (
    CLIENTS,
    COLLECTORS,
    ITSELF,
    MEMBERS,
    clashes,
    deployment_ports,
    merged,
)

_SSH = 22


def _literal(text: Any) -> str:
    try:
        return str(ipaddress.ip_address(str(text)))
    except ValueError:
        return ""


def addresses_of(variables: Mapping[str, Any]) -> list[str]:
    """Every address from which a host may come: what it was found to have, else what the inventory says."""
    facts = variables.get("ansible_facts") or {}
    found = [str(item.ip) for item in outer_addresses(interfaces_from_facts(facts))]
    if not found:
        found = [_literal(variables.get("ansible_host"))]
    return sorted({address for address in found if address})


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


def firewall_rules(
    host: str,
    members: Sequence[str],
    others: Mapping[str, Sequence[str]],
    hostvars: Mapping[str, Mapping[str, Any]],
    executor: str = "",
) -> dict[str, Any]:
    """The rules of one host.

    ``members`` are the hosts of its deployment; ``others`` names hosts that come as ``clients`` (gateways) or ``collectors``
    (monitoring). Returns ``members``, ``clients`` and ``collectors``, each ``{v4, v6, ports}`` with ports as nftables writes them,
    ``closed``, the ports of them all and those that only the host itself may use, ``dynamic`` (the interface and range where gloo
    and NCCL listen), ``ssh`` and, where the rules cannot be known, ``unknown``, hosts without an address, and ``clashes``, pairs of
    variables with one port.
    """
    mine = hostvars[host]
    known = {
        name: addresses_of(hostvars[name])
        for name in (*members, *(name for names in others.values() for name in names))
    }
    inside = [address for name in members for address in known[name]]
    sources = mine.get("llm_firewall_api_sources")
    if sources is None:
        # Clients of the networks that the deployment's hosts are in, and nobody from further away.
        sources = [
            str(item.network)
            for name in members
            for item in outer_addresses(interfaces_from_facts(hostvars[name].get("ansible_facts") or {}))
        ]
    more = {kind: [address for name in names for address in known[name]] for kind, names in others.items()}
    ports = deployment_ports(mine, executor)
    allowed = {
        MEMBERS: inside,
        CLIENTS: [*inside, *sources, *more.get(CLIENTS, ())],
        COLLECTORS: [*inside, *more.get(COLLECTORS, ())],
        ITSELF: [],
    }
    rules: dict[str, Any] = {
        kind: {
            **_by_version(_networks(who)),
            "ports": _ranges(port for port in ports if port.reached_by == kind),
        }
        for kind, who in allowed.items()
    }
    ssh = int(mine.get("ansible_port") or _SSH)
    dynamic = (mine.get("ansible_facts") or {}).get("llm_dynamic_ports") or {}
    spans = len(members) > 1 and mine.get("llm_interface") and dynamic
    rules.update(
        closed=_ranges(ports),
        ssh=sorted({_SSH, ssh}),
        dynamic={
            "interface": mine["llm_interface"]["interface"],
            "ports": "{0}-{1}".format(dynamic["first"], dynamic["last"]),
        }
        if spans
        else None,
        unknown=sorted(name for name in members if not known[name]),
        clashes=[list(pair) for pair in clashes(ports, [("ansible_port", ssh)])],
    )
    return rules


def ufw_rules(rules: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rules of ufw, in order: the first that fits decides."""
    found = []
    for kind in (MEMBERS, CLIENTS, COLLECTORS):
        for source in rules[kind]["v4"] + rules[kind]["v6"]:
            # Members on any port: gloo and NCCL choose theirs when they start.
            for ports in [""] if kind == MEMBERS else rules[kind]["ports"]:
                found.append({"rule": "allow", "from": source, "ports": ports})
    return found + [{"rule": "deny", "from": "any", "ports": ports} for ports in rules["closed"]]


def firewalld_rules(rules: Mapping[str, Any]) -> list[str]:
    """Rich rules of firewalld. Its zones refuse whatever no rule lets in."""
    found = []
    for kind in (MEMBERS, CLIENTS, COLLECTORS):
        for source in rules[kind]["v4"] + rules[kind]["v6"]:
            head = 'rule family="{0}" source address="{1}"'.format("ipv6" if ":" in source else "ipv4", source)
            for ports in [""] if kind == MEMBERS else rules[kind]["ports"]:
                middle = ' port port="{0}" protocol="tcp"'.format(ports) if ports else ""
                found.append(head + middle + " accept")
    return found


COMMANDS: Mapping[str, Any] = {"ufw": ufw_rules, "firewalld": firewalld_rules}
