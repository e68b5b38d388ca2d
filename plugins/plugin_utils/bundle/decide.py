# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided about a bundle for all deployments at once: what it has to hold, the archive of its images, and whether these can serve."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record, select
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_compress import COMPRESSIONS, FORMER_SUFFIXES
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.compatibility import check_images
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import Artefact
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import Wishes, wanted
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import (
    VARIABLE,
    engine,
    engine_names,
    name_of,
    variable_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, problem, render

Deployments = Mapping[str, DeploymentHosts]
Hosts = Mapping[str, Mapping[str, object]]

_COMPARED_BY = ("llm_gpus", "nvidia_driver_method", "nvidia_driver_version")
# And these settings of its engine.
_COMPARED_SETTINGS = ("image", "version")


def _compared_by(variables: Mapping[str, object]) -> list[str]:
    return [VARIABLE, *_COMPARED_BY, *(variable_of(variables, name) for name in _COMPARED_SETTINGS)]


def decide(
    deployments: Deployments, hostvars: Hosts, wishes: Mapping[str, Any], records: Sequence[Record], lang: str = "en"
) -> dict[str, object]:
    """What the bundle has to hold, as ``wanted`` says it, and what follows from it.

    `wishes` are the fields of ``Wishes``; `records` what the bundle holds already. Added are ``ray_images`` (the images that have to hold
    Ray), ``archive`` (where the images go), ``other_archives`` (where they would go in other forms) and ``known_images`` (what
    is known of the images that the bundle holds).
    """
    found = wanted(deployments, hostvars, Wishes(**wishes), lang)
    paths = {name: f"images/images{form.suffix}" for name, form in COMPRESSIONS.items()}
    return {
        **found,
        "ray_images": _ray_images(deployments, hostvars),
        "archive": paths.pop(found["compression"]),
        "other_archives": [*paths.values(), *(f"images/images{suffix}" for suffix in FORMER_SUFFIXES)],
        "known_images": held_images(records),
    }


def held_images(records: Sequence[Record]) -> list[dict[str, object]]:
    """The images that files of a manifest hold."""
    return [dict(image) for record in records for image in record.get("images") or []]


def missing_images(
    images: Sequence[Mapping[str, object]], engine: Sequence[Mapping[str, object]], lang: str = "en"
) -> str:
    """Which images the engine lacks, as an error; empty if it lacks none."""
    tags = {tag for one in engine for tag in texts(one.get("RepoTags"))}
    named = [str(image["reference"]) for image in images]
    lacking = [reference for reference in named if reference not in tags]
    if not lacking:
        return ""
    values = {"value": ", ".join(named), "where": "bundle_images", "images": ", ".join(lacking)}
    return render([problem("bundle_no_images", lang, **values)], lang, "").strip().replace("1. ", "", 1)


def archive_of(images: Sequence[Mapping[str, object]], engine: Sequence[Mapping[str, object]], path: str) -> Artefact:
    """The archive of the images as an artefact of the bundle; what the engine says of each image completes what is known of it."""
    by_tag = {tag: one for one in engine for tag in texts(one.get("RepoTags"))}
    complete = [
        {**image, "id": found["Id"], "layers": mapping(found["RootFS"])["Layers"]}
        for image in images
        for found in [by_tag[str(image["reference"])]]
    ]
    return {"path": path, "kind": "image", "fields": {"images": complete}}


def is_archived(bundle: str, archive: Artefact, records: Sequence[Record]) -> bool:
    """Whether a file of the bundle holds these images already, as far as its size and the manifest of an earlier run tell."""
    record = next((one for one in records if one["path"] == archive["path"]), None)
    full = os.path.join(bundle, archive["path"])
    if record is None or not os.path.isfile(full) or os.path.getsize(full) != record["size"]:
        return False
    held, asked = (
        {image["reference"]: image.get("id") for image in mappings(images)}
        for images in (record.get("images"), archive["fields"]["images"])
    )
    return held == asked


def compatibility_error(
    deployments: Deployments,
    hostvars: Hosts,
    images: Sequence[Mapping[str, object]],
    drivers: Sequence[object],
    lang: str = "en",
) -> str:
    """Why these images cannot serve the deployments that they are for, on the GPUs that are declared and with the drivers of the bundle.

    Empty if they can.
    """
    hosts = {
        host: {name: hostvars[host][name] for name in _compared_by(hostvars[host]) if name in hostvars[host]}
        for entry in deployments.values()
        for host in entry["hosts"]
    }
    found = check_images(deployments, hosts, list(images), list(drivers), lang)
    return render(found, lang, message("images_header", lang, count=len(found))) if found else ""


def drivers_of(records: Sequence[Record]) -> list[str]:
    """The versions of the drivers that a manifest lists."""
    return [str(record["version"]) for record in select(records, "driver") if record.get("version")]


def _ray_images(deployments: Deployments, hostvars: Hosts) -> list[str]:
    """The images that have to have Ray, of the engines that run with it."""
    found: list[str] = []
    for each in engine_names():
        mine = {name: entry for name, entry in deployments.items() if name_of(hostvars[entry["head"]]) == each}
        found += engine(each).images_with_ray(mine, hostvars)
    return list(dict.fromkeys(found))
