# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides for all hosts at once; what is decided is in plugin_utils/deployment/decide.py."""

from __future__ import annotations

import glob
import json
import os
import socket
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import MANIFEST_NAME
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.decide import (
    Question,
    Sources,
    decide,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.decide import turns
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.files import write_report
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.secrets import without_secrets

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
        decided = self._decide(fleet, task_vars, lang, reports)
        if not self._task.check_mode:
            text = json.dumps(without_secrets(decided), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            write_report(os.path.join(reports, FILE), text, lang)
        if decided["error"]:
            raise AnsibleActionFail(decided["error"])
        return {**result, "changed": False, **decided}

    def _decide(self, fleet: Fleet, task_vars: Any, lang: str, reports: str) -> dict[str, Any]:
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

        def records(bundle: str) -> list[dict[str, Any]]:
            known = os.path.isfile(os.path.join(os.path.expanduser(bundle), MANIFEST_NAME))
            return load_records(bundle, lang) if known else []

        def config(path: str) -> dict[str, Any]:
            found = self._loader.path_dwim(os.path.expanduser(path))
            read: dict[str, Any] = json.loads(Path(found).read_text(encoding="utf-8"))
            return read

        try:
            return decide(question, Sources(records, config, addresses_of))
        except (InputError, OSError, ValueError) as error:
            raise AnsibleActionFail(str(error)) from error
