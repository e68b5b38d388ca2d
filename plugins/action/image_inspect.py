# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of image_inspect: says what was found in words."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.image_report import report
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, SpeakingAction, TaskVars


class ActionModule(SpeakingAction):
    """The module, with a table of what it found."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        if "images" in result:
            result["text"] = report(
                [{**image.get("contents", {}), **image} for image in result["images"]], self.language
            )
        return result
