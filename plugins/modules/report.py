#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Print the report at the end of a playbook
version_added: 0.1.0
description:
  - Prints, as plain lines for people, what each deployment answers, where its ranks run, and how long each stage took.
options:
  stages:
    description: Stages in order, each with its C(name) and the time C(started) in seconds; the last one marks the end.
    type: list
    elements: dict
    required: true
  deployments:
    description: Deployments by name, each with C(hosts) and C(head).
    type: dict
    required: true
  plans:
    description: Plans by deployment, as the filter C(plan_deployment) returns them.
    type: dict
    default: {}
  serving:
    description: What each head found when it asked its model, by host.
    type: dict
    default: {}
  collective:
    description: Figures of the all-reduce over all ranks of a deployment, by the host that is its head.
    type: dict
    default: {}
  networks:
    description: The proofs of the deployments' networks, by deployment, as the filter C(judge_mesh) returns them.
    type: dict
    default: {}
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Report | Show it
  baremetal.llm.report:
    stages: "{{ hostvars['localhost']['llm_stages'] }}"
    deployments: "{{ hostvars['localhost']['llm_inventory']['deployments'] }}"
  run_once: true
"""

RETURN = r"""
lines:
  description: The printed lines.
  returned: always
  type: list
  elements: str
"""
