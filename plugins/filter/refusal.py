# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages import catalogue
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import TEXTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language

DOCUMENTATION = r"""
name: refusal
short_description: The text of a refusal, from the catalogue of messages
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - What is wrong, the value, where to set it and what is allowed, in English or Chinese.
positional: language, value, where
options:
  value:
    description: The value that is refused.
    type: str
    default: ""
  where:
    description: Where it is set, or where to look.
    type: str
    default: ""
extends_documentation_fragment:
  - baremetal.llm.catalogue
  - baremetal.llm.language
"""

EXAMPLES = r"""
- name: Docker | Check that it is the wanted version
  ansible.builtin.assert:
    that: found == wanted
    fail_msg: "{{ 'engine_wrong_version' | baremetal.llm.refusal(llm_language, found, host=inventory_hostname, wanted=wanted) }}"
"""

RETURN = r"""
_value:
  description: The text, of several lines.
  type: str
"""


def refusal(code: str, language: str = "en", value: str = "", where: str = "", **values: Any) -> str:
    """The filter; see the documentation above."""
    if code not in TEXTS["en"] or code + "_allowed" not in TEXTS["en"]:
        raise AnsibleFilterError(f"refusal: the catalogue has no {code!r}")
    return catalogue.refusal(code, known_language(language), value, where, **values)


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"refusal": refusal}
