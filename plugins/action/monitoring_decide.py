# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the role monitoring, decided once for all hosts; what they hold is made in plugin_utils/monitoring."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import MANIFEST_NAME
from ansible_collections.baremetal.llm.plugins.module_utils._private_file import write_private
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.decide import held_images
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import known_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import (
    bundled,
    code_digest,
    digest,
    variables_of,
    whole_run,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import (
    GRAFANA_PASSWORD,
    JOURNAL,
    alias_hosts,
    names_on,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.controller_secrets import ControllerSecrets
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import role_options
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet, HostVariables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, problem, render
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.dcgm import exporters, gpu_exporters, refusal
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.figures import (
    bundle_metrics,
    plan_metrics,
    together,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.files import (
    exporters_and_collectors,
    files,
    shipping,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.grafana import grafana, provisioning
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.journals import central, senders
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.receivers import endpoints
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import endpoint, targets
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.work import asked, sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import resolved
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.observations import read_observation


class ActionModule(ActionBase):
    """Reads the inventory and the latest decision; touches no host."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        fleet = Fleet(self._loader, task_vars)
        controller = fleet["localhost"]
        deployments = controller["llm_inventory"]["deployments"]
        collectors = fleet.groups.get("llm_monitoring") or []
        plans = plain(task_vars.get("llm_decision") or {}).get("plans") or {}
        executors = {name: str(plan["executor"]) for name, plan in plans.items() if plan.get("executor")}
        watching = fleet[collectors[0]] if collectors else controller
        names = controller["llm_inventory"].get("names") or {}
        lang = language(controller["llm_language"])
        members = [host for deployment in deployments.values() for host in deployment["hosts"]]
        of_host = {host: name for name, deployment in deployments.items() for host in deployment["hosts"]}
        # A machine has one exporter, under the first of its names. Where the site has its own, nothing of the role's measures GPUs.
        others = alias_hosts(members, names)
        machines = [
            host for host in members if host not in others and is_true(fleet[host]["monitoring_exporter_enabled"])
        ]
        gpus = self._gpu_exporters(machines, fleet, lang)
        decided = {
            "files": files(
                targets(
                    deployments,
                    fleet,
                    collectors,
                    executors,
                    fleet.groups.get("llm_gateway") or [],
                    exporters(gpus),
                ),
                watching,
                lang,
            ),
            **exporters_and_collectors(deployments, fleet, collectors, resolved),
            "figures": self._figures(deployments, fleet, collectors, controller),
            "gpus": gpus,
            "shipping": {
                host: shipping(host, of_host.get(host, ""), fleet[host])
                for host in dict.fromkeys([*members, *collectors])
            },
            "grafana": self._grafana(watching, fleet, lang, self._on_host(collectors, fleet)),
            "receivers": endpoints(watching["monitoring_receivers"]),
        }
        settings = variables_of(watching, role_options()["monitoring"])
        rules = [self._text(path) for path in watching["monitoring_rules_files"]]
        mine = [host for host in decided["exporters"] if is_true(fleet[host]["monitoring_exporter_enabled"])]
        sending = senders(mine, fleet)
        journal = central(sending, fleet, collectors, self._certificates(fleet)) if sending else {"hosts": {}}
        # One machine sends one journal, whatever names it has.
        second = alias_hosts(sending, names)
        journal["senders"] = [host for host in sending if host not in second]
        decided["journal"] = journal
        to, sent = {**journal, "hosts": {}, "senders": []}, journal["hosts"]
        counted = (
            *("monitoring_journal_gib", "models_dir", "monitoring_journal_central_gib", "monitoring_unit_limits"),
            "monitoring_backup_dir",
        )
        said = {
            host: [*(fleet[host][name] for name in counted), *([to, sent[host]["sha256"]] if host in sent else [])]
            for host in mine
        }
        for host in exporters({host: one for host, one in gpus.items() if host in said}):
            said[host] += [gpus[host], self._bundled(gpus[host]["container"], fleet[host], lang)]
        for host in mine:
            said[host] += [decided["shipping"][host]] if decided["shipping"][host] else []
        if journal.get("server") in said:
            said[journal["server"]] += [journal["senders"]]
        shown = self._bundled(decided["grafana"].get("container") or {}, watching, lang)
        wanted = asked(decided, collectors, said, {**settings, "grafana": shown}, rules)
        records = {host: (fleet[host].get("ansible_facts") or {}).get("llm_records") or {} for host in wanted}
        walk = is_true(controller["llm_full_check"]) or not whole_run(task_vars)
        aliases = alias_hosts([host for host in wanted if host in fleet.selected], names)
        hosts = sections(wanted, records, code_digest(), walk, set(members) <= set(fleet.selected), aliases)
        return {**result, "changed": False, **decided, "hosts": hosts}

    def _gpu_exporters(self, hosts: Sequence[str], fleet: Fleet, lang: str) -> dict[str, dict[str, Any]]:
        """By host what measures its GPUs. One that has to be DCGM's and cannot be is refused."""
        found = gpu_exporters(hosts, fleet, lambda bundle: known_records(bundle, lang), lang)
        refused = [refusal(host, one, lang) for host, one in found.items() if one["demanded"] and not one["fits"]]
        if refused:
            raise AnsibleActionFail(render(refused, lang))
        return found

    def _bundled(self, container: Mapping[str, object], variables: Mapping[str, object], lang: str) -> list[object]:
        """The id of a container's image in the bundle: another one of the same name is another one."""
        if not container or not is_true(variables.get("llm_offline", True)):
            return []
        records = known_records(manifest_folder(variables), lang)
        return [*bundled("images", records, (), [str(container["image"])])]

    def _on_host(self, collectors: Sequence[str], fleet: Fleet) -> str | None:
        """The password with which Grafana was set up on the host that watches, read because the controller has none. None if it was not looked for."""
        found = fleet[collectors[0]] if collectors else {}
        if "__monitoring_grafana_there" not in found:
            return None
        content = (found.get("__monitoring_grafana_password") or {}).get("content") or ""
        return base64.b64decode(content).decode(errors="replace").strip()

    def _grafana(
        self, watching: Mapping[str, object], fleet: Fleet, lang: str, on_host: str | None = None
    ) -> dict[str, object]:
        """Grafana's container, and the file with its password on the controller, which is adopted from the host or made now if nobody set one."""
        made = grafana(watching)
        if not made:
            return {}
        if is_true(watching.get("llm_offline", True)):
            records = known_records(manifest_folder(watching), lang)
            if made["image"] not in [image["reference"] for image in held_images(records)]:
                values = {"value": made["image"], "where": "monitoring_grafana_image"}
                raise AnsibleActionFail(render([problem("grafana_not_bundled", lang, **values)], lang))
        # What is made before the host was looked at is not kept, since another controller may have set it up.
        if not watching.get("monitoring_grafana_admin_password") and on_host is not None:
            store = self._store(fleet)
            if on_host and not store.kept(GRAFANA_PASSWORD):
                store.keep(GRAFANA_PASSWORD, on_host + "\n")
            store.secret(GRAFANA_PASSWORD)
        own = endpoint(str(watching["monitoring_listen_address"]), 9090)
        read = provisioning(str(watching["monitoring_dir"]), own, whole(watching["monitoring_interval_seconds"]))
        password = self._secrets(fleet) / GRAFANA_PASSWORD
        return {"container": made, "digest": digest(read), "password_file": str(password)}

    def _secrets(self, fleet: Fleet) -> Path:
        return Path(self._loader.path_dwim(str(fleet["localhost"].get("llm_secrets_dir") or "")))

    def _store(self, fleet: Fleet) -> ControllerSecrets:
        """What the controller keeps. Check mode writes nothing."""
        write = None if self._task.check_mode else write_private
        controller = fleet["localhost"]
        lang, renew = language(controller["llm_language"]), str(controller["llm_rotate_secrets"]) == "authority"
        now = datetime.datetime.now(datetime.UTC)
        return ControllerSecrets(self._secrets(fleet), fleet, self._loader.path_dwim, write, now, lang, renew)

    def _figures(
        self,
        deployments: Mapping[str, Mapping[str, object]],
        fleet: Fleet,
        collectors: list[str],
        controller: HostVariables,
    ) -> dict[str, str]:
        """By host what only the controller knows: of a head what the last start was predicted to take, and took, where this controller has seen
        one; of hosts that watch when the bundle was made."""
        bundle, names = controller.get("llm_bundle_dir"), controller["llm_inventory"].get("names") or {}
        manifest = Path(str(bundle)).expanduser() / MANIFEST_NAME
        age = bundle_metrics(manifest.stat().st_mtime) if bundle and manifest.is_file() else ""
        found = dict.fromkeys(collectors, age)
        reports = str(controller["llm_report_dir"])
        for name, deployment in deployments.items():
            head = str(deployment["head"])
            path = Path(reports, "observations", f"{name}-{setting(fleet[head], 'version')}.json")
            if observed := read_observation(path):
                mine = names_on(head, names)
                for host in mine["sharing"]:
                    label = name if len(mine["sharing"]) > 1 else ""
                    found[host] = together(plan_metrics(observed, label), found.get(host, ""))
        return found

    def _certificates(self, fleet: Fleet) -> Callable[[str, Sequence[str]], Mapping[str, object]]:
        """What makes the certificates of journals on the controller, or finds those that were made."""
        store = self._store(fleet)
        if refused := store.authority_problems(JOURNAL):
            raise AnsibleActionFail(render(refused, store.lang))
        return partial(store.signed, JOURNAL)

    def _text(self, path: str) -> str:
        """The content of a file of rules, looked for where ansible.builtin.copy looks for it."""
        return Path(self._find_needle("files", path)).read_text(encoding="utf-8")
