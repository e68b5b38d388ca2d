#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: decide
short_description: Decide for all hosts and deployments at once
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - From the inventory, what M(baremetal.llm.gather) found on the hosts, the bundle and the models' C(config.json), everything that
    concerns more than one host or more than one role, the plan of each deployment, its network and the rules of firewalls, and the
    containers of Ray and vLLM with their command lines, environments and mounts.
  - Runs on the controller and touches no host. A plan is made once in a run; what could not be known before is added by the next call.
  - The answer is also written, with the names of secrets in place of their values, to the file C(decision.json) in C(llm_report_dir),
    which can be read before anything is done to a host, and compared with yesterday's.
  - The next call, the roles and the report look for the answer in the variable C(llm_decision), so it has to be registered under this name.
  - Has to run once for all hosts of a play (C(run_once)).
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller
seealso:
  - plugin: baremetal.llm.plan_deployment
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Decide | Decide for all hosts at once
  baremetal.llm.decide:
  register: llm_decision
  run_once: true
"""

RETURN = r"""
plans:
  description: By deployment what P(baremetal.llm.plan_deployment#filter) returns.
  returned: success
  type: dict
networks:
  description: By deployment what the connectivity check showed; empty before it.
  returned: success
  type: dict
hosts:
  description: By host a section for each role, C(network), C(ray) and C(vllm), as far as it can be known yet.
  returned: success
  type: dict
rolling:
  description: In which batches replicas of a model are served anew, what each host comes after, and which replicas serve meanwhile.
  returned: success
  type: dict
turns:
  description: The batches of an upgrade, each one deployment, and of each model the one that comes first (C(canaries)).
  returned: success
  type: dict
"""
