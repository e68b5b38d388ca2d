# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides for all hosts at once; what is decided is in plugin_utils/deployment/decide.py."""

from __future__ import annotations

import glob
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.llm.plugins.module_utils._private_file import write_private
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import known_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.decide import (
    Question,
    Sources,
    decide,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.secrets import (
    Agreement,
    Secret,
    agree,
    digests,
    secret_digests,
    secrets_of_run,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.work import (
    asked_by_decision,
    code_digest,
    left_out,
    to_do,
    with_secrets,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import role_options
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.secrets import without_secrets
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.decide import turns
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.files import write_report

FILE = "decision.json"


def addresses_of(name: str) -> list[str]:
    """What a name stands for on the controller."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


class ActionModule(ActionBase):
    """Reads what is known, asks, and writes the answer down."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        fleet = Fleet(self._loader, task_vars)
        controller = fleet["localhost"]
        lang = language(controller["llm_language"])
        reports = str(controller["llm_report_dir"])
        agreements: list[tuple[Secret, Agreement]] = []
        decided = self._decide(fleet, task_vars, lang, reports, agreements)
        if not decided["error"] and not self._task.check_mode:
            for secret, agreed in agreements:
                if agreed.value:
                    write_private(secret.path, agreed.value + "\n")
        work = self._work(fleet, task_vars, decided["hosts"], agreements)
        # What there is to do was found at the beginning: what a run has done since would only blur it.
        earlier = plain(task_vars.get("llm_decision") or {})
        work["secrets"] = [
            {"deployment": secret.deployment, "kind": secret.name, "how": agreed.how, "place": secret.path_or_variable}
            for secret, agreed in agreements
            if agreed.how
        ]
        decided |= {name: earlier.get(name, found) for name, found in work.items()}
        if not self._task.check_mode:
            text = json.dumps(without_secrets(decided), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            write_report(os.path.join(reports, FILE), text, lang)
        if decided["error"]:
            raise AnsibleActionFail(decided["error"])
        return {**result, "changed": False, **decided}

    def _work(
        self,
        fleet: Fleet,
        task_vars: Any,
        sections: dict[str, dict[str, Any]],
        agreements: list[tuple[Secret, Agreement]],
    ) -> dict[str, Any]:
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
        found = to_do(deployments, asked, records, code_digest(), lost)
        options_of_run = {**task_vars, "llm_full_check": fleet["localhost"]["llm_full_check"]}
        return {"work": found, "left_out": left_out(hosts, found, options_of_run)}

    def _decide(
        self, fleet: Fleet, task_vars: Any, lang: str, reports: str, agreements: list[tuple[Secret, Agreement]]
    ) -> dict[str, Any]:
        earlier = plain(task_vars.get("llm_decision") or {})
        playing = [host for host in fleet.playing if host != "localhost"]
        question = Question(
            deployments=fleet["localhost"]["llm_inventory"]["deployments"],
            variables=fleet,
            playing=playing,
            services={
                "clients": fleet.groups.get("llm_gateway") or [],
                "collectors": fleet.groups.get("llm_monitoring") or [],
            },
            plans=earlier.get("plans") or {},
            observations=[
                json.loads(Path(path).read_text(encoding="utf-8"))
                for path in sorted(glob.glob(os.path.join(glob.escape(reports), "observations", "*.json")))
            ],
            turns=turns(len(playing), int(task_vars.get("ansible_forks") or 1)),
            language=lang,
        )

        def config(path: str) -> dict[str, Any]:
            found = self._loader.path_dwim(os.path.expanduser(path))
            read: dict[str, Any] = json.loads(Path(found).read_text(encoding="utf-8"))
            return read

        def folder(variables: Mapping[str, Any]) -> str:
            return str(self._loader.path_dwim(str(variables["llm_secrets_dir"])))

        def secrets(sections: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
            # What the hosts hold was found at the beginning of the run: once the controller agrees with it, it has changed.
            if not earlier:
                rotate = str(fleet["localhost"]["llm_rotate_secrets"])
                found = secrets_of_run(sections, question.deployments, fleet, folder, rotate)
                agreements.extend((secret, agree(secret, lang)) for secret in found)
            return [dict(agreed.problem) for _secret, agreed in agreements if agreed.problem]

        try:
            sources = Sources(lambda bundle: known_records(bundle, lang), config, addresses_of, secrets)
            return decide(question, sources)
        except (InputError, OSError, ValueError) as error:
            raise AnsibleActionFail(str(error)) from error
