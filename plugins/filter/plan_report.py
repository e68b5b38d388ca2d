# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter plan_report: a thin wrapper around the planner."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plan_report
author: The baremetal.llm authors (@baremetal-llm)
short_description: Write plans as a table, a page or JSON
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.language
description:
  - Writes one plan of C(plan_deployment), or a dictionary of them by the name of their deployment, for people.
  - The page is one file without script or request, with a stacked memory bar for each GPU.
positional: format, language
options:
  _input:
    description: A plan, or plans by name.
    type: dict
    required: true
  format:
    description: What to write.
    type: str
    choices: [table, html, json]
    default: table
"""

EXAMPLES = r"""
- name: Write the page
  ansible.builtin.copy:
    content: "{{ {'qwen': plan} | baremetal.llm.plan_report(format='html') }}"
    dest: plan.html
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""

from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import refusing
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports import plan as core


@refusing
def plan_report(plans: object, format: object = "table", language: object = "en") -> str:
    return core.plan_report(plans, format, known_language(language))


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"plan_report": plan_report}
