# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bundle_carry: a bundle onto disks, and off them again."""

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import MANIFEST_NAME, BundleError, walk
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_check import read_checks, write_checks
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import transfer as carry
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.lists import PLAN_NAME, target_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import Progress
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.toolkit import ToolkitError, repack
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, reason

display = Display()


class ActionModule(ActionBase):
    """Everything happens here, on the controller."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            argument_spec={
                "bundle": {"type": "path", "required": True},
                "checks": {"type": "path", "required": True},
                "export": {"type": "path"},
                "sources": {"type": "list", "elements": "path"},
                "split_mib": {"type": "int", "default": 0},
                "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
            },
            mutually_exclusive=[["export", "sources"]],
            required_one_of=[["export", "sources"]],
        )
        self.options, self.check = options, bool(self._task.check_mode)
        try:
            found = self._export() if options["export"] else self._import()
        except (carry.CarryError, BundleError, ToolkitError, OSError) as error:
            # Ansible would add what a cause says, in English.
            raise AnsibleActionFail(reason(error, options["language"])) from None
        if self._task.diff and found["carried"]:
            found["diff"] = {"before": "", "after": "".join(f"{path}\n" for path in found["carried"])}
        return {**result, "changed": bool(found["carried"]), **found}

    def _progress(self, what: str, records: list[dict[str, Any]]) -> Progress:
        return Progress(what, sum(record["size"] for record in records), display.display)

    def _export(self) -> dict[str, Any]:
        bundle, target = self.options["bundle"], self.options["export"]
        records = load_records(bundle, self.options["language"])
        seen = read_checks(self.options["checks"], target)
        progress = self._progress(f"export to {target}", records)
        try:
            carried = carry.export(
                bundle, records, target, self.options["split_mib"] * carry.MIB, seen, progress.add, self.check
            )
        finally:
            self._remember(target, seen)
        return {"carried": carried, "artefacts": []}

    def _remember(self, folder: str, seen: dict[str, Any]) -> None:
        if not self.check:
            write_checks(self.options["checks"], folder, seen)

    def _import(self) -> dict[str, Any]:
        bundle, folders = self.options["bundle"], self.options["sources"]
        home = next((one for one in folders if os.path.isfile(os.path.join(one, MANIFEST_NAME))), None)
        plan = carry.read_plan(folders) if home is None else {}
        if home is None and not plan:
            raise carry.CarryError(
                "carry_no_source", folders=", ".join(folders), manifest=MANIFEST_NAME, plan=PLAN_NAME
            )
        records = load_records(home, self.options["language"]) if home else carry.fetched_records(folders, plan)
        seen = read_checks(self.options["checks"], bundle)
        progress = self._progress(f"import to {bundle}", records)
        try:
            carried = carry.bring_in(folders, records, bundle, seen, progress.add, self.check)
            artefacts = [] if home else self._adopt(folders, plan, seen)
        finally:
            self._remember(bundle, seen)
        if home and not self.check:
            with open(os.path.join(home, MANIFEST_NAME), encoding="utf-8") as stream:
                if carry.write_text(os.path.join(bundle, MANIFEST_NAME), stream.read()):
                    carried.append(MANIFEST_NAME)
        return {"carried": carried, "artefacts": artefacts}

    def _adopt(self, folders: list[str], plan: dict[str, Any], seen: dict[str, Any]) -> list[dict[str, Any]]:
        """Make a bundle's content of what the script brought: what is packed anew, indexes, packages, images."""
        artefacts: list[dict[str, Any]] = []
        for one in plan["plan"].values():
            item = one["item"]
            fields = {**item.get("fields", {}), **one.get("fields", {})}
            for file in one.get("files", []):
                full = os.path.join(self.options["bundle"], file["path"])
                if not self.check:
                    if "content" in file:
                        os.makedirs(os.path.dirname(full), exist_ok=True)
                        carry.write_text(full, file["content"])
                    elif file.get("repack"):
                        repack(target_of({**file, "path": full}), full)
                artefacts.append({"path": file["path"], "kind": item["kind"], "fields": fields})
            if not one.get("files"):
                artefacts += self._folder(folders, str(item["path"]), str(item["kind"]), fields)
        return artefacts + carry.fetched_images(folders, plan)

    def _folder(self, folders: list[str], path: str, kind: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
        """What the script's package manager has put into a folder."""
        for folder in folders:
            source = os.path.join(folder, path)
            if os.path.isdir(source) and walk(source):
                return [{"source": source, "path": path, "kind": kind, "fields": fields}]
        display.warning(message("carry_not_fetched", self.options["language"], path=path, folders=", ".join(folders)))
        return []
