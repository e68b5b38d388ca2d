# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuses an image that holds no code for the GPUs it shall run on, or that needs a newer driver, and names the release that works."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import (
    capability,
    code_for,
    held,
    lowest_driver,
    older,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import image_reference, stands_for
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem, shown
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import image_serves, recommended_release
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import releases

# What hosts are: README.md, Requirements.
PLATFORM = "linux/amd64"


def image_problems(
    deployment: str,
    image: Mapping[str, Any],
    gpus: Iterable[Any],
    driver: Any = None,
    where: str = "",
    lang: str = "en",
) -> list[dict[str, str]]:
    """Why this image, as the manifest describes it, cannot serve GPUs of these compute capabilities with this driver.

    Only what is known is checked: an image that nobody looked into passes, and so do GPUs and drivers of which nothing is known.
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
    wanted = _known(gpus)
    code = held(image)
    if not code:
        return [
            problem(
                "image_without_cuda",
                lang,
                value=shown(image.get("reference"), lang),
                where=where,
                deployment=deployment,
                advice=_advice(wanted, driver, lang),
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
                    advice=_advice(wanted, driver, lang),
                )
            )
    through_ptx = any("compute" in of_gpu for of_gpu in kinds.values())
    lowest = lowest_driver(str(image.get("cuda_version") or ""), through_ptx)
    if not found and driver and lowest and older(str(driver), lowest):
        found.append(
            problem(
                "image_needs_driver",
                lang,
                value=shown(str(driver), lang),
                where=where,
                deployment=deployment,
                cuda=image.get("cuda_version"),
                lowest=lowest,
                image=image.get("reference"),
                advice=_advice(wanted, driver, lang),
            )
        )
    return found


def check_images(
    deployments: Mapping[str, Mapping[str, Any]],
    hosts: Mapping[str, Mapping[str, Any]],
    images: Sequence[Mapping[str, Any]],
    drivers: Sequence[Any] = (),
    lang: str = "en",
) -> list[dict[str, str]]:
    """The same for all deployments of an inventory, from the GPUs that it declares and the drivers of the bundle."""
    found: list[dict[str, str]] = []
    for name, entry in deployments.items():
        reference = image_reference(hosts[entry["head"]])
        image = next((one for one in images if stands_for(one, reference)), None)
        if image is None:
            continue
        gpus: list[Any] = []
        for host in entry["hosts"]:
            gpus += [gpu.get("compute_capability") for gpu in hosts[host].get("llm_gpus") or []]
        where = message("where_group", lang, group=name)
        found += image_problems(name, image, gpus, planned_driver(hosts[entry["head"]], drivers), where, lang)
    return found


def planned_driver(variables: Mapping[str, Any], drivers: Sequence[Any]) -> str | None:
    """The driver that a host will have: the one that is set for it, else the only one of the bundle; None where it brings its own."""
    if variables.get("nvidia_driver_method") == "present":
        return None
    said = str(variables.get("nvidia_driver_version") or "")
    known = sorted({str(driver) for driver in drivers})
    return said or (known[0] if len(known) == 1 else None)


def _known(gpus: Any) -> list[tuple[int, int]]:
    """The capabilities that can be read. Unknown and malformed ones are reported elsewhere."""
    known = set()
    for gpu in gpus if isinstance(gpus, Iterable) else ():
        try:
            known.add(capability(gpu))
        except ValueError:
            continue
    return sorted(known)


def _advice(gpus: Sequence[tuple[int, int]], driver: Any, lang: str) -> str:
    """The release to use instead: the newest one whose official image works, and the one that serves the oldest GPU best."""
    serving = [version for version in releases() if all(image_serves(version, gpu) for gpu in gpus)]
    working = [version for version in serving if not (driver and older(str(driver), RELEASES[version].driver))]
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
        return str(recommended_release("{0}.{1}".format(*gpu))["vllm_version"])
    except InputError:
        return None
