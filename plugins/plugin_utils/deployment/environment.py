# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of everything that is started on a host."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import DEVICES
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import (
    CACHE,
    ENVIRONMENT,
    RAY_TOKEN,
    SECRETS,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import is_venv
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import EnvironmentFile
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.environment_variables import OF_ENGINES, is_owned
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.secrets import is_open
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.environment import cluster_environment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key

# What is compiled when an engine starts, kept for the next start also where the container is another one: torch.compile's graphs and what else
# vLLM caches (vllm/envs.py, since 0.5.3.post1), kernels of Triton (triton/runtime/cache.py), Inductor (torch/_inductor/runtime/cache_dir_utils.py),
# FlashInfer (flashinfer/jit/env.py) and CUDA's own compiler (CUDA programming guide, environment variables).
CACHES = {
    "VLLM_CACHE_ROOT": f"{CACHE}/vllm",
    "TRITON_CACHE_DIR": f"{CACHE}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE}/inductor",
    "FLASHINFER_WORKSPACE_BASE": CACHE,
    "CUDA_CACHE_PATH": f"{CACHE}/cuda",
    # The vocabulary of gpt-oss, which roles/vllm/files/vocabulary.py makes.
    "TIKTOKEN_ENCODINGS_BASE": f"{CACHE}/tiktoken",
}


def container_environment(member: Member) -> dict[str, Any]:
    """One decision, made where the network was verified, for everything that opens a connection between hosts.

    What it holds may be seen. The rest of what the inventory asks for is in no decision: see ``closed_names``.
    """
    hosts = member.deployment.network_hosts
    found: dict[str, Any] = cluster_environment(member.host, hosts) if member.host in hosts else {}
    if "VLLM_HOST_IP" in found and release_key(member.deployment.vllm_version) < release_key(
        changes.VLLM_HOST_IP_SINCE
    ):
        found["HOST_IP"] = found["VLLM_HOST_IP"]
    found |= {
        "NVIDIA_VISIBLE_DEVICES": str(member.variables.get(DEVICES) or "all"),
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    if not member.enabled("ray_memory_monitor_enabled"):
        found["RAY_memory_monitor_refresh_ms"] = "0"
    if member.deployment.by_ray:
        found |= _ray_token(member)
    if member.deployment.uid != container_user.ROOT:
        found |= container_user.ENVIRONMENT
    found |= {name: value for name, value in asked(member.variables).items() if is_open(name, value)}
    return {name: value if isinstance(value, (bool, str)) else str(value) for name, value in found.items()}


def asked(variables: Mapping[str, Any]) -> dict[str, Any]:
    """What the inventory sets for Ray and vLLM on a host."""
    found: dict[str, Any] = {}
    for variable in OF_ENGINES:
        # What was not known when the inventory was checked sets nothing of the collection's own either.
        found |= {name: value for name, value in variables[variable].items() if not is_owned(variable, name)}
    return found


def closed_names(member: Member) -> list[str]:
    """The variables of these whose values may be secrets: a program reads them from a file when it starts."""
    return sorted(name for name, value in asked(member.variables).items() if not is_open(name, value))


def environment_file(member: Member, kind: str) -> EnvironmentFile:
    """That file of ``ray`` or ``vllm`` on the host and in its container, with the names of the variables; none where there are no such variables.

    A unit has all of its variables in one file.
    """
    names = closed_names(member)
    path = f"{member.folder}/secrets/{kind}{ENVIRONMENT}"
    return {"names": names, "path": "" if is_venv(member.variables) else path}


def environment_place(member: Member, kind: str) -> str:
    """Where the program finds the file in its container, or nothing."""
    found = environment_file(member, kind)
    return f"{SECRETS}/{posixpath.basename(found['path'])}" if found["names"] and found["path"] else ""


def _ray_token(member: Member) -> dict[str, str]:
    """Ray reads its token from a file, so that neither a process list nor 'docker inspect' shows it.

    Since Ray 2.52: https://docs.ray.io/en/latest/ray-security/token-auth.html. Older releases ignore the variables.
    """
    if member.enabled("ray_token_enabled"):
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": member.ray_token_file if is_venv(member.variables) else RAY_TOKEN,
        }
    return {"RAY_AUTH_MODE": "disabled"}
