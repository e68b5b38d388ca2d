# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides for all hosts at once; what is decided is in plugin_utils/deployment/decide.py."""

from __future__ import annotations

import datetime
import functools
import glob
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.module_utils._private_file import write_private
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import known_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.search import search_config
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import (
    CODE,
    asked_by_decision,
    bundled,
    code_digest,
    digest,
    left_out,
    one_by_one,
    role_differs,
    rolling,
    to_do,
    variables_of,
    whole_run,
    with_secrets,
    without,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.decide import (
    DecisionInput,
    Readers,
    decide,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import (
    OWN_KEY,
    PASSWORD,
    REPLICA_KEY,
    SESSION_KEY,
    WEB_UI_KEY,
    alias_hosts,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.secrets import (
    Agreement,
    Secret,
    agree,
    digests,
    secret_digests,
    secrets_of_run,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.served import asks_for_left, back_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import name_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.controller_secrets import ControllerSecrets
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.decide import (
    Gateways,
    Secrets,
    decide_gateways,
    served_name,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.web_ui import GROUP, sso_secrets
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import role_options
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars, refuse
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, message, render
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.secrets import (
    secret_values,
    without_secrets,
    without_values,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.journals import senders
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import resolved
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.decide import turns
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.observations import read_observation
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.files import write_report
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_html, plan_report

FILE = "decision.json"


class ActionModule(ActionBase):
    """Reads what is known, asks, and writes the answer down."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        fleet = Fleet(self._loader, task_vars)
        controller = fleet["localhost"]
        lang = language(controller["llm_language"])
        reports = str(controller["llm_report_dir"])
        earlier = plain(task_vars.get("llm_decision") or {})
        question = self._question(fleet, task_vars, earlier, lang, reports)
        try:
            decided = decide(question, self._sources(fleet, lang))
            # What the hosts hold was found at the beginning of the run: once the controller agrees with it, it has changed.
            agreements = [] if earlier else self._agreements(fleet, decided["hosts"], question)
            gateways, refused = self._gateways(fleet, decided, question)
        except (InputError, OSError, ValueError) as error:
            raise AnsibleActionFail(str(error)) from error
        secret_problems = [dict(agreed.problem) for _secret, agreed in agreements if agreed.problem]
        went_back = [] if earlier else self._went_back(fleet, decided["hosts"], lang)
        problems = [*decided.pop("problems"), *secret_problems, *refused, *went_back]
        if controller["llm_inventory"].get("one_line"):
            # There are no files of groups and hosts.
            problems = [{**each, "where": message("where_command_line", lang)} for each in problems]
        decided |= {"gateways": gateways, "error": render(problems, lang, "").strip()}
        if not problems and not self._task.check_mode:
            for secret, agreed in agreements:
                if agreed.value:
                    write_private(secret.path, agreed.value + "\n")
        code = code_digest()
        self._gateway_work(fleet, task_vars, gateways, code)
        work = self._work(fleet, task_vars, decided["hosts"], agreements, code)
        # What there is to do was found at the beginning: what a run has done since would only blur it.
        work["secrets"] = [
            {"deployment": secret.deployment, "kind": secret.name, "how": agreed.how, "place": secret.path_or_variable}
            for secret, agreed in agreements
            if agreed.how
        ]
        decided |= {name: earlier.get(name, found) for name, found in work.items()}
        if not self._task.check_mode:
            # By the names that say so, and whatever else holds the value of a secret.
            values = set(self._secret_values(fleet, decided["hosts"], agreements))
            text = json.dumps(without_secrets(decided), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            write_report(os.path.join(reports, FILE), without_values(text, values), lang, private=True)
            # Refused plans, too: the page says why.
            for name, shown_plans in (
                ("plan.json", plan_report(decided["plans"], "json")),
                ("plan.html", plan_html(decided["plans"], lang, problems)),
            ):
                write_report(os.path.join(reports, name), without_values(shown_plans, values), lang)
        if problems:
            page = os.path.join(reports, "plan.html")
            shown = any(plan.get("settings") for plan in decided["plans"].values()) and not self._task.check_mode
            refuse(problems, lang, result, message("report_written", lang, paths=page) if shown else "")
        return {**result, "changed": False, **decided}

    def _secret_values(
        self, fleet: Fleet, hosts: Iterable[str], agreements: Iterable[tuple[Secret, Agreement]]
    ) -> Iterator[str]:
        """The values of all secrets that the inventory has for these hosts and its gateways, or that the controller keeps."""
        names = {name for options in role_options().values() for name in options}
        for host in dict.fromkeys([*hosts, *(fleet.groups.get("llm_gateway") or [])]):
            yield from secret_values(variables_of(fleet[host], names))
        yield from (agreed.value for _secret, agreed in agreements if agreed.value)

    def _work(
        self,
        fleet: Fleet,
        task_vars: Mapping[str, object],
        sections: dict[str, dict[str, Any]],
        agreements: list[tuple[Secret, Agreement]],
        code: str,
    ) -> dict[str, object]:
        """Adds to the section of each host what its roles are asked for, and says which stages have something to do where, and why."""
        options = role_options()
        hosts = [host for host in fleet.playing if host in sections]
        deployments: dict[str, list[str]] = {}
        records, asked = {}, {}
        for host in hosts:
            section, variables = sections[host], fleet[host]
            deployments.setdefault(section["deployment"], []).append(host)
            section["asked"] = {
                **(variables.get("llm_asked") or {}),
                **asked_by_decision(section, variables, options),
                CODE: code,
            }
            # In check mode the controller does not keep what it would adopt or make.
            fresh = {
                secret.name: agreed.value for secret, agreed in agreements if secret.deployment == section["deployment"]
            }
            secrets = {**secret_digests(variables, section["deployment"]), **digests(fresh)}
            asked[host] = with_secrets(section["asked"], secrets)
            records[host] = (variables.get("ansible_facts") or {}).get("llm_records") or {}
        members = fleet["localhost"]["llm_inventory"]["deployments"]
        lost = {
            name: [host for host in members[name]["hosts"] if host in fleet.selected and host not in fleet.playing]
            for name in deployments
        }
        found = to_do(deployments, asked, records, lost)
        options_of_run = {**task_vars, "llm_full_check": fleet["localhost"]["llm_full_check"]}
        aliases = alias_hosts(hosts, fleet["localhost"]["llm_inventory"].get("names") or {})
        idle = left_out(hosts, found, options_of_run, aliases=aliases, asked=asked)
        heads = {name: members[name]["head"] for name in deployments}
        models = {name: served_name(fleet[head]) for name, head in heads.items()}
        asked_hosts = self._upgraded(fleet)
        if asked_hosts is not None:
            idle = {stage: pattern + without(hosts, asked_hosts) for stage, pattern in idle.items()}
        out = set(idle["serve"].split(":!"))
        order = rolling(
            deployments,
            models,
            [name for name, head in heads.items() if name_of(fleet[head]) in records.get(head, {})],
            idle["serve"],
        )
        turns_of_upgrade = one_by_one(deployments, models, [host for host in hosts if host not in out])
        return {"work": found, "left_out": idle, "rolling": order, "turns": turns_of_upgrade}

    @staticmethod
    def _upgraded(fleet: Fleet) -> list[str] | None:
        """The hosts that an upgrade is about, whole deployments; None where this run is none."""
        controller = fleet["localhost"]
        if "llm_upgrade_hosts" not in controller:
            return None
        named = set(controller["llm_upgrade_hosts"])
        deployments = controller["llm_inventory"]["deployments"].values()
        return [host for each in deployments if named.intersection(each["hosts"]) for host in each["hosts"]]

    def _went_back(self, fleet: Fleet, sections: Mapping[str, Mapping[str, object]], lang: str) -> list[dict[str, str]]:
        """What is refused because a deployment went back from it; what a person left is only named."""
        found = []
        again = self._upgraded(fleet) or []
        for host, section in sections.items():
            if not section.get("is_head"):
                continue
            back = back_of(fleet[host].get("ansible_facts") or {})
            refused, said = asks_for_left(
                str(section["deployment"]), str(section["version"]), back, host in again, lang
            )
            found += refused
            if said:
                Display().warning(said)
        return found

    def _gateway_work(
        self, fleet: Fleet, task_vars: Mapping[str, object], sections: dict[str, dict[str, Any]], code: str
    ) -> None:
        """Adds to the section of each gateway what its role is asked for, and why it has something to do there, if it has."""
        walk = is_true(fleet["localhost"]["llm_full_check"]) or not whole_run(task_vars)
        for host, section in sections.items():
            # How long the certificate is still valid is another number each day.
            certificate = {key: value for key, value in section["certificate"].items() if key != "days"}
            page = section["web_ui"]
            # The rest of the page is no business of the gateway, which stays as it is where only that changes.
            shown = {key: page[key] for key in ("port", "listen", "away") if page}
            section["asked"] = {
                "gateway": digest({**section, "certificate": certificate, "web_ui": shown}),
                CODE: code,
            }
            records = (fleet[host].get("ansible_facts") or {}).get("llm_records") or {}
            if page:
                mine = variables_of(fleet[host], role_options()["web_ui"])
                held = known_records(manifest_folder(fleet[host]), str(fleet[host]["llm_language"]))
                image = bundled("images", held, (), [str(mine["web_ui_image"])])
                section["asked"]["web_ui"] = digest([page, mine, certificate, image])
                page["work"] = role_differs("web_ui", section["asked"], records)
                page["needed"] = walk or bool(page["work"])
            section["work"] = role_differs("gateway", section["asked"], records)
            section["needed"] = walk or bool(section["work"])

    def _question(
        self, fleet: Fleet, task_vars: TaskVars, earlier: Mapping[str, Any], lang: str, reports: str
    ) -> DecisionInput:
        playing = [host for host in fleet.playing if host != "localhost"]
        deployments = fleet["localhost"]["llm_inventory"]["deployments"]
        members = [host for deployment in deployments.values() for host in deployment["hosts"]]
        return DecisionInput(
            deployments=deployments,
            variables=fleet,
            playing=playing,
            services={
                "clients": fleet.groups.get("llm_gateway") or [],
                "collectors": fleet.groups.get("llm_monitoring") or [],
                "fleet": senders(members, fleet),
            },
            plans=earlier.get("plans") or {},
            observations=[
                found
                for path in sorted(glob.glob(os.path.join(glob.escape(reports), "observations", "*.json")))
                if (found := read_observation(Path(path)))
            ],
            turns=turns(len(playing), int(task_vars.get("ansible_forks") or 1)),
            language=lang,
            names=fleet["localhost"]["llm_inventory"].get("names") or {},
        )

    def _sources(self, fleet: Fleet, lang: str) -> Readers:
        """What is read on the controller when it is needed."""

        def text(path: str) -> str:
            return Path(self._loader.path_dwim(os.path.expanduser(path))).read_text(encoding="utf-8")

        def config(path: str) -> dict[str, object]:
            read: dict[str, object] = read_json(text(path))
            return read

        return Readers(
            lambda bundle: known_records(bundle, lang),
            config,
            text,
            resolved,
            lambda model: search_config(model, fleet["localhost"]),
        )

    def _agreements(
        self, fleet: Fleet, sections: Mapping[str, Mapping[str, object]], question: DecisionInput
    ) -> list[tuple[Secret, Agreement]]:
        """What becomes of every secret that a host of this run needs; nothing is written."""

        def folder(variables: Mapping[str, object]) -> str:
            return str(self._loader.path_dwim(str(variables["llm_secrets_dir"])))

        rotate = str(fleet["localhost"]["llm_rotate_secrets"])
        found = secrets_of_run(sections, question.deployments, fleet, folder, rotate)
        return [(secret, agree(secret, question.language)) for secret in found]

    def _gateways(
        self, fleet: Fleet, decided: Mapping[str, Any], question: DecisionInput
    ) -> tuple[dict[str, dict[str, Any]], list[dict[str, str]]]:
        """The section of each gateway, and what is to be refused; nothing where there is no gateway."""
        clients = question.services["clients"]
        if not clients:
            return {}, []
        folder = Path(self._loader.path_dwim(str(fleet["localhost"]["llm_secrets_dir"])))
        # Before one of them was looked at, another machine may have set them up: what is made now is not kept.
        looked_at = any("llm_records" in (fleet[host].get("ansible_facts") or {}) for host in clients)
        write = write_private if looked_at and not self._task.check_mode else None
        now = datetime.datetime.now(datetime.UTC)
        renew = str(fleet["localhost"]["llm_rotate_secrets"]) == "authority"
        store = ControllerSecrets(folder, fleet, self._loader.path_dwim, write, now, question.language, renew)
        replica_key, own_key = (functools.partial(store.secret, name) for name in (REPLICA_KEY, OWN_KEY))

        def web_ui(host: str) -> dict[str, str]:
            """The secrets of the web page. The password of its first account is made as well, and told to nobody."""
            if fleet[host].get(PASSWORD) is None:
                store.secret(PASSWORD)
            own = {name: store.secret(name) for name in (WEB_UI_KEY, SESSION_KEY)}
            # Of what people thought of the decision holds a digest that nobody can look for without this page's own secret.
            said = {name: f"{own[SESSION_KEY]}{fleet[host].get(name) or ''}" for name in sso_secrets(fleet[host])}
            return {**own, **said, **store.sso_authority(host)}

        addresses = {host: str(section.get("address") or "") for host, section in decided["hosts"].items()}
        return decide_gateways(
            Gateways(
                clients,
                question.deployments,
                fleet,
                decided["plans"],
                addresses,
                question.language,
                renew=str(fleet["localhost"]["llm_rotate_secrets"]) == "gateway",
                web_ui=[host for host in fleet.groups.get(GROUP) or [] if host in clients],
            ),
            Secrets(store.key, replica_key, own_key, store.certificate_problems, store.certificate, web_ui, store.lost),
        )
