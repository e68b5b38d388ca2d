# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.module_utils.messages import MESSAGES, message

DOCUMENTATION = r"""
name: told
short_description: A text for people, from the catalogue of messages
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - What is said and refuses nothing, in English or Chinese. For the roles of this collection.
  - The text's placeholders are given as keywords of their names.
positional: lang
options:
  _input:
    description: Code of the message.
    type: str
    required: true
  lang:
    description: The language of the text.
    type: str
    choices: [en, zh]
    default: en
"""

EXAMPLES = r"""
- name: Driver | Leave the reboot to the end of the play
  ansible.builtin.debug:
    msg: "{{ 'driver_reboots_later' | baremetal.llm.told(llm_language, host=inventory_hostname, installed='570.195.03', loaded='535.54') }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""


def told(code: str, lang: str = "en", **values: Any) -> str:
    """The filter; see the documentation above."""
    if code not in MESSAGES:
        raise AnsibleFilterError(f"told: the catalogue has no {code!r}")
    return message(code, lang, **values)


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"told": told}
