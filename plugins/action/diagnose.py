# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""diagnose: explains a saved log; what it says is in plugin_utils/planner/diagnose.py."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, DocumentedAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, reason
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import diagnose_log, explain_log, saved_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError


class ActionModule(DocumentedAction):
    """Reads a file of the controller."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        lang = language(Fleet(self._loader, task_vars)["localhost"]["llm_language"])
        try:
            text = saved_log(str(options["file"]))
        except InputError as error:
            raise AnsibleActionFail(reason(error, lang)) from None
        Display().display(f"\n  {explain_log(text, lang)}\n")
        return {**result, "changed": False, "findings": diagnose_log(text, lang)}
