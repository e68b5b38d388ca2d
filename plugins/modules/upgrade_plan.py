#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: upgrade_plan
short_description: What an upgrade or a rollback is about to do
version_added: 0.1.0
description:
  - Says for each deployment what becomes of it, and refuses what could not go back. Runs on the controller, and changes nothing.
options:
  hosts:
    description: The hosts that are named. A deployment is taken as a whole.
    type: list
    elements: str
    required: true
  back:
    description: Whether the deployments go back to what they served with before.
    type: bool
    default: false
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller
author:
  - The baremetal.llm authors (@baremetal-llm)
seealso:
  - module: baremetal.llm.served
"""

EXAMPLES = r"""
- name: Upgrade | Plan what changes
  baremetal.llm.upgrade_plan:
    hosts: "{{ llm_target_hosts }}"
  register: __plan
"""

RETURN = r"""
lines:
  description: What the run is about to do, in words.
  returned: always
  type: list
  elements: str
turns:
  description: The batches of the play, each one deployment. C(hosts) is its pattern, C(sizes), and C(canaries), of each model the deployment that comes first.
  returned: always
  type: dict
"""
