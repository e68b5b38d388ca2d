# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM on a host: its container or its unit, and the files that it reads."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import digest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import capabilities, container
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import server_volumes
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.on_request import inner_port
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import FILES as FOLDER
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import (
    PYTHON,
    is_venv,
    scripts_folder,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import (
    Container,
    Options,
    ServerSection,
    SmallFile,
    Started,
    Unit,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.server_section import server_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.unit import unit_environment, unit_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.launch import CONFIG_FILE
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.serving import FILES

# What a server offers outside of /v1 that answers with this: its clients need it, as the probe does.
KIND_PATHS = {"class": ("/classify",), "pooled": ("/pooling",)}


def vllm_section(member: Member, environment: Mapping[str, bool | str]) -> ServerSection:
    started = member.deployment.launch.get(member.host)
    files = _files(member)
    # Of all that the server reads when it starts: where it is another one, the container or the unit is another one.
    venv = is_venv(member.variables)
    more = [*([member.deployment.etc_hosts] if venv else []), *member.deployment.weights]
    reads = digest([started.get("config") if started else None, files, *more])
    return server_section(
        member,
        _container(member, environment, started) if started and not venv else {},
        _unit(member, environment, started, reads) if started and venv else {},
        _config_file(member, started),
        files,
        reads,
    )


def _container(member: Member, environment: Mapping[str, bool | str], started: Started) -> Container:
    command = (started.get("config") or started)["argv"]
    made = container(member, "vllm", environment, _program(member, "python3"), command, server_volumes(member))
    made["environment"] |= started["environment"]
    if member.is_head:
        made["environment"] |= {
            "LLM_API_PATHS": " ".join(_api_paths(member)),
            "LLM_MODEL_DIR": model_path(member.variables),
        }
        # Said, and not concluded from a file that is not there.
        made["environment"] |= {} if member.enabled("vllm_api_key_enabled") else {"LLM_API_KEY_FILE": ""}
        # Who starts the server has pauses of its own for one that does not get ready, and starts of one that takes turns are no crash loop.
        made["environment"] |= {"LLM_STARTS_FILE": "/dev/null"} if member.on_request else {}
    if inner_port(member.variables) < container_user.FIRST_FREE_PORT and member.is_head:
        made["capabilities"] = sorted({*capabilities(member), "NET_BIND_SERVICE"})
    # With Ray, its node of this host and vLLM find each other through shared memory and the process list.
    made["pid_mode"] = "host" if member.deployment.by_ray else ""
    return made


def _unit(member: Member, environment: Mapping[str, bool | str], started: Started, reads: str) -> Unit:
    command = [*_program(member, str(member.setting(PYTHON))), *(started.get("config") or started)["argv"]]
    places = {
        "LLM_MODEL_DIR": model_path(member.variables),
        "LLM_API_KEY_FILE": member.key_file if member.enabled("vllm_api_key_enabled") else "",
        "LLM_SECRETS_DIR": posixpath.dirname(member.key_file),
        "LLM_STARTS_FILE": f"/run/{member.names['server']}/starts",
        "LLM_INNER_DIR": f"/run/{member.names['server']}",
    }
    more = {
        **started["environment"],
        **({"LLM_API_PATHS": " ".join(_api_paths(member)), **places} if member.is_head else {}),
    }
    return unit_section(member, "vllm", unit_environment(member, environment, more), command, reads)


def _program(member: Member, python: str) -> list[str]:
    """What starts vLLM, with the options in a file or on its command line. On a worker it first follows the head's, which begins when the GPUs are there."""
    folder = scripts_folder(member.variables)
    if member.is_head:
        gpus = sum(member.deployment.gpus.values()) if member.deployment.by_ray else 0
        return ["/bin/bash", f"{folder}/start-vllm.sh", str(gpus)]
    head = member.deployment.address(member.deployment.head)
    return [python, f"{folder}/follow_head.py", head, str(member.variables["vllm_master_port"])]


def _api_paths(member: Member) -> list[str]:
    paths = [*map(str, member.variables["vllm_api_paths"]), *KIND_PATHS.get(member.kind, ())]
    return list(dict.fromkeys(paths))


def _files(member: Member) -> list[SmallFile]:
    """The small files that the server is started with, by their places on the host; without content those that are not asked for."""
    folder = f"{member.folder}/scripts/{FOLDER}"
    return [{"path": f"{folder}/{name}", "content": member.deployment.files.get(name, "")} for name in FILES.values()]


def _config_file(member: Member, started: Started | None) -> Options:
    """Where the options lie on the host, and what the file holds: nothing for a release that has them on its command line."""
    path = f"{member.folder}/scripts/{CONFIG_FILE}"
    return {"path": path, "content": started["config"]["content"] if started and "config" in started else {}}
