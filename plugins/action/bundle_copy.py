# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of bundle_copy: picks files from the manifest and sends those that the host lacks."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, NotRequired

from ansible import constants as C
from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record, Wanted, human_bytes, inside, select
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import PACKED, incoming_name
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    explained,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names

display = Display()
# A file of this size takes long enough to report its progress, and is worth a question to the host of its own.
LARGE_BYTES = 64 << 20
# A smaller one takes longer to be sent by itself than its content does: it travels in an archive with others.
PACKED_BYTES = 1 << 20


class Sent(Wanted):
    """A file as it is called on the host, and where the bundle has it."""

    source: str
    # Where no bundle is, the file lies in a folder of its own.
    local: NotRequired[str]


def batches(files: list[Sent]) -> Iterator[list[Sent]]:
    """What is committed together: no more than one large file, or small ones that are not larger together."""
    batch: list[Sent] = []
    for file in files:
        batch.append(file)
        if sum(one["size"] for one in batch) >= LARGE_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def split(batch: list[Sent]) -> tuple[list[Sent], list[Sent]]:
    """The files of a batch that travel in an archive, and those that travel alone. One small file needs no archive."""
    small = [file for file in batch if file["size"] < PACKED_BYTES]
    if len(small) < 2:
        return [], batch
    return small, [file for file in batch if file["size"] >= PACKED_BYTES]


class ActionModule(DocumentedAction):
    """A question to the host, then the transfers, each with its commit."""

    TRANSFERS_FILES = True

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, object] = super().run(tmp, task_vars)
        arguments = {name: value for name, value in self._task.args.items() if name not in ("files", "phase", "packed")}
        options = self.options()
        lang = options["language"]
        records = select(load_records(options["bundle"], lang), options["kind"], options["match"])
        if not records:
            wanted = ", ".join(f"{name} {value}" for name, value in options["match"].items())
            code = "copy_none_with" if wanted else "copy_none"
            raise AnsibleActionFail(message(code, lang, bundle=options["bundle"], kind=options["kind"], wanted=wanted))
        files = [self._on_host(record, options) for record in records]
        answer = self._ask(arguments, files, "check", task_vars)
        lacking, taken, arriving = answer.pop("missing", []), answer.pop("taken", []), answer.pop("arriving", {})
        arriving_packed = answer.pop("arriving_packed", "")
        missing = [file for file in files if file["path"] in lacking]
        result.update(answer)
        result.pop("invocation", None)
        host = str(task_vars.get("inventory_hostname", ""))
        if answer.get("rotten"):
            display.warning(message("bundle_rotten", lang, host=host, names=names(answer["rotten"], lang)))
        to_send = [file for file in missing if file["path"] not in taken]
        if not answer.get("failed") and not self._task.check_mode:
            self._tell_of_taken([file for file in missing if file["path"] in taken], lang, host)
            wrong: list[object] = []
            for batch in batches(to_send):
                packed, alone = split(batch)
                self._send(options, alone, arriving, host)
                if packed:
                    self._send_packed(options, packed, arriving_packed)
                answer = self._ask({**arguments, "packed": bool(packed)}, batch, "commit", task_vars)
                wrong += answer.pop("wrong", [])
                if answer.get("failed"):
                    result.update(answer)
                    break
            if wrong:
                result.update(failed=True, msg=message("copy_damaged", lang, files=wrong))
        result["files"] = [
            {**record, "dest": os.path.join(options["dest"], file["path"])}
            for record, file in zip(records, files)  # noqa: B905
        ]
        result["copied"] = [file["path"] for file in missing]
        result["taken"] = taken
        result["bytes"] = sum(file["size"] for file in to_send)
        if self._task.diff and missing:
            result["diff"] = {"before": "", "after": "".join(f"{file['path']}\n" for file in missing)}
        return result

    @staticmethod
    def _on_host(record: Record, options: Mapping[str, object]) -> Sent:
        path = "/".join(record["path"].split("/")[options["strip"] :])
        file: Sent = {"path": path, "source": record["path"], "size": record["size"], "sha256": record["sha256"]}
        if record.get("local"):
            file["local"] = record["local"]
        return file

    def _ask(self, arguments: dict[str, object], files: list[Sent], phase: str, task_vars: object) -> dict[str, Any]:
        answer = self._execute_module(
            module_name="baremetal.llm.bundle_copy",
            module_args={**arguments, "files": files, "phase": phase},
            task_vars=task_vars,
        )
        return explained(answer, arguments.get("language"))

    @staticmethod
    def _tell_of_taken(files: list[Sent], lang: str, host: str) -> None:
        if files:
            size = human_bytes(sum(file["size"] for file in files))
            display.display(message("bundle_taken_over", lang, host=host, count=len(files), size=size))

    def _send(self, options: Mapping[str, object], files: list[Sent], arriving: dict[str, str], host: str) -> None:
        """Send each file to where the host wants it: names of the bundle never reach its file system unchecked."""
        for file in files:
            if file["size"] >= LARGE_BYTES:
                size = human_bytes(file["size"])
                display.display(
                    message("bundle_copying", str(options["language"]), host=host, source=file["source"], size=size)
                )
            self._connection.put_file(self._source(options, file), arriving[file["path"]])

    def _send_packed(self, options: Mapping[str, object], files: list[Sent], arriving: str) -> None:
        """Send small files in one archive."""
        with tempfile.TemporaryDirectory(dir=C.DEFAULT_LOCAL_TMP) as folder:
            packed = os.path.join(folder, PACKED)
            with tarfile.open(packed, "w") as archive:
                for file in files:
                    with open(self._source(options, file), "rb") as content:
                        member = tarfile.TarInfo(incoming_name(file))
                        member.size = os.fstat(content.fileno()).st_size
                        archive.addfile(member, content)
            self._connection.put_file(packed, arriving)

    @staticmethod
    def _source(options: Mapping[str, object], file: Sent) -> str:
        """Where the bundle has a file."""
        bundle = str(options["bundle"])
        source = os.path.realpath(file["local"]) if "local" in file else inside(bundle, file["source"])
        if source is None or not os.path.isfile(source):
            raise AnsibleActionFail(
                message("bundle_not_a_file", str(options["language"]), path=file["source"], bundle=bundle)
            )
        return str(source)
