# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of files: reads the files of the role, and renders its templates."""

from __future__ import annotations

from collections.abc import Mapping

from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible.plugins.loader import lookup_loader
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars, explained
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language

# By the option that names it: the role's folder, and the lookup that makes the content of it.
SOURCES = {
    "copy": ("files", "ansible.builtin.file", {"rstrip": False}),
    "template": ("templates", "ansible.builtin.template", {}),
}


class ActionModule(NormalAction):  # type: ignore[misc,unused-ignore]
    """The module, with the content of every file."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        files = [self._with_content(file, task_vars) for file in self._task.args.get("files") or []]
        self._task.args = {**self._task.args, "files": files}
        result = super().run(tmp, task_vars)
        return explained(result, language(task_vars.get("llm_language")))

    def _with_content(self, file: dict[str, object], variables: Mapping[str, object]) -> dict[str, object]:
        """What names two sources, or none, the module refuses."""
        named = [option for option in SOURCES if option in file]
        if len(named) != 1 or "content" in file:
            return file
        folder, lookup, options = SOURCES[named[0]]
        source = self._find_needle(folder, file[named[0]])
        reader = lookup_loader.get(lookup, loader=self._loader, templar=self._templar)
        content = reader.run([source], variables=variables, **options)[0]
        return {**{name: value for name, value in file.items() if name != named[0]}, "content": content}
