# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.network import ports

DOCUMENTATION = r"""
name: deployment_ports
short_description: The ports on which a host of a deployment listens to others
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - From the variables that name ports, those of one executor, on the head of a deployment or on its other hosts.
options:
  _input:
    description: The variables of the host.
    type: dict
    required: true
  executor:
    description: The executor of the plan.
    type: str
    default: ""
  head:
    description: Whether the host is the head of its deployment.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Network | Show the ports of this host
  ansible.builtin.debug:
    msg: "{{ hostvars[inventory_hostname] | baremetal.llm.deployment_ports(executor='ray', head=false) }}"
"""

RETURN = r"""
_value:
  description: The ports, each with C(variable), C(first) and C(last).
  type: list
  elements: dict
"""


def deployment_ports(variables: Any, executor: str = "", head: bool = True) -> list[dict[str, Any]]:
    """The filter; see the documentation above."""
    if not isinstance(variables, Mapping):
        raise AnsibleFilterError(f"deployment_ports wants variables, not {type(variables).__name__}")
    return [
        {"variable": port.variable, "first": port.first, "last": port.last}
        for port in ports.deployment_ports(variables, str(executor or ""))
        if (head or not port.head_only) and port.reached_by != ports.ITSELF
    ]


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"deployment_ports": deployment_ports}
