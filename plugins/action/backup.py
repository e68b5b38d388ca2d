# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes and reads backups of the controller; what is in one, says plugin_utils/inventory/backup.py."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ansible.parsing.vault import AnsibleVaultError, VaultLib, VaultSecretsContext
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.lock import collection_version, this_run
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory import backup
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    refuse,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, message, problem

# Of the year 9999.
_LAST_TIME = 253402300800
SAVED = "saved"


class ActionModule(DocumentedAction):
    """On the controller alone."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        lang = language(task_vars.get("llm_language"))
        context = VaultSecretsContext.current(optional=True)
        if not context or not context.secrets:
            refuse([problem("backup_no_password", lang, "", "--vault-password-file")], lang)
        vault, path = VaultLib(context.secrets), Path(options["path"])
        try:
            if options["state"] == SAVED:
                return {**result, **self._save(vault, path, task_vars, lang)}
            return {**result, **self._restore(vault, path, Path(options["folder"]), lang)}
        except backup.BackupError as error:
            refuse([problem(error.code, lang, str(path), "llm_backup_file", **error.values)], lang)
        except OSError as error:
            values = {"file": error.filename or path, "reason": error.strerror or error}
            refuse([problem("backup_not_written", lang, str(path), "llm_backup_file", **values)], lang)

    def _save(self, vault: VaultLib, path: Path, task_vars: TaskVars, lang: str) -> dict[str, object]:
        if path.exists():
            raise backup.BackupError("backup_there_already", file=path)
        fleet = Fleet(self._loader, task_vars)
        folders: dict[str, Path] = {}
        for host in fleet:
            for name in backup.FOLDERS:
                said = fleet[host].get(name)
                if said and Path(self._loader.path_dwim(str(said))).is_dir():
                    folders.setdefault(name, Path(os.path.realpath(self._loader.path_dwim(str(said)))))
        sources = [Path(os.path.realpath(each)) for each in task_vars.get("ansible_inventory_sources") or ()]
        found = backup.contents([source for source in sources if source.exists()], folders)
        about = {"made": int(time.time()), "who": this_run(os.getppid())["who"], "collection": collection_version()}
        content = vault.encrypt(backup.pack(found, about))
        if not self._task.check_mode:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(content)
        values = {"count": len(found.files), "file": path, "kib": len(content) // 1024}
        Display().display("\n" + message("backup_saved", lang, **values) + "\n")
        return {"changed": True, "files": len(found.files), "variables": {}}

    def _restore(self, vault: VaultLib, path: Path, folder: Path, lang: str) -> dict[str, object]:
        try:
            data = vault.decrypt(path.read_bytes())
        except AnsibleVaultError:
            raise backup.BackupError("backup_not_opened") from None
        if self._task.check_mode:
            return {"changed": True, "files": 0, "variables": {}}
        about = backup.unpack(data, folder)
        now = {name: str(folder / backup.ELSEWHERE / name) for name in about["elsewhere"]}
        lines = [
            message("backup_restored", lang, folder=folder, who=about.get("who") or "?", made=_time(about.get("made")))
        ]
        for name, before in about["elsewhere"].items():
            lines.append(message("backup_elsewhere", lang, name=name, before=before, now=now[name]))
        Display().display("\n" + "\n".join(lines) + "\n")
        return {
            "changed": True,
            "files": sum(len(names) for _parent, _folders, names in os.walk(folder)),
            "variables": now,
        }


def _time(made: object) -> str:
    if not isinstance(made, int) or not 0 <= made < _LAST_TIME:
        return "?"
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(made))
