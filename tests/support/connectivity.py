"""What the connectivity check finds on hosts gpu1, gpu2, ...: all of it good, or with paths that are cut."""

from __future__ import annotations

from typing import Any

A, B = "10.0.0.0/24", "10.0.1.0/24"


def candidate(network: str, hosts: int = 3, mtu: int = 1500) -> dict[str, Any]:
    prefix = network.rsplit(".", 1)[0]
    return {
        "network": network,
        "interfaces": {
            f"gpu{n}": {"interface": f"eth{n}", "address": f"{prefix}.{n}", "mtu": mtu, "speed_mbps": 0, "rdma": False}
            for n in range(1, hosts + 1)
        },
    }


def good(*networks: str, hosts: int = 3) -> dict[str, Any]:
    """Results in which everybody reaches everybody."""
    names = [f"gpu{n}" for n in range(1, hosts + 1)]
    return {
        me: {
            "taken": [],
            "reached": {
                network: {
                    peer: {"milliseconds": 0.2, "mbps": 9000.0, "failed": {}, "stream": ""}
                    for peer in names
                    if peer != me
                }
                for network in networks
            },
            "heard": {network: {peer: 1500 for peer in names if peer != me} for network in networks},
        }
        for me in names
    }


def cut(results: dict[str, Any], network: str, sender: str, receiver: str, *, tcp: str = "both") -> None:
    """Packets from sender to receiver are lost. Connections need both directions, unless a firewall knows them."""
    results[receiver]["heard"][network].pop(sender, None)
    directions = [(sender, receiver)] + ([(receiver, sender)] if tcp == "both" else [])
    for one, other in directions:
        results[one]["reached"][network][other].update(
            milliseconds=None, mbps=None, failed={"dynamic": {"port": 40000, "reason": "timeout"}}
        )
