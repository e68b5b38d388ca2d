# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual address that several gateways share: who may hold it, on which interface, and what is wrong with it.

One of them holds it, by VRRP (RFC 9568), as keepalived speaks it. What they send goes from host to host and carries no password:
version 3 has none, since one that crosses the network in the open protects nothing. Only the addresses of the others are listened to.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import facts_of, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.interfaces import interfaces_from_facts

VARIABLE, ANY = "gateway_virtual_address", "*"
# How keepalived gives the address to an interface, which tells it from an address that the host has itself.
PREFIX = 32


def virtual_address(variables: Mapping[str, object]) -> str:
    """The address that a gateway shares with the others; empty where it shares none."""
    return str(variables.get(VARIABLE) or "")


def placed(variables: Mapping[str, object], address: str) -> tuple[str, str] | None:
    """The interface of a host that is in the network of an address, and the host's own address there; None where there is none."""
    wanted = ipaddress.ip_address(address)
    for entry in _interfaces(variables):
        for own in map(ipaddress.ip_interface, texts(entry.get("addresses"))):
            network = own.network
            ends = (network.network_address, network.broadcast_address)
            if wanted in network and wanted not in ends and network.prefixlen < PREFIX:
                return str(entry["name"]), str(own.ip)
    return None


def _interfaces(variables: Mapping[str, object]) -> list[dict[str, object]]:
    return interfaces_from_facts(facts_of(variables))


def virtual_section(
    hosts: Sequence[str], host: str, variables: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """What one gateway gets: ``address``, and as soon as all of them were looked at ``interface``, ``own`` (address) and ``peers`` (addresses of
    the others). Empty without a virtual address. With a part of the gateways, both halves would claim it."""
    address = virtual_address(variables[host])
    if not address:
        return {}
    places = {name: placed(variables[name], address) for name in hosts}
    mine = places[host]
    others = [place[1] for name, place in places.items() if place and name != host]
    if not mine or len(others) < len(hosts) - 1:
        return {"address": address}
    return {"address": address, "interface": mine[0], "own": mine[1], "peers": others}


def virtual_problems(
    hosts: Sequence[str],
    members: Sequence[str],
    variables: Mapping[str, Mapping[str, object]],
    lang: str = "en",
) -> list[dict[str, str]]:
    """Why the gateways cannot share the address that is asked for. ``members`` are the hosts of all deployments."""
    said = {host: virtual_address(variables[host]) for host in hosts}
    asked = sorted(set(said.values()) - {""})
    if not asked:
        return []

    def refused(code: str, **values: object) -> list[dict[str, str]]:
        why = message(code, lang, **values)
        where = message("where_group", lang, group="llm_gateway")
        return [problem("gateway_virtual", lang, value=f"{VARIABLE}: {', '.join(asked)}", where=where, why=why)]

    if len(set(said.values())) > 1:
        return refused("gateway_virtual_differs", hosts=names(list(hosts), lang))
    try:
        wanted = ipaddress.IPv4Address(asked[0])
    except ValueError:
        return refused("gateway_virtual_form")
    if len(hosts) == 1:
        return refused("gateway_virtual_alone", host=hosts[0])
    bound = [host for host in hosts if str(variables[host]["gateway_address"]) != ANY]
    if bound:
        return refused("gateway_virtual_listens", host=bound[0], variable="gateway_address")
    every = dict.fromkeys([*hosts, *members])
    owners = [host for host in every if str(wanted) in _own(variables[host])]
    if owners:
        return refused("gateway_virtual_taken", host=owners[0])
    away = [host for host in hosts if _interfaces(variables[host]) and not placed(variables[host], str(wanted))]
    return refused("gateway_virtual_network", host=away[0]) if away else []


def _own(variables: Mapping[str, object]) -> list[str]:
    """The addresses that a host has itself, as far as they are known."""
    every = [ipaddress.ip_interface(text) for entry in _interfaces(variables) for text in texts(entry.get("addresses"))]
    found = [str(own.ip) for own in every if own.network.prefixlen < own.max_prefixlen]
    return [*found, str(variables.get("ansible_host") or "")]
