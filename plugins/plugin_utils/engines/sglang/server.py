# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang's server on a host: its command line, its container and its probe."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.filtered import filtered_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment, Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.on_request import inner_port, is_local
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import CACHE
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Started
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang.arguments import NAME, sglang_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import LOOPBACK

# Who starts the server (roles/sglang/files), with the Python of the image.
START = "start_sglang.py"
# What is compiled at a start: sglang/srt/environ.py of 0.5.23 (SGLANG_CACHE_DIR, SGLANG_DG_CACHE_DIR of DeepGEMM, and what third_party_cache_defaults() sets),
# CUDA's own compiler, and FlashInfer's (flashinfer/jit/env.py).
CACHES = {
    "SGLANG_CACHE_DIR": f"{CACHE}/sglang",
    "SGLANG_DG_CACHE_DIR": f"{CACHE}/deep_gemm",
    "TRITON_CACHE_DIR": f"{CACHE}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE}/inductor",
    "CUDA_CACHE_PATH": f"{CACHE}/cuda",
    "FLASHINFER_WORKSPACE_BASE": f"{CACHE}/flashinfer",
}


def launch(deployment: Deployment) -> dict[str, Started]:
    """The command line on the head."""
    mine = deployment.variables[deployment.head]
    options = {
        "served_model_name": str(setting(mine, "served_model_name") or setting(mine, "model")),
        "host": LOOPBACK if is_local(mine) else "0.0.0.0",
        "port": inner_port(mine),
        "enable_metrics": True,
        # SGLang would ask itself, without a key that the filter of paths knows. The role waits for a token.
        "skip_server_warmup": True,
        **deployment.plan["settings"],
    }
    argv = sglang_arguments(model_path(mine), options, deployment.version)
    return {deployment.head: {"argv": argv, "environment": {}}}


def sections(member: Member, variables: Mapping[str, bool | str]) -> dict[str, object]:
    return {NAME: filtered_section(member, variables, START)}
