# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: ray_images
short_description: Which images have to hold Ray
version_added: 0.1.0
description:
  - The images of the deployments that run with Ray - those with C(vllm_executor) V(ray), and, where it is V(auto), those on more than
    one host.
positional: _input, hostvars
options:
  _input:
    description: The deployments, as M(baremetal.llm.inventory_check) returns them.
    type: dict
    required: true
  hostvars:
    description: The variables of their hosts.
    type: dict
    required: true
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Ray | Show which images need it
  ansible.builtin.debug:
    msg: "{{ llm_inventory.deployments | baremetal.llm.ray_images(hostvars) }}"
"""

RETURN = r"""
_value:
  description: References, each once.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import ray_images


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"ray_images": ray_images}
