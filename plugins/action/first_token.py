# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""first_token: asks a server that starts until it answers, and says meanwhile what it does."""

from __future__ import annotations

import time

from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import VARIABLE, engine_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, DocumentedAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.crash_loop import SAME_ENDS, CrashLoop
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.start_progress import StartProgress

display = Display()
# Between two questions, and between two looks at the log.
ASK_SECONDS = 5.0
LOOK_SECONDS = 10.0


class ActionModule(DocumentedAction):
    """Two commands on the host, by turns; the clock is the controller's."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        if self._task.check_mode:
            return {**result, "changed": False, "skipped": True}
        began = time.monotonic()
        looked = began - LOOK_SECONDS
        expected = (options["reading_seconds"], options["last_seconds"])
        phases = engine_of({VARIABLE: self._templar.template(task_vars.get(VARIABLE))}).start_phases
        starting = StartProgress(
            options["name"], task_vars["inventory_hostname"], began, *expected, options["language"]
        )
        starting.phases = phases
        loop, cause = CrashLoop(phases), ""
        while True:
            # An answer may take long, so it is the clock that ends it.
            answer = self._command(options["ask"], task_vars)
            now = time.monotonic()
            over = now - began > options["seconds"]
            if answer.get("failed") and (over or now - looked >= LOOK_SECONDS):
                looked = now
                log = self._log(options["log"], task_vars)
                line, cause = starting.line(log, now), loop.cause(log)
                if line and not over:
                    display.display(line)
            if cause and answer.get("failed"):
                answer["msg"] = answer["stderr"] = message("token_crash_loop", options["language"], starts=SAME_ENDS)
                over = True
            if over or not answer.get("failed"):
                return {**result, **answer, "changed": False, "stage": starting.what(), "waited_seconds": now - began}
            time.sleep(ASK_SECONDS)

    def _command(self, argv: list[str], task_vars: object) -> dict[str, object]:
        found: dict[str, object] = self._execute_module(
            module_name="ansible.builtin.command", module_args={"argv": argv}, task_vars=task_vars
        )
        return found

    def _log(self, argv: list[str], task_vars: object) -> str:
        """Without a container, what is printed says why; it is in no phase."""
        found = self._command(argv, task_vars)
        return f"{found.get('stdout', '')}\n{found.get('stderr', '')}"
