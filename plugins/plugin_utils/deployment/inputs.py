# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a deployment's variables and the bundle to what the planner is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import held
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import CHOSEN, FREE
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.python_environments import environment_for
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import CAPABILITIES, is_made, is_venv
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import ABSENT
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
CONTEXT = "max_model_len"
# What CUDA takes of a GPU for the process itself, before vLLM looks how much is free: the least of CONTEXT_LEAST_BYTES in planner/predict.py.
CONTEXT_MIB = 0.09 * 1024
# https://docs.ray.io/en/latest/ray-security/token-auth.html
RAY_TOKEN_SINCE = (2, 52)
# How many hosts have what; facts come from preflight, the other from the inventory.
FOUND, DECLARED = "llm_gpus_found", "llm_gpus"


def image_reference(variables: Mapping[str, Any]) -> str:
    """The container image of a deployment: vllm_image, else the official one of its release; empty where it runs in no container."""
    if is_venv(variables):
        return ""
    return str(variables.get("vllm_image") or "vllm/vllm-openai:v{0}".format(variables["vllm_version"]))


def image_to_run(variables: Mapping[str, Any], records: Sequence[Mapping[str, Any]] = ()) -> str:
    """What the hosts run: the image of the bundle's records that stands for the deployment's, else that one itself."""
    reference = image_reference(variables)
    return str(_image_of(records, reference).get("reference") or reference)


def ray_is_in_image(vllm_version: str) -> bool:
    """Whether the official image of a release brings Ray, as far as the version can be read; the planner checks the rest."""
    key = release_key(vllm_version) if vllm_version[:1].isdigit() else ()
    return key <= release_key(RAY_IN_IMAGE_LAST)


def ray_without_token(variables: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> str:
    """The release of Ray in a deployment's image or environment if it is known and has no token; empty otherwise."""
    version = _ray_version(variables, records) or ""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    return version if numbers and numbers < RAY_TOKEN_SINCE else ""


def _ray_version(variables: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> str | None:
    """Ray's release in the image or in the environment; None where that is not known, empty where there is none.

    What an environment that somebody has made holds is known once a host was looked at.
    """
    if is_made(variables):
        mine = environment_for(variables, records)
        return mine.ray if mine else None
    if is_venv(variables):
        found = (variables.get("ansible_facts") or {}).get("llm_environment") or {}
        return str(found["ray"]) if "ray" in found else None
    return str(_image_of(records, image_reference(variables)).get("ray_version") or "") or None


def stands_for(image: Mapping[str, Any], reference: str) -> bool:
    """Whether an image of the bundle is the one that a deployment names, or is made from it: Ray was added."""
    base = image.get("base")
    return reference in (
        image.get("reference"),
        image.get("id"),
        base.get("reference") if isinstance(base, Mapping) else None,
    )


def ray_images(deployments: Mapping[str, Mapping[str, Any]], hostvars: Mapping[str, Mapping[str, Any]]) -> list[str]:
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
    deployment: Mapping[str, Any],
    hostvars: Mapping[str, Mapping[str, Any]],
    manifest: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What plan_deployment is asked for one deployment.

    deployment: ``{hosts: [...], head: host}``, with ``absent`` where hosts do not take part.

    Returns ``{nodes, request, config}``: nodes and request as plan_deployment takes
    them, config the path of the model's config.json, relative to the bundle or absolute, None if nothing names one.
    """
    head = hostvars[deployment["head"]]
    order = [deployment["head"]] + [host for host in deployment["hosts"] if host != deployment["head"]]
    request: dict[str, Any] = dict(head.get("vllm_options") or {})
    for setting in SETTINGS:
        name = setting if setting.startswith("vllm_") else "vllm_" + setting
        if head.get(name) is not None:
            request[setting] = head[name]
    if is_reduced(deployment):
        request = {name: said for name, said in request.items() if name not in OF_ALL_HOSTS}
    if head.get("vllm_executor", "auto") != "auto":
        request["distributed_executor_backend"] = head["vllm_executor"]
    read = {name: str(value) for name, value in (head.get("vllm_environment") or {}).items() if _is_read(str(name))}
    if read:
        request["environment"] = read
    records: list[Mapping[str, Any]] = list((manifest or {}).get("files") or [])
    image = _image_of(records, image_reference(head))
    code = held(image)
    if code:
        request["cuda_code"] = code
    if image.get("compute_capabilities"):
        request["compute_capabilities"] = image["compute_capabilities"]
    if is_venv(head) and head.get(CAPABILITIES):
        request["compute_capabilities"] = [str(each) for each in head[CAPABILITIES]]
    free = [float(hostvars[host][FREE]) for host in order if hostvars[host].get(FREE) is not None]
    if free:
        request["free_memory_mib"] = min(free) - CONTEXT_MIB
    ray = _ray_version(head, records)
    request["image_has_ray"] = ray_is_in_image(str(head.get("vllm_version") or "")) if ray is None else bool(ray)
    return {
        "nodes": [{"host": host, "gpus": gpus_of(hostvars[host]), **_memory(hostvars[host])} for host in order],
        "request": request,
        "config": _config_path(records, head),
    }


def is_reduced(deployment: Mapping[str, Any]) -> bool:
    """Whether hosts of a deployment do not take part in it."""
    return bool((deployment.get(ABSENT) or {}).get("hosts"))


def _is_read(name: str) -> bool:
    """Whether the planner looks at a variable: those of the programs that it knows, and no secret."""
    return name.startswith(PREFIXES) and not name.endswith(("_KEY", "_TOKEN", "_PASSWORD"))


def gpus_of(variables: Mapping[str, Any]) -> list[Any]:
    """The GPUs of a host's deployment: those that were chosen for it, else all of its machine; none where they are not known."""
    chosen = variables.get(CHOSEN)
    return gpus_of_machine(variables) if chosen is None else list(chosen)


def gpus_of_machine(variables: Mapping[str, Any]) -> list[Any]:
    """The GPUs that were found on a host's machine, else those that the inventory names; none where neither is known."""
    found = (variables.get("ansible_facts") or {}).get(FOUND)
    return list(found or variables.get(DECLARED) or [])


def _memory(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The memory of the host, once it was looked at."""
    found = (variables.get("ansible_facts") or {}).get("llm_memory_mib")
    return {"memory_mib": found} if found else {}


def _image_of(records: Sequence[Mapping[str, Any]], reference: str) -> Mapping[str, Any]:
    for record in records:
        for image in record.get("images") or []:
            if stands_for(image, reference):
                found: Mapping[str, Any] = image
                return found
    return {}


def _config_path(records: list[Mapping[str, Any]], variables: Mapping[str, Any]) -> str | None:
    if variables.get("vllm_model_config"):
        return str(variables["vllm_model_config"])
    for record in records:
        if record.get("model") == variables.get("vllm_model") and str(record["path"]).endswith("/config.json"):
            return str(record["path"])
    return None
