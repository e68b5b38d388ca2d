# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints and writes what is wrong with the fleet, or with a start whose log was saved; the checks are in plugin_utils/doctor."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.checks import examine, examine_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.finding import GIB, Finding, Question
from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.report import (
    BLIND,
    doctor_document,
    doctor_lines,
    verdict,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import FleetInventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, DocumentedAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, message, names, reason
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import saved_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import check_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.settings import check_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.files import write_report
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.asked import (
    LOOKS,
    looked_of_run,
    read_looks,
    series_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import Looked, made_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.report import moment
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.trends import (
    Looks,
    check_series,
    former_hosts,
    kept_looks,
)

FILE = "doctor.json"


class ActionModule(DocumentedAction):
    """Reads what the hosts of this run answered, or a file of the controller."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, object] = super().run(tmp, task_vars)
        options = self.options()
        fleet, now = Fleet(self._loader, task_vars), time.time()
        controller = fleet["localhost"]
        lang, folder = language(controller["llm_language"]), str(controller["llm_report_dir"])
        found = self._log(str(options["log"]), lang) if options["log"] else self._hosts(fleet, now, lang, folder)
        document = doctor_document(found, moment(now))
        text, path = json.dumps(document, indent=1, ensure_ascii=False), os.path.join(folder, FILE)
        written = not options["log"] and not self._task.check_mode
        if written:
            write_report(path, text + "\n", lang)
        lines = [text] if options["output"] == "json" else doctor_lines(document, lang, path if written else "")
        Display().display("\n" + "\n".join(lines) + "\n")
        result |= {"changed": False, "exit_code": document["exit_code"], "verdict": verdict(document, lang)}
        if document["exit_code"] == BLIND:
            hosts = names(sorted({host for each in found if each.blind for host in each.hosts}), lang)
            raise AnsibleActionFail(message("doctor_blind_end", lang, hosts=hosts), result=result)
        return result

    @staticmethod
    def _log(path: str, lang: str) -> list[Finding]:
        try:
            return examine_log(saved_log(path), lang)
        except InputError as error:
            raise AnsibleActionFail(reason(error, lang)) from None

    def _hosts(self, fleet: Fleet, now: float, lang: str, folder: str) -> list[Finding]:
        inventory = fleet["localhost"]["llm_inventory"]
        reserve = float(fleet["localhost"]["preflight_disk_reserve_gib"])

        def made(hosts: Sequence[Looked]) -> tuple[Looks, list[Finding]]:
            looks, series = kept_looks(read_looks(folder), hosts, now), series_of(hosts)
            check_series(series)
            former = {
                host: datetime.datetime.fromtimestamp(seen, datetime.UTC).date().isoformat()
                for host, seen in former_hosts(looks, list(fleet)).items()
            }
            checked = self._preflight(fleet, hosts, inventory, lang)
            said = [*checked.get("problems", ()), *checked.get("warnings", ())]
            asked = Question(
                hosts, said, checked.get("hosts", {}), looks, series, former, int(reserve * GIB), now, lang
            )
            return looks, examine(asked)

        looks, findings = made_of(looked_of_run(fleet, fleet.groups, inventory), made)
        if not self._task.check_mode:
            write_report(os.path.join(folder, LOOKS), json.dumps(looks) + "\n", lang)
        return findings

    @staticmethod
    def _preflight(fleet: Fleet, hosts: Sequence[Looked], inventory: FleetInventory, lang: str) -> Mapping[str, Any]:
        """What preflight says of the hosts that answered; the bundle is no matter of a fleet that runs."""
        seen = [looked.asked.host for looked in hosts if looked.answered and looked.asked.deployment]
        if not seen:
            return {}
        role = ChainMap({"preflight_bundle_required": False}, cast(Any, fleet[seen[0]]))
        arguments = check_arguments(
            inventory["deployments"], fleet, seen, role, lambda _bundle: (), inventory.get("names")
        )
        arguments["facts"] = {host: found if host in seen else {} for host, found in arguments["facts"].items()}
        return check_hosts(**arguments, lang=lang)
