# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment variables that make Ray, NCCL, gloo, UCX and vLLM use the network that the hosts agreed on.

One decision, made from what was found on the hosts, sets all of them; nothing is left to a program's own guess. The meanings are
those of NCCL's and Ray's documentation:
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html, https://docs.ray.io/en/latest/ray-core/configure.html
"""

from __future__ import annotations

import ipaddress
from typing import Any, Mapping, NamedTuple, Sequence

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


def _mapped(gid: str) -> str:
    """The IPv4 address that a GID stands for, or nothing."""
    try:
        address = ipaddress.IPv6Address(gid)
    except ValueError:
        return ""
    return str(address.ipv4_mapped or address)


def _infiniband(host: Mapping[str, Any]) -> Rdma | None:
    ports = [
        "{0}:{1}".format(port["device"], port["port"])
        for port in host.get("rdma") or ()
        if port.get("active") and port.get("link_layer") == "InfiniBand"
    ]
    return Rdma(ports, None) if ports else None


def _roce(host: Mapping[str, Any]) -> Rdma | None:
    """The port below the cluster's interface, and the index under which it has the cluster's address as RoCE v2."""
    address = str(ipaddress.ip_address(str(host["interface"]["address"])))
    for port in host.get("rdma") or ():
        if not port.get("active") or port.get("link_layer") != "Ethernet":
            continue
        for gid in port.get("gids") or ():
            if str(gid.get("type")).lower() == _ROCE_2 and _mapped(str(gid.get("gid"))) == address:
                return Rdma(["{0}:{1}".format(port["device"], port["port"])], int(gid["index"]))
    return None


def rdma_of(host: str, hosts: Mapping[str, Mapping[str, Any]]) -> Rdma | None:
    """What a host uses for RDMA; None unless every host of the deployment can do the same."""
    for find in (_infiniband, _roce):
        if all(find(entry) for entry in hosts.values()):
            return find(hosts[host])
    return None


def p2p_works(p2p: Mapping[str, Mapping[str, Any]] | None) -> bool | None:
    """Whether the GPUs of a host read each other's memory: one pair that cannot is enough for no. None: not known, or one GPU."""
    answers = [answer for others in (p2p or {}).values() for answer in others.values()]
    if any(answer is False for answer in answers):
        return False
    return True if answers and all(answer is True for answer in answers) else None


def cluster_environment(host: str, hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The variables of one host.

    ``hosts`` holds, for every host of the deployment, ``interface`` (``{interface, address}``), ``rdma`` (as ``nic_facts`` tells it),
    ``p2p`` (as ``gpu_facts`` does) and whatever of TUNING somebody set.
    """
    mine = hosts[host]
    name, address = str(mine["interface"]["interface"]), str(mine["interface"]["address"])
    environment = {
        "VLLM_HOST_IP": address,
        # NCCL takes a name as the beginning of one, so that eth1 would mean eth10 too; = asks for exactly this.
        "NCCL_SOCKET_IFNAME": "=" + name,
        "GLOO_SOCKET_IFNAME": name,
        "TP_SOCKET_IFNAME": name,
        "UCX_NET_DEVICES": name,
        "NCCL_IB_DISABLE": "1",
    }
    if ipaddress.ip_address(address).version == 6:
        environment["NCCL_SOCKET_FAMILY"] = "AF_INET6"
    rdma = rdma_of(host, hosts)
    if rdma is not None:
        environment["NCCL_IB_DISABLE"] = "0"
        environment["NCCL_IB_HCA"] = "=" + ",".join(rdma.ports)
        environment["UCX_NET_DEVICES"] = ",".join([*rdma.ports, name])
        if rdma.gid_index is not None:
            environment["NCCL_IB_GID_INDEX"] = str(rdma.gid_index)
    if p2p_works(mine.get("p2p")) is False:
        environment["NCCL_P2P_DISABLE"] = "1"
    for ours, theirs in TUNING:
        if mine.get(ours) not in (None, ""):
            environment[theirs] = str(mine[ours])
    return environment


def hosts_of(members: Sequence[str], hostvars: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What ``cluster_environment`` wants to know of the hosts, from their variables; hosts without an interface are left out."""
    hosts: dict[str, dict[str, Any]] = {}
    for host in members:
        variables = hostvars[host]
        if not variables.get("llm_interface"):
            continue
        facts = variables.get("ansible_facts") or {}
        hosts[host] = {
            "interface": variables["llm_interface"],
            "rdma": facts.get("llm_rdma_found"),
            "p2p": facts.get("llm_gpu_p2p"),
        }
        hosts[host].update({ours: variables.get(ours) for ours, _theirs in TUNING})
    return hosts
