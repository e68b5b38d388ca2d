# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ray's node on a host."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import digest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import container
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import environment_file
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import ray_volumes
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import (
    PYTHON,
    is_venv,
    runtime_section,
    scripts_folder,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Container, RaySection, Unit
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.unit import (
    run_once,
    unit_environment,
    unit_section,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import facts_of, number
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes

# Ray gets a twentieth of the host's memory for its objects, within these bounds.
OBJECT_STORE_SHARE, OBJECT_STORE_GIB = 20, (1, 8)
# How often a node asks its head whether it still belongs to the cluster. By itself it learns only after a minute that another head has come
# (NodeManager.GcsCheckAlive in src/ray/raylet/node_manager.cc), and until then its GPUs are missing.
RAY_LIVENESS = {"RAY_raylet_liveness_self_check_interval_ms": "5000"}
# How long Ray may take to say who is in its cluster. Engines before 23 never end what runs in a container that is restarted meanwhile, as the probe
# may do: who waits for it waits for ever.
ANSWER_SECONDS = 60
# How long an environment may take to say which releases it holds.
RELEASE_SECONDS = 300


def object_store_gib(variables: Mapping[str, object]) -> float:
    """In whole GiB: kernels count a host's memory differently by some MiB, and another number would restart Ray and load the model again."""
    said = variables.get("ray_object_store_memory_gib")
    if said is not None:
        return number(said)
    memory_mib = number(facts_of(variables).get("llm_memory_mib") or 0)
    least, most = OBJECT_STORE_GIB
    return min(max(round(memory_mib / 1024 / OBJECT_STORE_SHARE), least), most)


def ray_section(member: Member, environment: Mapping[str, bool | str]) -> RaySection:
    gpus = member.deployment.gpus.get(member.host, 0)
    needed = member.deployment.by_ray and gpus > 0
    metrics = _metrics(member) if member.is_head else {}
    started = {**RAY_LIVENESS, **metrics, **environment}
    venv, planned = is_venv(member.variables), member.deployment.planned
    return {
        "needed": needed,
        "container": {} if venv else _container(member, started, gpus),
        "unit": _unit(member, started, gpus) if venv and needed else {},
        "environment_file": environment_file(member, "ray"),
        "address": member.deployment.ray_address,
        # Says as JSON who is in the cluster.
        "cluster": ["timeout", str(ANSWER_SECONDS), *_cluster(member)],
        # The same, which succeeds once each planned host has joined with its planned GPUs.
        "joined": [
            *("timeout", str(ANSWER_SECONDS), *_cluster(member)),
            *(f"{host}={count}" for host, count in member.deployment.gpus.items()),
        ],
        # Runs a program of the image, or of the environment, without a cluster.
        "python": _python(member),
        "planned_gpus": member.deployment.gpus,
        "addresses": {host: member.deployment.address(host) for host in planned},
        "runtimes": {
            host: runtime_section(member.deployment.variables[host], names_on(host, member.deployment.names)["ray"])
            for host in planned
        },
    }


def _container(member: Member, environment: Mapping[str, bool | str], gpus: int) -> Container:
    entrypoint = ["/bin/bash", f"{scripts_folder(member.variables)}/start-ray.sh"]
    return container(member, "ray", environment, entrypoint, ray_command(member, gpus), ray_volumes(member))


def _unit(member: Member, environment: Mapping[str, bool | str], gpus: int) -> Unit:
    command = ["/bin/bash", f"{scripts_folder(member.variables)}/start-ray.sh", *ray_command(member, gpus)]
    return unit_section(
        member, "ray", unit_environment(member, environment, {}), command, digest(member.deployment.etc_hosts)
    )


def _cluster(member: Member) -> list[str]:
    asked = [f"{scripts_folder(member.variables)}/cluster.py", member.deployment.ray_address]
    if not is_venv(member.variables):
        return ["docker", "exec", member.names["ray"], "python3", *asked]
    environment = f"EnvironmentFile={member.folder}/secrets/{member.names['ray']}.env"
    return [*run_once(ANSWER_SECONDS, environment), str(member.setting(PYTHON)), *asked]


def _python(member: Member) -> list[str]:
    if is_venv(member.variables):
        return [*run_once(RELEASE_SECONDS), str(member.setting(PYTHON)), "-I"]
    return ["docker", "run", "--rm", "--network=none", "--entrypoint=python3", member.deployment.image]


def ray_command(member: Member, gpus: int) -> list[str]:
    mine = member.variables
    ports = (
        *("node_manager_port", "object_manager_port", "runtime_env_agent_port", "dashboard_agent_grpc_port"),
        *("dashboard_agent_listen_port", "metrics_export_port", "min_worker_port", "max_worker_port"),
    )
    return [
        *(_head_options(member) if member.is_head else [f"--address={member.deployment.ray_address}"]),
        "--block",
        f"--node-ip-address={member.address}",
        f"--num-gpus={gpus}",
        f"--resources={json.dumps({f'host:{member.host}': 1})}",
        f"--object-store-memory={int(object_store_gib(mine) * changes.GIB)}",
        *(f"--{name.replace('_', '-')}={mine[f'ray_{name}']}" for name in ports),
        *([f"--num-cpus={mine['ray_num_cpus']}"] if mine.get("ray_num_cpus") is not None else []),
    ]


def _head_options(member: Member) -> list[str]:
    mine = member.variables
    options = ["--head", f"--port={mine['ray_port']}", f"--ray-client-server-port={mine['ray_client_port']}"]
    if not member.enabled("ray_dashboard_enabled"):
        return [*options, "--include-dashboard=false"]
    where = [f"--dashboard-host={mine['ray_dashboard_host']}", f"--dashboard-port={mine['ray_dashboard_port']}"]
    return [*options, "--include-dashboard=true", *where]


def _metrics(member: Member) -> dict[str, str]:
    """Where the monitor and the dashboard of a head show their metrics.

    python/ray/autoscaler/_private/constants.py and python/ray/dashboard/consts.py read these; there is no option for them.
    """
    return {
        "AUTOSCALER_METRIC_PORT": str(member.variables["ray_monitor_metrics_port"]),
        "DASHBOARD_METRIC_PORT": str(member.variables["ray_dashboard_metrics_port"]),
    }
