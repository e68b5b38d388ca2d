# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import TEXTS, message

DOCUMENTATION = r"""
name: told
short_description: A text for people, from the catalogue of messages
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - What is said and refuses nothing, in English or Chinese.
positional: language
extends_documentation_fragment:
  - baremetal.llm.catalogue
  - baremetal.llm.language
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


def told(code: str, language: str = "en", **values: Any) -> str:
    """The filter; see the documentation above."""
    if code not in TEXTS["en"]:
        raise AnsibleFilterError(f"told: the catalogue has no {code!r}")
    return message(code, language, **values)


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"told": told}
