# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Triton's OpenAI-compatible frontend on a host: its command line, its model repository, its container and its probe.

The frontend runs Triton in its own process, and Triton starts vLLM in another one (https://github.com/triton-inference-server/vllm_backend). No port but that
of the API is opened: what speaks KServe's protocols is started by an option of the frontend only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import filtered
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment, Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.on_request import inner_port, is_local
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import ConfigFile, SmallFile, Started
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.triton.arguments import (
    NAME,
    engine_arguments,
    frontend_arguments,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.environment import CACHES as VLLM_CACHES
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.launch import for_these_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import LOOPBACK

# Who starts the server (roles/triton/files), with the Python of the image.
START = "start_triton.py"
# The model repository in the container.
REPOSITORY = "/var/lib/triton"
# vLLM's, but for the vocabulary of gpt-oss, which only its own API server reads.
CACHES = {name: folder for name, folder in VLLM_CACHES.items() if name != "TIKTOKEN_ENCODINGS_BASE"}
# A most: it takes memory only where it is used. Triton's processes meet in regions whose names are the same for every server (shared_memory_region_prefix in
# python_be.cc of python_backend), so that each server needs a /dev/shm of its own; NCCL and vLLM use it too.
_SHARED_MEMORY = "16g"
# The placement of a model whose backend chooses its GPUs itself, and what makes the backend tell vLLM's metrics (README.md of vllm_backend).
_CONFIG = """\
backend: "vllm"
instance_group [
  {
    count: 1
    kind: KIND_MODEL
  }
]
parameters: {
  key: "REPORT_CUSTOM_METRICS"
  value: { string_value: "true" }
}
"""


def launch(deployment: Deployment) -> dict[str, Started]:
    """The command line on the head, and the file with vLLM's settings."""
    mine, settings = deployment.variables[deployment.head], mapping(deployment.plan["settings"])
    name, model = str(setting(mine, "served_model_name") or setting(mine, "model")), model_path(mine)
    options = {
        "model_repository": REPOSITORY,
        # For the chat template. vLLM itself finds the tokenizer beside the weights.
        "tokenizer": model,
        "host": LOOPBACK if is_local(mine) else "0.0.0.0",
        "openai_port": inner_port(mine),
        **settings,
    }
    vllm = deployment.plan.get("vllm_version")
    told = for_these_gpus(settings, deployment, vllm) if vllm else settings
    argv = frontend_arguments(options, deployment.version)
    path, content = f"{REPOSITORY}/{name}/1/model.json", engine_arguments(model, told)
    file: ConfigFile = {"argv": argv, "path": path, "content": content}
    return {deployment.head: {"argv": argv, "environment": {}, "config": file}}


def environment(member: Member) -> dict[str, str]:
    return {**filtered.environment(member), "VLLM_NO_USAGE_STATS": "1"}


def sections(member: Member, variables: Mapping[str, bool | str]) -> dict[str, object]:
    return {NAME: filtered.filtered_section(member, variables, START, _repository(member), _SHARED_MEMORY)}


def _repository(member: Member) -> dict[str, SmallFile]:
    """By its place in the container each file of the model repository."""
    started = member.deployment.launch.get(member.host)
    if not started:
        return {}
    file, scripts = started["config"], f"{member.folder}/scripts"
    return {
        f"{REPOSITORY}/{member.served_model_name}/config.pbtxt": {
            "path": f"{scripts}/triton-config.pbtxt",
            "content": _CONFIG,
        },
        file["path"]: {"path": f"{scripts}/triton-model.json", "content": json.dumps(file["content"], indent=2) + "\n"},
    }
