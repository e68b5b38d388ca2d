# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""what_fits: prints which models of the catalogue fit a fleet; what it says is in plugin_utils/reports/what_fits.py."""

from __future__ import annotations

import difflib

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import ROOT_GROUP
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.one_line import host_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    refuse,
    refuse_fleet,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, message, problem, reason
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.cards import declared_gpus, read_fleet, said_fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import entries, entry_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.fits import Host, what_fits
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.engines import engine_lines
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.what_fits import kind_lines


class ActionModule(DocumentedAction):
    """Reads the fleet of the command line, else that of the inventory."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        fleet = Fleet(self._loader, task_vars)
        lang = language(fleet["localhost"]["llm_language"])
        models = self._models(options["model"], lang)
        line = options["fleet"] or said_fleet(fleet["localhost"])
        refused = None
        try:
            hosts = self._hosts(fleet, line)
            kinds = what_fits(hosts, models)
        except InputError as error:
            refused = error
        if refused and line:
            refuse_fleet(refused, {"llm_fleet": line}, lang)
        if refused:
            raise AnsibleActionFail(reason(refused, lang))
        if not kinds:
            refuse([problem("fits_no_gpus", lang, where=message("where_command_line", lang))], lang, result)
        lines = kind_lines(kinds, lang)
        for model in models:
            lines += ["", *engine_lines(model, hosts, lang)]
        Display().display("\n" + "\n".join(lines) + "\n")
        fits = [{"hosts": kind.hosts, "models": [fit.model for fit in kind.fits if fit.ok]} for kind in kinds]
        return {**result, "changed": False, "fits": plain(fits)}

    @staticmethod
    def _hosts(fleet: Fleet, line: str) -> list[Host]:
        if line:
            named = read_fleet(line)
            return list(zip(host_names(len(named)), named, strict=True))
        names = fleet.groups.get(ROOT_GROUP) or fleet.groups.get("all") or []
        return [(name, declared_gpus(plain(fleet[name].get("llm_gpus")), f"{name}.llm_gpus")) for name in names]

    @staticmethod
    def _models(name: str, lang: str) -> list[str]:
        if not name:
            return []
        entry = entry_of(name)
        if entry is None:
            known = [one.model for one in entries()]
            near = difflib.get_close_matches(name, known, 3, 0) or known[:3]
            where = message("where_command_line", lang)
            refuse([problem("fits_model_unknown", lang, name, where, model=name, near=", ".join(near))], lang)
        return [entry.model]
