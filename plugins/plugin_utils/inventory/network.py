# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network that a deployment's hosts are to use."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import cidr_fault

_NAME = "llm_cluster_network"


def network_problems(inventory: Inventory) -> Problems:
    """Each network that is none, once for each place that it is set at."""
    seen: set[tuple[str, str]] = set()
    for host in inventory.checked_hosts:
        value = inventory.get(host, _NAME)
        fault, suggestion = (False, "") if value in (None, "") else cidr_fault(value)
        text, where = inventory.text(value), inventory.where(_NAME, host)
        if fault and (text, where) not in seen:
            seen.add((text, where))
            yield inventory.problem("network_malformed", value=text, where=where, name=_NAME, suggestion=suggestion)
