# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares all hosts with what is asked of them, prints what was found, and writes it for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import known_records, load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import (
    CODE,
    EARLY_STAGES,
    asked_by_variables,
    code_digest,
    left_out,
    to_do,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import image_to_run
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import alias_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import role_options
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet, HostVariables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    refuse_text,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.check import check_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.report import report_lines, verdict
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.settings import check_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.files import write_report


class ActionModule(DocumentedAction):
    """What is right is decided in plugin_utils/preflight; this reads the variables of the hosts, prints and writes."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        lang = options["language"]
        found = self.check(task_vars, lang)
        lines = [verdict(found["report"], lang), *report_lines(found["report"], lang)]
        if found["warning"]:
            lines += ["", *found["warning"].splitlines()]
        Display().display("\n" + "\n".join(lines) + "\n")
        if not self._task.check_mode:
            write_report(options["path"], json.dumps(found["report"], indent=2, ensure_ascii=False) + "\n", lang)
        result |= {"changed": False, "problems": [entry["code"] for entry in found["problems"]]}
        if found["problems"]:
            refuse_text(found["message"], lang, result)
        asked, left_out, images = self.work(task_vars, found["hosts"], lang)
        hosts = {
            host: {**used, "asked": asked.get(host, {}), "images": images.get(host, [])}
            for host, used in found["hosts"].items()
        }
        return {**result, "lines": lines, "hosts": hosts, "left_out": left_out}

    def work(
        self, task_vars: Mapping[str, object], looked_at: Iterable[str], lang: str
    ) -> tuple[dict[str, dict[str, str]], dict[str, str], dict[str, list[str]]]:
        """What the roles of each host of this run are asked for, the hosts where a stage has nothing to do, and the images of each host whose machine
        has several deployments: those of all of them."""
        fleet = Fleet(self._loader, task_vars)
        names = fleet["localhost"]["llm_inventory"]["names"]
        options = role_options()
        hosts = [host for host in looked_at if host in fleet.playing]
        code, asked, images = code_digest(), {}, {}
        for host in hosts:
            records = known_records(manifest_folder(fleet[host]), lang)
            sharing = names[host]["sharing"]
            if len(sharing) > 1:
                images[host] = list(dict.fromkeys(image_to_run(fleet[each], records) for each in sharing))
            machine = {
                "images": images.get(host) or [],
                "models": names[host]["models"],
                "engine": names[host].get("engine", True),
            }
            image = image_to_run(fleet[host], records)
            asked[host] = {CODE: code, **asked_by_variables(fleet[host], options, records, image, machine)}
        records_of = {host: (fleet[host].get("ansible_facts") or {}).get("llm_records") or {} for host in hosts}
        found = to_do({"": hosts}, asked, records_of)
        options_of_run = {**task_vars, "llm_full_check": fleet["localhost"]["llm_full_check"]}
        aliases = alias_hosts(hosts, names)
        return asked, left_out(hosts, found, options_of_run, EARLY_STAGES, aliases, asked), images

    def check(self, task_vars: Mapping[str, object], lang: str) -> dict[str, Any]:
        """All that is wrong with the hosts of the deployments that this run is about."""
        fleet = Fleet(self._loader, task_vars)
        deployments = fleet["localhost"]["llm_inventory"]["deployments"]
        role = HostVariables(self._loader, task_vars)
        bundles: dict[str, Sequence[Record]] = {}

        def read_bundle(bundle: str) -> Sequence[Record]:
            if bundle not in bundles:
                bundles[bundle] = load_records(bundle, lang)
            return bundles[bundle]

        names = fleet["localhost"]["llm_inventory"].get("names")
        return check_hosts(
            **check_arguments(deployments, fleet, fleet.selected, role, read_bundle, names, fleet.groups), lang=lang
        )
