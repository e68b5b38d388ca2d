# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who gets alerts, as far as the inventory says: each receiver has a name of its own, and what its kind needs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import shown

VARIABLE = "monitoring_receivers"
# It is the name of a file, and stands in an address.
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_NEEDED = {"email": ("to", "from", "smarthost")}
# Login, host or address, port, and what follows.
_ADDRESS = re.compile(r"https?://([^\s/@]+@)?(\[[0-9a-fA-F:.]+\]|[^\s/:@\[\]]+)(:\d{1,5})?([/?]\S*)?")


def receiver_problems(inventory: Inventory) -> Problems:
    """Of the hosts that watch, each fault once. A wrong type or choice is reported with those of all variables."""
    said: list[dict[str, str]] = []
    for host in inventory.members("llm_monitoring"):
        receivers = mappings(inventory.get(host, VARIABLE))
        where = inventory.where(VARIABLE, host)
        for code, value, more in _faults(receivers):
            # What a receiver says may be a secret: only its name is shown.
            problem = inventory.problem(code, value=shown(value, inventory.lang), where=where, **more)
            if problem not in said:
                said.append(problem)
    yield from said


def _faults(receivers: list[Mapping[str, object]]) -> list[tuple[str, str, dict[str, object]]]:
    found: list[tuple[str, str, dict[str, object]]] = []
    names = [str(receiver.get("name")) for receiver in receivers]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            found.append(("receiver_twice", name, {}))
        if not _NAME.fullmatch(name):
            found.append(("receiver_name", name, {}))
    for receiver in receivers:
        name, kind = str(receiver.get("name")), str(receiver.get("kind"))
        lacking = [key for key in _NEEDED.get(kind, ("url",)) if not receiver.get(key)]
        if lacking:
            found.append(("receiver_incomplete", name, {"kind": kind, "keys": ", ".join(lacking)}))
        elif kind != "email" and not _ADDRESS.fullmatch(str(receiver["url"])):
            found.append(("receiver_address", name, {"kind": kind}))
    return found
