# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bundle_decide: decides about a bundle for all deployments at once; how is in plugin_utils/bundle/decide.py."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import MANIFEST_NAME, BundleError, Record
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import decide
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records, read_manifest
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, DocumentedAction, TaskVars


def records_of(bundle: str) -> list[Record]:
    """What a bundle holds that is going to be made anew: one that cannot be read holds nothing."""
    try:
        return read_manifest(bundle)
    except BundleError:
        return []


class ActionModule(DocumentedAction):
    """Everything happens here, on the controller."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options(required_together=[["images", "engine_images", "archive"]])
        options = plain(options)
        hostvars = task_vars["hostvars"]
        deployments = plain(hostvars["localhost"]["llm_inventory"]["deployments"])
        bundle, lang = options["bundle"], options["language"]
        if options["wishes"] is not None:
            found = decide.decide(deployments, hostvars, options["wishes"], records_of(bundle), lang)
            result["wanted"] = plain(found)
        if options["images"] is not None:
            result.update(self._archive(options))
        refused = self._compatibility_error(deployments, hostvars, options)
        if refused:
            raise AnsibleActionFail(refused)
        return {**result, "changed": False}

    @staticmethod
    def _archive(options: Mapping[str, Any]) -> dict[str, object]:
        images, engine = options["images"], options["engine_images"]
        lacking = decide.missing_images(images, engine, options["language"])
        if lacking:
            raise AnsibleActionFail(lacking)
        archive = decide.archive_of(images, engine, options["archive"])
        there = decide.is_archived(options["bundle"], archive, records_of(options["bundle"]))
        return {"archive": archive, "archived": there}

    @staticmethod
    def _compatibility_error(
        deployments: Mapping[str, Any], hostvars: Mapping[str, Any], options: Mapping[str, Any]
    ) -> str:
        lang = options["language"]
        drivers = decide.drivers_of([{**one, **(one.get("fields") or {})} for one in options["artefacts"]])
        refused = decide.compatibility_error(deployments, hostvars, options["checked_images"] or [], drivers, lang)
        home = next((one for one in options["offered"] if os.path.isfile(os.path.join(one, MANIFEST_NAME))), None)
        if refused or home is None:
            return refused
        records = load_records(home, lang)
        return decide.compatibility_error(
            deployments, hostvars, decide.held_images(records), decide.drivers_of(records), lang
        )
