# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bundle_fetch: asks for what the bundle lacks, says how much that is, and brings it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import STATE_DIR
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._download import make_opener
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.fetch import fetch, write_lists
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.sources import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.toolkit import ToolkitError
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    refuse_text,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import reason

display = Display()


class ActionModule(DocumentedAction):
    """Everything happens here, on the controller."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, object] = super().run(tmp, task_vars)
        options = self.options()
        settings, check = self._settings(options, task_vars), bool(self._task.check_mode)
        credentials = self._templar.template(task_vars.get("bundle_registry_credentials") or {})
        refused = ""
        try:
            if options["lists"]:
                return {**result, **write_lists(options, settings, display.warning, check)}
            found = fetch(options, settings, credentials, display.display, check)
        except (CodedError, ToolkitError, OSError) as error:
            # Ansible would add what a cause says, in English.
            refused = reason(error, options["language"])
        if refused:
            refuse_text(refused, options["language"])
        result |= found
        if self._task.diff and found["fetched"]:
            result["diff"] = {"before": "", "after": "".join(f"{line}\n" for line in found["fetched"])}
        return result

    def _settings(self, options: Mapping[str, Any], task_vars: Mapping[str, object]) -> Settings:
        proxy = self._secret(task_vars, "bundle_proxy")
        if proxy:
            # The clients of the hubs read it there, in this process alone.
            os.environ.update(http_proxy=proxy, https_proxy=proxy, HTTP_PROXY=proxy, HTTPS_PROXY=proxy)
        tokens = {hub: self._secret(task_vars, f"bundle_{hub}_token") for hub in ("huggingface", "modelscope")}
        names = ("url_mirrors", "os_mirrors", "os_keyrings", "huggingface_endpoint", "modelscope_endpoint")
        # On a machine that only writes lists nothing is kept.
        built = "" if options["lists"] else os.path.join(os.path.realpath(options["bundle"]), STATE_DIR, "built")
        return Settings(
            opener=make_opener(proxy),
            proxy=proxy,
            tokens=tokens,
            built=built,
            **{name: options[name] for name in names},
        )

    def _secret(self, task_vars: Mapping[str, object], name: str) -> str:
        """A variable that is no argument of the task, so that neither a log nor a diff can show it."""
        return str(self._templar.template(task_vars.get(name) or ""))
