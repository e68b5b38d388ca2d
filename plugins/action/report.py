# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the report of a playbook as plain lines; its words come from plugin_utils/reports/summary.py."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import known_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import key_file, secret_file
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import name_of, setting, variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet, HostVariables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import absent_lines
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.dcgm import gpu_exporters, groups
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.benchmark import latest_benchmarks
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.files import write_report
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.start_history import first_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.summary import Run, report_lines
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.use_it import Address


class ActionModule(ActionBase):
    """Reads what the stages left: the latest decision, and what each head found."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        fleet = Fleet(self._loader, task_vars)
        controller = fleet["localhost"]
        lang = language(controller["llm_language"])
        deployments = controller["llm_inventory"]["deployments"]
        hosts = [host for deployment in deployments.values() for host in deployment["hosts"]]
        decisions = [fleet[host].get("llm_decision") or {} for host in ["localhost", *hosts]]
        # A later decision holds all that an earlier one did, and more.
        decided = max(decisions, key=lambda each: (len(each.get("networks") or {}), len(each.get("plans") or {})))
        heads = [deployment["head"] for deployment in deployments.values()]
        gateways = (controller.get("llm_decision") or {}).get("gateways") or {}
        starts = Path(str(controller["llm_report_dir"]), "starts.json")
        run = Run(
            stages=controller["llm_stages"],
            deployments=deployments,
            plans=decided.get("plans") or {},
            networks=decided.get("networks") or {},
            serving={head: said for head in heads if (said := fleet[head].get("llm_serving"))},
            collective={head: said for head in heads if (said := fleet[head].get("llm_collective"))},
            benchmarks={
                head: latest_benchmarks(Path(folder))
                for head in heads
                if (folder := str(setting(fleet[head], "benchmark_dir") or ""))
            },
            starts={
                head: {
                    "seconds": start["seconds"],
                    "served_before": start["served_before"],
                    "first": first_start(starts, head, str(start["cache"]), float(start["seconds"])),
                    "kept_kib": start["kept_kib"],
                }
                for head in heads
                if (start := fleet[head].get(f"_{name_of(fleet[head])}_new_start"))
            },
            meanwhile=(decided.get("rolling") or {}).get("meanwhile") or {},
            work=controller.get("llm_work") or {},
            secrets=decided.get("secrets") or [],
            gateways={
                host: section if "_web_ui_answered" in fleet[host] else {**section, "web_ui": {}}
                for host, section in gateways.items()
                if "_gateway_answered" in fleet[host]
            },
            gpu_exporters=groups(self._gpu_exporters(fleet, hosts, controller, lang)),
            addresses=self._addresses(fleet, deployments, decided.get("plans") or {}, gateways),
            written=[os.path.join(str(controller["llm_report_dir"]), name) for name in ("plan.html", "report.txt")],
            one_line=bool(controller["llm_inventory"].get("one_line")),
            absent=absent_lines(controller["llm_inventory"], lang),
        )
        lines = report_lines(run, lang)
        Display().display("\n" + "\n".join(lines) + "\n")
        if not self._task.check_mode:
            # For who did not see it.
            path = os.path.join(str(controller["llm_report_dir"]), "report.txt")
            write_report(path, "\n".join(lines) + "\n", lang)
        return {**result, "changed": False, "lines": lines}

    @staticmethod
    def _addresses(
        fleet: Fleet,
        deployments: Mapping[str, Mapping[str, Any]],
        plans: Mapping[str, Mapping[str, object]],
        gateways: Mapping[str, Mapping[str, Any]],
    ) -> list[Address]:
        """What answered in this run: gateways where there are any, else the deployments themselves."""
        folder = str(fleet["localhost"]["llm_secrets_dir"])
        kinds = {name: str(plan.get("kind") or "") for name, plan in plans.items()}
        found = []
        for host, section in sorted(gateways.items()):
            if "_gateway_answered" in fleet[host] and section["models"]:
                names = [model["name"] for model in section["models"]]
                path = os.path.join(folder, key_file(section["keys"][0]["name"])) if section["keys"] else ""
                key = {"key_file": path} if os.path.isfile(path) else {"key_variable": "gateway_keys"} if path else {}
                kind = next(iter(kinds.values()), "chat")
                found.append(Address(section["url"], names, root=str(section["certificate"]["root"]), kind=kind, **key))
        if found:
            return found
        for name, deployment in sorted(deployments.items()):
            head = fleet[deployment["head"]]
            serving = head.get("llm_serving")
            if serving and kinds.get(name):
                variable = variable_of(head, "api_key")
                said = head.get(variable) is not None
                path = os.path.join(folder, secret_file(name, "api_key"))
                key = {"key_variable": variable} if said else {"key_file": path} if os.path.isfile(path) else {}
                found.append(Address(str(serving["url"]), [str(serving["model"])], kind=kinds[name], **key))
        return found

    @staticmethod
    def _gpu_exporters(
        fleet: Fleet, hosts: list[str], controller: HostVariables, lang: str
    ) -> Mapping[str, Mapping[str, Any]]:
        """What monitoring decided in this run; in one without that stage, as that of a plan, what it would be."""
        decided = (controller.get("_monitoring_decided") or {}).get("gpus")
        named = [host for host in hosts if fleet[host].get("monitoring_dcgm_image")]
        if decided is not None or not named or not fleet.groups.get("llm_monitoring"):
            return decided or {}
        return gpu_exporters(list(dict.fromkeys(hosts)), fleet, lambda bundle: known_records(bundle, lang), lang)
