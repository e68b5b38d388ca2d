# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose GPUs have to be measured by NVIDIA's exporter, which cannot run there by what the inventory says."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.dcgm import DCGM, gpu_exporter, refusal

WISH, IMAGE = "monitoring_gpu_exporter", "monitoring_dcgm_image"


def gpu_exporter_problems(inventory: Inventory) -> Problems:
    """By the image and the GPUs that are declared. The bundle has a rule of its own; the driver is looked at before monitoring changes a host."""
    for host in dict.fromkeys(host for members in inventory.deployments.values() for host in members):
        said = {name: inventory.get(host, name) for name in (WISH, IMAGE)}
        if said[WISH] != DCGM or inventory.is_open(host, IMAGE):
            continue
        found = gpu_exporter(
            host, {**said, "llm_gpus": mappings(inventory.get(host, "llm_gpus"))}, None, inventory.lang
        )
        if not found["fits"]:
            yield {**refusal(host, found, inventory.lang), "where": inventory.where(WISH, host)}
