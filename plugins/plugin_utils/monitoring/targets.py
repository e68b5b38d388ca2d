# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be asked for metrics, from the inventory: by job a list of targets as Prometheus's file_sd takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_names, engine_of, setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.virtual import ANY
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import in_url
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import deployment_ports

Targets = dict[str, list[dict[str, object]]]


EXPORTER_PORT = 9100


def jobs() -> tuple[str, ...]:
    """node: each host's exporter. dcgm: NVIDIA's, where that measures GPUs. An engine's name: the servers of its deployments, where they answer
    without a key. ray: each host of a Ray cluster. api and gateway: what blackbox_exporter asks."""
    return ("node", "dcgm", *engine_names(), "ray", "api", "gateway")


def endpoint(address: str, port: int) -> str:
    """An address and a port as a URL has them."""
    return f"{in_url(address)}:{port}"


def address_of(host: str, variables: Mapping[str, object]) -> str:
    """Where the collector reaches a host."""
    return str(variables.get("monitoring_address") or variables.get("ansible_host") or host)


def exporter_of(host: str, variables: Mapping[str, object]) -> str:
    """Where a host's node_exporter listens, and is asked."""
    return endpoint(address_of(host, variables), whole(variables.get("monitoring_exporter_port") or EXPORTER_PORT))


def targets(
    deployments: Mapping[str, DeploymentHosts],
    variables: Mapping[str, Mapping[str, object]],
    collectors: Sequence[str] = (),
    executors: Mapping[str, str] | None = None,
    gateways: Sequence[str] = (),
    measured: Mapping[str, str] | None = None,
) -> Targets:
    """All targets by job, each with the labels deployment and host.

    ``deployments`` and ``variables`` are those of the check of the inventory, ``collectors`` the hosts of llm_monitoring,
    ``executors`` what each deployment was planned with (ray or mp), ``gateways`` the hosts of llm_gateway, ``measured`` where NVIDIA's
    exporter listens, by host. A machine with several names in
    the inventory is asked once.
    """
    found: Targets = {job: [] for job in jobs()}
    of_host = {host: name for name, deployment in deployments.items() for host in deployment["hosts"]}
    seen: set[str] = set()
    for host in [*of_host, *collectors]:
        at = exporter_of(host, variables[host])
        if at not in seen:
            seen.add(at)
            found["node"].append(_target(at, host, of_host.get(host, "")))
    for host, at in (measured or {}).items():
        found["dcgm"].append(_target(at, host, of_host.get(host, "")))
    for name, deployment in deployments.items():
        head, executor = deployment["head"], (executors or {}).get(name, "")
        ports = {port.name: port.first for port in deployment_ports(variables[head], executor)}
        api = endpoint(address_of(head, variables[head]), ports["api"])
        release, mine = str(setting(variables[head], "version") or ""), engine_of(variables[head])
        if mine.metrics() and not mine.metrics_by_probe:
            found[mine.name].append(_target(api, head, name, release=release))
        # Ready is what generates tokens. Without a probe only the server itself is asked.
        path = mine.ready if is_true(setting(variables[head], "probe_enabled", True)) else mine.alive
        found["api"].append(_target(f"http://{api}{path}", head, name))
        if executor == "ray":
            found["ray"] += [
                _target(endpoint(address_of(host, variables[host]), ports["metrics"]), host, name)
                for host in deployment["hosts"]
            ]
    for host in gateways:
        said = str(variables[host].get("gateway_address") or ANY)
        at = endpoint(
            address_of(host, variables[host]) if said == ANY else said, whole(variables[host]["gateway_https_port"])
        )
        found["gateway"].append(_target(f"https://{at}/health", host, ""))
    return found


def _target(at: str, host: str, deployment: str, **more: str) -> dict[str, object]:
    labels = {"host": host, "deployment": deployment, **more}
    return {"targets": [at], "labels": {name: value for name, value in labels.items() if value}}
