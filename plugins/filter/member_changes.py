# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: member_changes
short_description: Say what a run does to hosts that leave or come
version_added: 0.1.0
description:
  - A line for each host that is left out, removed or taken back, and for each of their deployments how it is planned anew.
positional: inventory, asked, language
options:
  _input:
    description: What M(baremetal.llm.decide) returned.
    type: dict
    required: true
  inventory:
    description: What M(baremetal.llm.deployment_members) returned as C(inventory).
    type: dict
    required: true
  asked:
    description: The hosts that are to be C(left_out), C(removed) or C(back).
    type: dict
    required: true
  language:
    description: The language, V(en) or V(zh). Empty stands for that of whoever runs Ansible, by E(LC_ALL), E(LC_MESSAGES) and E(LANG).
    type: str
    default: ""
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Replace | Show the changes
  ansible.builtin.debug:
    msg: "{{ llm_decision | baremetal.llm.member_changes(llm_inventory, {'left_out': ['gpu02']}, llm_language) }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import (
    FleetInventory,
    change_lines,
    requested,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import own_language


def member_changes(
    decision: Mapping[str, object], inventory: FleetInventory, asked: Mapping[str, object], language: str = ""
) -> list[str]:
    """The filter; see the documentation above."""
    request = requested(asked, inventory.get("names") or {})
    return change_lines(
        {name: mapping(plan) for name, plan in mapping(decision.get("plans")).items()},
        inventory,
        request,
        own_language(language),
    )


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"member_changes": member_changes}
