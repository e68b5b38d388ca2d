"""Writes down what the tasks of a playbook manage on hosts: a line of JSON for each result, with host, module and arguments.

For tests: LLM_MANAGED_FILE names the file.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: managed
type: aggregate
short_description: What the tasks of a playbook manage
description:
  - Writes a line of JSON for each result.
"""


class CallbackModule(CallbackBase):
    """Results of tasks that ran on the host itself, one for each item of a loop."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "managed"

    def _write(self, result: Any) -> None:
        delegated = (result._result.get("_ansible_delegated_vars") or {}).get("ansible_delegated_host")
        # The result of a task with no_log has no arguments to write down. The tests of records alter what such a task wrote all the same.
        if result._result.get("skipped") or result._result.get("censored") or delegated or result._task.delegate_to:
            return
        line = {
            "host": result._host.get_name(),
            "module": result._task.action,
            "task": result._task.get_name(),
            "arguments": (result._result.get("invocation") or {}).get("module_args") or {},
            "path": result._result.get("dest") or result._result.get("path"),
            "files": [
                file["dest"] for file in result._result.get("files") or [] if isinstance(file, dict) and "dest" in file
            ],
        }
        with open(os.environ["LLM_MANAGED_FILE"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        if "results" not in result._result or result._task.loop is None:
            self._write(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._write(result)
