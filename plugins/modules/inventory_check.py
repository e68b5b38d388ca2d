#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: inventory_check
short_description: Refuse a wrong inventory before any host is touched
version_added: 0.1.0
description:
  - Checks everything that the inventory alone can tell, and fails with one message that lists all problems. Each names what is
    wrong, the value, where it is set, and what is allowed.
  - Finds missing and empty deployments, hosts in two deployments, unknown and misspelled variables, missing ones, wrong types
    and values, GPU counts that do not match, two names for one machine, and a bundle that lacks the model or image of a
    deployment.
  - Only what inventory and command line set is checked, not facts. A value that cannot be evaluated before facts are gathered
    is left alone; if nothing in it explains that, a warning names the variable. Secrets are never looked at.
  - The whole inventory is checked, also when the run is limited to some hosts.
options:
  bundle_required:
    description:
      - Whether a host with O(ignore:llm_offline) needs a bundle that holds its model and image. The playbook that makes the
        bundle says no.
    type: bool
    default: true
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller
author:
  - The baremetal.llm authors (@baremetal-llm)
notes:
  - Run it once, with C(hosts=localhost,all) and C(run_once=true). A play with C(hosts=localhost) is skipped as soon as somebody
    runs the playbook with C(--limit).
  - The inventory's sources are parsed a second time, so a dynamic inventory is asked a second time. Switch its cache on if
    that takes long.
"""

EXAMPLES = r"""
- name: Validate the inventory
  hosts: localhost,all
  gather_facts: false
  tasks:
    - name: Inventory | Check without touching a host
      baremetal.llm.inventory_check:
      run_once: true
      register: __validate

    - name: Inventory | Remember the deployments for the plays that follow
      ansible.builtin.set_fact:
        llm_inventory: "{{ __validate.inventory }}"
      run_once: true
      delegate_to: localhost
      delegate_facts: true
"""

RETURN = r"""
inventory:
  description: The deployments of the inventory.
  returned: success
  type: dict
  contains:
    deployments:
      description: Per deployment its hosts in the inventory's order and the one that leads the cluster.
      type: dict
      sample: {"qwen25_14b": {"hosts": ["gpu01", "gpu02"], "head": "gpu01"}}
    hosts:
      description: All hosts of all deployments.
      type: list
      elements: str
      sample: ["gpu01", "gpu02"]
    names:
      description:
        - >-
          Per host what its deployment's containers, units, folders and firewall are called there, and with C(sharing) all inventory names of its machine.
          Where that has several deployments, the deployment is part of the names.
      type: dict
      sample: {"gpu01": {"vllm": "llm-vllm", "folder": "", "sharing": ["gpu01"]}}
problems:
  description: The codes of the problems that the message lists, in the same order.
  returned: always
  type: list
  elements: str
  sample: ["unknown_variable"]
"""
