# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""image_check: lets one host read the GPU code of an image that it pulled, notes it, and refuses an image that cannot serve the GPUs found."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.compatibility import check_images
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.decide import held_images
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import known_records
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.online import add_contents
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import gpus_of_machine, image_to_run
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import VARIABLE, variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import is_online, manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import (
    UNSET,
    DocumentedAction,
    TaskVars,
    explained,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, render

display = Display()
_COMPARED_BY = ("nvidia_driver_method", "nvidia_driver_version")
# And these settings of its engine.
_COMPARED_SETTINGS = ("image", "version", "runtime")


class ActionModule(DocumentedAction):
    """Of the hosts that run an image the first one reads it, once for all runs."""

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result: dict[str, object] = super().run(tmp, task_vars)
        options = self.options()
        fleet, host, lang = Fleet(self._loader, task_vars), task_vars["inventory_hostname"], options["language"]
        read: list[object] = []
        result |= {"changed": False, "images": read}
        if not is_online(fleet[host]) or self._task.check_mode:
            return result
        folder = os.path.expanduser(manifest_folder(fleet[host]))
        images = held_images(known_records(folder, lang))
        run = {name: image_to_run(fleet[name], known_records(folder, lang)) for name in fleet.playing}
        unread = [
            image
            for image in images
            if not image.get("contents")
            and next((name for name, reference in run.items() if reference == image["reference"]), None) == host
        ]
        for image in unread:
            display.display(message("image_reading", lang, host=host, image=image["reference"]))
            answer = explained(
                self._execute_module(
                    module_name="baremetal.llm.image_inspect",
                    module_args={"reference": image["reference"], "records": [image]},
                    task_vars=task_vars,
                ),
                lang,
            )
            if answer.get("failed"):
                return {**result, **answer}
            add_contents(folder, answer["images"])
            read += answer["images"]
        # Those that another run has read as well: it may have ended here.
        self._require(fleet, held_images(known_records(folder, lang)), lang)
        return result

    @staticmethod
    def _require(fleet: Fleet, images: Sequence[Mapping[str, object]], lang: str) -> None:
        deployments = fleet["localhost"]["llm_inventory"]["deployments"]

        def compared(name: str) -> Mapping[str, object]:
            variables = fleet[name]
            keys = [VARIABLE, *_COMPARED_BY, *(variable_of(variables, key) for key in _COMPARED_SETTINGS)]
            said = {key: variables[key] for key in keys if key in variables}
            return {**said, "llm_gpus": gpus_of_machine(variables)}

        hosts = {name: compared(name) for one in deployments.values() for name in one["hosts"]}
        problems = check_images(deployments, hosts, images, (), lang)
        if problems:
            raise AnsibleActionFail(render(problems, lang, message("images_pulled_header", lang, count=len(problems))))
