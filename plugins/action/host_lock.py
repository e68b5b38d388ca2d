# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of host_lock: who this run is, and whether the holder's run is over."""

from __future__ import annotations

import os

from ansible import context
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.lock import (
    collection_version,
    held_problem,
    is_over,
    this_run,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, SpeakingAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import render


class ActionModule(SpeakingAction):
    """The module, with what is wrong in words."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        seen = plain((task_vars.get("ansible_facts") or {}).get("llm_lock") or {})
        holder = seen.get("holder")
        takes_over = is_true(self._task.args.get("take_over"))
        # A task runs in a process of its own; the one above it is ansible-playbook.
        internal = {
            "mine": this_run(os.getppid(), context.CLIARGS, collection_version()),
            "seen": seen,
            "ended": holder if holder and (takes_over or is_over(holder)) else None,
        }
        self._task.args = {**self._task.args, **internal}
        result = super().run(tmp, task_vars)
        result["problem"] = ""
        if self._task.args["state"] == "taken" and result.get("taken") is False and not self._task.check_mode:
            host = task_vars["inventory_hostname"]
            problem = held_problem(host, result.pop("holder", None), self._task.args["path"], self.language)
            result["problem"] = render([problem], self.language, "").strip()
        result.pop("holder", None)
        return result
