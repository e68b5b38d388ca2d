# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network between the hosts of a deployment, and the names that they have in it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.environment import rdma_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.interfaces import (
    Agreed,
    Picked,
    agree_interfaces,
    interfaces_from_facts,
    is_outer,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Deployment, Hosts, whole_number
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import Findings

# Drivers of cards all of which do RDMA.
RDMA_DRIVERS = ("mlx4_core", "mlx4_en", "mlx5_core")


def agreement(hosts: Hosts, deployment: Deployment) -> Agreed:
    """The interfaces that the hosts agree on."""
    return agree_interfaces(
        {host: interfaces_from_facts(hosts.facts[host]) for host in deployment.seen},
        network=hosts.first(deployment.seen, "network"),
        wanted={host: hosts.get(host, "interface") for host in deployment.seen},
        lang=hosts.lang,
    )


def interface_findings(hosts: Hosts, deployment: Deployment, agreed: Agreed) -> Findings:
    for entry in agreed["problems"]:
        if entry["code"] in ("interface_missing", "interface_unusable"):
            entry = {**entry, "value": f"llm_cluster_interface: {entry['value']}"}
        yield hosts.graded(entry, texts(entry["hosts"]))
    yield from _mtu_findings(hosts, deployment, agreed["interfaces"])
    if len(deployment.members) > 1:
        yield from _subnet_findings(hosts, deployment, agreed)
        yield from _rdma_findings(hosts, deployment, agreed["interfaces"])
        yield from _storage_findings(hosts, deployment, agreed)


def _subnet_findings(hosts: Hosts, deployment: Deployment, agreed: Agreed) -> Findings:
    """Linux answers for every address of a host by any card: with two in one subnet nobody knows which one carries what."""
    for host in deployment.seen:
        mine = agreed["interfaces"].get(host)
        if not mine or not agreed["network"]:
            continue
        network = ipaddress.ip_network(agreed["network"])
        cards = [
            f"{entry['name']} {address}"
            for entry in interfaces_from_facts(hosts.facts[host])
            for address in entry["addresses"]
            if entry.get("up") is not False and is_outer(entry) and _same_network(address, network)
        ]
        if len({card.split()[0] for card in cards}) > 1:
            where = message("where_hosts_network", hosts.lang)
            yield hosts.finding("cards_share_subnet", [host], hosts.names(cards), where, host=host, network=network)


def _same_network(address: str, network: object) -> bool:
    try:
        return bool(ipaddress.ip_interface(address).network == network)
    except ValueError:
        return False


def _rdma_findings(hosts: Hosts, deployment: Deployment, interfaces: Mapping[str, Picked]) -> Findings:
    """Cards that can do RDMA, and do not: sockets take their place without a word."""
    idle: dict[str, str] = {}
    for host in deployment.seen:
        for entry in interfaces_from_facts(hosts.facts[host]):
            used = entry["name"] == (interfaces[host]["interface"] if host in interfaces else None)
            if used and entry.get("driver") in RDMA_DRIVERS and entry.get("rdma") == []:
                idle[host] = f"{host}: {entry['name']} ({entry['driver']})"
    if idle:
        where = message("where_hosts_network", hosts.lang)
        yield hosts.finding("rdma_unused", list(idle), "; ".join(idle.values()), where, names=hosts.names(list(idle)))


def ports_of_nccl(
    hosts: Hosts, deployment: Deployment, interfaces: Mapping[str, Picked]
) -> dict[str, list[Mapping[str, Any]]]:
    """By host the ports of RDMA that NCCL will use, as gather found them."""
    known: dict[str, dict[str, object]] = {
        host: {"interface": interfaces[host], "rdma": hosts.facts[host].get("llm_rdma_found")}
        for host in deployment.seen
        if interfaces.get(host)
    }
    used: dict[str, list[Mapping[str, Any]]] = {}
    for host in known:
        rdma = rdma_of(host, known)
        names = rdma.ports if rdma else ()
        found = hosts.facts[host].get("llm_rdma_found") or ()
        used[host] = [port for port in found if f"{port['device']}:{port['port']}" in names]
    return used


def _used_by_nccl(hosts: Hosts, deployment: Deployment, interfaces: Mapping[str, Picked]) -> dict[str, dict[str, str]]:
    """By host each interface that NCCL will use, with its port of RDMA where there is one."""
    used: dict[str, dict[str, str]] = {}
    for host, ports in ports_of_nccl(hosts, deployment, interfaces).items():
        led_to = {str(port["interface"]): f"{port['device']}:{port['port']}" for port in ports if port.get("interface")}
        used[host] = {interfaces[host]["interface"]: "", **led_to}
    return used


def _way_to(server: str, interfaces: Sequence[Mapping[str, object]]) -> str:
    """The interface whose subnet has a server; nothing where only a router leads there."""
    for entry in interfaces:
        for text in texts(entry["addresses"]):
            try:
                if ipaddress.ip_address(server) in ipaddress.ip_interface(text).network and is_outer(entry):
                    return str(entry["name"])
            except ValueError:
                continue
    return ""


def _storage_findings(hosts: Hosts, deployment: Deployment, agreed: Agreed) -> Findings:
    """Cards that carry the site's storage, and that NCCL will use as well.

    Shares by TCP over the cluster's own network are what most sites have: worth a word are RDMA of both kinds on one port, and ports of InfiniBand beside it.
    """
    used = _used_by_nccl(hosts, deployment, agreed["interfaces"])
    said: dict[str, str] = {}
    ports: list[str] = []
    for host, mine in used.items():
        interfaces = interfaces_from_facts(hosts.facts[host])
        own = agreed["interfaces"][host]["interface"]
        for entry in hosts.found(host, "host").get("storage") or ():
            way = _way_to(str(entry.get("server")), interfaces)
            if way in mine and (way != own or entry.get("rdma")):
                said[host] = f"{host}: {entry.get('mount')} ({entry.get('kind')}, {entry['server']}) {way}"
                ports += [mine[way]] if way != own and mine[way] else []
    if said:
        free = sorted({name for mine in used.values() for name in mine.values() if name} - set(ports))
        hca = "=" + ",".join(free) if ports and free else ""
        code = "storage_allowed_ports" if hca else "storage_allowed_network"
        allowed = message(code, hosts.lang, hca=hca)
        where = message("where_hosts_network", hosts.lang)
        yield hosts.finding("storage_shares_fabric", list(said), "; ".join(said.values()), where, remedy=allowed)


def _mtu_findings(hosts: Hosts, deployment: Deployment, interfaces: Mapping[str, Picked]) -> Findings:
    """TCP finds its way between hosts with different ones, only slower; something is set up wrongly all the same."""
    found: dict[int, list[str]] = {}
    for host in deployment.seen:
        for entry in interfaces_from_facts(hosts.facts[host]) if interfaces.get(host) else []:
            if entry["name"] == interfaces[host]["interface"] and whole_number(entry["mtu"]):
                found.setdefault(whole_number(entry["mtu"]), []).append(host)
    if len(found) > 1:
        said = [f"{mtu}: {hosts.names(mine)}" for mtu, mine in sorted(found.items())]
        where = message("where_hosts_network", hosts.lang)
        mine = sorted(host for members in found.values() for host in members)
        yield hosts.finding("mtu_differs", mine, value="; ".join(said), where=where, deployment=deployment.name)


def name_findings(hosts: Hosts, _deployment: Deployment, host: str) -> Findings:
    """That it stands for 127.0.1.1 is fine, as Debian has it: Ray and the engine get their addresses."""
    name = hosts.found(host, "host").get("name")
    if not name:
        return
    addresses = [str(item) for item in name.get("addresses") or ()]
    own = {
        address.split("/")[0] for entry in interfaces_from_facts(hosts.facts[host]) for address in entry["addresses"]
    }
    values = {"host": host, "name": name["name"]}
    if not addresses:
        nothing = message("nothing_there", hosts.lang)
        yield hosts.finding("host_name_unknown", [host], value=nothing, **values)
    elif not any(item in own or item.startswith("127.") or item == "::1" for item in addresses):
        yield hosts.finding("host_name_elsewhere", [host], value=hosts.names(addresses), **values)
