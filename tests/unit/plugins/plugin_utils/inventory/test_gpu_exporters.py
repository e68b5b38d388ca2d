"""NVIDIA's exporter demanded where the inventory alone tells that it cannot run."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory

from tests.support.inventories import Inventory

IMAGE = "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04"
K40 = {"name": "Tesla K40m", "memory_mib": 11441, "compute_capability": "3.5"}
V100 = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"monitoring_dcgm_image": IMAGE}, ""),
        ({"monitoring_dcgm_image": IMAGE, "llm_gpus": [V100]}, ""),
        ({}, "names no image"),
        ({"monitoring_dcgm_image": IMAGE, "llm_gpus": [K40]}, "Tesla K40m has 3.5"),
        ({"monitoring_gpu_exporter": "auto"}, ""),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(inventory: Inventory, said: dict[str, Any], reason: str) -> None:
    inventory.set("gpu01", **{"monitoring_gpu_exporter": "dcgm", **said})
    known = {name: spec for name, spec in known_variables().items() if name.startswith("monitoring_")}
    found = check_inventory(inventory.hosts, inventory.groups, known)["problems"]
    mine = [entry for entry in found if entry["code"] == "gpu_exporter_refused"]
    assert len(mine) == bool(reason)
    assert all(reason in str(entry) and "gpu01" in str(entry) for entry in mine)
