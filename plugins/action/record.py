# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of record: what the role was asked for, as the latest decision of this run has it."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import (
    CODE,
    whole_run,
    with_secrets,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.secrets import secret_digests
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars


class ActionModule(ActionBase):
    """The module, where the role ran as a whole and it is known what it was asked for."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self._task.args
        # On a gateway that is in no deployment it is a variable of the play, which nobody has evaluated yet.
        decision = self._templar.template(task_vars.get("llm_decision")) or {}
        name = task_vars["inventory_hostname"]
        decided, gateway = ((decision.get(part) or {}).get(name) or {} for part in ("hosts", "gateways"))
        watched = ((task_vars.get("_monitoring_decided") or {}).get("hosts") or {}).get(name) or {}
        known = (task_vars.get("llm_asked") or {}, *(part.get("asked") or {} for part in (decided, gateway, watched)))
        every = {role: digest for part in known for role, digest in part.items()}
        asked = every.get(options.get("role"))
        if not asked or self._task.check_mode or not whole_run(task_vars):
            return {**result, "changed": False, "recorded": False}
        host = Fleet(self._loader, task_vars)[name]
        secrets = secret_digests(host, str(decided.get("deployment") or ""))
        made_from = with_secrets({options["role"]: asked}, secrets)[options["role"]]
        arguments = {**options, "made_from": made_from, "collection": every[CODE]}
        return {
            **result,
            **self._execute_module(module_name="baremetal.llm.record", module_args=arguments, task_vars=task_vars),
        }
