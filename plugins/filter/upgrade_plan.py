# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: upgrade_plan
short_description: What an upgrade does, and why it cannot
version_added: 0.1.0
description:
  - Says it for people, for each deployment where something is to be done.
positional: served, decision, releases, language
options:
  _input:
    description: The deployments of the upgrade, each with its C(hosts) and C(head).
    type: dict
    required: true
  served:
    description: C(llm_served) of M(baremetal.llm.gather), by host.
    type: dict
    required: true
  decision:
    description: What M(baremetal.llm.decide) has decided.
    type: dict
    required: true
  releases:
    description: C(vllm_version) of each host.
    type: dict
    required: true
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Upgrade | Show what it does
  ansible.builtin.debug:
    msg: "{{ ({} | baremetal.llm.upgrade_plan({}, llm_decision, {})).lines }}"
"""

RETURN = r"""
_value:
  description: The C(lines), and the C(error), which is empty where nothing speaks against it.
  type: dict
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import served as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import render


def upgrade_plan(
    deployments: Mapping[str, Any],
    served: Mapping[str, Any],
    decision: Mapping[str, Any],
    releases: Mapping[str, str],
    language: str = "en",
) -> dict[str, Any]:
    """The filter; see the documentation above."""
    lang = known_language(language)
    found = core.upgrade_plan(plain(deployments), plain(served), plain(decision), plain(releases), lang)
    return {"lines": found["lines"], "error": render(found["problems"], lang, "").strip()}


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"upgrade_plan": upgrade_plan}
