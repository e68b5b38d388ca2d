# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the bundle holds what the deployments need, where nothing is fetched."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import MANIFEST_NAME, SCHEMA
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.compatibility import image_problems, planned_driver
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import stands_for
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import (
    SOURCE,
    model_variables,
    needed_models,
    source_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import PYTHON, VENV
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, VARIABLE, engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.web_ui import GROUP as PAGE_GROUP
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.gpu_exporters import IMAGE, WISH
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, is_unresolved, mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, shown, spoken
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.dcgm import DCGM, gpu_exporter, refusal


class _Held(NamedTuple):
    """What the bundle of a deployment holds."""

    directory: str
    files: list[Mapping[str, object]]

    @property
    def models(self) -> list[str]:
        return sorted({str(file["model"]) for file in self.files if file.get("kind") == "model" and file.get("model")})

    @property
    def images(self) -> list[Mapping[str, object]]:
        return [image for file in self.files if file.get("kind") == "image" for image in mappings(file.get("images"))]

    @property
    def environments(self) -> list[str]:
        """The releases of the engine of which hosts can make an environment."""
        release = engine(DEFAULT).release_in_image
        made = [file for file in self.files if file.get("kind") == "python" and file.get("environment")]
        return sorted({str(file.get(release)) for file in made})

    @property
    def references(self) -> list[str]:
        return [str(image.get("reference")) for image in self.images]

    @property
    def drivers(self) -> list[object]:
        return [file.get("version") for file in self.files if file.get("kind") == "driver"]


def read_manifest(directory: str) -> dict[str, object]:
    """``{manifest, error}`` of a bundle. What was read is checked later."""
    try:
        with open(os.path.join(directory, MANIFEST_NAME), encoding="utf-8") as stream:
            # An empty file is a broken manifest, not a missing one.
            return {"manifest": read_yaml(stream.read()) or {}, "error": None}
    except (FileNotFoundError, NotADirectoryError):
        return {"manifest": None, "error": None}
    except (OSError, ValueError) as error:
        return {"manifest": None, "error": " ".join(str(spoken(error)).split())[:200]}


def read_bundles(
    hosts: Mapping[str, Mapping[str, object]],
    known: Mapping[str, Mapping[str, object]],
    full_path: Callable[[str], str],
) -> dict[str, dict[str, object]]:
    """The manifests of all bundle directories that the inventory names."""
    default = known.get("llm_bundle_dir", {}).get("default")
    named = dict.fromkeys(
        directory
        for directory in (variables.get("llm_bundle_dir") or default for variables in hosts.values())
        if isinstance(directory, str) and not is_unresolved(directory)
    )
    return {directory: read_manifest(full_path(os.path.expanduser(directory))) for directory in named}


def bundle_problems(inventory: Inventory, bundles: Mapping[str, Mapping[str, object]]) -> Problems:
    """A directory that is missing or of no use once, then what each deployment does not find in its own."""
    said: set[str] = set()
    for deployment, members in inventory.deployments.items():
        if not members:
            continue
        head = inventory.head(members)
        if not is_true(inventory.get(head, "llm_offline")) or inventory.is_open(head, "llm_bundle_dir"):
            continue
        wanted = inventory.get(head, "llm_bundle_dir")
        directory = "" if wanted is None else str(wanted)
        bundle = bundles.get(directory, {})
        useless = _directory_problem(inventory, head, directory, bundle)
        if not useless:
            held = _Held(directory, mappings(mapping(bundle["manifest"]).get("files")))
            yield from _model_problems(inventory, deployment, head, held)
            if inventory.setting(head, "runtime") == VENV:
                yield from _environment_problems(inventory, deployment, head, held)
            else:
                yield from _image_problems(inventory, deployment, head, held)
        elif directory not in said:
            said.add(directory)
            yield useless
    yield from _service_problems(inventory, bundles)


def _service_problems(inventory: Inventory, bundles: Mapping[str, Mapping[str, object]]) -> Problems:
    """Whether services find their images; a bundle that is of no use is said with the deployments."""
    watching = inventory.members("llm_monitoring")[:1]  # what the first says counts for all
    full = [host for host in watching if inventory.get(host, "monitoring_mode") == "full"]
    for code, variable, hosts in (
        ("web_ui_not_bundled", "web_ui_image", inventory.members(PAGE_GROUP)),
        ("grafana_not_bundled", "monitoring_grafana_image", full),
    ):
        for host in hosts:
            held, wanted = _held_for(inventory, host, bundles), str(inventory.get(host, variable) or "")
            if held and wanted and wanted not in held.references:
                where = inventory.where(variable, host)
                yield inventory.problem(code, value=inventory.text(wanted), where=where, path=held.directory)
    members = dict.fromkeys(host for members in inventory.deployments.values() for host in members)
    for host in members if watching else ():
        said = {name: inventory.get(host, name) for name in (WISH, IMAGE)}
        asked = said[WISH] == DCGM and said[IMAGE] and is_true(inventory.get(host, "monitoring_exporter_enabled"))
        held = _held_for(inventory, host, bundles) if asked else None
        if held and said[IMAGE] not in held.references:
            found = gpu_exporter(host, said, held.references, inventory.lang)
            yield {**refusal(host, found, inventory.lang), "where": inventory.where(WISH, host)}


def _held_for(inventory: Inventory, host: str, bundles: Mapping[str, Mapping[str, object]]) -> _Held | None:
    """What a host that fetches nothing finds; None where there is nothing to compare with."""
    directory = str(inventory.get(host, "llm_bundle_dir") or "")
    bundle = bundles.get(directory, {})
    if inventory.is_open(host, "llm_bundle_dir") or not is_true(inventory.get(host, "llm_offline")):
        return None
    if _directory_problem(inventory, host, directory, bundle) is not None:
        return None
    return _Held(directory, mappings(mapping(bundle["manifest"]).get("files")))


def _directory_problem(
    inventory: Inventory, head: str, directory: str, bundle: Mapping[str, object]
) -> dict[str, str] | None:
    where = inventory.where("llm_bundle_dir", head)
    if not directory:
        return inventory.problem("bundle_dir_missing", where=where)
    text = inventory.text(directory)
    fault = _manifest_fault(bundle, inventory.lang)
    if fault:
        return inventory.problem("bundle_unreadable", value=text, where=where, reason=fault, schema=SCHEMA)
    if bundle.get("manifest") is None:
        path = posixpath.join(directory, MANIFEST_NAME)
        return inventory.problem("bundle_missing", value=text, where=where, path=path)
    return None


def _manifest_fault(bundle: Mapping[str, object], lang: str) -> str:
    """Why a bundle's manifest is of no use, in words; nothing if it can be used or if there is none."""
    manifest = bundle.get("manifest")
    if bundle.get("error"):
        return " ".join(str(bundle["error"]).split())
    if manifest is None:
        return ""
    if not isinstance(manifest, Mapping):
        return message("bundle_not_a_mapping", lang)
    if manifest.get("schema") != SCHEMA:
        return message("bundle_schema", lang, found=shown(manifest.get("schema"), lang))
    return ""


def _model_problems(inventory: Inventory, deployment: str, head: str, held: _Held) -> Problems:
    mine = inventory.engine(head)
    said = {name: inventory.get(head, name) for name in (*model_variables(mine), SOURCE)} | {VARIABLE: mine.name}
    for model, variable in needed_models(said).items():
        if model.startswith("/") or "://" in model or model in held.models or source_of(said, model).scheme:
            continue
        yield inventory.problem(
            "bundle_without_model",
            value=inventory.text(model),
            where=inventory.where(variable, head, deployment),
            deployment=deployment,
            path=held.directory,
            models=inventory.names(held.models),
        )


def _environment_problems(inventory: Inventory, deployment: str, head: str, held: _Held) -> Problems:
    """Wheels of the release, where the host makes its environment. Whether they are for its Python is known when the host was looked at."""
    variable, python = inventory.variable(head, "version"), inventory.variable(head, PYTHON)
    version = str(inventory.get(head, variable) or "")
    if inventory.get(head, python) or any(inventory.is_open(head, name) for name in (python, variable)):
        return
    if version not in held.environments:
        yield inventory.problem(
            "bundle_without_environment",
            value=inventory.text(version),
            where=inventory.where(variable, head, deployment),
            deployment=deployment,
            path=held.directory,
            releases=inventory.names(held.environments),
        )


def _image_problems(inventory: Inventory, deployment: str, head: str, held: _Held) -> Problems:
    version, mine = inventory.setting(head, "version"), inventory.engine(head)
    version, image = version if isinstance(version, str) else "", inventory.variable(head, "image")
    if inventory.get(head, image):
        yield from _named_image_problems(inventory, deployment, head, held, version)
    elif version and not inventory.is_open(head, image):
        release, official = mine.release_in_image, mine.image(version)
        match = [
            each
            for each in held.images
            if (same_release(version, str(each.get(release) or "")) if release else stands_for(each, official))
        ]
        if match:
            yield from _compatibility_problems(inventory, deployment, head, match[0], held)
        else:
            releases = [str(each[release]) for each in held.images if each.get(release)] if release else held.references
            yield inventory.problem(
                "bundle_without_version",
                value=inventory.text(version),
                where=inventory.where(inventory.variable(head, "version"), head, deployment),
                deployment=deployment,
                path=held.directory,
                images=inventory.names(releases),
            )


def _named_image_problems(inventory: Inventory, deployment: str, head: str, held: _Held, version: str) -> Problems:
    name = inventory.variable(head, "image")
    wanted = inventory.get(head, name)
    image = next((image for image in held.images if stands_for(image, str(wanted))), None)
    place = {"value": inventory.text(wanted), "where": inventory.where(name, head, deployment)}
    if image is None:
        references = inventory.names([image.get("reference") for image in held.images])
        yield inventory.problem(
            "bundle_without_image", **place, deployment=deployment, path=held.directory, images=references
        )
        return
    found = image.get(inventory.engine(head).release_in_image)
    if version and found and not same_release(version, found):
        yield inventory.problem("image_of_other_version", **place, deployment=deployment, found=found, wanted=version)
    yield from _compatibility_problems(inventory, deployment, head, image, held)


def _compatibility_problems(
    inventory: Inventory, deployment: str, head: str, image: Mapping[str, object], held: _Held
) -> Problems:
    """Whether the image holds code for the GPUs that are declared; those that are found are looked at later."""
    declared = [gpu for host in inventory.deployments[deployment] for gpu in mappings(inventory.get(host, "llm_gpus"))]
    driver = {name: inventory.get(head, name) for name in ("nvidia_driver_method", "nvidia_driver_version")}
    yield from image_problems(
        deployment,
        image,
        declared,
        planned_driver(driver, held.drivers),
        inventory.where(
            inventory.variable(head, "image" if inventory.setting(head, "image") else "version"), head, deployment
        ),
        inventory.lang,
    )


def same_release(wanted: object, found: object) -> bool:
    """Whether an image's release is the wanted one. A build's local part (+cpu, +cu128) matters only if it is asked for."""
    one, other = str(wanted), str(found)
    return one == other or ("+" not in one and one == other.split("+", 1)[0])
