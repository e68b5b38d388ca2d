# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the journals that hosts would send have somewhere to go, as far as the inventory tells."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.journals import CENTRAL, NEEDED


def journal_problems(inventory: Inventory) -> Problems:
    """Of all hosts together: there is one that collects, it is set up for it, and who sends has the package."""
    sending = [host for host in inventory.checked_hosts if is_true(inventory.get(host, CENTRAL))]
    if not sending:
        return
    watching = inventory.members("llm_monitoring")
    where = inventory.where(CENTRAL, sending[0])
    if not watching:
        yield inventory.problem("journal_nowhere", value=inventory.names(sending), where=where)
        return
    for name, wanted, default in NEEDED:
        said = inventory.get(watching[0], name)
        value = default if said is None else str(said).lower() if isinstance(said, bool) else str(said)
        if (is_true(value) != is_true(wanted)) if wanted == "true" else value != wanted:
            yield inventory.problem(
                "journal_server",
                value=f"{name}: {value}",
                where=inventory.where(name, watching[0]),
                host=watching[0],
                wanted=f"{name}: {wanted}",
            )
    bare = [host for host in sending if host != watching[0] and not _takes_exporter(inventory, host)]
    if bare:
        yield inventory.problem("journal_no_exporter", value=inventory.names(bare), where=where)


def _takes_exporter(inventory: Inventory, host: str) -> bool:
    said = inventory.get(host, "monitoring_exporter_enabled")
    return said is None or is_true(said)
