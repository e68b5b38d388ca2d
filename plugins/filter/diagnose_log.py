# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter diagnose_log: a thin wrapper around the planner."""

from __future__ import annotations

DOCUMENTATION = r"""
name: diagnose_log
author: The baremetal.llm authors (@baremetal-llm)
short_description: Name the failures in a log of an engine, Ray or NCCL
version_added: 0.1.0
description:
  - Looks for failures that are known, and says for each the cause, the line that shows it and what to change.
  - An error that no entry of the catalogue recognises has the C(code) C(unknown) and is quoted, or the code of its subject.
positional: lang, format
options:
  _input:
    description: The text of the log.
    type: str
    required: true
  lang:
    description: The language of cause and remedy.
    type: str
    choices: [en, zh]
    default: en
  format:
    description: V(list) for programs; V(text) for people, with the last lines of a log in which no failure is known.
    type: str
    choices: [list, text]
    default: list
  plan:
    description: The plan that was started, as P(baremetal.llm.plan_deployment#filter) returns it. The text names its nearest alternative.
    type: dict
"""

EXAMPLES = r"""
- name: Explain why the engine stopped
  ansible.builtin.debug:
    msg: "{{ log_text | baremetal.llm.diagnose_log }}"
"""

RETURN = r"""
_value:
  description:
    - A list of findings, the root causes first, each with C(code), C(layer), C(kind) (C(root), C(symptom), C(consequence) or C(note)), C(cause),
      C(remedy), C(evidence) and C(line); or a text.
  type: raw
"""

from collections.abc import Callable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import refusing
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import diagnose as core


def _diagnose(
    text: object, lang: object = "en", format: str = "list", plan: Mapping[str, object] | None = None
) -> object:
    return core.explain_log(text, lang, plan) if format == "text" else core.diagnose_log(text, lang)


diagnose_log = refusing(_diagnose)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"diagnose_log": diagnose_log}
