# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules fail with a code and values. Their action plugins make the text of it, in the language of the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ansible import constants as C
from ansible.errors import AnsibleActionFail
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, render


def explained(result: dict[str, Any], lang: Any) -> dict[str, Any]:
    """A module's result with the text of its failure. What fails without a code, as a wrong argument does, stays as it is."""
    if not result.get("failed") or "code" not in result:
        return result
    # Ansible has noted the code as what went wrong; without that note it makes one of the text.
    kept = {name: value for name, value in result.items() if name != "exception"}
    return {**kept, "msg": message(result["code"], lang, **result["values"])}


def refuse(problems: Sequence[Mapping[str, str]], lang: str, result: Mapping[str, Any] | None = None) -> NoReturn:
    """End an action that refuses. The problems are printed here, once: Ansible would print them twice, and once as one line of JSON."""
    Display().display("\n" + render(problems, lang) + "\n", color=C.COLOR_ERROR)
    code = "refused_one" if len(problems) == 1 else "refused_more"
    said = {**(result or {}), "changed": False, "problems": [one["code"] for one in problems]}
    raise AnsibleActionFail(message(code, lang, count=len(problems)), result=said)


class SpeakingAction(NormalAction):  # type: ignore[misc,unused-ignore]
    """Runs the module of the action's name and explains its failure."""

    @property
    def language(self) -> Any:
        return self._task.args.get("language", "en")

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        return explained(super().run(tmp, task_vars), self.language)
