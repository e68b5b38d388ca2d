# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM on a host: its container and the files that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import capabilities, container
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import server_volumes
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import CONFIG_FILE, SCRIPTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import is_venv, runtime_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.serving import FILES, FOLDER
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.unit import unit_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.work import digest

# What a server offers outside of /v1 that answers with this: its clients need it, as the probe does.
KIND_PATHS = {"class": ("/classify",), "pooled": ("/pooling",)}


def server_section(member: Member, environment: Mapping[str, Any]) -> dict[str, Any]:
    started = member.deployment.launch.get(member.host)
    files = _files(member)
    # Of all that the server reads when it starts: where it is another one, the container or the unit is another one.
    reads = digest([(started or {}).get("config"), files])
    venv = is_venv(member.variables)
    return {
        "needed": started is not None,
        "runtime": runtime_section(member.variables, member.names["vllm"]),
        "container": _container(member, environment, started) if started and not venv else {},
        "unit": unit_section(member, environment, started, _api_paths(member), reads) if started and venv else {},
        "config": _config_file(member, started or {}),
        "files": files,
        "reads": reads,
        "url": member.url,
        "ask": [
            *("/usr/bin/env", "python3", f"{member.folder}/scripts/ask.py"),
            *([] if member.kind == "token" else [f"--kind={member.kind}"]),
            *(member.url, member.served_model_name),
        ],
        "served_model_name": member.served_model_name,
        "key_file": member.key_file,
        # The host of each rank. Where Ray spreads them, it says itself where they are.
        "ranks": [node["host"] for node in member.deployment.plan["nodes"] for dummy in node["ranks"]],
    }


def _container(member: Member, environment: Mapping[str, Any], started: Mapping[str, Any]) -> dict[str, Any]:
    """On a worker the program first follows the head's, which begins when the GPUs are there."""
    gpus = sum(member.deployment.gpus.values()) if member.deployment.by_ray else 0
    entrypoint = ["/bin/bash", f"{SCRIPTS}/start-vllm.sh", str(gpus)]
    if not member.is_head:
        head = member.deployment.address(member.deployment.head)
        entrypoint = ["python3", f"{SCRIPTS}/follow_head.py", head, str(member.variables["vllm_master_port"])]
    command = (started.get("config") or started)["argv"]
    made = container(member, environment, entrypoint, command, server_volumes(member))
    made["environment"] |= started["environment"]
    if member.is_head:
        made["environment"]["LLM_API_PATHS"] = " ".join(_api_paths(member))
    if int(member.variables["vllm_port"]) < container_user.FIRST_FREE_PORT and member.is_head:
        made["capabilities"] = sorted({*capabilities(member), "NET_BIND_SERVICE"})
    # With Ray, its node of this host and vLLM find each other through shared memory and the process list.
    made["pid_mode"] = "host" if member.deployment.by_ray else ""
    return made


def _api_paths(member: Member) -> list[str]:
    paths = [*map(str, member.variables["vllm_api_paths"]), *KIND_PATHS.get(member.kind, ())]
    return list(dict.fromkeys(paths))


def _files(member: Member) -> list[dict[str, str]]:
    """The small files that the server is started with, by their places on the host; without content those that are not asked for."""
    folder = f"{member.folder}/scripts/{FOLDER}"
    return [{"path": f"{folder}/{name}", "content": member.deployment.files.get(name, "")} for name in FILES.values()]


def _config_file(member: Member, started: Mapping[str, Any]) -> dict[str, Any]:
    """Where the options lie on the host, and what the file holds: nothing for a release that has them on its command line."""
    path = f"{member.folder}/scripts/{CONFIG_FILE}"
    return {"path": path, "content": (started.get("config") or {}).get("content") or {}}
