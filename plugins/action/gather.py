# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of gather: what the bundle puts on the host's disks, and the host's clock and secrets beside its own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.python_environments import candidates
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import BASE_PYTHON, PYTHON, RUNTIME, VENV
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.secrets import kept, secret_of, standing
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import (
    DEFAULT,
    VARIABLE,
    engine,
    engine_names,
    name_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.discover import is_old_python
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.clock import clock_offset
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.disks import disk_needs
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.asked import short
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.told import address_variables, figures
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.trends import SERIES, SERIES_SECONDS, SERIES_STEP


class ActionModule(ActionBase):
    """The module, between two looks at the clock."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.args.get("discover"):
            return {**result, **self.tolerant({**self._task.args, "needs": [], "challenge": None}, task_vars)}
        challenge = secrets.token_hex(16) if self._task.args.get("secrets_dir") else None
        arguments = {
            **self._task.args,
            "needs": self.needs(task_vars),
            "challenge": challenge,
            **self.of_environment(task_vars),
        }
        if (arguments.get("live") or {}).get("series") is not None:
            series = {"queries": SERIES, "seconds": SERIES_SECONDS, "step": SERIES_STEP}
            arguments["live"] = {**arguments["live"], "series": series}
        if arguments.get("live"):
            told = {
                "figures": figures(),
                "addresses": address_variables(),
                "port": self.setting(task_vars, "port") or 8000,
            }
            arguments["live"] = {**arguments["live"], **told}
        before = time.time()
        may_be_silent = arguments.pop("may_be_silent", False)
        run = self.tolerant if self._task.args.get("live") else self.gathered
        try:
            result.update(run(arguments, task_vars))
        except AnsibleConnectionFailure as error:
            if not may_be_silent:
                raise
            return {**result, "changed": False, "said": short(str(error))}
        after = time.time()
        said = str(result.get("module_stderr") or "") + str(result.get("msg") or "")
        if result.get("failed") and is_old_python(said):
            # Ansible shows where a program broke off; people need to know which one to install.
            lang = language(self._task.args.get("language"))
            result["msg"] = message("discover_python_old", lang, host=task_vars["inventory_hostname"])
        if "time" in result:
            # What the host worked before it looked at its clock was no part of the way there.
            left = before + result.pop("worked_seconds")
            result["ansible_facts"]["llm_host"]["clock"] = clock_offset(result.pop("time"), left, after)
        # Facts may stay in a cache and are shown with -v: what the controller makes of the seals is no secret.
        seals = result.pop("seals", None) or {}
        if challenge and "ansible_facts" in result:
            result["ansible_facts"]["llm_secrets"] = self.secrets(seals, challenge, task_vars)
        return result

    def gathered(self, arguments: Mapping[str, object], task_vars: object) -> dict[str, object]:
        found: dict[str, object] = self._execute_module(
            module_name="baremetal.llm.gather", module_args=dict(arguments), task_vars=task_vars
        )
        return found

    def tolerant(self, arguments: Mapping[str, object], task_vars: object) -> dict[str, object]:
        """The same of a host that need not answer: that is no failure, and ``said`` is why, for all hosts at once."""
        try:
            found = self.gathered(arguments, task_vars)
        except AnsibleError as error:
            return {"changed": False, "said": str(error)}
        if not found.get("failed") and not found.get("unreachable"):
            return found
        # Where no module ran, as without sudo, the host's shell says why; Ansible says only that there was no answer.
        return {"changed": False, "said": str(found.get("module_stderr") or found.get("msg") or "")}

    def secrets(self, seals: Mapping[str, str], challenge: str, task_vars: TaskVars) -> dict[str, str]:
        """What the secrets of this host are to the controller, by file."""
        folder = self._loader.path_dwim(str(self._task.args["secrets_dir"]))
        deployments = task_vars["hostvars"]["localhost"]["llm_inventory"]["deployments"]
        mine = next(
            (name for name, each in deployments.items() if task_vars["inventory_hostname"] in each["hosts"]), ""
        )
        found = {}
        for file in seals:
            name = secret_of(file)
            if name:
                said = self._templar.template(task_vars[file]) if file in task_vars else None
                own = kept(folder, mine, name) if said is None else str(said).strip()
                others = (kept(folder, other, name) for other in deployments if other != mine)
                found[file] = standing(seals[file], challenge, own, others)
        return found

    def needs(self, task_vars: TaskVars) -> list[dict[str, object]]:
        """What the bundle puts on the host's disks; nothing without a bundle."""
        options = self._task.args
        bundle = str(options.get("bundle") or "")
        if not bundle:
            return []
        records = load_records(bundle, options.get("language", "en"))
        known = task_vars["hostvars"]["localhost"].get("llm_inventory") or {}
        mine = (known.get("names") or {}).get(task_vars["inventory_hostname"]) or {}
        host_dir = str(options.get("host_dir") or "/opt/llm")
        environment = self.environment(records, host_dir, task_vars)
        return disk_needs(records, options.get("models") or [], host_dir, environment, mine.get("engine", True))

    def engine(self, task_vars: TaskVars) -> str:
        """The name of the host's engine; the default where the inventory names one that there is not, which is refused elsewhere."""
        named = name_of({VARIABLE: self._templar.template(task_vars.get(VARIABLE))})
        return named if named in engine_names() else DEFAULT

    def setting(self, task_vars: TaskVars, name: str) -> object:
        return self._templar.template(task_vars.get(f"{self.engine(task_vars)}_{name}"))

    def of_environment(self, task_vars: TaskVars) -> dict[str, str]:
        """Which Python the host serves from, or makes its environment on, where it serves without containers."""
        if not self._task.args.get("python_environment") or self.setting(task_vars, RUNTIME) != VENV:
            return {"python": "", "package": "", "base_python": ""}
        python = str(self.setting(task_vars, PYTHON) or "")
        # What runs at this moment does not depend on an environment that would be made.
        base = (
            ""
            if python or self._task.args.get("live")
            else str(self.setting(task_vars, BASE_PYTHON) or "/usr/bin/python3")
        )
        return {"python": python, "package": engine(self.engine(task_vars)).module, "base_python": base}

    def environment(self, records: Sequence[Record], host_dir: str, task_vars: TaskVars) -> dict[str, object] | None:
        """The largest of the Python environments that may be the host's: which one is, its Python will tell."""
        base = self.of_environment(task_vars)["base_python"]
        if not base:
            return None
        known = {name: self.setting(task_vars, name) for name in (RUNTIME, "version")} | {BASE_PYTHON: base}
        engine = self.engine(task_vars)
        variables = {VARIABLE: engine, "llm_host_dir": host_dir, **{f"{engine}_{name}": known[name] for name in known}}
        found = candidates(variables, records)
        return max(found, key=lambda each: each.wheel_bytes).disk_need(variables) if found else None
