# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment's variables and the bundle say of its hosts: GPUs, memory, and the image that they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import CHOSEN
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import is_venv
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_of, setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import ABSENT
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import facts_of, mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings

# How many hosts have what; facts come from preflight, the other from the inventory.
FOUND, DECLARED = "llm_gpus_found", "llm_gpus"


def is_reduced(deployment: Mapping[str, object]) -> bool:
    """Whether hosts of a deployment do not take part in it."""
    return bool(mapping(deployment.get(ABSENT)).get("hosts"))


def image_reference(variables: Mapping[str, object]) -> str:
    """The container image of a deployment: the one that it names, else the official one of its release; empty where it runs in no container."""
    if is_venv(variables):
        return ""
    return str(setting(variables, "image") or engine_of(variables).image(str(setting(variables, "version"))))


def image_to_run(variables: Mapping[str, object], records: Sequence[Mapping[str, object]] = ()) -> str:
    """What the hosts run: the image of the bundle's records that stands for the deployment's, else that one itself."""
    reference = image_reference(variables)
    return str(image_of(records, reference).get("reference") or reference)


def stands_for(image: Mapping[str, object], reference: str) -> bool:
    """Whether an image of the bundle is the one that a deployment names, or is made from it: Ray was added."""
    base = image.get("base")
    return reference in (
        image.get("reference"),
        image.get("id"),
        base.get("reference") if isinstance(base, Mapping) else None,
    )


def gpus_of(variables: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The GPUs of a host's deployment: those that were chosen for it, else all of its machine; none where they are not known."""
    chosen = variables.get(CHOSEN)
    return gpus_of_machine(variables) if chosen is None else mappings(chosen)


def gpus_of_machine(variables: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The GPUs that were found on a host's machine, else those that the inventory names; none where neither is known."""
    return mappings(facts_of(variables).get(FOUND) or variables.get(DECLARED))


def memory_of(variables: Mapping[str, object]) -> dict[str, object]:
    """The memory of the host, once it was looked at."""
    found = facts_of(variables).get("llm_memory_mib")
    return {"memory_mib": found} if found else {}


def image_of(records: Sequence[Mapping[str, object]], reference: str) -> Mapping[str, object]:
    for record in records:
        for image in mappings(record.get("images")):
            if stands_for(image, reference):
                return image
    return {}


def config_path(records: Sequence[Mapping[str, object]], variables: Mapping[str, object]) -> str | None:
    """The config.json of a deployment's model: the one that the inventory names, else that of the bundle, below which it lies; None for neither."""
    named = setting(variables, "model_config")
    if named:
        return str(named)
    for record in records:
        if record.get("model") == setting(variables, "model") and str(record["path"]).endswith("/config.json"):
            return str(record["path"])
    return None
