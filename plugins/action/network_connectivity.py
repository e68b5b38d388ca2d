# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of network_connectivity: tells a host what was decided, and where the other hosts listen."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.connectivity import connectivity_arguments

# Where the tasks register what was found, so that each step adds to the one before it.
FOUND = "llm_connectivity"
RESULTS = ("port", "held", "taken", "reached", "heard")


class ActionModule(ActionBase):
    """One of the three steps."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            argument_spec={"state": {"type": "str", "choices": ["listening", "connected", "stopped"], "required": True}}
        )
        host, state = task_vars["inventory_hostname"], options["state"]
        section = plain(task_vars["llm_decision"]["hosts"][host])
        check = section["network"]["check"]
        arguments: dict[str, object] = {"state": state, "name": section["names"]["suffix"]}
        if state != "stopped":
            arguments |= {"host": host, "token": check["token"], "addresses": check["addresses"]}
        if state == "listening":
            arguments |= {"ports": check["ports"], "lifetime_seconds": check["lifetime_seconds"]}
        if state == "connected":
            others = task_vars["hostvars"]
            listening = {name: plain(others[name].get(FOUND) or {}) for name in check["members"]}
            arguments |= connectivity_arguments(check["candidates"], host, listening)
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        earlier = {} if state == "listening" else plain(task_vars.get(FOUND) or {})
        return {**{key: earlier[key] for key in RESULTS if key in earlier}, **result}
