# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of bundle_copy: picks files from the manifest and sends those that the host lacks."""

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record, human_bytes, inside, select
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import explained
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

display = Display()
SLOW_BYTES = 64 << 20


class ActionModule(ActionBase):
    """Two short questions to the host, with the transfers between them."""

    TRANSFERS_FILES = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = {name: value for name, value in self._task.args.items() if name not in ("files", "phase")}
        _checked, options = self.validate_argument_spec(
            argument_spec={
                "bundle": {"type": "path", "required": True},
                "kind": {"type": "str", "required": True},
                "match": {"type": "dict", "default": {}},
                "dest": {"type": "path", "required": True},
                "strip": {"type": "int", "default": 0},
                "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
            }
        )
        lang = options["language"]
        records = select(load_records(options["bundle"], lang), options["kind"], options["match"])
        if not records:
            wanted = ", ".join(f"{name} {value}" for name, value in options["match"].items())
            code = "copy_none_with" if wanted else "copy_none"
            raise AnsibleActionFail(message(code, lang, bundle=options["bundle"], kind=options["kind"], wanted=wanted))
        files = [self._on_host(record, options) for record in records]
        answer = self._ask(arguments, files, "check", task_vars)
        result.update(answer)
        missing = [file for file in files if file["path"] in answer.get("missing", [])]
        if missing and not answer.get("failed") and not self._task.check_mode:
            self._send(options, missing, answer["incoming"], task_vars)
            result.update(self._ask(arguments, missing, "commit", task_vars))
        result.pop("missing", None)
        result.pop("incoming", None)
        result.pop("invocation", None)
        result["files"] = [
            {**record, "dest": os.path.join(options["dest"], file["path"])}
            for record, file in zip(records, files)  # noqa: B905
        ]
        result["copied"] = [file["path"] for file in missing]
        result["bytes"] = sum(file["size"] for file in missing)
        if self._task.diff and missing:
            result["diff"] = {"before": "", "after": "".join(f"{file['path']}\n" for file in missing)}
        return result

    @staticmethod
    def _on_host(record: Record, options: dict[str, Any]) -> dict[str, Any]:
        path = "/".join(record["path"].split("/")[options["strip"] :])
        return {"path": path, "source": record["path"], "size": record["size"], "sha256": record["sha256"]}

    def _ask(
        self, arguments: dict[str, Any], files: list[dict[str, Any]], phase: str, task_vars: Any
    ) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name="baremetal.llm.bundle_copy",
            module_args={**arguments, "files": files, "phase": phase},
            task_vars=task_vars,
        )
        return explained(answer, arguments.get("language"))

    def _send(self, options: dict[str, Any], files: list[dict[str, Any]], incoming: str, task_vars: Any) -> None:
        """Send each file under a number: names of the bundle never reach the host's file system unchecked."""
        bundle, host = options["bundle"], task_vars.get("inventory_hostname", "")
        for number, file in enumerate(files):
            if file["size"] >= SLOW_BYTES:
                size = human_bytes(file["size"])
                display.display(
                    message("bundle_copying", options["language"], host=host, source=file["source"], size=size)
                )
            file["arrived"] = f"{incoming}/{number}"
            source = inside(bundle, file["source"])
            if source is None or not os.path.isfile(source):
                raise AnsibleActionFail(
                    message("bundle_not_a_file", options["language"], path=file["source"], bundle=bundle)
                )
            self._connection.put_file(source, file["arrived"])
