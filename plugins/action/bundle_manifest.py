# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of bundle_manifest: signs the manifest, and says in the language of the task why the module failed."""

from __future__ import annotations

import os

from ansible.errors import AnsibleActionFail
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import hold
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.signature import manifest_sha256, sign
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, SpeakingAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, reason


class ActionModule(SpeakingAction):
    """The module, then the signature."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        if result.get("failed") or self._task.check_mode:
            return result
        bundle, key = os.path.expanduser(self._task.args["bundle"]), self._task.args.get("signing_key")
        try:
            signed = bool(key) and sign(bundle, os.path.expanduser(key))
            digest = manifest_sha256(bundle)
            hold(bundle, digest)
            return {**result, "changed": result["changed"] or signed, "manifest_sha256": digest}
        except Refused as error:
            raise AnsibleActionFail(reason(error, self.language)) from None
