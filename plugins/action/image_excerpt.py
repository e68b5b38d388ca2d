# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""image_excerpt: writes what the hosts of the play lack of the bundle's images, beside the bundle."""

from __future__ import annotations

import os

from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import excerpt
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import load_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import Progress
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, DocumentedAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, message

display = Display()
LACKING = "_images_lacking"


class ActionModule(DocumentedAction):
    """Everything happens here, on the controller, once for all hosts."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, object] = super().run(tmp, task_vars)
        options = self.options()
        bundle, lang = os.path.expanduser(options["bundle"]), options["language"]
        if options["written"] is not None:
            excerpt.remove(bundle, options["written"])
            return {**result, "changed": False}
        playing = [task_vars["hostvars"][host] for host in task_vars["ansible_play_hosts"]]
        hosts: list[excerpt.Lacking] = [found for variables in playing for found in [variables.get(LACKING)] if found]
        records = load_records(bundle, lang)
        whole = {**result, "changed": False, "bundle": options["bundle"], "written": ""}
        if options["whole"] or self._task.check_mode:
            return whole
        found = excerpt.parts(bundle, records, hosts)
        if list(found) == [record for record in records if record["kind"] == "image"]:
            return whole
        size = excerpt.size_on_disk(found)
        # Read, written, and read again for its SHA-256.
        progress = Progress(message("excerpt_writing", lang), 2 * size, display.display, lang)
        try:
            folder = excerpt.make(bundle, records, found, progress.add)
        except (Refused, OSError):
            # There is no room, or the bundle is on a medium that cannot be written.
            return whole
        cuts = [one for one in found if isinstance(one, excerpt.Cut)]
        if cuts:
            saved = sum(one.record["size"] - one.size for one in cuts)
            display.display(message("excerpt_written", lang, size=human_bytes(size), saved=human_bytes(saved)))
        # What is written is gone when the images are on their way.
        return {**result, "changed": False, "bundle": folder, "written": folder}
