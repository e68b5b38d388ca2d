# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What action plugins share: their options, and the text of a failure. Modules fail with a code and values, and their action plugins make the text of it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from ansible import constants as C
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_yaml
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
_PLUGINS = "ansible_collections.baremetal.llm.plugins"
# What of the documentation of an option says which values it takes.
_CHECKED = ("type", "elements", "required", "default", "choices")


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


class DocumentedAction(ActionBase):  # type: ignore[misc,unused-ignore]
    """Has its options where they are described, in the file of its name in plugins/modules. Where that is a module as well, what the action alone tells it is
    described as internal, and no option of the action."""

    def options(self, **rules: Sequence[Sequence[str]]) -> Any:
        """The arguments of the task by name, checked and with their defaults. ``rules`` are those between options, as modules have them."""
        spec = documented_options(type(self).__module__.rpartition(".")[2])
        _checked, found = self.validate_argument_spec(argument_spec=spec, **rules)
        return found


def documented_options(module: str) -> dict[str, dict[str, object]]:
    """The options of a module that are not internal, from its documentation and the fragments that it names, as Ansible checks them."""
    described = read_yaml(importlib.import_module(f"{_PLUGINS}.modules.{module}").DOCUMENTATION)
    options = dict(described.get("options") or {})
    for fragment in described["extends_documentation_fragment"]:
        name, _dot, part = fragment.removeprefix("baremetal.llm.").partition(".")
        shared = importlib.import_module(f"{_PLUGINS}.doc_fragments.{name}").ModuleDocFragment
        options |= read_yaml(getattr(shared, part.upper() or "DOCUMENTATION"))["options"]
    return {
        option: {key: said[key] for key in _CHECKED if key in said}
        for option, said in options.items()
        if not str(said["description"]).startswith("Internal.")
    }
