# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role that installs something does on its host; it is decided in plugin_utils/install."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.docker import decide_engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.driver import decide_driver
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.toolkit import decide_toolkit
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import HostVariables
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, DocumentedAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language

ROLES = {"nvidia_driver": decide_driver, "docker": decide_engine, "nvidia_container_toolkit": decide_toolkit}


class ActionModule(DocumentedAction):
    """Reads the variables of the role that asks, and the bundle; touches no host."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        variables = HostVariables(self._loader, task_vars)
        lang = language(variables["llm_language"])

        def records() -> list[Record]:
            bundle = str(variables.get("llm_bundle_dir") or "")
            return load_records(bundle, lang) if bundle else []

        section, refused = ROLES[options["role"]](variables, records, plain(options["found"]), lang)
        if refused:
            return {**result, "failed": True, "msg": refused}
        return {**result, "changed": False, **section}
