# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment variables of Ray and vLLM, besides those of the network and those that the inventory sets."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import CACHE, RAY_TOKEN
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import is_venv
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

ALL_ADDRESS_VARIABLES = ("VLLM_HOST_IP", "HOST_IP")


def address_variables(release: str) -> tuple[str, ...]:
    """What a release calls the variable with the host's address. No release minds the name that others have for it."""
    return ALL_ADDRESS_VARIABLES[: 2 if release_key(release) < release_key(changes.VLLM_HOST_IP_SINCE) else 1]


def own_environment(member: Member) -> dict[str, str]:
    found = {"RAY_USAGE_STATS_ENABLED": "0"}
    if not member.enabled("ray_memory_monitor_enabled"):
        found["RAY_memory_monitor_refresh_ms"] = "0"
    return {**found, **(_ray_token(member) if member.deployment.by_ray else {})}


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
