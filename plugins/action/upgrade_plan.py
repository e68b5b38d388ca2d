# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an upgrade or a rollback is about to do; its words come from plugin_utils/deployment/served.py."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.served import (
    looked_for,
    rollback_plan,
    served_of,
    upgrade_plan,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    refuse,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, names, problem


class ActionModule(DocumentedAction):
    """Asks of all hosts at once what they were found to be."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        fleet = Fleet(self._loader, task_vars)
        lang = language(fleet["localhost"]["llm_language"])
        every = fleet["localhost"]["llm_inventory"]["deployments"]
        meant = {name: each for name, each in every.items() if set(each["hosts"]).intersection(options["hosts"])}
        hosts = [host for each in meant.values() for host in each["hosts"]]
        if not meant:
            named = names(options["hosts"], lang)
            refuse(
                [problem("upgrade_no_deployment", lang, named, "-e llm_target", names=names(list(every), lang))],
                lang,
                result,
            )
        if options["back"]:
            looked = {host: looked_for(plain(fleet[host].get("__rollback_before") or {})) for host in hosts}
            plan = rollback_plan(meant, looked, lang)
        else:
            served = {host: served_of(fleet[host].get("ansible_facts") or {}) for host in hosts}
            decisions = (fleet[host].get("llm_decision") for host in hosts)
            decision: dict[str, object] = next((each for each in decisions if each), {})
            releases = {name: str(setting(fleet[str(each["head"])], "version")) for name, each in meant.items()}
            plan = upgrade_plan(meant, served, decision, releases, lang)
        if plan["problems"]:
            refuse(plan["problems"], lang, result)
        return {**result, "changed": False, "lines": plan["lines"], "turns": plan["turns"]}
