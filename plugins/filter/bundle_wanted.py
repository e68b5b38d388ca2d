# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter bundle_wanted: a thin wrapper around plugin_utils/bundle/plan.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import plan as bundle_plan

DOCUMENTATION = r"""
name: bundle_wanted
author: The baremetal.llm authors (@baremetal-llm)
short_description: What the bundle of an inventory has to hold
version_added: 0.1.0
description:
  - Names the images, the driver, the engine, the toolkit, the packages, the wheels and the models that the deployments need. What is
    named outright stands, the rest follows from the hosts' variables.
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
  images:
    description: Images that are named outright.
    type: list
    elements: dict
    default: []
  artefacts:
    description: Files and folders that are named outright. No driver, engine or toolkit is added to ones that are named.
    type: list
    elements: dict
    default: []
  systems:
    description: Systems of the hosts, as in V(debian-12).
    type: list
    elements: str
    default: []
  kernels:
    description: Releases of the hosts' kernels, whose headers NVIDIA's installer builds with.
    type: list
    elements: str
    default: []
  wheels:
    description: Python packages that hosts shall find as wheels.
    type: list
    elements: str
    default: []
  hub:
    description: Where models come from that O(model_sources) does not name.
    type: str
    default: huggingface
  model_sources:
    description: Per model where it comes from.
    type: dict
    default: {}
  compression:
    description: How the archive of the images is compressed.
    type: str
    choices: [auto, zstd, gzip, none]
    default: auto
  lang:
    description: Language of the problems.
    type: str
    default: en
"""

EXAMPLES = r"""
- name: Show what the bundle has to hold
  ansible.builtin.debug:
    msg: "{{ llm_inventory.deployments | baremetal.llm.bundle_wanted(hostvars, systems=['debian-12']) }}"
"""

RETURN = r"""
_value:
  description: C(images), their C(compression), C(items), the number of C(hosts), and C(problems), texts about what cannot be told.
  type: dict
"""


def bundle_wanted(
    deployments: Mapping[str, Mapping[str, Any]], hostvars: Mapping[str, Mapping[str, Any]], **options: Any
) -> dict[str, Any]:
    return bundle_plan.wanted(deployments, hostvars, **options)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"bundle_wanted": bundle_wanted}
