# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""llama.cpp's server on a host: its command line, its container and its probe."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import container
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment, Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import folder_of, model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import server_volumes
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.on_request import inner_port, is_local
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import CACHE, SCRIPTS, SECRETS
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Container, Nothing, Started
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.server_section import lone_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import is_open, setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.arguments import llama_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.inputs import draft_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import LOOPBACK

# Where the official images have the program (.devops/cuda.Dockerfile of ggml-org/llama.cpp), and who starts it (roles/llama_cpp/files).
PROGRAM, START = "/app/llama-server", "start-llama.sh"
# All keys that count, each in a line, as the server reads them. It lies in the container, and start-llama.sh writes it for its user alone.
KEYS = "/var/tmp/llm-llama.keys"
# The code for old GPUs is compiled once and kept: more than CUDA's default of 256 MiB to 1 GiB (CUDA programming guide, environment variables).
CACHES = {"CUDA_CACHE_PATH": f"{CACHE}/cuda"}
_CUDA_CACHE_BYTES = 4 << 30


def launch(deployment: Deployment) -> dict[str, Started]:
    """The command line on the head."""
    mine = deployment.variables[deployment.head]
    settings = dict(deployment.plan["settings"])
    draft = settings.pop("draft_file", "")
    options = {
        "model": f"{model_path(mine)}/{settings.pop('file')}",
        **({"model_draft": f"{folder_of(mine, draft_model(mine))}/{draft}"} if draft else {}),
        "alias": str(setting(mine, "served_model_name") or setting(mine, "model")),
        "host": LOOPBACK if is_local(mine) else "0.0.0.0",
        "port": inner_port(mine),
        "metrics": True,
        **({} if is_open(mine) else {"api_key_file": KEYS}),
        **settings,
    }
    argv = [PROGRAM, *llama_arguments(options, deployment.version)]
    return {deployment.head: {"argv": argv, "environment": {}}}


def environment(member: Member) -> dict[str, str]:
    """The GPUs in the order of nvidia-smi, in which the plan counts them. CUDA's own is another where they differ."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_CACHE_MAXSIZE": str(_CUDA_CACHE_BYTES)}


def sections(member: Member, variables: Mapping[str, bool | str]) -> dict[str, object]:
    started = member.deployment.launch.get(member.host)
    made: Container | Nothing = _container(member, variables, started["argv"]) if started else {}
    return {"llama_cpp": lone_section(member, made, {}, restarts_for_keys=True)}


def _container(member: Member, variables: Mapping[str, bool | str], argv: list[str]) -> Container:
    key = "" if is_open(member.variables) else f"{SECRETS}/{posixpath.basename(member.key_file)}"
    program = ["/bin/bash", f"{SCRIPTS}/{START}", key, KEYS]
    return container(member, "llama_cpp", variables, program, argv, server_volumes(member))
