# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host remembers of its network (network.json), as far as it has the form that the collection gives it.

A member's addresses get into the firewalls of all others: what is no address of a host gets into none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ansible_collections.baremetal.llm.plugins.module_utils._content import is_integer
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import is_address
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.sections import Memory

MEMBERS, OPEN_PORTS = "members", "open_ports"
_PORTS = range(1, 65536)


def memory_of(facts: Mapping[str, object]) -> Memory:
    """``llm_network_state`` of a host's facts; empty where it remembers nothing, or nothing that anybody understands."""
    said = facts.get("llm_network_state")
    if not isinstance(said, Mapping):
        return {}
    found = dict(said)
    if MEMBERS in found:
        found[MEMBERS] = {str(host): _addresses(each) for host, each in mapping(found[MEMBERS]).items()}
    if OPEN_PORTS in found:
        ports = found[OPEN_PORTS] if isinstance(found[OPEN_PORTS], (list, tuple)) else ()
        found[OPEN_PORTS] = [port for port in ports if is_integer(port) and port in _PORTS]
    return cast(Memory, found)


def _addresses(said: object) -> list[str]:
    return (
        [each for each in said if isinstance(each, str) and is_address(each)] if isinstance(said, (list, tuple)) else []
    )
