# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of model_fetch: names the files and their addresses, and lets the host fetch some of them at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes, select
from ansible_collections.baremetal.llm.plugins.module_utils._model_files import OfHub
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    explained,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names

display = Display()
# What is fetched before the next line of progress: so many files at once, or so many bytes.
BATCH_FILES = 4
BATCH_BYTES = 16 << 30


def batches(files: Sequence[OfHub]) -> Iterator[list[OfHub]]:
    """Small files go along with large ones: only the bytes and the large ones are counted."""
    batch: list[OfHub] = []
    for file in files:
        batch.append(file)
        large = [one for one in batch if one["size"] >= 1 << 20]
        if len(large) >= BATCH_FILES or sum(one["size"] for one in large) >= BATCH_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


class ActionModule(DocumentedAction):
    """A question to the host, then what it lacks, a batch after the other."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, object] = super().run(tmp, task_vars)
        options = self.options()
        files, hub = self._files(options)
        answer = self._ask(options, task_vars, files=files)
        lacking = [file for file in files if file["path"] in answer.get("missing", ())]
        left = [file for file in lacking if file["path"] not in answer.get("taken", ())]
        result |= {name: value for name, value in answer.items() if name not in ("missing", "taken", "invocation")}
        host, lang = task_vars["inventory_hostname"], str(options["language"])
        if answer.get("rotten"):
            display.warning(message("bundle_rotten", lang, host=host, names=names(answer["rotten"], lang)))
        result |= {"fetched": [file["path"] for file in lacking]}
        if not answer.get("failed") and not self._task.check_mode:
            self._bring(options, task_vars, left, hub, result)
        if self._task.diff and lacking:
            result["diff"] = {"before": "", "after": "".join(f"{file['path']}\n" for file in lacking)}
        return result

    def _bring(
        self,
        options: Mapping[str, object],
        task_vars: TaskVars,
        files: list[OfHub],
        hub: str,
        result: dict[str, object],
    ) -> None:
        host, lang = task_vars["inventory_hostname"], str(options["language"])
        wrong: list[object] = []
        total, done = sum(file["size"] for file in files), 0
        for batch in batches(files):
            size = sum(file["size"] for file in batch)
            said = {"done": human_bytes(done), "total": human_bytes(total), "size": human_bytes(size)}
            display.display(message("model_fetching", lang, host=host, model=options["model"], **said))
            answer = self._ask({**options, "phase": "fetch", **self._way(task_vars, hub)}, task_vars, files=batch)
            wrong += answer.pop("wrong", [])
            done += size
            if answer.get("failed"):
                result |= {name: value for name, value in answer.items() if name != "invocation"}
                return
        if wrong:
            result |= {"failed": True, "msg": message("model_not_fetched", lang, model=options["model"], files=wrong)}

    @staticmethod
    def _files(options: Mapping[str, Any]) -> tuple[list[OfHub], str]:
        """What the host shall have, below the folder of all models, and the hub that has it."""
        records = select(load_records(options["bundle"], options["language"]), "model", {"model": options["model"]})
        records = [record for record in records if record.get("urls")]
        if not records:
            said = {"bundle": options["bundle"], "kind": "model", "wanted": f"model {options['model']}"}
            raise AnsibleActionFail(message("copy_none_with", options["language"], **said))
        files: list[OfHub] = [
            {
                "path": record["path"].partition("/")[2],
                "size": record["size"],
                "sha256": record["sha256"],
                "urls": record["urls"],
            }
            for record in records
        ]
        return files, str(records[0].get("auth") or "")

    def _way(self, task_vars: Mapping[str, object], hub: str) -> dict[str, object]:
        """How the hub is reached: variables, so that nothing can print them."""
        token = self._templar.template(task_vars.get(f"bundle_{hub}_token") or "") if hub else ""
        return {
            "headers": {"Authorization": f"Bearer {token}"} if token else {},
            "proxy": self._templar.template(task_vars.get("bundle_proxy") or ""),
        }

    def _ask(self, arguments: Mapping[str, object], task_vars: object, **more: object) -> dict[str, Any]:
        answer = self._execute_module(
            module_name="baremetal.llm.model_fetch", module_args={**arguments, **more}, task_vars=task_vars
        )
        return explained(answer, arguments.get("language"))
