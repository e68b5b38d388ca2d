# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: image_problems
short_description: Why images cannot serve the deployments that they are for
version_added: 0.1.0
description:
  - Compares what the images of a bundle hold with the GPUs that the inventory declares (C(llm_gpus)) and with the driver that
    the hosts will have, and names the release that works.
positional: _input, hostvars, images
options:
  _input:
    description: The deployments, as M(baremetal.llm.inventory_check) returns them.
    type: dict
    required: true
  hostvars:
    description: The variables of their hosts.
    type: dict
    required: true
  images:
    description: The images, as the manifest records them.
    type: list
    elements: dict
    required: true
  drivers:
    description: Versions of the drivers in the bundle.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Guard | Refuse images that cannot serve
  ansible.builtin.assert:
    that: refused == ''
    fail_msg: "{{ refused }}"
  vars:
    refused: "{{ llm_inventory.deployments | baremetal.llm.image_problems(hostvars, images, drivers=['570.195.03']) }}"
"""

RETURN = r"""
_value:
  description: All problems as one text; empty if there is none.
  type: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import compatibility as guard
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, render

_READ = ("llm_gpus", "vllm_image", "vllm_version", "nvidia_driver_method", "nvidia_driver_version")


def image_problems(deployments: Any, hostvars: Any, images: Any, drivers: Any = (), language: str = "en") -> str:
    """The filter; see the documentation above."""
    if not isinstance(deployments, Mapping):
        raise AnsibleFilterError("image_problems wants a mapping of deployments")
    hosts = {
        host: {name: hostvars[host][name] for name in _READ if name in hostvars[host]}
        for entry in deployments.values()
        for host in entry["hosts"]
    }
    found = guard.check_images(deployments, hosts, list(images), list(drivers), language)
    return render(found, language, message("images_header", language, count=len(found))) if found else ""


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"image_problems": image_problems}
