# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of served: what the host serves with, by the decision of this run, and what it is given to go back."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import code_digest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.served import (
    closed_names,
    left_by,
    served_decision,
    served_of,
    serves_with,
    version_before,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_of, setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars

FILE = "served.json"


class ActionModule(ActionBase):
    """The module, with what the controller knows."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, object] = super().run(tmp, task_vars)
        host, options = str(task_vars["inventory_hostname"]), dict(self._task.args)
        fleet = Fleet(self._loader, task_vars)
        variables, inventory = fleet[host], fleet["localhost"]["llm_inventory"]
        decision = plain(task_vars.get("llm_decision") or {})
        section = (decision.get("hosts") or {}).get(host) or {}
        folder = str(variables["llm_host_dir"]) + names_on(host, inventory.get("names") or {})["folder"]
        places = {
            "path": posixpath.join(folder, FILE),
            "host_dir": str(variables["llm_host_dir"]),
            "models_dir": str(variables["models_dir"]),
        }
        if options["state"] in ("begun", "kept"):
            plan = (decision.get("plans") or {}).get(section["deployment"]) or {}
            serves = serves_with(section, plan, str(setting(variables, "version")))
            said = [variables.get(f"{role}_environment") or {} for role in reversed(engine_of(variables).roles)]
            environment = {name: value for each in said for name, value in each.items()}
            options |= {"serves": serves}
        if options["state"] == "kept":
            options |= {
                "container": serves["container"],
                "closed": {name: environment[name] for name in closed_names(section) if name in environment},
                "images_keep": int(variables["images_keep_previous"]),
                "models_keep": int(variables["models_keep_previous"]),
            }
        served = served_of(variables.get("ansible_facts") or {})
        if options["state"] in ("looked", "put_back"):
            asked = options.get("version") or self._before(fleet, host, inventory["deployments"])
            options["version"] = asked
        result |= self._execute_module(
            module_name="baremetal.llm.served", module_args={**options, **places}, task_vars=task_vars
        )
        if options["state"] == "kept":
            result["container"] = options["container"]
        if options["state"] in ("looked", "put_back") and not result.get("failed"):
            begins = section.get("version") not in (None, options["version"])
            result["left"] = (
                {"version": section["version"], "image": section["image"]}
                if begins
                else left_by(served, options["version"])
            )
            if options["state"] == "put_back":
                result["decision"] = served_decision({host: plain(result)}, code_digest(), decision)
        return result

    @staticmethod
    def _before(fleet: Fleet, host: str, deployments: Mapping[str, Mapping[str, Any]]) -> str:
        mates = next((list(each["hosts"]) for each in deployments.values() if host in each["hosts"]), [])
        facts = {mate: fleet[mate].get("ansible_facts") or {} for mate in mates}
        return version_before({mate: served_of(found) for mate, found in facts.items()})
