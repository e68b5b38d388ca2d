# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a deployment's variables and the bundle to what vLLM's planner is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import held
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import FREE
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import (
    config_path,
    gpus_of,
    image_of,
    image_reference,
    is_reduced,
    memory_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.python_environments import environment_for
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import CAPABILITIES, is_made, is_venv
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Inputs
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import fact, mapping, number, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.version_changes import RAY_IN_IMAGE_LAST
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.environment import PREFIXES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key

# Settings that are variables of their own (vllm_<setting>); any other option of the engine stands in vllm_options.
SETTINGS = (
    "vllm_version",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "max_model_len",
    "gpu_memory_utilization",
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enforce_eager",
    "objective",
    "interconnect",
    "accept_unknown_release",
    "flavour",
)
# How many GPUs a model is spread over is said for all hosts of a deployment: with fewer of them, the planner chooses.
OF_ALL_HOSTS = ("tensor_parallel_size", "pipeline_parallel_size")
# What CUDA takes of a GPU for the process itself, before vLLM looks how much is free: the least of CONTEXT_LEAST_BYTES in planner/predict.py.
CONTEXT_MIB = 0.09 * 1024
# https://docs.ray.io/en/latest/ray-security/token-auth.html
RAY_TOKEN_SINCE = (2, 52)


def ray_is_in_image(vllm_version: str) -> bool:
    """Whether the official image of a release brings Ray, as far as the version can be read; the planner checks the rest."""
    key = release_key(vllm_version) if digits(vllm_version[:1]) is not None else ()
    return key <= release_key(RAY_IN_IMAGE_LAST)


def ray_without_token(variables: Mapping[str, object], records: Sequence[Mapping[str, object]]) -> str:
    """The release of Ray in a deployment's image or environment if it is known and has no token; empty otherwise."""
    version = _ray_version(variables, records) or ""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    return version if numbers and numbers < RAY_TOKEN_SINCE else ""


def plan_warnings(
    plan: Mapping[str, object], head: Mapping[str, object], records: Sequence[Mapping[str, object]], language: str
) -> list[str]:
    """What a plan says of the Ray that it would run with."""
    version = ray_without_token(head, records)
    if not (plan["ok"] and plan["executor"] == "ray" and version):
        return []
    return [message("ray_without_token_warning", language, version=version)]


def plan_problems(
    name: str,
    asked: DeploymentHosts,
    plan: Mapping[str, object],
    variables: Mapping[str, Mapping[str, object]],
    records: Sequence[Mapping[str, object]],
    language: str,
) -> list[dict[str, str]]:
    """A token was asked for that Ray does not know, and no firewall stands in for it."""
    version = ray_without_token(variables[asked["head"]], records)
    exposed = [
        host
        for host in asked["hosts"]
        if is_true(variables[host].get("ray_token_enabled", True))
        and not is_true(variables[host].get("llm_firewall_enabled", True))
    ]
    if plan["executor"] != "ray" or not version or not exposed:
        return []
    return [
        problem(
            "ray_without_token",
            language,
            value="llm_firewall_enabled: false",
            where=message("where_group", language, group=name),
            deployment=name,
            version=version,
            hosts=names(exposed, language),
        )
    ]


def _ray_version(variables: Mapping[str, object], records: Sequence[Mapping[str, object]]) -> str | None:
    """Ray's release in the image or in the environment; None where that is not known, empty where there is none.

    What an environment that somebody has made holds is known once a host was looked at.
    """
    if is_made(variables):
        mine = environment_for(variables, records)
        return mine.ray if mine else None
    if is_venv(variables):
        found = fact(variables, "llm_environment")
        return str(found["ray"]) if "ray" in found else None
    return str(image_of(records, image_reference(variables)).get("ray_version") or "") or None


def ray_images(deployments: Mapping[str, DeploymentHosts], hostvars: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The images of the deployments that run with Ray: where it is asked for, and where nothing is and they have several hosts."""
    found = []
    for deployment in deployments.values():
        head = hostvars[deployment["head"]]
        executor = head.get("vllm_executor", "auto")
        with_ray = executor == "ray" or (executor == "auto" and len(deployment["hosts"]) > 1)
        if with_ray and not is_venv(head):
            found.append(image_reference(head))
    return list(dict.fromkeys(found))


def plan_inputs(
    deployment: DeploymentHosts,
    hostvars: Mapping[str, Mapping[str, object]],
    manifest: Mapping[str, object] | None = None,
) -> Inputs:
    """What plan_deployment is asked for one deployment."""
    head = hostvars[deployment["head"]]
    order = [deployment["head"]] + [host for host in deployment["hosts"] if host != deployment["head"]]
    request: dict[str, object] = dict(mapping(head.get("vllm_options")))
    for option in SETTINGS:
        name = option if option.startswith("vllm_") else "vllm_" + option
        if head.get(name) is not None:
            request[option] = head[name]
    if is_reduced(deployment):
        request = {name: said for name, said in request.items() if name not in OF_ALL_HOSTS}
    if head.get("vllm_executor", "auto") != "auto":
        request["distributed_executor_backend"] = head["vllm_executor"]
    records = mappings(mapping(manifest).get("files"))
    request |= found_facts(hostvars, order, records)
    built_for = head.get(f"vllm_{CAPABILITIES}")
    if is_venv(head) and built_for:
        request["compute_capabilities"] = texts(built_for)
    ray = _ray_version(head, records)
    request["image_has_ray"] = ray_is_in_image(str(head.get("vllm_version") or "")) if ray is None else bool(ray)
    return {
        "nodes": [{"host": host, "gpus": gpus_of(hostvars[host]), **memory_of(hostvars[host])} for host in order],
        "request": request,
        "config": config_path(records, head),
    }


def found_facts(
    hostvars: Mapping[str, Mapping[str, object]], order: Sequence[str], records: Sequence[Mapping[str, object]]
) -> dict[str, object]:
    """What the planner is told besides settings, of any engine that runs vLLM: variables of the container's environment that it reads, the code in the image,
    and how much is free on the GPUs. The head is the first of ``order``."""
    head = hostvars[order[0]]
    said = mapping(setting(head, "environment"))
    read = {name: str(value) for name, value in said.items() if _is_read(str(name))}
    image = image_of(records, image_reference(head))
    code, built_for = held(image), image.get("compute_capabilities")
    free = [number(hostvars[host][FREE]) for host in order if hostvars[host].get(FREE) is not None]
    return {
        **({"environment": read} if read else {}),
        **({"cuda_code": code} if code else {}),
        **({"compute_capabilities": built_for} if built_for else {}),
        **({"free_memory_mib": min(free) - CONTEXT_MIB} if free else {}),
    }


def _is_read(name: str) -> bool:
    """Whether the planner looks at a variable: those of the programs that it knows, and no secret."""
    return name.startswith(PREFIXES) and not name.endswith(("_KEY", "_TOKEN", "_PASSWORD"))
