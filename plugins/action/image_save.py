# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of image_save: says why an image is not passed on."""

from __future__ import annotations

from typing import Any

from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, SpeakingAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

display = Display()


class ActionModule(SpeakingAction):
    """The module, and a warning where there is no archive."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        if result.get("why"):
            host = str(task_vars["inventory_hostname"])
            said = {"host": host, "image": self._task.args.get("reference"), "reason": result["why"]}
            display.warning(message("image_not_saved", self.language, **said))
        return result
