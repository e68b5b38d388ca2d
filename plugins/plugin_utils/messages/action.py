# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules fail with a code and values. Their action plugins make the text of it, in the language of the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from ansible import constants as C
from ansible.errors import AnsibleActionFail
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import (
    language,
    message,
    problem,
    reason,
    render,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.cards import said_fleet

# The variables of a play on a host, of any type, and Ansible's own objects such as hostvars. Ansible always hands them over.
TaskVars = Mapping[str, Any]
UNSET: TaskVars = MappingProxyType({})


def explained(result: dict[str, Any], lang: object) -> dict[str, Any]:
    """A module's result with the text of its failure. What fails without a code, as a wrong argument does, stays as it is."""
    if not result.get("failed") or "code" not in result:
        return result
    # Ansible has noted the code as what went wrong; without that note it makes one of the text.
    kept = {name: value for name, value in result.items() if name != "exception"}
    return {**kept, "msg": message(result["code"], language(lang), **result["values"])}


def refuse(
    problems: Sequence[Mapping[str, str]], lang: str, result: Mapping[str, object] | None = None, more: str = ""
) -> NoReturn:
    """End an action that refuses. The problems are printed here, once: Ansible would print them twice, and once as one line of JSON.

    ``more`` is a line below them.
    """
    said = render(problems, lang) + (f"\n\n{more}" if more else "")
    Display().display(f"\n{said}\n", color=C.COLOR_ERROR)
    code = "refused_one" if len(problems) == 1 else "refused_more"
    fields = {**(result or {}), "changed": False, "problems": [one["code"] for one in problems]}
    raise AnsibleActionFail(message(code, lang, count=len(problems)), result=fields)


def refuse_text(text: str, lang: str, result: Mapping[str, object] | None = None) -> NoReturn:
    """End an action that refuses with a text of several lines, which is printed here, once."""
    if "\n" not in text:
        raise AnsibleActionFail(text, result=dict(result or {}))
    Display().display(f"\n{text}\n", color=C.COLOR_ERROR)
    raise AnsibleActionFail(message("refused_above", lang), result=dict(result or {}))


def refuse_fleet(error: Exception, variables: Mapping[str, object], lang: str) -> NoReturn:
    """The same of a fleet of the command line that cannot be read or served."""
    where = message("where_command_line", lang)
    refuse([problem("fleet_not_read", lang, said_fleet(variables), where, why=reason(error, lang))], lang)


class SpeakingAction(NormalAction):  # type: ignore[misc,unused-ignore]
    """Runs the module of the action's name and explains its failure."""

    @property
    def language(self) -> str:
        return str(self._task.args.get("language", "en"))

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, Any]:
        return explained(super().run(tmp, task_vars), self.language)
