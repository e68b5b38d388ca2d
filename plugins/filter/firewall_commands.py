# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.network import firewall

DOCUMENTATION = r"""
name: firewall_commands
short_description: What to change in ufw or firewalld
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - Turns the rules of P(baremetal.llm.firewall_rules#filter) into single rules, and says which of those of earlier runs have to go
    first. Nothing among them is about SSH.
positional: _input, program
options:
  _input:
    description: The rules. Empty, everything is taken back.
    type: dict
    required: true
  program:
    description: Whose.
    type: str
    choices: [ufw, firewalld]
    required: true
  previous:
    description: What earlier runs added.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Firewall | Show the rich rules that are added
  ansible.builtin.debug:
    msg: "{{ (rules | baremetal.llm.firewall_commands('firewalld', previous=remembered)).add }}"
"""

RETURN = r"""
_value:
  description:
    - The lists C(remove) and C(add), to be done in this order. A rule of ufw has C(rule), C(from) and C(ports) (empty for all), one of
      firewalld C(zone) and C(rule).
  type: dict
"""


def firewall_commands(rules: Any, program: str, previous: Any = ()) -> dict[str, list[Any]]:
    """The filter; see the documentation above."""
    if not isinstance(rules, Mapping) or program not in firewall.COMMANDS or not isinstance(previous, (list, tuple)):
        raise AnsibleFilterError("firewall_commands wants rules, ufw or firewalld, and a list of earlier rules")
    return firewall.firewall_commands(program, rules, [dict(rule) for rule in previous])


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"firewall_commands": firewall_commands}
