# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""discover: what was gathered of hosts becomes a table and an inventory; what both say is in plugin_utils/inventory/discover.py."""

from __future__ import annotations

import datetime
import difflib
import os
import shutil
import tempfile
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.search import search_config
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.model_config import config_problem, find_config
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.discover import (
    FoundHost,
    Proposal,
    fleet_table,
    found_host,
    inventory_files,
    inventory_names,
    propose,
    refusals,
    unreached,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    refuse,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, message, reason
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.engines import engine_lines
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.what_fits import fits_lines

# What reaches the hosts, as it was given: the inventory has it, too. Never a password.
SETTINGS = ("ansible_user", "ansible_port", "ansible_become", "ansible_ssh_private_key_file", "ansible_ssh_common_args")

# Where hosts with internet get everything, where that is no public address. Never a password: bundle_proxy may hold one.
MIRRORS = (
    "bundle_hub",
    "bundle_huggingface_endpoint",
    "bundle_model_sources",
    "bundle_modelscope_endpoint",
    "docker_repository_key",
    "docker_repository_url",
    "llm_registry_mirrors",
    "nvidia_container_toolkit_repository_key",
    "nvidia_container_toolkit_repository_url",
    "nvidia_driver_repository_key",
    "nvidia_driver_repository_url",
)


class ActionModule(DocumentedAction):
    """Reads what was found, prints it, and writes the inventory's folder in one step, if there is none yet."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        fleet = Fleet(self._loader, task_vars)
        lang = language(fleet["localhost"]["llm_language"])
        hosts, problems = self._found(fleet, options["hosts"], lang)
        self._print(fleet_table(hosts, lang) if hosts else [])
        proposal = Proposal()
        if options["model"] and any(host.gpus for host in hosts):
            proposal, refused = self._proposal(fleet, hosts, options["model"], lang)
            problems += refused
        elif hosts:
            self._print(fits_lines([(host.name, host.gpus) for host in hosts], lang))
        if problems:
            refuse(problems, lang, result)
        if not proposal.deployments:
            self._print([message("discover_choose", lang)])
            return {**result, "changed": False, "hosts": [host.name for host in hosts], "files": []}
        reached = fleet[options["hosts"][0]]
        given = load_extra_vars(self._loader)
        named = [name for name in SETTINGS if name in reached] + [name for name in MIRRORS if name in given]
        settings = {name: reached[name] for name in named}
        day = datetime.date.today().isoformat()
        files = inventory_files(hosts, proposal, options["model"], settings, day, lang)
        changed, lines = self._write(Path(options["dest"]).absolute(), files, lang)
        self._print(lines)
        return {**result, "changed": changed, "hosts": [host.name for host in hosts], "files": sorted(files)}

    def _found(self, fleet: Fleet, names: list[str], lang: str) -> tuple[list[FoundHost], list[dict[str, str]]]:
        hosts, problems, called = [], [], inventory_names(names)
        for name in names:
            mine = fleet[name]
            looked = mine.get("__preflight_discovered") or {}
            if "llm_discovered" not in (mine.get("ansible_facts") or {}):
                problems.append(unreached(name, str(looked.get("said") or ""), lang))
            else:
                address = str(mine.get("ansible_host") or name)
                hosts.append(found_host(called[name], address, mine.get("ansible_facts") or {}))
        return hosts, problems

    def _proposal(
        self, fleet: Fleet, hosts: list[FoundHost], model: str, lang: str
    ) -> tuple[Proposal, list[dict[str, str]]]:
        controller = ChainMap({f"{DEFAULT}_model": model}, cast(Any, fleet["localhost"]))
        found = find_config(None, controller, "", self._config, lambda name: search_config(name, fleet["localhost"]))
        if found.config is None:
            return Proposal(), [config_problem(model, controller, found, lang)]
        cards = [(host.name, host.gpus) for host in hosts]
        try:
            proposal = propose(hosts, model, found.config, lang)
        except InputError as error:
            self._print(engine_lines(model, cards, lang))
            raise AnsibleActionFail(reason(error, lang)) from error
        if not proposal.deployments:  # another engine may serve what the default one does not
            self._print(engine_lines(model, cards, lang))
        return proposal, [] if proposal.deployments else refusals(proposal, model, lang)

    def _config(self, path: str) -> Mapping[str, object]:
        read: Mapping[str, object] = self._loader.load_from_file(path, trusted_as_template=False)
        return read

    def _write(self, folder: Path, files: Mapping[str, str], lang: str) -> tuple[bool, list[str]]:
        """The folder as a whole, or nothing. One that is there stays as it is: what would be different is shown."""
        if folder.exists():
            lines = [message("discover_exists", lang, folder=folder)]
            for name, text in files.items():
                path = folder / name
                old = path.read_text(encoding="utf-8") if path.is_file() else ""
                lines += difflib.unified_diff(old.splitlines(), text.splitlines(), name, name, lineterm="", n=1)
            return False, lines
        if not self._task.check_mode:
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
            except OSError as error:
                said = message("not_writable", lang, folder=folder, reason=error.strerror, variable="llm_inventory_dir")
                raise AnsibleActionFail(said) from error
            try:
                for name, text in files.items():
                    (unfinished / name).parent.mkdir(exist_ok=True)
                    (unfinished / name).write_text(text, encoding="utf-8")
                unfinished.chmod(0o755)
                os.rename(unfinished, folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
        shown = os.path.relpath(folder)
        return True, [message("discover_written", lang, folder=shown if not shown.startswith("..") else folder)]

    @staticmethod
    def _print(lines: list[str]) -> None:
        if lines:
            Display().display("\n" + "\n".join(lines) + "\n")
