# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where logs are handed to, as far as the inventory says."""

from __future__ import annotations

import re

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.vector import NOWHERE

KIND, URL = "monitoring_logs_kind", "monitoring_logs_url"
# A login in it would stand in a file that is no secret.
_ADDRESS = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[^\s/:@\[\]]+)(:\d{1,5})?(/\S*)?")


def log_target_problems(inventory: Inventory) -> Problems:
    """Each wrong address once. A wrong kind is reported with the choices of all variables."""
    seen = set()
    for host in inventory.checked_hosts:
        kind, url = str(inventory.get(host, KIND) or NOWHERE), str(inventory.get(host, URL) or "")
        if kind == NOWHERE or _ADDRESS.fullmatch(url) or inventory.is_open(host, URL) or url in seen:
            continue
        seen.add(url)
        yield inventory.problem("logs_url", value=url.rpartition("@")[2], where=inventory.where(URL, host), kind=kind)
