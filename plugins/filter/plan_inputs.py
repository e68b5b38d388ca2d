# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter plan_inputs: a thin wrapper around plugin_utils/deployment/inputs.py."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plan_inputs
author: The baremetal.llm authors (@baremetal-llm)
short_description: Turn the variables of a deployment into what the planner is asked
version_added: 0.1.0
description:
  - Reads the settings of a deployment from the variables of its head, the GPUs of its hosts from facts or else from
    C(llm_gpus), and what the bundle's manifest knows of its image and model.
positional: hostvars, manifest
options:
  _input:
    description: The deployment, with C(hosts) and C(head).
    type: dict
    required: true
  hostvars:
    description: Variables of the hosts by name.
    type: dict
    required: true
  manifest:
    description: The bundle's manifest.
    type: dict
"""

EXAMPLES = r"""
- name: Show what the planner is asked
  ansible.builtin.debug:
    msg: "{{ llm_inventory.deployments.qwen | baremetal.llm.plan_inputs(hostvars, manifest) }}"
"""

RETURN = r"""
_value:
  description:
    - C(nodes) and C(request) as the filter plan_deployment takes them, and C(config), the path of the model's C(config.json),
      relative to the bundle or absolute.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import plan_inputs


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"plan_inputs": plan_inputs}
