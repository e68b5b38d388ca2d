"""What roles/common makes of what was found on the hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.role_vars import role_variable


def value(name: str, **variables: Any) -> Any:
    """A variable of the role for the host gpu1 of a deployment of gpu1 and gpu2."""
    hosts = {
        "localhost": {
            "llm_inventory": {"deployments": {"tiny": {"hosts": ["gpu1", "gpu2"], "head": "gpu1"}}},
            "llm_plans": {"tiny": {"executor": "mp", "nodes": []}},
        },
        **{
            f"gpu{n}": {"llm_interface": {"interface": "eth1", "address": f"10.0.0.{n}"}, "ansible_facts": {}}
            for n in (1, 2)
        },
    }
    return role_variable("common", name, hostvars=hosts, inventory_hostname="gpu1", llm_deployment="tiny", **variables)


@pytest.mark.parametrize(
    ("mib", "gib"),
    [(None, 1), (15 * 1024, 1), (62 * 1024 + 700, 3), (62 * 1024 + 716, 3), (125 * 1024, 6), (2048 * 1024, 8)],
)
def test_ray_gets_whole_gibibytes_unless_somebody_says_how_much(mib: int | None, gib: int) -> None:
    facts = {} if mib is None else {"llm_memory_mib": mib}
    assert value("_llm_object_store_gib", ansible_facts=facts) == gib
    assert value("_llm_object_store_gib", ansible_facts=facts, ray_object_store_memory_gib=0.2) == 0.2


def test_preflight_and_ray_count_the_same_object_store() -> None:
    roles = Path(__file__).parents[3] / "roles"
    for role in ("preflight", "ray"):
        text = (roles / role / "vars/main.yml").read_text()
        assert "_llm_object_store_gib" in text
        assert "ray_object_store_memory_gib" not in text


@pytest.mark.parametrize(
    ("settings", "devices"),
    [
        ({}, []),
        ({"ray_environment": {"NCCL_IB_DISABLE": "0"}}, ["/dev/infiniband:/dev/infiniband"]),
        ({"vllm_environment": {"NCCL_IB_DISABLE": 0}}, ["/dev/infiniband:/dev/infiniband"]),
        ({"ray_environment": {"NCCL_IB_DISABLE": "1"}}, []),
    ],
)
def test_who_asks_for_rdma_gets_its_devices(settings: dict[str, Any], devices: list[str]) -> None:
    assert value("_llm_devices", _llm_network_environment={"NCCL_IB_DISABLE": "1"}, **settings) == devices
