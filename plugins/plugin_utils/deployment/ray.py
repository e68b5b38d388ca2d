# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ray's node on a host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container import container
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.mounts import ray_volumes
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import SCRIPTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes

# Ray gets a twentieth of the host's memory for its objects, within these bounds.
OBJECT_STORE_SHARE, OBJECT_STORE_GIB = 20, (1, 8)
# How often a node asks its head whether it still belongs to the cluster. By itself it learns only after a minute that another head has come
# (NodeManager.GcsCheckAlive in src/ray/raylet/node_manager.cc), and until then its GPUs are missing.
RAY_LIVENESS = {"RAY_raylet_liveness_self_check_interval_ms": "5000"}
# Engines before 23 never end what runs in a container that is restarted meanwhile, as the probe may do: who waits for it waits for ever.
RAY_EXEC = ["timeout", "60", "docker", "exec"]


def object_store_gib(variables: Mapping[str, Any]) -> float:
    """In whole GiB: kernels count a host's memory differently by some MiB, and another number would restart Ray and load the model again."""
    said = variables.get("ray_object_store_memory_gib")
    if said is not None:
        return float(said)
    memory_mib = (variables.get("ansible_facts") or {}).get("llm_memory_mib") or 0
    least, most = OBJECT_STORE_GIB
    return min(max(round(memory_mib / 1024 / OBJECT_STORE_SHARE), least), most)


def ray_section(member: Member, environment: Mapping[str, Any]) -> dict[str, Any]:
    gpus = member.deployment.gpus.get(member.host, 0)
    entrypoint = ["/bin/bash", f"{SCRIPTS}/start-ray.sh"]
    made = container(member, environment, entrypoint, ray_command(member, gpus), ray_volumes(member))
    metrics = _metrics(member) if member.is_head else {}
    made["environment"] = {**RAY_LIVENESS, **metrics, **made["environment"]}
    return {
        "needed": member.deployment.by_ray and gpus > 0,
        "container": made,
        "address": member.deployment.ray_address,
        "exec": [*RAY_EXEC, member.names["ray"]],
        "planned_gpus": member.deployment.gpus,
        "addresses": {host: member.deployment.address(host) for host in member.deployment.planned},
        "containers": {host: names_on(host, member.deployment.names)["ray"] for host in member.deployment.planned},
    }


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
