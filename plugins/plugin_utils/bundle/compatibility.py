# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuses an image that holds no code for the GPUs it shall run on, or that needs a newer driver, and names the release that works."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import (
    capability,
    code_for,
    held,
    is_data_centre,
    lowest_driver,
    older,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import image_reference, stands_for
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import items
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem, shown
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import (
    RELEASE,
    image_serves,
    recommended_release,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, releases

# What hosts are: README.md, Requirements.
PLATFORM = "linux/amd64"


def image_problems(
    deployment: str,
    image: Mapping[str, object],
    gpus: Iterable[object],
    driver: object = None,
    where: str = "",
    lang: str = "en",
) -> list[dict[str, str]]:
    """Why this image, as the manifest describes it, cannot serve these GPUs with this driver.

    A GPU is {name, compute_capability}, or its compute capability alone. Only what is known is checked: an image that nobody looked into
    passes, and so do GPUs and drivers of which nothing is known.
    """
    contents = image.get("contents")
    platform = (contents.get("platform") if isinstance(contents, Mapping) else None) or PLATFORM
    if platform != PLATFORM:
        value = shown(image.get("reference"), lang)
        return [
            problem("image_platform", lang, value, where, deployment=deployment, platform=platform, wanted=PLATFORM)
        ]
    if not image.get("contents") and not image.get("compute_capabilities"):
        return []
    cards = _cards(gpus)
    wanted = sorted({gpu for _name, gpu in cards})
    others = sorted({name or "{0}.{1}".format(*gpu) for name, gpu in cards if not is_data_centre(name, gpu)})
    code = held(image)
    if not code:
        return [
            problem(
                "image_without_cuda",
                lang,
                value=shown(image.get("reference"), lang),
                where=where,
                deployment=deployment,
                advice=_advice(wanted, driver, lang, bool(others)),
            )
        ]
    found: list[dict[str, str]] = []
    kinds = {gpu: [code_for(built, gpu) for built in code.values()] for gpu in wanted}
    for gpu in wanted:
        lacking = [name for name, kind in zip(code, kinds[gpu], strict=True) if kind is None]
        if lacking:
            found.append(
                problem(
                    "image_without_code",
                    lang,
                    value=shown(image.get("reference"), lang),
                    where=where,
                    deployment=deployment,
                    capability="{0}.{1}".format(*gpu),
                    holds="; ".join("{0}: {1}".format(name, ", ".join(code[name])) for name in lacking),
                    advice=_advice(wanted, driver, lang, bool(others)),
                )
            )
    through_ptx = any("compute" in of_gpu for of_gpu in kinds.values())
    cuda = str(image.get("cuda_version") or "")
    lowest, of_cards = lowest_driver(cuda, through_ptx), False
    own = lowest_driver(forward, True) if others and (forward := _forward_cuda(image)) else None
    if lowest and own and older(lowest, own):
        cuda, lowest, of_cards = forward, own, True
    if not found and driver and lowest and older(str(driver), lowest):
        found.append(
            problem(
                "image_needs_driver",
                lang,
                value=shown(str(driver), lang),
                where=where,
                deployment=deployment,
                cuda=cuda,
                lowest=lowest,
                why=message("image_driver_of_cards", lang, cards=names(others, lang)) if of_cards else "",
                image=image.get("reference"),
                advice=_advice(wanted, driver, lang, bool(others)),
            )
        )
    return found


def check_images(
    deployments: Mapping[str, DeploymentHosts],
    hosts: Mapping[str, Mapping[str, object]],
    images: Sequence[Mapping[str, object]],
    drivers: Sequence[object] = (),
    lang: str = "en",
) -> list[dict[str, str]]:
    """The same for all deployments of an inventory, from the GPUs that it declares and the drivers of the bundle."""
    found: list[dict[str, str]] = []
    for name, entry in deployments.items():
        reference = image_reference(hosts[entry["head"]])
        image = next((one for one in images if stands_for(one, reference)), None)
        if image is None:
            continue
        gpus: list[object] = []
        for host in entry["hosts"]:
            gpus += items(hosts[host].get("llm_gpus"))
        where = message("where_group", lang, group=name)
        found += image_problems(name, image, gpus, planned_driver(hosts[entry["head"]], drivers), where, lang)
    return found


def planned_driver(variables: Mapping[str, object], drivers: Sequence[object]) -> str | None:
    """The driver that a host will have: the one that is set for it, else the only one of the bundle; None where it brings its own."""
    if variables.get("nvidia_driver_method") == "present":
        return None
    said = str(variables.get("nvidia_driver_version") or "")
    known = sorted({str(driver) for driver in drivers})
    return said or (known[0] if len(known) == 1 else None)


def _forward_cuda(image: Mapping[str, object]) -> str:
    """The CUDA whose driver libraries an image puts before those of an older driver; empty where it brings none.

    Those made from NVIDIA's images bring the libraries, of the CUDA that NVIDIA_REQUIRE_CUDA asks for, which may be newer than torch's.
    """
    version, contents = str(image.get(RELEASE) or ""), image.get("contents")
    if version and release_key(version) >= release_key(changes.DRIVER_LIBRARIES_ASKED_SINCE):
        return ""
    if not contents:
        return str(image.get("cuda_version") or "")
    required = contents.get("driver_requirement") if isinstance(contents, Mapping) else None
    found = re.search(r"cuda>=(\d+\.\d+)", str(required or ""))
    return found.group(1) if found else ""


def _cards(gpus: object) -> list[tuple[str, tuple[int, int]]]:
    """Name and capability of those whose capability can be read. Unknown and malformed ones are reported elsewhere."""
    known = []
    for gpu in gpus if isinstance(gpus, Iterable) else ():
        card = gpu if isinstance(gpu, Mapping) else {"compute_capability": gpu}
        try:
            known.append((str(card.get("name") or ""), capability(card.get("compute_capability"))))
        except ValueError:
            continue
    return known


def _advice(gpus: Sequence[tuple[int, int]], driver: object, lang: str, own_driver: bool) -> str:
    """The release to use instead: the newest one whose official image works, and the one that serves the oldest GPU best.

    ``own_driver``: whether a GPU needs the driver of the image's own CUDA.
    """
    serving = [version for version in releases() if all(image_serves(version, gpu) for gpu in gpus)]
    lowest = {
        version: lowest_driver(
            RELEASES[version].cuda,
            own_driver and release_key(version) < release_key(changes.DRIVER_LIBRARIES_ASKED_SINCE),
        )
        for version in serving
    }
    working = [version for version in serving if not (driver and older(str(driver), lowest[version] or ""))]
    if not serving:
        return message("image_advice_none", lang, gpus=names(["{0}.{1}".format(*gpu) for gpu in gpus], lang))
    if not working:
        return message("image_advice_no_driver", lang, driver=driver)
    best = _recommended(gpus[0]) if gpus else None
    if best in working and best != working[-1]:
        return message("image_advice_best", lang, best=best, newest=working[-1])
    return message("image_advice", lang, newest=working[-1])


def _recommended(gpu: tuple[int, int]) -> str | None:
    try:
        return str(recommended_release("{0}.{1}".format(*gpu))[RELEASE])
    except InputError:
        return None
