# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: target_hosts
short_description: Which hosts a run is about
version_added: 0.1.0
description:
  - The hosts of the inventory that O(_input) names.
options:
  _input:
    description: Hosts, deployments or V(all), as a list or with commas between.
    type: raw
    required: true
  groups:
    description: The groups of the inventory with their hosts, as in Ansible's variable C(groups).
    type: dict
    required: true
  deployments:
    description: The names of the deployments.
    type: list
    elements: str
    required: true
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Target | Show the hosts
  ansible.builtin.debug:
    msg: "{{ 'gpu01,chat' | baremetal.llm.target_hosts(groups, ['chat']) }}"
"""

RETURN = r"""
_value:
  description: The C(hosts), in the order of the inventory, the C(unknown) names, and what is C(allowed).
  type: dict
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory import target as core


def target_hosts(
    asked: str | Sequence[str] | None, groups: Mapping[str, Sequence[str]], deployments: Sequence[str]
) -> dict[str, list[str]]:
    """The filter; see the documentation above."""
    return {name: list(value) for name, value in asdict(core.target_of(asked, groups, deployments)).items()}


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"target_hosts": target_hosts}
