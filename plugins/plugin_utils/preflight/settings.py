# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the variables of all hosts to what the check of preflight is asked. Plain data in, plain data out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import CHOSEN, own_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environments import candidates
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import gpus_of_machine, image_to_run
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import needed_models
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.ray import object_store_gib
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import (
    BASE_PYTHON,
    PYTHON,
    is_made,
    is_venv,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import is_online, manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true

Records = Sequence[Mapping[str, Any]]

LIMITS = (
    "supported_systems",
    "supported_architectures",
    "kernel_minimum",
    "disk_reserve_gib",
    "memory_reserve_gib",
    "clock_limit_seconds",
    "ecc_uncorrected_limit",
    "severities",
)
# What the hosts of a deployment have to agree on, so that it is asked of those outside of the run, too.
SHARED = {
    "gpus": "llm_gpus",
    "interface": "llm_cluster_interface",
    "network": "llm_cluster_network",
    "tensor_parallel_size": "vllm_tensor_parallel_size",
    "pipeline_parallel_size": "vllm_pipeline_parallel_size",
}
# What was found on a host, as facts with llm_ before their names.
FOUND = ("disks", "gpu", "host", "environment", "base_python")
_PORT = re.compile(r"(vllm|ray)_(.*_)?port")


def check_arguments(
    deployments: Mapping[str, Mapping[str, Any]],
    fleet: Mapping[str, Mapping[str, Any]],
    selected: Sequence[str],
    role: Mapping[str, Any],
    read_bundle: Callable[[str], Records],
    names: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The arguments of ``check_hosts`` for the deployments with a host in this run.

    ``fleet`` holds the variables of every host, ``selected`` names the hosts of the run and ``role`` holds the variables of the
    role preflight. ``read_bundle`` returns the records of a bundle's manifest, and ``names`` says which hosts are one machine.
    """
    concerned = {name: entry for name, entry in deployments.items() if not set(selected).isdisjoint(entry["hosts"])}
    hosts = [host for entry in concerned.values() for host in entry["hosts"]]
    facts = {host: _gathered(fleet[host]) for host in hosts}
    settings: dict[str, dict[str, Any]] = {}
    chosen, _problems = own_gpus(hosts, fleet, names or {}, gpus_of_machine)
    for host in hosts:
        variables = fleet[host]
        settings[host] = {key: variables.get(name) for key, name in SHARED.items()}
        sharing = names_on(host, names or {})["sharing"]
        if len(sharing) > 1:
            settings[host]["sharing"] = sharing
        if host in chosen:
            settings[host]["own_gpus"] = chosen[host][CHOSEN]
        if host in selected:
            bundle = bundle_of(variables, role)
            settings[host] |= _wanted(variables, read_bundle(bundle) if bundle else ())
            settings[host] |= _made(variables, role, read_bundle)
            settings[host] |= {key: facts[host].get(f"llm_{key}") for key in FOUND}
    limits = {name: role[f"preflight_{name}"] for name in LIMITS}
    return {"deployments": concerned, "facts": facts, "settings": settings, "limits": limits}


def bundle_of(variables: Mapping[str, Any], role: Mapping[str, Any]) -> str:
    """The folder whose manifest says what a host gets; empty where none is needed."""
    needed = is_true(variables["llm_offline"]) or is_online(variables)
    return manifest_folder(variables) if needed and is_true(role["preflight_bundle_required"]) else ""


def _gathered(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a host; nothing if it did not answer."""
    facts = variables.get("ansible_facts") or {}
    return dict(facts) if "llm_gpu" in facts else {}


def _wanted(variables: Mapping[str, Any], records: Records) -> dict[str, Any]:
    """What a host is asked for, and what the bundle holds for it."""
    options = variables.get("vllm_options") or {}
    return {
        "executor": variables["vllm_executor"],
        "python": variables.get(PYTHON) if is_venv(variables) else None,
        "vllm_version": variables["vllm_version"],
        "cpu_offload_gib": options.get("cpu_offload_gb") or 0,
        "swap_space_gib": options.get("swap_space") or 0,
        "object_store_gib": object_store_gib(variables),
        "driver_method": variables["nvidia_driver_method"],
        "driver_version": variables["nvidia_driver_version"],
        "docker_method": variables["docker_method"],
        "docker_address_pools": variables["docker_address_pools"],
        "offline": is_true(variables["llm_offline"]),
        "ports": {name: variables[name] for name in variables if _PORT.fullmatch(name)},
        "model_bytes": sum(record["size"] for record in records if _is_of_model(record, variables)),
        "drivers": [record["version"] for record in records if record["kind"] == "driver" and "version" in record],
        "image": _image(variables, records),
    }


def _is_of_model(record: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    return bool(record["kind"] == "model" and record.get("model") in needed_models(variables))


def _made(
    variables: Mapping[str, Any], role: Mapping[str, Any], read_bundle: Callable[[str], Records]
) -> dict[str, Any]:
    """Where the host makes an environment: on which Python, what the bundle holds wheels for, and whether they fit what was found.

    The wheels come from the bundle also where other things do not.
    """
    if not is_made(variables) or not is_true(role["preflight_bundle_required"]):
        return {}
    found = _gathered(variables).get("llm_base_python") or {}
    held = candidates(variables, read_bundle(str(variables["llm_bundle_dir"])))
    environments = [{"python": each.python, "glibc": each.glibc, "fits": each.fits(found)} for each in held]
    return {"base": variables[BASE_PYTHON], "environments": environments}


def _image(variables: Mapping[str, Any], records: Records) -> Mapping[str, Any]:
    """The bundle's record of the image that the host will run."""
    reference = image_to_run(variables, records)
    images = [image for record in records for image in record.get("images") or ()]
    return next((image for image in images if image.get("reference") == reference), {})
