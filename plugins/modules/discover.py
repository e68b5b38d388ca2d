#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: discover
short_description: Write an inventory of hosts that were looked at
version_added: 0.1.0
description:
  - Prints what M(baremetal.llm.gather) with O(baremetal.llm.gather#module:discover) found of some hosts, as a table, and which models fit them.
  - With O(model) it writes an inventory. Hosts with equal GPUs belong together. A model that fits one host has a replica on each of them, behind a
    gateway; one that does not is split over the hosts that are alike.
  - Hosts that did not answer, a model that nobody knows and one that does not fit are refused, all at once, and nothing is written then.
  - A folder that exists is not changed. What would be different is printed.
options:
  hosts:
    description: The hosts, in the order in which they are written. Each was looked at in this run.
    type: list
    elements: str
    required: true
  dest:
    description: The folder of the inventory on the controller.
    type: path
    required: true
  model:
    description: The model, as in V(Qwen/Qwen2.5-14B-Instruct), or the path of its folder on the controller. Left out, nothing is written.
    type: str
    default: ""
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
  diff_mode:
    description: Shows what would change.
    support: none
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Discover | Propose an inventory
  baremetal.llm.discover:
    hosts: "{{ groups['llm_discovered'] }}"
    dest: inventories/fleet
    model: Qwen/Qwen2.5-14B-Instruct
"""

RETURN = r"""
hosts:
  description: The hosts of which something is known.
  returned: always
  type: list
  elements: str
files:
  description: The files of the inventory, relative to its folder.
  returned: always
  type: list
  elements: str
"""
