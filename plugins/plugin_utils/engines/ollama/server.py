# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ollama's server on a host: its environment, its container with the model in its store, the filter in front, and the probe.

Ollama reads its model from a store of manifests and blobs. The container has one that holds this model alone: the GGUF file of the bundle, mounted under the
name of its digest, so that no byte of it is copied, and two small files that are decided here. Ollama itself would write a copy of the whole file there (POST
/api/create, copyLayerWithLlamaQuantize in server/create.go).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import container
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import environment_place
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment, Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import file_volumes, server_volumes
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import CACHE
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import (
    Container,
    Nothing,
    SmallFile,
    Started,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.server_section import lone_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.ollama.door import door_file, door_unit
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.ollama.inputs import SETTINGS, store_name
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import LOOPBACK

# Where the official image has the program (Dockerfile), and its store in the container.
PROGRAM, STORE = "/bin/ollama", "/var/lib/ollama"
# The setting that is Ollama's own port, behind the one of the API.
INNER_PORT = "inner_port"
# The code for old GPUs is compiled once and kept, as that of llama.cpp is.
CACHES = {"CUDA_CACHE_PATH": f"{CACHE}/cuda"}
_CUDA_CACHE_BYTES = 4 << 30
_MODEL, _CONFIG = "application/vnd.ollama.image.model", "application/vnd.docker.container.image.v1+json"
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
# For variables that may be secrets: they are in a file, and in no 'docker inspect'.
_WITH_FILE = ["/bin/bash", "-c", 'set -a; . "$LLM_ENVIRONMENT_FILE"; set +a; exec "$@"', "ollama"]


def launch(deployment: Deployment) -> dict[str, Started]:
    """The command line on the head. All that Ollama is told is in its environment."""
    return {deployment.head: {"argv": [PROGRAM, "serve"], "environment": {}}}


def environment(member: Member) -> dict[str, str]:
    """What the plan says, as Ollama reads it (envconfig/config.go), and the GPUs in the order of nvidia-smi, in which the plan counts them."""
    settings = dict(member.deployment.plan["settings"])
    settings.pop("file", None)
    said = {f"OLLAMA_{name.upper()}" if name in SETTINGS else name: value for name, value in settings.items()}
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_CACHE_MAXSIZE": str(_CUDA_CACHE_BYTES),
        **{name: _word(value) for name, value in sorted(said.items())},
        "OLLAMA_HOST": f"{LOOPBACK}:{member.setting(INNER_PORT)}",
        "OLLAMA_MODELS": STORE,
        # A negative number: the model stays loaded.
        "OLLAMA_KEEP_ALIVE": "-1",
        "OLLAMA_MAX_LOADED_MODELS": "1",
        "OLLAMA_NOPRUNE": "true",
        "OLLAMA_NO_CLOUD": "true",
    }


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def sections(member: Member, variables: Mapping[str, bool | str]) -> dict[str, object]:
    started, inner = member.deployment.launch.get(member.host), int(member.setting(INNER_PORT))
    files = _store(member)
    made: Container | Nothing = _container(member, variables, started["argv"], file_volumes(files)) if started else {}
    server = lone_section(member, made, door_unit(member, inner), list(files.values()))
    return {"ollama": {**server, "door": door_file(member, inner)}}


def _container(member: Member, variables: Mapping[str, bool | str], argv: list[str], volumes: list[str]) -> Container:
    file = member.deployment.plan["settings"]["file"]
    blob = f"{model_path(member.variables)}/{file}:{STORE}/blobs/sha256-{_sha256(member)}:ro"
    program = _WITH_FILE if environment_place(member, "ollama") else []
    return container(
        member,
        "ollama",
        variables,
        program or argv[:1],
        argv if program else argv[1:],
        [
            *server_volumes(member),
            blob,
            *volumes,
        ],
    )


def _sha256(member: Member) -> str:
    """Of the served file, by the bundle. Of a file that nobody has a record of, the digest of its path: Ollama compares it with nothing."""
    file = f"{model_path(member.variables)}/{member.deployment.plan['settings']['file']}"
    return str(member.deployment.plan["blob"].get("sha256") or hashlib.sha256(file.encode()).hexdigest())


def _store(member: Member) -> dict[str, SmallFile]:
    """By its place in the container each small file of the store: manifest/manifest.go and types/model/config.go."""
    blob = member.deployment.plan["blob"]
    config = {
        "model_format": "gguf",
        "model_family": blob.get("architecture", ""),
        "model_families": [blob["architecture"]] if blob.get("architecture") else [],
        "model_type": "",
        "file_type": blob.get("quantization", ""),
        "architecture": "amd64",
        "os": "linux",
    }
    text = json.dumps(config)
    config_sha256 = hashlib.sha256(text.encode()).hexdigest()
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": {"mediaType": _CONFIG, "digest": f"sha256:{config_sha256}", "size": len(text)},
        "layers": [{"mediaType": _MODEL, "digest": f"sha256:{_sha256(member)}", "size": blob.get("bytes", 0)}],
    }
    scripts = f"{member.folder}/scripts"
    return {
        f"{STORE}/manifests/{store_name(member.served_model_name)}": {
            "path": f"{scripts}/ollama-manifest.json",
            "content": json.dumps(manifest),
        },
        f"{STORE}/blobs/sha256-{config_sha256}": {"path": f"{scripts}/ollama-config.json", "content": text},
    }
