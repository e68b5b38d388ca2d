# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment variables that make Ray, NCCL, gloo and UCX use the network that the hosts agreed on.

One decision, made from what was found on the hosts, sets all of them; nothing is left to a program's own guess. The meanings are
those of NCCL's and Ray's documentation:
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html, https://docs.ray.io/en/latest/ray-core/configure.html
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import facts_of, mapping, number, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings

# Settings that help in some places and harm in others: unset unless somebody sets them. Variable of ours, NCCL's own.
TUNING = (
    ("llm_nccl_algo", "NCCL_ALGO"),
    ("llm_nccl_debug", "NCCL_DEBUG"),
    ("llm_nccl_net_gdr_level", "NCCL_NET_GDR_LEVEL"),
    ("llm_nccl_nsocks_per_thread", "NCCL_NSOCKS_PERTHREAD"),
    ("llm_nccl_socket_threads", "NCCL_SOCKET_NTHREADS"),
)
_ROCE_2 = "roce v2"


class Rdma(NamedTuple):
    """RDMA as a host uses it."""

    ports: list[str]
    gid_index: int | None  # RoCE only
    mbps: int  # of all ports together; 0 where no driver says


def _mapped(gid: str) -> str:
    """The IPv4 address that a GID stands for, or nothing."""
    try:
        address = ipaddress.IPv6Address(gid)
    except ValueError:
        return ""
    return str(address.ipv4_mapped or address)


def _rdma(ports: Sequence[Mapping[str, object]], gid_index: int | None) -> Rdma:
    mbps = sum(int(number(port.get("rate_gbps") or 0) * 1000) for port in ports)
    return Rdma(["{0}:{1}".format(port["device"], port["port"]) for port in ports], gid_index, mbps)


def _infiniband_ports(host: Mapping[str, object]) -> list[Mapping[str, object]]:
    return [
        port for port in mappings(host.get("rdma")) if port.get("active") and port.get("link_layer") == "InfiniBand"
    ]


def _subnet(port: Mapping[str, object]) -> str:
    """The prefix of a port's subnet, which its subnet manager gives and which is the first half of its GID; nothing where it has no GID."""
    gid = next((str(each.get("gid")) for each in mappings(port.get("gids"))), "")
    try:
        return ipaddress.IPv6Address(gid).exploded[:19]
    except ValueError:
        return ""


def _infiniband(host: Mapping[str, object], hosts: Mapping[str, Mapping[str, object]] | None = None) -> Rdma | None:
    """The ports that reach those of the other hosts: of fabrics that all of them are connected to. A port of another one makes NCCL time out."""
    ports = _infiniband_ports(host)
    for other in (hosts or {}).values():
        there = {_subnet(port) for port in _infiniband_ports(other)}
        # Where a port does not tell, nothing speaks against it.
        if "" not in there:
            ports = [port for port in ports if _subnet(port) in ("", *there)]
    # Slower ones beside them are for storage: NCCL, which takes all that it is given, would wait for them.
    fastest = max((number(port.get("rate_gbps") or 0) for port in ports), default=0)
    ports = [port for port in ports if number(port.get("rate_gbps") or 0) == fastest]
    return _rdma(ports, None) if ports else None


def _roce(host: Mapping[str, object], _hosts: Mapping[str, Mapping[str, object]] | None = None) -> Rdma | None:
    """The port below the cluster's interface, and the index under which it has the cluster's address as RoCE v2."""
    address = str(ipaddress.ip_address(str(mapping(host["interface"])["address"])))
    for port in mappings(host.get("rdma")):
        if not port.get("active") or port.get("link_layer") != "Ethernet":
            continue
        for gid in mappings(port.get("gids")):
            if str(gid.get("type")).lower() == _ROCE_2 and _mapped(str(gid.get("gid"))) == address:
                return _rdma([port], whole(gid["index"]))
    return None


# In the order of preference
_KINDS: tuple[tuple[str, Callable[[Mapping[str, object], Mapping[str, Mapping[str, object]]], Rdma | None]], ...] = (
    ("InfiniBand", _infiniband),
    ("RoCE v2", _roce),
)


def rdma_of(host: str, hosts: Mapping[str, Mapping[str, object]]) -> Rdma | None:
    """What a host uses for RDMA; None unless every host of the deployment can do the same."""
    for _kind, find in _KINDS:
        if all(find(entry, hosts) for entry in hosts.values()):
            return find(hosts[host], hosts)
    return None


def rdma_lacking(hosts: Mapping[str, Mapping[str, object]]) -> tuple[str, list[str]]:
    """Why a deployment goes without RDMA that some of its hosts have: the kind that the most have, and the hosts that lack it."""
    lacking = {kind: [host for host, entry in hosts.items() if not find(entry, hosts)] for kind, find in _KINDS}
    kind = min(lacking, key=lambda kind: len(lacking[kind]))
    return kind, lacking[kind] if len(lacking[kind]) < len(hosts) else []


def p2p_impossible(p2p: object) -> bool:
    """Whether no GPUs of a host read each other's memory. Where some do, NCCL finds out itself which."""
    answers = [answer for others in mapping(p2p).values() for answer in mapping(others).values()]
    return False in answers and True not in answers


def p2p_missing(p2p_of_hosts: Iterable[object]) -> bool:
    """Whether on one of the hosts two GPUs cannot read each other's memory: a single pair is too much for an engine's own all-reduce."""
    return any(False in mapping(others).values() for p2p in p2p_of_hosts for others in mapping(p2p).values())


def cluster_environment(host: str, hosts: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """The variables of one host.

    ``hosts`` holds, for every host of the deployment, ``interface`` (``{interface, address}``), ``rdma`` (as ``gather`` tells it),
    ``p2p`` (as ``gpu_facts`` does) and whatever of TUNING somebody set.
    """
    mine = hosts[host]
    name = str(mapping(mine["interface"])["interface"])
    environment = {
        # NCCL takes a name as the beginning of one, so that eth1 would mean eth10 too; = asks for exactly this.
        "NCCL_SOCKET_IFNAME": "=" + name,
        "GLOO_SOCKET_IFNAME": name,
        "TP_SOCKET_IFNAME": name,
        "UCX_NET_DEVICES": name,
        "NCCL_IB_DISABLE": "1",
    }
    rdma = rdma_of(host, hosts)
    if rdma is not None:
        environment["NCCL_IB_DISABLE"] = "0"
        environment["NCCL_IB_HCA"] = "=" + ",".join(rdma.ports)
        environment["UCX_NET_DEVICES"] = ",".join([*rdma.ports, name])
        if rdma.gid_index is not None:
            environment["NCCL_IB_GID_INDEX"] = str(rdma.gid_index)
    if p2p_impossible(mine.get("p2p")):
        environment["NCCL_P2P_DISABLE"] = "1"
    for ours, theirs in TUNING:
        if mine.get(ours) not in (None, ""):
            environment[theirs] = str(mine[ours])
    return environment


def hosts_of(members: Sequence[str], hostvars: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    """What ``cluster_environment`` wants to know of the hosts, from their variables; hosts without an interface are left out."""
    hosts: dict[str, dict[str, object]] = {}
    for host in members:
        variables = hostvars[host]
        if not variables.get("llm_interface"):
            continue
        facts = facts_of(variables)
        hosts[host] = {
            "interface": variables["llm_interface"],
            "rdma": facts.get("llm_rdma_found"),
            "p2p": facts.get("llm_gpu_p2p"),
        }
        hosts[host].update({ours: variables.get(ours) for ours, _theirs in TUNING})
    return hosts
