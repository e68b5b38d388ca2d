# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: served_decision
short_description: A decision with which hosts serve as they did before
version_added: 0.1.0
description:
  - What the roles C(ray) and C(vllm) are given so that a deployment goes back, in the form of M(baremetal.llm.decide).
positional: decision
options:
  _input:
    description: What M(baremetal.llm.served) has found on each host, by host.
    type: dict
    required: true
  decision:
    description: The decision of this run, if there is one.
    type: dict
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Return | Decide what the host is given
  ansible.builtin.set_fact:
    llm_decision: "{{ {'gpu01': __looked} | baremetal.llm.served_decision }}"
"""

RETURN = r"""
_value:
  description: The decision.
  type: dict
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import served as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import code_digest
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain


def served_decision(looked: Mapping[str, Any], decision: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The filter; see the documentation above."""
    return core.served_decision(plain(looked), code_digest(), plain(decision or {}))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"served_decision": served_decision}
