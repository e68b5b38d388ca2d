# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bundle_verify: reads the bundle on the controller and says how far it is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import BundleError
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_check import (
    read_checks,
    verify,
    write_checks,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.faults import describe_faults, fault_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import hold, load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.models import incomplete_models
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import Progress
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.signature import require_trusted
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import HostVariables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import SERVICE_GROUPS
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, DocumentedAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, message, names, reason

display = Display()


class Bundle(NamedTuple):
    """A bundle, the SHA-256 that its manifest has to have, and who may have signed it; the latter two may be empty."""

    folder: str
    manifest_sha256: str
    allowed_signers: str


def bundles_in_use(hostvars: Mapping[str, HostVariables], groups: Mapping[str, Sequence[str]]) -> list[Bundle]:
    """The bundles that the hosts of the deployments and of the services name, each once."""
    deployments = hostvars["localhost"]["llm_inventory"]["deployments"].values()
    members = [str(host) for deployment in deployments for host in (deployment["head"], *deployment["hosts"])]
    members += [str(host) for group in SERVICE_GROUPS for host in groups.get(group) or ()]
    named = [
        Bundle(
            os.path.expanduser(str(mine["llm_bundle_dir"])),
            str(mine.get("llm_bundle_manifest_sha256") or ""),
            str(mine.get("llm_bundle_allowed_signers") or ""),
        )
        for mine in (hostvars[host] for host in dict.fromkeys(members))
        if mine.get("llm_bundle_dir")
    ]
    return list(dict.fromkeys(named))


class Verified(TypedDict):
    """How many files a bundle has, their bytes, those of them that were read, and by kind of fault which are wrong."""

    files: int
    bytes: int
    read_bytes: int
    faults: dict[str, list[str]]


class ActionModule(DocumentedAction):
    """Everything happens here, on the controller."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        options = self.options()
        named = Bundle(options["bundle"] or "", options["manifest_sha256"], options["allowed_signers"])
        bundles = [named] if named.folder else bundles_in_use(task_vars["hostvars"], task_vars["groups"])
        result.update(changed=False, files=0, bytes=0, read_bytes=0, faults={}, manifests={})
        for bundle in bundles:
            result["manifests"][bundle.folder] = self._trust(bundle, options["language"])
            found = self._verify(bundle.folder, options)
            result["files"] += found["files"]
            result["bytes"] += found["bytes"]
            result["read_bytes"] += found["read_bytes"]
            wrong = self._models(bundle.folder, options["language"]) if not found["faults"] else ""
            wrong = wrong or describe_faults(os.path.abspath(bundle.folder), found["faults"], options["language"])
            if wrong:
                result.update(failed=True, msg=wrong, faults=found["faults"])
                break
        return result

    @staticmethod
    def _trust(bundle: Bundle, lang: str) -> str:
        """The SHA-256 of a manifest that may be used."""
        try:
            _content, digest, signer = require_trusted(*bundle)
        except Refused as error:
            raise AnsibleActionFail(reason(error, lang)) from None
        hold(bundle.folder, digest)
        code = "bundle_manifest_signed" if signer else "bundle_manifest_sha256"
        display.display(message(code, lang, bundle=bundle.folder, sha256=digest, signer=signer))
        return digest

    @staticmethod
    def _models(bundle: str, lang: str) -> str:
        """What is wrong with models whose files are as the manifest says: who made the bundle may have had no whole ones."""
        return "\n".join(reason(error, lang) for error in incomplete_models(bundle, load_records(bundle, lang)))

    def _verify(self, bundle: str, options: Mapping[str, Any]) -> Verified:
        lang = options["language"]
        records = load_records(bundle, lang)
        total = sum(record["size"] for record in records)
        before = read_checks(options["checks"], bundle)
        seen = dict(before)
        progress = Progress(message("progress_verify", lang, bundle=bundle), total, display.display, lang)
        try:
            faults = fault_names(verify(bundle, records, seen, options["content"], add=progress.add), lang)
        except (OSError, BundleError) as error:
            raise AnsibleActionFail(message("bundle_not_read", lang, bundle=bundle, reason=error)) from error
        if seen != before and not self._task.check_mode:
            write_checks(options["checks"], bundle, seen)
        read = sum(
            record["size"] for record in records if seen.get(record["path"], {}) != before.get(record["path"], {})
        )
        if faults.get("extra"):
            extra = faults["extra"]
            display.warning(
                message("bundle_unknown_files", lang, count=len(extra), bundle=bundle, names=names(extra, lang))
            )
        return {"files": len(records), "bytes": total, "read_bytes": read, "faults": faults}
