# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which release to use on a GPU, and the limits of driver and CUDA that come with it."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import code_for, named
from ansible_collections.baremetal.llm.plugins.module_utils._gpu_generations import architecture
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.generations import GENERATIONS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES, TORCH_ARCHITECTURES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import known
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import NEWEST, at, release_key, releases


def capability_of(gpu: object) -> tuple[int, int]:
    """The compute capability of a GPU given as a dict, a name, or a capability."""
    if isinstance(gpu, dict):
        if gpu.get("compute_capability") is not None:
            return fields.capability(gpu["compute_capability"], "gpu.compute_capability")
        gpu = gpu.get("name")
    text = str(gpu or "").strip()
    if not text:
        raise InputError("gpu", "input_gpu")
    found = known(text)
    if found:
        return found[0]
    return fields.capability(text, "gpu")


def image_lacks(version: str, capability: tuple[int, int]) -> tuple[str, str] | None:
    """The library of a release's official image without code for a capability, and what that is built for; None if each has some."""
    for library, built in (
        ("vllm", RELEASES[version].architectures),
        ("torch", at(TORCH_ARCHITECTURES, release_key(version))),
    ):
        if code_for([name for entry in built.split() for name in named(entry)], capability) is None:
            return library, built
    return None


def image_serves(version: str, capability: tuple[int, int]) -> bool:
    """Whether the official image of a release holds working code for a capability."""
    row = RELEASES[version]
    if capability < (7, 0):
        return False
    if capability < (7, 5):
        return row.v100 in ("works", "works_with_override", "degraded")
    least = tuple(int(x) for x in row.least.split("."))
    return capability >= least and image_lacks(version, capability) is None


def first_image_after(version: str, capability: tuple[int, int]) -> str | None:
    """The first later release whose official image serves a capability."""
    key = release_key(version)
    return next((one for one in releases() if release_key(one) > key and image_serves(one, capability)), None)


# What the questions to the planner and its answers call the release.
RELEASE = "vllm_version"


def recommended_release(gpu: object, language: str = "en") -> dict[str, object]:
    """The release for a GPU with the reason, and the limits of its generation."""
    capability = capability_of(gpu)
    generation = None
    for low, high, facts in GENERATIONS:
        if low <= capability <= high:
            generation = facts
            break
    if generation is None:
        raise InputError("gpu", "input_no_release", capability="{}.{}".format(*capability))
    version = generation["release"] or NEWEST
    served = [v for v in releases() if image_serves(v, capability)]
    return {
        RELEASE: version,
        "compute_capability": "{0}.{1}".format(*capability),
        "generation": generation["name"],
        "reason": message(generation["reason"], language),
        "dtype": "half" if capability < (8, 0) else "auto",
        "last_official_image": served[-1] if served else None,
        "first_official_image": served[0] if served else None,
        "cuda": RELEASES[version].cuda if version in RELEASES else None,
        "driver_minimum": RELEASES[version].driver if version in RELEASES else None,
        "driver_branch_recommended": generation["driver_branch"],
        "driver_branch_last": architecture(capability).last_branch,
        "cuda_last": generation["cuda_last"],
        "kernel_modules": architecture(capability).kernel_modules[0],
        "alternatives": [{**one, "note": message(one["note"], language)} for one in generation["alternatives"]],
    }
