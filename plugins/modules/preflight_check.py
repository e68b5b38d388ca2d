#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_check
short_description: Refuse hosts that cannot serve their deployments, before they are changed
version_added: 0.1.0
description:
  - Compares what M(baremetal.llm.gather) found on the hosts with what the inventory says and with what their deployments need - system,
    clock and memory, the GPUs and their health, the network between them, ports, free disk space.
  - Looks at all hosts of the deployments of the run at once, those outside of C(--limit) included. A host that was not gathered is not
    checked. One task for all hosts is enough.
  - Prints a line for each host and all warnings as plain text, writes all findings as JSON for CI, and fails with one message that lists
    all problems of all hosts.
  - The variables of the role P(baremetal.llm.preflight#role) say what is accepted; M(baremetal.llm.inventory_check) must have been run.
  - The file on the controller is a report, no state of a host, so that writing it is no change. Check mode writes nothing.
options:
  path:
    description: The file on the controller. Its folder is made.
    type: path
    required: true
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Can run in check mode and writes no file there.
    support: full
  diff_mode:
    description: Shows what changed. Nothing does.
    support: none
"""

EXAMPLES = r"""
- name: Preflight | Compare the hosts with what is asked of them
  baremetal.llm.preflight_check:
    path: "{{ llm_report_dir }}/preflight.json"
  run_once: true
  register: __preflight_checked

- name: Preflight | Show the network interface of this host
  ansible.builtin.debug:
    msg: "{{ __preflight_checked.hosts[inventory_hostname].interface }}"
"""

RETURN = r"""
lines:
  description: The printed lines.
  returned: success
  type: list
  elements: str
problems:
  description: The code of each problem.
  returned: always
  type: list
  elements: str
  sample: []
hosts:
  description:
    - Per host its C(deployment) and its C(interface), with C(interface), C(address) and C(network).
  returned: success
  type: dict
  sample:
    gpu01:
      deployment: qwen
      interface: {"interface": "eth1", "address": "10.10.0.1", "network": "10.10.0.0/24"}
"""
