# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of gather: reads what the bundle puts on the host's disks, and compares the host's clock with its own."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.clock import clock_offset
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.disks import disk_needs


class ActionModule(ActionBase):
    """The module, between two looks at the clock."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = {**self._task.args, "needs": self.needs()}
        before = time.time()
        result.update(
            self._execute_module(module_name="baremetal.llm.gather", module_args=arguments, task_vars=task_vars)
        )
        after = time.time()
        if "time" in result:
            # What the host worked before it looked at its clock was no part of the way there.
            left = before + result.pop("worked_seconds")
            result["ansible_facts"]["llm_host"]["clock"] = clock_offset(result.pop("time"), left, after)
        return result

    def needs(self) -> list[dict[str, Any]]:
        """What the bundle puts on the host's disks; nothing without a bundle."""
        options = self._task.args
        bundle = str(options.get("bundle") or "")
        if not bundle:
            return []
        records = load_records(bundle, options.get("language", "en"))
        return disk_needs(records, str(options.get("model") or ""), str(options.get("host_dir") or "/opt/llm"))
