# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: stop_changes
short_description: Say which deployments a run stops
version_added: 0.1.0
description:
  - The deployments that serve with one of these hosts. A deployment answers with all of its hosts or not at all, so that it stops as a whole.
positional: deployments, language
options:
  _input:
    description: The hosts that the run is about.
    type: list
    elements: str
    required: true
  deployments:
    description: The deployments of the inventory, by name, each with its C(hosts).
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
- name: Stop | Show the changes
  ansible.builtin.debug:
    msg: "{{ (['gpu01'] | baremetal.llm.stop_changes(llm_inventory.deployments, llm_language)).lines }}"
"""

RETURN = r"""
_value:
  description: The C(hosts), each with its deployment, and the C(lines) for people.
  type: dict
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.target import stop_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import own_language


def stop_changes(
    hosts: Sequence[str], deployments: Mapping[str, DeploymentHosts], language: str = ""
) -> dict[str, object]:
    """The filter; see the documentation above."""
    return asdict(stop_of(hosts, deployments, own_language(language)))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"stop_changes": stop_changes}
