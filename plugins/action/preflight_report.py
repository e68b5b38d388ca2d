# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints what preflight found, and writes it for machines."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import report_lines


class ActionModule(ActionBase):
    """Words come from plugin_utils/preflight/check.py; this only prints and writes them."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            argument_spec={
                "result": {"type": "dict", "required": True},
                "path": {"type": "path", "required": True},
                "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
            }
        )
        found, path = options["result"], options["path"]
        lines = report_lines(found["report"], options["language"])
        if found["warning"]:
            lines += ["", *found["warning"].splitlines()]
        Display().display("\n" + "\n".join(lines) + "\n")
        if not self._task.check_mode:
            self.write(path, json.dumps(found["report"], indent=2, ensure_ascii=False) + "\n", options["language"])
        return {**result, "changed": False, "lines": lines}

    @staticmethod
    def write(path: str, text: str, lang: str) -> None:
        """In one step: who reads it while it is written gets the old one."""
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path + ".new", "w", encoding="utf-8") as stream:
                stream.write(text)
            os.replace(path + ".new", path)
        except OSError as error:
            said = message("not_writable", lang, folder=path, reason=error, variable="llm_report_dir")
            raise AnsibleActionFail(said) from error
