# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the page of the runbooks; what is on it, says plugin_utils/reports/runbook.py."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.lock import collection_version
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.files import write_report
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.runbook import runbook_page

FOLDERS = ("llm_secrets_dir", "llm_report_dir", "llm_bundle_dir")


class ActionModule(ActionBase):
    """Reads the inventory of this run."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        fleet = Fleet(self._loader, task_vars)
        controller = fleet["localhost"]
        lang = language(controller["llm_language"])
        hosts = [host for host in fleet.groups.get("all", []) if host != "localhost"]
        inventory = controller["llm_inventory"]
        heads = [fleet[each["head"]] for each in inventory["deployments"].values()] or [controller]
        checkout = (Path(str(task_vars["playbook_dir"])).parent / "galaxy.yml").exists()
        page = runbook_page(
            {
                "deployments": inventory["deployments"],
                "groups": fleet.groups,
                "addresses": {host: str(fleet[host].get("ansible_host") or host) for host in hosts},
                "inventories": task_vars.get("ansible_inventory_sources") or (),
                "form": "playbooks/{name}.yml" if checkout else "baremetal.llm.{name}",
                "folders": {name: heads[0].get(name) for name in FOLDERS},
                "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                "collection": collection_version(),
            },
            lang,
        )
        path = os.path.join(str(controller["llm_report_dir"]), "runbook.html")
        if not self._task.check_mode:
            write_report(path, page, lang)
            Display().display("\n" + message("runbook_written", lang, path=path) + "\n")
        return {**result, "changed": False, "path": path}
