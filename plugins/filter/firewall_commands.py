# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.module_utils import firewall

DOCUMENTATION = r"""
name: firewall_commands
short_description: Rules as ufw or firewalld want them
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - Turns the rules of P(baremetal.llm.firewall_rules#filter) into single rules. Nothing among them is about SSH.
positional: _input, program
options:
  _input:
    description: The rules.
    type: dict
    required: true
  program:
    description: Whose.
    type: str
    choices: [ufw, firewalld]
    required: true
"""

EXAMPLES = r"""
- name: Firewall | Show the rich rules
  ansible.builtin.debug:
    msg: "{{ rules | baremetal.llm.firewall_commands('firewalld') }}"
"""

RETURN = r"""
_value:
  description: For ufw a list of mappings with C(rule), C(from) and C(ports) (empty for all), for firewalld a list of rich rules.
  type: list
  elements: raw
"""


def firewall_commands(rules: Any, program: str) -> list[Any]:
    """The filter; see the documentation above."""
    if not isinstance(rules, Mapping) or program not in firewall.COMMANDS:
        raise AnsibleFilterError("firewall_commands wants rules, and ufw or firewalld")
    commands: list[Any] = firewall.COMMANDS[program](rules)
    return commands


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"firewall_commands": firewall_commands}
