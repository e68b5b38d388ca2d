# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides for all hosts at once what a cleanup frees, and says what it freed; the rules are in plugin_utils/status/cleanup.py."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence

from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._cleanup_rules import CLASSES, OURS
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import known_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    refuse,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, message, problem
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.files import write_report
from ansible_collections.baremetal.llm.plugins.plugin_utils.status import cleanup
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.cleanup import HostDocument
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.report import moment

# What the tasks register that look and that remove.
LISTED = "__cleanup_listed"
DONE = "__cleanup_done"


class ActionModule(DocumentedAction):
    """Reads what the hosts of this run answered."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        fleet = Fleet(self._loader, task_vars)
        controller = fleet["localhost"]
        lang = language(controller["llm_language"])
        what = [name.strip() for each in options["what"] for name in str(each).split(",") if name.strip()] or list(OURS)
        if unknown := cleanup.unknown_classes(what):
            named = ", ".join(unknown)
            refuse(
                [problem("cleanup_unknown", lang, named, "-e llm_cleanup_what", names=", ".join(CLASSES))], lang, result
            )
        hosts = self._documents(fleet, options["hosts"], what, options["state"] == "done")
        result |= {"changed": False, "silent": [each["host"] for each in hosts if not each["answered"]]}
        if options["state"] == "planned":
            going = {each["host"]: cleanup.to_remove(each) for each in hosts}
            return {
                **result,
                "lines": cleanup.plan_lines(hosts, what, lang),
                "items": {host: items for host, items in going.items() if items},
            }
        text = json.dumps(cleanup.cleanup_document(hosts, what, moment(time.time())), indent=1, ensure_ascii=False)
        lines = [
            line
            for each in hosts
            if each["answered"]
            for line in cleanup.result_lines(each, lang, self._task.check_mode)
        ]
        if not self._task.check_mode:
            path = os.path.join(str(controller["llm_report_dir"]), "cleanup.json")
            write_report(path, text + "\n", lang)
            lines.append(message("status_written", lang, path=path))
        Display().display("\n" + (text if options["output"] == "json" else "\n".join(lines)) + "\n")
        failed = [each["host"] for each in hosts if any(one["said"] for one in each.get("stayed") or ())]
        return {**result, "failed_hosts": failed, "lines": lines}

    @staticmethod
    def _documents(fleet: Fleet, hosts: Sequence[str], what: Sequence[str], done: bool) -> list[HostDocument]:
        """A document for each machine, under the first of its names."""
        lang = language(fleet["localhost"]["llm_language"])
        inventory = fleet["localhost"]["llm_inventory"]
        known = inventory.get("names") or {}
        serving = {host for each in inventory["deployments"].values() for host in each["hosts"]}
        found = []
        for host in hosts:
            sharing = names_on(host, known)["sharing"]
            if host != next((name for name in sharing if name in hosts), host):
                continue
            machine = [fleet[name] for name in sharing if name in serving]
            listed = plain(fleet[host].get(LISTED) or {})
            answer = listed if isinstance(listed, Mapping) and "items" in listed else None
            document = cleanup.host_document(host, answer, cleanup.asked_of(machine, _bundled(machine, lang)), what)
            if done:
                result = plain(fleet[host].get(DONE) or {})
                document = cleanup.with_result(document, result if "removed" in result else None)
            found.append(document)
        return found


def _bundled(machine: Sequence[Mapping[str, object]], lang: str) -> list[dict[str, object]]:
    """What the bundle holds that a machine is served from; nothing where this controller has none."""
    return [record for variables in machine for record in known_records(manifest_folder(variables), lang)]
