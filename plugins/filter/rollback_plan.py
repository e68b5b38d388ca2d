# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rollback_plan
short_description: What a rollback does, and why it cannot
version_added: 0.1.0
description:
  - Says it for people, for each deployment that goes back.
positional: served, looked, language
options:
  _input:
    description: The deployments that go back, each with its C(hosts) and C(head).
    type: dict
    required: true
  served:
    description: C(llm_served) of M(baremetal.llm.gather), by host.
    type: dict
    required: true
  looked:
    description: What M(baremetal.llm.served) has found on each host, by host.
    type: dict
    required: true
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Rollback | Show what it does
  ansible.builtin.debug:
    msg: "{{ ({'chat': {'hosts': ['gpu01'], 'head': 'gpu01'}} | baremetal.llm.rollback_plan({}, {})).error }}"
"""

RETURN = r"""
_value:
  description: The C(lines), what each host leaves (C(left), with C(version) and C(image)), and the C(error), which is empty where all of them can go back.
  type: dict
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import served as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import render


def rollback_plan(
    deployments: Mapping[str, Any], served: Mapping[str, Any], looked: Mapping[str, Any], language: str = "en"
) -> dict[str, Any]:
    """The filter; see the documentation above."""
    lang = known_language(language)
    found = core.rollback_plan(plain(deployments), plain(served), plain(looked), lang)
    return {"lines": found["lines"], "left": found["left"], "error": render(found["problems"], lang, "").strip()}


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"rollback_plan": rollback_plan}
