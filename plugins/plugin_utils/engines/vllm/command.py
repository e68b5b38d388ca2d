# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of vLLM on each host: the only one there is, for reports and for containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import joins_hosts, ranked_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import InFile, Started
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.arguments import (
    Option,
    in_file,
    in_line,
    vllm_options,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import normalise
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key, resolve_release

API_PORT, MASTER_PORT = 8000, 29501
# The firewall closes the port to other hosts.
ANY_ADDRESS = "0.0.0.0"
# Nothing leaves the hosts: no statistics of use, no look at a hub.
ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
# roles/common/files/llm_api_paths.py: vLLM answers more paths than its key covers.
MIDDLEWARE = "llm_api_paths.ApiPaths"
# With which somebody says whether requests are logged.
LOG_OPTION = "disable_log_requests"
# Where nobody says where the server reads its options.
CONFIG_FILE = "vllm.yaml"


def launch(
    settings: Mapping[str, object],
    vllm_version: object,
    executor: str,
    nodes: Sequence[Mapping[str, object]],
    service: Mapping[str, object] | None = None,
) -> dict[str, Started]:
    """What is started on every host that runs vLLM, the head first.

    ``nodes`` are those of a plan, ``{host, ranks}``, in rank order. With Ray, or on one host, only the head runs vLLM; without Ray each
    host with ranks does. ``service`` holds what the planner does not decide: ``head`` (else the first host), ``model`` (its path),
    ``served_model_name``, ``host`` (the address to listen at, else any), ``port``, ``master_port``, ``addresses`` by host (else their names),
    ``ray_address``, ``config_file``, the path at which the server would read its options, and ``extra_arguments``, words that are handed on as they
    are. ``argv`` is complete. Where the
    release reads such a file there is ``config`` as well: the same command, ``argv``, with the options in a file, its ``path`` and ``content``.
    """
    service = service or {}
    hosts = ranked_hosts(nodes)
    head = str(service.get("head") or (hosts[0] if hosts else ""))
    model = str(service.get("model") or "MODEL")
    options = dict(settings)
    said, port = options.pop("host", None), options.pop("port", None) or service.get("port") or API_PORT
    host = service.get("host") or said or ANY_ADDRESS
    served = options.pop("served_model_name", None) or service.get("served_model_name") or model
    # What is named last is asked first.
    middlewares = [*_listed(options.pop("middleware", None)), MIDDLEWARE]
    answering = [Option("--middleware", (middleware,)) for middleware in middlewares]
    environment = dict(ENVIRONMENT)
    if executor == "ray" and service.get("ray_address"):
        environment["RAY_ADDRESS"] = str(service["ray_address"])
    common = [
        *(Option("--host", (str(host),)), Option("--port", (str(port),))),
        Option("--served-model-name", (str(served),)),
        *_without_prompts(options, vllm_version),
        *vllm_options(options, vllm_version),
    ]
    if not joins_hosts(executor, nodes):
        asked = {head: [*common, *answering]}
    else:
        address = mapping(service.get("addresses")).get(head) or head
        meeting = [
            Option("--master-addr", (str(address),)),
            Option("--master-port", (str(service.get("master_port") or MASTER_PORT),)),
        ]
        asked = {
            host: [
                *common,
                *(Option("--nnodes", (str(len(hosts)),)), Option("--node-rank", (str(rank),))),
                *meeting,
                *(answering if host == head else [Option("--headless")]),
            ]
            for rank, host in enumerate(hosts)
        }
    program = _program(vllm_version, model)
    path = str(service.get("config_file") or CONFIG_FILE)
    extra = texts(service.get("extra_arguments"))
    return {
        host: {
            "argv": [*program, *in_line(mine), *extra],
            "environment": environment,
            **_config(program, path, mine, vllm_version, extra),
        }
        for host, mine in asked.items()
    }


def _config(
    program: Sequence[str], path: str, options: Sequence[Option], vllm_version: object, extra: Sequence[str]
) -> InFile:
    """The command with its options in a file, where the release reads one."""
    if resolve_release(vllm_version).key < release_key(changes.CONFIG_FILE_SINCE):
        return {}
    content, others = in_file(options)
    return {
        "config": {"argv": [*program, "--config", path, *in_line(others), *extra], "path": path, "content": content}
    }


def _without_prompts(options: Mapping[str, object], vllm_version: object) -> list[Option]:
    """What keeps prompts out of the log, where the release would write them there and nobody says whether it shall."""
    option = at(changes.KEEPS_PROMPTS, resolve_release(vllm_version).key)
    return [Option(option)] if option and LOG_OPTION not in normalise(options) else []


def _listed(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)] if value else []


def _program(vllm_version: object, model: str) -> list[str]:
    if RELEASES[resolve_release(vllm_version).examined].entrypoint == "serve":
        return ["vllm", "serve", model]
    return ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", model]
