# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""wait: one question on the host again and again until it is answered; people get a line a minute, and no line for each try."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import human_seconds
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import number
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, DocumentedAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

REPEAT_SECONDS = 60.0


class ActionModule(DocumentedAction):
    """Runs another module until it succeeds; the clock is the controller's."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        if self._task.check_mode:
            return {**result, "changed": False, "skipped": True}
        # As it was given: the check above makes texts of what it does not know.
        asked = self._task.args["args"]
        began = told = time.monotonic()
        while True:
            answer = self._once(options["module"], asked, task_vars)
            now = time.monotonic()
            done = not answer.get("failed") and answer.get("finished", True)
            if done or now - began > options["seconds"]:
                late = {} if done else {"failed": True, "msg": answer.get("msg") or self._late(options)}
                return {**result, **answer, "changed": False, "waited_seconds": now - began, **late}
            if now - told >= REPEAT_SECONDS:
                told = now
                self._tell(options, str(task_vars["inventory_hostname"]), now - began)
            time.sleep(options["every_seconds"])

    def _once(self, name: str, arguments: Mapping[str, object], task_vars: object) -> dict[str, object]:
        task = self._task.copy()
        task.args = dict(arguments)
        action = self._shared_loader_obj.action_loader.get(
            name,
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        found: dict[str, object] = (
            action.run(task_vars=task_vars)
            if action
            else self._execute_module(module_name=name, module_args=dict(arguments), task_vars=task_vars)
        )
        return found

    def _tell(self, options: Mapping[str, object], host: str, seconds: float) -> None:
        values = {"host": host, "what": self._task.get_name(include_role_fqcn=False)}
        limits = {"waited": human_seconds(seconds), "limit": human_seconds(number(options["seconds"]))}
        Display().display(message("wait_progress", str(options["language"]), **values, **limits))

    def _late(self, options: Mapping[str, object]) -> str:
        return message("wait_late", str(options["language"]), limit=human_seconds(number(options["seconds"])))
