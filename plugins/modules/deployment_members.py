#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_members
short_description: Say which hosts take part in their deployments
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - From what the hosts remember (M(baremetal.llm.gather)) and what this run asks for (C(llm_members_asked)), the hosts of each deployment that take part
    in it. A host that was left out or removed stays out until a run takes it back, whichever controller starts that run.
  - Prints a line for each host of the inventory that does not take part, and for each that has left the inventory and was not removed.
  - Writes C(members.json) into C(llm_report_dir), by which a later run names the hosts of a deployment that has left the inventory. It is a report, no
    state of a host, so that writing it is no change. Check mode writes nothing.
  - Refuses hosts that do not answer and take part, and a deployment of which no host is left.
  - Runs on the controller and touches no host. Has to run once for all hosts of a play (C(run_once)).
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller
seealso:
  - module: baremetal.llm.inventory_check
"""

EXAMPLES = r"""
- name: Preflight | Decide the members of deployments
  baremetal.llm.deployment_members:
  run_once: true
  register: __preflight_members
"""

RETURN = r"""
inventory:
  description:
    - What M(baremetal.llm.inventory_check) returned under this name, with the hosts and heads that take part. A deployment whose hosts remember others
      has these as C(absent).
    - C(out) are the hosts of deployments that do not take part, C(silent) those that did not answer, C(leaving) those that this run takes out and that
      answer. Of those that it removes C(remains) has the names and paths that go.
  returned: success
  type: dict
"""
