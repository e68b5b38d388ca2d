# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.plugin_utils.install import engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, render

DOCUMENTATION = r"""
name: install_problems
short_description: Why Docker Engine or the container toolkit cannot be installed as asked
version_added: 0.1.0
extends_documentation_fragment:
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - Used by the roles P(baremetal.llm.docker#role) and P(baremetal.llm.nvidia_container_toolkit#role), which look at the host first.
positional: language
options:
  _input:
    description: What is asked for and what was found, as these two roles gather it.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Docker | Refuse what cannot work
  ansible.builtin.assert:
    that: __text | length == 0
    fail_msg: "{{ __text }}"
  vars:
    __text: "{{ _docker_facts | baremetal.llm.install_problems }}"
"""

RETURN = r"""
_value:
  description: All problems as one text; empty if there is none.
  type: str
"""


def install_problems(found: Any, language: str = "en") -> str:
    """The filter; see the documentation above."""
    if not isinstance(found, Mapping):
        raise AnsibleFilterError(f"install_problems wants a mapping, not {type(found).__name__}")
    lang = known_language(language)
    problems = engine.install_problems(found, lang)
    header = message("install_header", lang, host=found["host"], count=len(problems))
    return render(problems, lang, header) if problems else ""


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"install_problems": install_problems}
