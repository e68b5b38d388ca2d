# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""inventory_check: hands the inventory over to ``plugin_utils/inventory/check.py`` and prints what that finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible.errors import AnsibleActionFail
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import preload
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.bundle import read_bundles
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.duplicate_groups import named_twice
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import (
    COMMAND_LINE,
    EVERYTHING,
    ROOT_GROUP,
    SERVICE_GROUPS,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.one_line import OneLine, one_line
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.read import Variables, short
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    refuse,
    refuse_fleet,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import (
    LANGUAGES,
    message,
    own_language,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.cards import said_fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

# Here, since every playbook begins with this plugin, and Ansible reads it in the process that it forks all tasks from.
preload()

CONTROLLER = "localhost"


def _language(said: Iterable[object]) -> str:
    """The first that is one of ours, else that of whoever runs Ansible, as the default of llm_language says."""
    return own_language(next((item for item in said if item in LANGUAGES), ""))


class ActionModule(DocumentedAction):
    """Checks the inventory on the controller, without a connection to any host."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, object] = super().run(tmp, task_vars)
        arguments = self.options()
        known = known_variables()
        variables, groups = self._parsed(task_vars, known)
        named = self._one_line({**variables.of(CONTROLLER), "_raw_params": task_vars.get("_raw_params")}, groups)
        ours = [host for group in (ROOT_GROUP, *SERVICE_GROUPS) for host in groups.get(group, {}).get("hosts", [])]
        names = list(dict.fromkeys(ours or groups.get("all", {}).get("hosts", [])))
        hosts = {host: {**variables.of(host), **variables.others(host)} for host in names}
        if named:
            groups |= named.groups
            controller = {**variables.of(CONTROLLER), **variables.others(CONTROLLER)}
            hosts = {host: {**controller, **said} for host, said in named.variables.items()}
            names = named.hosts
        said = [hosts[host].get("llm_language") for host in names]
        lang = _language([*said, task_vars.get("llm_language")])
        found = check_inventory(
            hosts,
            groups,
            known,
            bundles=read_bundles(hosts, known, self._loader.path_dwim) if arguments["bundle_required"] else None,
            origins={host: {EVERYTHING: COMMAND_LINE} if named else variables.origins(host) for host in names},
            twice=named_twice(task_vars.get("ansible_inventory_sources") or ()),
            lang=lang,
        )
        for warning in variables.warnings(lang):
            self._display.warning(warning)
        result["changed"] = False
        result["problems"] = [entry["code"] for entry in found["problems"]]
        if found["problems"]:
            refuse(found["problems"], lang, result)
        inventory = {name: found[name] for name in ("deployments", "hosts", "names")}
        return {**result, "inventory": {**inventory, **({"one_line": dict(named.variables)} if named else {})}}

    def _one_line(self, said: Mapping[str, object], groups: Mapping[str, object]) -> OneLine | None:
        found, refused = None, None
        if ROOT_GROUP in groups and said_fleet(said):
            self._display.warning(message("fleet_left_aside", _language([said.get("llm_language")])))
        try:
            found = one_line(said, ROOT_GROUP in groups)
        except InputError as error:
            refused = error
        if refused:
            refuse_fleet(refused, said, _language([said.get("llm_language")]))
        return found

    def _parsed(
        self, task_vars: TaskVars, known: Mapping[str, Mapping[str, object]]
    ) -> tuple[Variables, dict[str, dict[str, list[str]]]]:
        try:
            variables = Variables(self._loader, task_vars, known)
            return variables, variables.groups()
        except Exception as error:
            lang = _language([task_vars.get("llm_language")])
            raise AnsibleActionFail(message("inventory_not_parsed", lang, reason=short(error))) from error
