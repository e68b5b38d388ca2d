# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports import network as core

DOCUMENTATION = r"""
name: network_report
short_description: Who reaches whom, for people and for programs
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - Writes what the connectivity check showed (C(networks) of M(baremetal.llm.decide)) as a text, a page or JSON.
options:
  _input:
    description: By deployment what the connectivity check showed.
    type: dict
    required: true
  format:
    description: Text for a terminal, an HTML page that needs nothing else, or JSON.
    type: str
    choices: [text, html, json]
    default: text
"""

EXAMPLES = r"""
- name: Network | Show who reaches whom
  ansible.builtin.debug:
    msg: "{{ {'qwen25_14b': llm_network} | baremetal.llm.network_report }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""


def network_report(checks: object, format: str = "text", language: str = "en") -> str:
    """The filter; see the documentation above."""
    if not isinstance(checks, Mapping) or format not in core.FORMATS:
        raise AnsibleFilterError(
            "network_report wants a mapping of deployment to connectivity check, and text, html or json"
        )
    return core.network_report(checks, format, known_language(language))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"network_report": network_report}
