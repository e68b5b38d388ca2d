# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of gpu_accept: judges what the host said."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, SpeakingAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.acceptance import accept_text, judge, to_record


class ActionModule(SpeakingAction):
    """The module, with a verdict on each card."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        if result.get("failed") or "facts" not in result:
            return result
        facts, last = result.pop("facts"), result.pop("last", {})
        gpus = judge(facts, last, int(self._task.args.get("slower_percent", 10)))
        result["gpus"], result["passed"] = gpus, all(gpu["verdict"] != "fail" for gpu in gpus)
        result["record"] = to_record(gpus)
        result["text"] = accept_text(str(task_vars.get("inventory_hostname", "")), gpus, self.language)
        return result
