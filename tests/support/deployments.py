"""Hosts gpu1, gpu2, ... of a deployment, with the variables that they would have after gather and preflight."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment, Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import render

ROLES = Path(__file__).resolve().parents[2] / "roles"
V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
INFINIBAND = {"device": "mlx5_0", "port": 1, "active": True, "link_layer": "InfiniBand", "rate_gbps": 100, "gids": []}


@functools.cache
def defaults() -> dict[str, Any]:
    """The defaults of the roles; those that name other variables come to what they are on these hosts."""
    found: dict[str, Any] = {}
    for role in ("common", "ray", "vllm"):
        found |= yaml.safe_load((ROLES / role / "defaults/main.yml").read_text(encoding="utf-8"))
    return {**found, "models_dir": "/opt/llm/models", "llm_report_dir": "/reports", "llm_secrets_dir": "/secrets"}


def facts(number: int, gpus: int = 1, **more: Any) -> dict[str, Any]:
    """What gather finds: two networks, the first of them faster."""
    nics = [
        {"name": "eth1", "addresses": [f"10.0.0.{number}/24"], "speed_mbps": 10000, "mtu": 1500},
        {"name": "eth0", "addresses": [f"192.168.0.{number}/24"], "speed_mbps": 1000, "mtu": 1500},
    ]
    return {
        "llm_nics_found": nics,
        "llm_gpus_found": [V100] * gpus,
        "llm_dynamic_ports": {"first": 32768, "last": 60999},
        "llm_memory_mib": 62 * 1024,
        "llm_firewall": {"firewalld": {"running": False}, "ufw": {"enabled": False}},
        "llm_network_state": {},
        **more,
    }


def host(number: int, gpus: int = 1, found: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The variables of gpu<number>: the roles' defaults, what was found, and what the inventory says."""
    return {
        **copy.deepcopy(defaults()),
        "vllm_model": "lab/tiny",
        "vllm_version": "0.8.5",
        "llm_interface": {"interface": "eth1", "address": f"10.0.0.{number}", "speed_mbps": 10000},
        "ansible_facts": facts(number, gpus, **(found or {})),
        **more,
    }


def plan(executor: str, *ranks: int, **settings: Any) -> dict[str, Any]:
    """A plan with so many ranks on gpu1, gpu2, ..."""
    nodes, first = [], 0
    for number, count in enumerate(ranks, start=1):
        nodes.append({"host": f"gpu{number}", "ranks": list(range(first, first + count))})
        first += count
    return {"ok": True, "executor": executor, "nodes": nodes, "settings": settings}


def deployment(executor: str = "ray", ranks: tuple[int, ...] = (1, 1), **more: Any) -> Deployment:
    """Of gpu1, the head, and others, with these variables on each of them."""
    variables = {f"gpu{n}": host(n, **more) for n in range(1, len(ranks) + 1)}
    return Deployment("tiny", "gpu1", list(variables), plan(executor, *ranks), "image:1", variables)


def member(name: str = "gpu1", executor: str = "ray", ranks: tuple[int, ...] = (1, 1), **more: Any) -> Member:
    return deployment(executor, ranks, **more).of(name)


def refused(decided: dict[str, Any], language: str = "en") -> str:
    """What is wrong by a decision, as people read it."""
    return render(decided["problems"], language, "")
