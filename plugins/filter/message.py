# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages import catalogue

DOCUMENTATION = r"""
name: message
short_description: A text for people, from the catalogue of messages
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - The text of a code in English or Chinese. For an error it says what is wrong, the value, where to set it and what is allowed.
positional: language, value, where
options:
  _input:
    description: Code of the message.
    type: str
    required: true
  language:
    description: The language, V(en) or V(zh). Empty stands for that of whoever runs Ansible, by E(LC_ALL), E(LC_MESSAGES) and E(LANG).
    type: str
    default: ""
  value:
    description: For an error, the value that is wrong.
    type: str
    default: ""
  where:
    description: For an error, where the value is set, or where to look.
    type: str
    default: ""
notes:
  - For the roles of this collection. The text's placeholders are given as keywords of their names.
"""

EXAMPLES = r"""
- name: Driver | Leave the reboot to the end of the play
  ansible.builtin.debug:
    msg: "{{ 'driver_reboots_later' | baremetal.llm.message(llm_language, host=inventory_hostname, installed='570.195.03', loaded='535.54') }}"

- name: Docker | Check that it is the wanted version
  ansible.builtin.assert:
    that: found == wanted
    fail_msg: "{{ 'engine_wrong_version' | baremetal.llm.message(llm_language, found, host=inventory_hostname, wanted=wanted) }}"
"""

RETURN = r"""
_value:
  description: The text, of several lines for an error.
  type: str
"""


def message(code: str, language: str = "", value: str = "", where: str = "", **values: object) -> str:
    """The filter; see the documentation above."""
    if code not in catalogue.TEXTS["en"]:
        raise AnsibleFilterError(f"message: the catalogue has no {code!r}")
    language = catalogue.own_language(language)
    if code + "_allowed" in catalogue.TEXTS["en"]:
        return catalogue.error_text(code, language, value, where, **values)
    return catalogue.message(code, language, **values)


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"message": message}
