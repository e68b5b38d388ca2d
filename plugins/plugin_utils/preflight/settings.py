# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the variables of all hosts to what the check of preflight is asked. Plain data in, plain data out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import CHOSEN, own_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import (
    gpus_of_machine,
    image_to_run,
    is_reduced,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import needed_models
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.python_environments import candidates
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import (
    BASE_PYTHON,
    PYTHON,
    is_made,
    is_venv,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Names
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import VARIABLE, engine_of, setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import is_online, manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import facts_of, mapping, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, mappings

Records = Sequence[Mapping[str, object]]

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
# Ports on the hosts of a group, by the variable that moves them where there is one. Where the program is one of a distribution, that may hold its port.
SERVICES = (
    ("llm_gateway", "gateway_https_port", 443, ""),
    ("llm_gateway", "gateway_http_port", 80, ""),
    ("llm_web_ui", "web_ui_port", 8443, ""),
    ("llm_monitoring", "", 9090, "prometheus"),
    ("llm_monitoring", "", 9093, "prometheus-alertmanager"),
    ("llm_monitoring", "monitoring_grafana_port", 3000, ""),
)
# And on every host, where somebody watches.
WATCHED = (("monitoring_exporter_port", 9100, "prometheus-node-exporter"),)
# What the hosts of a deployment have to agree on, so that it is asked of those outside of the run, too.
SHARED = {
    "gpus": "llm_gpus",
    "interface": "llm_cluster_interface",
    "network": "llm_cluster_network",
}
# What was found on a host, as facts with llm_ before their names.
FOUND = ("disks", "gpu", "host", "environment", "base_python")


class Arguments(TypedDict):
    """What ``check_hosts`` takes, beside the language."""

    deployments: dict[str, DeploymentHosts]
    facts: dict[str, dict[str, object]]
    settings: dict[str, dict[str, object]]
    limits: dict[str, object]


def check_arguments(
    deployments: Mapping[str, DeploymentHosts],
    fleet: Mapping[str, Mapping[str, object]],
    selected: Sequence[str],
    role: Mapping[str, object],
    read_bundle: Callable[[str], Records],
    names: Mapping[str, Names] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> Arguments:
    """The arguments of ``check_hosts`` for the deployments with a host in this run.

    ``fleet`` holds the variables of every host, ``selected`` names the hosts of the run and ``role`` holds the variables of the
    role preflight. ``read_bundle`` returns the records of a bundle's manifest, ``names`` says which hosts are one machine, and ``groups`` has the hosts of
    each group.
    """
    concerned = {name: entry for name, entry in deployments.items() if not set(selected).isdisjoint(entry["hosts"])}
    hosts = [host for entry in concerned.values() for host in entry["hosts"]]
    facts = {host: _gathered(fleet[host]) for host in hosts}
    reduced = {host for entry in concerned.values() if is_reduced(entry) for host in entry["hosts"]}
    settings: dict[str, dict[str, object]] = {}
    chosen, _problems = own_gpus(hosts, fleet, names or {}, gpus_of_machine)
    for host in hosts:
        variables = fleet[host]
        settings[host] = {key: variables.get(name) for key, name in SHARED.items()}
        if host not in reduced:
            settings[host] |= {name: setting(variables, name) for name in engine_of(variables).of_all_hosts}
        sharing = names_on(host, names or {})["sharing"]
        if len(sharing) > 1:
            settings[host]["sharing"] = sharing
        if host in chosen:
            settings[host]["own_gpus"] = chosen[host][CHOSEN]
        if host in selected:
            bundle = bundle_of(variables, role)
            settings[host] |= _wanted(variables, read_bundle(bundle) if bundle else ())
            settings[host] |= _made(variables, role, read_bundle)
            settings[host]["services"] = services_on(host, variables, groups or {})
            settings[host] |= {key: facts[host].get(f"llm_{key}") for key in FOUND}
    limits = {name: role[f"preflight_{name}"] for name in LIMITS}
    return {"deployments": concerned, "facts": facts, "settings": settings, "limits": limits}


def services_on(
    host: str, variables: Mapping[str, object], groups: Mapping[str, Sequence[str]]
) -> list[dict[str, object]]:
    """The ports that services of the collection will have on a host, besides its deployment."""
    wanted = [(variable, port, program) for group, variable, port, program in SERVICES if host in groups.get(group, ())]
    if groups.get("llm_monitoring") and is_true(variables.get("monitoring_exporter_enabled", True)):
        wanted += WATCHED
    found = []
    for variable, port, program in wanted:
        said = variables.get(variable, port) if variable else port
        if number := digits(str(said)):
            found.append({"port": number, "variable": variable, "program": program})
    return found


def bundle_of(variables: Mapping[str, object], role: Mapping[str, object]) -> str:
    """The folder whose manifest says what a host gets; empty where none is needed."""
    needed = is_true(variables["llm_offline"]) or is_online(variables)
    return manifest_folder(variables) if needed and is_true(role["preflight_bundle_required"]) else ""


def _gathered(variables: Mapping[str, object]) -> dict[str, object]:
    """The facts of a host; nothing if it did not answer."""
    facts = facts_of(variables)
    return dict(facts) if "llm_gpu" in facts else {}


def _wanted(variables: Mapping[str, object], records: Records) -> dict[str, object]:
    """What a host is asked for, and what the bundle holds for it."""
    options = mapping(setting(variables, "options"))
    port = re.compile(rf"(?:{'|'.join(engine_of(variables).roles)})_(.*_)?port")
    return {
        "executor": setting(variables, "executor", "uni"),
        "python": setting(variables, PYTHON) if is_venv(variables) else None,
        "engine_version": setting(variables, "version"),
        "cpu_offload_gib": options.get("cpu_offload_gb") or 0,
        "swap_space_gib": options.get("swap_space") or 0,
        "object_store_gib": engine_of(variables).shared_memory_gib(variables),
        "driver_method": variables["nvidia_driver_method"],
        "driver_version": variables["nvidia_driver_version"],
        "docker_method": variables["docker_method"],
        "docker_version": variables.get("docker_version"),
        "docker_address_pools": variables["docker_address_pools"],
        "docker_registry_mirrors": variables.get("docker_registry_mirrors"),
        "docker_repository_url": variables.get("docker_repository_url"),
        "pulls": is_online(variables),
        "registry_credentials": bool(variables.get("bundle_registry_credentials")),
        "toolkit_method": variables.get("nvidia_container_toolkit_method"),
        "toolkit_repository_url": variables.get("nvidia_container_toolkit_repository_url"),
        "power_limit_watts": variables.get("nvidia_driver_power_limit_watts"),
        "host_dir": variables.get("llm_host_dir"),
        "offline": is_true(variables["llm_offline"]),
        "ports": {name: variables[name] for name in variables if name == VARIABLE or port.fullmatch(name)},
        "model_bytes": sum(whole(record["size"]) for record in records if _is_of_model(record, variables)),
        "drivers": [record["version"] for record in records if record["kind"] == "driver" and "version" in record],
        "image": _image(variables, records),
    }


def _is_of_model(record: Mapping[str, object], variables: Mapping[str, object]) -> bool:
    return bool(record["kind"] == "model" and record.get("model") in needed_models(variables))


def _made(
    variables: Mapping[str, object], role: Mapping[str, object], read_bundle: Callable[[str], Records]
) -> dict[str, object]:
    """Where the host makes an environment: on which Python, what the bundle holds wheels for, and whether they fit what was found.

    The wheels come from the bundle also where other things do not.
    """
    if not is_made(variables) or not is_true(role["preflight_bundle_required"]):
        return {}
    found = mapping(_gathered(variables).get("llm_base_python"))
    held = candidates(variables, read_bundle(str(variables["llm_bundle_dir"])))
    environments = [{"python": each.python, "glibc": each.glibc, "fits": each.fits(found)} for each in held]
    return {"base": setting(variables, BASE_PYTHON), "environments": environments}


def _image(variables: Mapping[str, object], records: Records) -> Mapping[str, object]:
    """The bundle's record of the image that the host will run."""
    reference = image_to_run(variables, records)
    images = [image for record in records for image in mappings(record.get("images"))]
    return next((image for image in images if image.get("reference") == reference), {})
