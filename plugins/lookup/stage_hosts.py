# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: stage_hosts
short_description: The hosts of a play that runs a stage
version_added: 0.1.0
description:
  - The hosts of all deployments, without those where the stage has nothing to do because their records hold
    (M(baremetal.llm.preflight_check) and M(baremetal.llm.decide) say so, in C(llm_left_out) of C(localhost)).
  - Where a playbook sets C(llm_left_out) itself, that counts. An empty one leaves out nobody.
  - With C(llm_node), a stage that concerns each host by itself runs on that host alone.
options:
  _terms:
    description: The stage, such as V(prepare) or V(serve), or V(lock).
    type: list
    elements: str
    required: true
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Prepare | Driver, engine and toolkit
  hosts: "{{ lookup('baremetal.llm.stage_hosts', 'prepare') }}"
  roles:
    - role: baremetal.llm.docker
"""

RETURN = r"""
_raw:
  description: A pattern of hosts for each stage.
  type: list
  elements: str
"""

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.work import stage_hosts


class LookupModule(LookupBase):
    """What the variables of the play say."""

    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        found = variables.get("llm_left_out")
        if found is None and "hostvars" in variables:  # a check of the syntax has none
            found = variables["hostvars"]["localhost"].get("llm_left_out")
        left_out, node = (self._templar.template(value) for value in (found or {}, variables.get("llm_node") or ""))
        return [stage_hosts(str(stage), left_out, str(node)) for stage in terms]
