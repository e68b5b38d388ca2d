# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""online_sources: asks registries and hubs for all deployments that have no bundle; what is asked is in plugin_utils/bundle/online.py."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._download import make_opener
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.online import Registries, learn, online_wanted
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.sources import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import is_online, manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars, refuse_text
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, reason

display = Display()


class ActionModule(ActionBase):
    """Everything happens here, on the controller. What it needs are variables, so that neither a log nor a diff can show a secret."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        fleet = Fleet(self._loader, task_vars)
        lang = language(fleet["localhost"]["llm_language"])
        deployments = fleet["localhost"]["llm_inventory"]["deployments"]
        images: list[str] = []
        files = 0
        for folder, mine in self._by_folder(fleet, deployments).items():
            said = fleet[next(iter(mine.values()))["head"]]
            wanted = online_wanted(mine, fleet, str(said["bundle_hub"]), said["bundle_model_sources"], lang)
            refused, records = "", []
            try:
                records = learn(
                    os.path.expanduser(folder),
                    wanted,
                    self._settings(said),
                    Registries(said["llm_registry_mirrors"], said["bundle_registry_credentials"]),
                    display.display,
                    is_true(said["bundle_update_enabled"]),
                    lang,
                )
            except (CodedError, OSError) as error:
                refused = reason(error, lang)
            if refused:
                refuse_text(refused, lang)
            held = [image for record in records for image in record.get("images") or []]
            images += [f"{image['reference']} {image['digest']}" for image in held]
            files += len(records) - len(held)
        return {**result, "changed": False, "images": images, "files": files}

    @staticmethod
    def _by_folder(fleet: Fleet, deployments: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, Any]]:
        """The deployments without a bundle, by the folder in which is written down what they get."""
        found: dict[str, dict[str, Any]] = {}
        for name, one in deployments.items():
            head = fleet[str(one["head"])]
            if is_online(head) and is_true(head["preflight_bundle_required"]):
                found.setdefault(manifest_folder(head), {})[name] = one
        return found

    @staticmethod
    def _settings(said: Mapping[str, object]) -> Settings:
        proxy = str(said["bundle_proxy"] or "")
        if proxy:
            # The clients of the hubs read it there, in this process alone.
            os.environ.update(http_proxy=proxy, https_proxy=proxy, HTTP_PROXY=proxy, HTTPS_PROXY=proxy)
        return Settings(
            opener=make_opener(proxy),
            proxy=proxy,
            url_mirrors={name: texts(urls) for name, urls in mapping(said["bundle_url_mirrors"]).items()},
            huggingface_endpoint=str(said["bundle_huggingface_endpoint"]),
            modelscope_endpoint=str(said["bundle_modelscope_endpoint"]),
            tokens={hub: str(said[f"bundle_{hub}_token"] or "") for hub in ("huggingface", "modelscope")},
        )
