# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: reset_lines
short_description: Say what a reset does, or has done
version_added: 0.1.0
description:
  - A line for each role of a host with what goes, and for everything that stays. Afterwards a line for what could not be removed, and for each kind of
    thing in which the host differs from what it was before the first change.
positional: done, language
options:
  _input:
    description: By host, what M(baremetal.llm.host_reset) returned.
    type: dict
    required: true
  done:
    description: Whether it has been done.
    type: bool
    default: false
  language:
    description: The language, V(en) or V(zh). Empty stands for that of whoever runs Ansible, by E(LC_ALL), E(LC_MESSAGES) and E(LANG).
    type: str
    default: ""
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Reset | Show the changes
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: __found} | baremetal.llm.reset_lines(false, llm_language) }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import own_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.reset import Reset, plan_lines, result_lines


def reset_lines(found: Mapping[str, Reset], done: bool = False, language: str = "") -> list[str]:
    """The filter; see the documentation above."""
    say = result_lines if done else plan_lines
    return [line for host, each in found.items() for line in say(host, each, own_language(language))]


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"reset_lines": reset_lines}
