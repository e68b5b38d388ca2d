# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settles which hosts take part in their deployments; what is right is in plugin_utils/inventory/members.py."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on, removal
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import (
    absent_lines,
    requested,
    seen_members,
    settle,
    utc,
    with_seen,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars, refuse
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.memory import memory_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.files import write_report

# What the task that looks registers on each host.
REGISTERED = "__preflight_gathered"
# What the controller keeps in llm_report_dir of the hosts that it has seen in deployments.
FILE = "members.json"


class ActionModule(ActionBase):
    """Reads what the hosts of this run answered."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        fleet = Fleet(self._loader, task_vars)
        controller = fleet["localhost"]
        lang, inventory = language(controller["llm_language"]), controller["llm_inventory"]
        states, silent = {}, {}
        request = requested(controller.get("llm_members_asked") or {}, inventory.get("names") or {})
        for host in dict.fromkeys([*fleet.playing, *request.removed]):
            gathered = fleet[host].get(REGISTERED) or {}
            if "said" in gathered:
                silent[host] = str(gathered["said"])
            else:
                states[host] = memory_of(fleet[host].get("ansible_facts") or {})
        now = utc(datetime.datetime.now(datetime.UTC))
        known = [host for entry in inventory["deployments"].values() for host in entry["hosts"]]
        settled = settle(inventory, states, silent, request, known, now, lang)
        if settled.problems:
            refuse(settled.problems, lang, result)
        path = os.path.join(str(controller["llm_report_dir"]), FILE)
        before = _read(path)
        found = with_seen(settled.inventory, before, known, request)
        if not self._task.check_mode and not inventory.get("one_line"):
            addresses = {host: str(fleet[host].get("ansible_host") or host) for host in known}
            kept = seen_members(before, found, addresses, now)
            kept = {host: said for host, said in kept.items() if host not in request.forgotten}
            write_report(path, json.dumps(kept, indent=1, ensure_ascii=False) + "\n", lang)
        names = inventory.get("names") or {}
        found["names"] = {**{host: names_on(host, names) for host in found["leaving"]}, **names}
        remains = {
            host: removal(names_on(host, names), str(fleet[host]["llm_host_dir"]))
            for host in found["leaving"]
            if host in request.removed
        }
        lines = absent_lines(found, lang)
        if lines:
            Display().display("\n" + "\n".join(lines) + "\n")
        return {**result, "changed": False, "inventory": {**found, "remains": remains}}


def _read(path: str) -> object:
    """What an earlier run kept; None where there is nothing that can be read."""
    try:
        return read_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
