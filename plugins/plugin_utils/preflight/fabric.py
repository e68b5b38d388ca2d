# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what carries the traffic between the hosts of a deployment is as fast as it could be: links, bonds, ports of RDMA, and their way to the GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.interfaces import Agreed, interfaces_from_facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import (
    Deployment,
    Hosts,
    amount,
    numbers_in,
    whole_number,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.network import ports_of_nccl
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.picture import CONSUMER
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import Findings

# States of a port of InfiniBand whose link is up and to which no subnet manager has given an address (IBTA, PortState).
WAITING = ("INIT", "ARMED")
# Either of these lets a card of the network read the memory of a GPU.
PEER_MODULES = ("nvidia_peermem", "nv_peer_mem")
# Without them the open modules of the driver do it from this kernel on, by DMA-BUF (NCCL, src/transport/net_ib.cc).
DMA_BUF_KERNEL = (5, 12)
# By host the ports of RDMA that NCCL will use.
Used = Mapping[str, Sequence[Mapping[str, Any]]]


def _waiting(hosts: Hosts, deployment: Deployment, _agreed: Agreed, _used: Used) -> Findings:
    for host in deployment.seen:
        ports = [
            f"{port.get('device')}:{port.get('port')}: {port.get('state')}"
            for port in mappings(hosts.facts[host].get("llm_rdma_found"))
            if port.get("link_layer") == "InfiniBand" and port.get("state") in WAITING
        ]
        if ports:
            yield hosts.finding("rdma_port_waiting", [host], hosts.names(ports), host=host)


def _speeds(hosts: Hosts, deployment: Deployment, agreed: Agreed, used: Used) -> Findings:
    """Links of one kind that came up with different speeds: everybody waits for the slowest."""
    found: dict[int, list[str]] = {}
    for host in deployment.seen:
        mine = agreed["interfaces"].get(host)
        rates = [int(amount(port.get("rate_gbps")) * 1000) for port in used.get(host, ())]
        speeds = [
            whole_number(entry.get("speed_mbps"))
            for entry in interfaces_from_facts(hosts.facts[host])
            if mine and entry["name"] == mine["interface"]
        ]
        speed = min(rates or speeds, default=0)
        if speed:
            found.setdefault(speed, []).append(host)
    if len(found) > 1:
        said = [f"{speed} Mb/s: {hosts.names(mine)}" for speed, mine in sorted(found.items())]
        slow = [host for speed in sorted(found)[:-1] for host in found[speed]]
        yield hosts.finding("link_speed_differs", slow, "; ".join(said), deployment=deployment.name)


def _bonds(hosts: Hosts, deployment: Deployment, agreed: Agreed, _used: Used) -> Findings:
    for host in deployment.seen:
        mine = agreed["interfaces"].get(host)
        entries = {entry["name"]: entry for entry in interfaces_from_facts(hosts.facts[host])}
        bond = entries.get(mine["interface"]) if mine else None
        if bond and bond.get("kind") == "bond":
            down = [name for name in bond.get("members") or () if (entries.get(name) or {}).get("up") is False]
            if down:
                yield hosts.finding("bond_member_down", [host], hosts.names(down), host=host, bond=bond["name"])


def _aggregators(hosts: Hosts, deployment: Deployment, agreed: Agreed, _used: Used) -> Findings:
    """Links of a bond that the switch does not count as one: of several groups the bond uses one (802.3ad)."""
    for host in deployment.seen:
        mine = agreed["interfaces"].get(host)
        entries = {entry["name"]: entry for entry in interfaces_from_facts(hosts.facts[host])}
        bond = entries.get(mine["interface"]) if mine else None
        links = [entries[name] for name in (bond or {}).get("members") or () if name in entries]
        groups = {
            str(link["name"]): link["aggregator"]
            for link in links
            if link.get("up") is not False and isinstance(link.get("aggregator"), int)
        }
        if bond and len(set(groups.values())) > 1:
            said = hosts.names([f"{name}: {group}" for name, group in groups.items()])
            yield hosts.finding("bond_not_aggregated", [host], said, host=host, bond=bond["name"])


def _rails(hosts: Hosts, deployment: Deployment, _agreed: Agreed, used: Used) -> Findings:
    """Hosts with fewer ports than others: NCCL refuses that, or waits on a port that has no partner."""
    counts = {host: len(used[host]) for host in deployment.seen if used.get(host)}
    most = max(counts.values(), default=0)
    fewer = [host for host, count in counts.items() if count < most]
    if fewer:
        said = "; ".join(f"{host}: {counts[host]} / {most}" for host in fewer)
        yield hosts.finding("rdma_ports_fewer", fewer, said, deployment=deployment.name)


def _far(hosts: Hosts, deployment: Deployment, _agreed: Agreed, used: Used) -> Findings:
    """Ports on a node of the processor where no GPU is: all that goes out crosses the link between the processors."""
    for host in deployment.seen:
        own = {str(gpu.get("bus_id")) for gpu in hosts.own_gpus(host)}
        seats = [seat for seat in mappings(hosts.found(host, "gpu").get("bus")) if str(seat.get("bus_id")) in own]
        near = {node for seat in seats if isinstance(node := seat.get("numa_node"), int)}
        ports = {
            f"{port['device']}:{port['port']}": port["numa_node"]
            for port in used.get(host, ())
            if isinstance(port.get("numa_node"), int)
        }
        if near and ports and not near & set(ports.values()):
            said = hosts.names([f"{name}: NUMA {node}" for name, node in ports.items()])
            gpus = ", ".join(map(str, sorted(near)))
            yield hosts.finding("rdma_far_from_gpus", [host], said, host=host, nodes=gpus)


def _by_dma_buf(hosts: Hosts, host: str) -> bool:
    driver = hosts.found(host, "gpu").get("driver") or {}
    kernel = numbers_in(str(hosts.found(host, "host").get("kernel") or ""))[:2]
    return driver.get("kernel_module") == "open" and kernel >= DMA_BUF_KERNEL


def _direct(hosts: Hosts, deployment: Deployment, _agreed: Agreed, used: Used) -> Findings:
    """RDMA whose cards may not read the memory of the GPUs: everything is copied through that of the host."""
    for host in deployment.seen:
        modules = hosts.found(host, "host").get("modules")
        names = [str(gpu.get("name")) for gpu in hosts.own_gpus(host)]
        can = names and not any(CONSUMER.search(name) for name in names)
        ports = used.get(host, ())
        if modules is None or not can or not ports or not hosts.loaded_driver(host):
            continue
        if not set(PEER_MODULES) & set(modules) and not _by_dma_buf(hosts, host):
            yield hosts.finding("gpudirect_missing", [host], PEER_MODULES[0], host=host)


RULES: tuple[Callable[[Hosts, Deployment, Agreed, Used], Findings], ...] = (
    *(_waiting, _speeds, _bonds, _aggregators, _rails),
    *(_far, _direct),
)


def fabric_findings(hosts: Hosts, deployment: Deployment, agreed: Agreed) -> Findings:
    """What slows down the traffic between hosts; nothing of a deployment with one host."""
    if len(deployment.members) < 2:
        return
    used = ports_of_nccl(hosts, deployment, agreed["interfaces"])
    for rule in RULES:
        for entry in rule(hosts, deployment, agreed, used):
            yield {**entry, "where": message("where_hosts_network", hosts.lang)}
