# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bundle_transfer: a bundle onto disks, and off them again."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.toolkit import ToolkitError
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.transfer import receive, send
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, DocumentedAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import reason

display = Display()


class ActionModule(DocumentedAction):
    """Everything happens here, on the controller."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, object] = super().run(tmp, task_vars)
        options = self.options(mutually_exclusive=[["export", "sources"]], required_one_of=[["export", "sources"]])
        say, check = display.display, bool(self._task.check_mode)
        try:
            sends = bool(options["export"])
            found = send(options, say, check) if sends else receive(options, say, display.warning, check)
        except (CodedError, ToolkitError, OSError) as error:
            # Ansible would add what a cause says, in English.
            raise AnsibleActionFail(reason(error, options["language"])) from None
        result |= {"changed": bool(found["copied"]), **found}
        if self._task.diff and found["copied"]:
            result["diff"] = {"before": "", "after": "".join(f"{path}\n" for path in found["copied"])}
        return result
