# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of host_facts: compares the host's clock with its own."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.clock import clock_offset


class ActionModule(ActionBase):
    """The module, between two looks at the clock."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        before = time.time()
        result.update(
            self._execute_module(
                module_name="baremetal.llm.host_facts", module_args=self._task.args, task_vars=task_vars
            )
        )
        facts = result.get("host_facts")
        if isinstance(facts, dict) and "time" in facts:
            facts["clock"] = clock_offset(facts.pop("time"), before, time.time())
        return result
