# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the report of a playbook as plain lines."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.run import report_lines


class ActionModule(ActionBase):
    """Words come from plugin_utils/reports/run.py; this only prints them."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            argument_spec={
                "stages": {"type": "list", "elements": "dict", "required": True},
                "deployments": {"type": "dict", "required": True},
                "plans": {"type": "dict", "default": {}},
                "serving": {"type": "dict", "default": {}},
                "collective": {"type": "dict", "default": {}},
                "networks": {"type": "dict", "default": {}},
                "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
            }
        )
        lines = report_lines(**options)
        Display().display("\n" + "\n".join(lines) + "\n")
        return {**result, "changed": False, "lines": lines}
