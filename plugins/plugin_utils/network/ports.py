# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every port that a deployment uses: who listens there, who may connect, and which variable moves it.

The one truth for the firewall, the connectivity check, the check for clashes and the table in docs/reference/network.md. Each lies below
the ports that the kernel hands out, which any program may have before the one that is meant: Ray's own 44217 and 44227 do not.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, engine, name_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true

# Who connects
MEMBERS, CLIENTS, COLLECTORS, FLEET, ITSELF = "members", "clients", "collectors", "fleet", "itself"


# From a port of an API to the one behind it, and the last port there is.
_BEHIND, _LAST = 10000, 65535


class Port(NamedTuple):
    """A port or, with a second variable, a range of ports."""

    name: str
    variable: str
    last_variable: str  # "" where it is one port
    first: int
    last: int
    executor: str  # ray or mp; "" for both
    head_only: bool
    reached_by: str
    watched: bool = False  # only where there is a host that collects metrics
    asked_by: str = ""  # the variable that has to be true, or to name an image


PORTS = (
    Port("api", f"{DEFAULT}_port", "", 8000, 8000, "", True, CLIENTS),
    # Where a server listens behind the program that loads it on request: on the loopback interface, at the port of its API and 10000 more.
    Port(
        *("on_request", "llm_on_request_port", "", 18000, 18000, "", True, ITSELF),
        asked_by="llm_on_request",
    ),
    # The engine's processes on several hosts without Ray meet here.
    Port("mp_master", f"{DEFAULT}_master_port", "", 29501, 29501, "mp", True, MEMBERS),
    # The all-reduce that is tried before a model is served.
    Port("collective", f"{DEFAULT}_collective_port", "", 29502, 29502, "", True, MEMBERS),
    Port("gcs", "ray_port", "", 6379, 6379, "ray", True, MEMBERS),
    Port("node_manager", "ray_node_manager_port", "", 6380, 6380, "ray", False, MEMBERS),
    Port("object_manager", "ray_object_manager_port", "", 6381, 6381, "ray", False, MEMBERS),
    Port("runtime_env_agent", "ray_runtime_env_agent_port", "", 6382, 6382, "ray", False, MEMBERS),
    Port("agent_grpc", "ray_dashboard_agent_grpc_port", "", 6383, 6383, "ray", False, MEMBERS),
    Port("agent_http", "ray_dashboard_agent_listen_port", "", 6384, 6384, "ray", False, MEMBERS),
    Port("metrics", "ray_metrics_export_port", "", 6385, 6385, "ray", False, COLLECTORS),
    # Ray gives its monitor and its dashboard, which runs in part without being asked for, a port each on every address.
    Port("monitor_metrics", "ray_monitor_metrics_port", "", 6386, 6386, "ray", True, ITSELF),
    Port("dashboard_metrics", "ray_dashboard_metrics_port", "", 6387, 6387, "ray", True, ITSELF),
    # Only where somebody asks for it, and then on the loopback interface unless somebody asks for more.
    Port("dashboard", "ray_dashboard_port", "", 8265, 8265, "ray", True, ITSELF),
    Port("client", "ray_client_port", "", 10001, 10001, "ray", True, MEMBERS),
    Port("workers", "ray_min_worker_port", "ray_max_worker_port", 10002, 10999, "ray", False, MEMBERS),
    # Without llm_monitoring an exporter on this port is somebody else's.
    Port("exporter", "monitoring_exporter_port", "", 9100, 9100, "", False, COLLECTORS, watched=True),
    Port(
        *("dcgm", "monitoring_dcgm_port", "", 9400, 9400, "", False, COLLECTORS),
        watched=True,
        asked_by="monitoring_dcgm_image",
    ),
    # Where the journals of all hosts are collected: one of them listens.
    Port(
        *("journal", "monitoring_journal_central_port", "", 19532, 19532, "", False, FLEET),
        watched=True,
        asked_by="monitoring_journal_central_enabled",
    ),
)


def ports_of(name: str) -> list[Port]:
    """The ports that a deployment with an engine may use: of the default one all; of another one its own, beside those of monitoring."""
    if name == DEFAULT:
        return list(PORTS)
    api = PORTS[0]._replace(variable=f"{name}_port")
    own = [
        Port(setting, f"{name}_{setting}", "", port, port, "", True, ITSELF) for setting, port in engine(name).own_ports
    ]
    return [api, *own, *(port for port in PORTS if port.watched or port.name == "on_request")]


def deployment_ports(variables: Mapping[str, object], executor: str = "", watched: bool = False) -> list[Port]:
    """The ports as a deployment's variables set them, for one executor (``ray``, ``mp``) or for any.

    ``watched``: whether there is a host that collects metrics, so that the exporters are ours."""
    found: list[Port] = []
    for port in ports_of(name_of(variables)):
        if (executor and port.executor not in ("", executor)) or (port.watched and not watched):
            continue
        said = variables.get(port.asked_by) or ""
        if port.asked_by and not (said if port.asked_by.endswith("_image") else is_true(said)):
            continue
        first = whole(variables.get(port.variable) or port.first)
        if port.name == "on_request":
            first = port_behind(variables, found[0].first)
        last = whole(variables.get(port.last_variable) or port.last) if port.last_variable else first
        reached_by = CLIENTS if port.name == "dashboard" and _dashboard_is_open(variables) else port.reached_by
        found.append(port._replace(first=first, last=last, reached_by=reached_by))
    return found


def port_behind(variables: Mapping[str, object], port: int) -> int:
    """Where the server of an API on a port listens itself, which is loaded on request."""
    return whole(
        variables.get("llm_on_request_port") or (port + _BEHIND if port + _BEHIND <= _LAST else port - _BEHIND)
    )


def _dashboard_is_open(variables: Mapping[str, object]) -> bool:
    """Whether somebody wants Ray's dashboard to be seen from elsewhere."""
    enabled = is_true(variables.get("ray_dashboard_enabled", ""))
    host = str(variables.get("ray_dashboard_host") or "localhost")
    try:
        return enabled and not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return enabled and host != "localhost"


def clashes(ports: Sequence[Port], taken: Iterable[tuple[str, int]] = ()) -> list[tuple[str, str]]:
    """Pairs of variables that name the same port. ``taken``: ports of others, such as that of SSH, with their names."""
    ranges = [(port.variable, port.first, port.last) for port in ports] + [(name, at, at) for name, at in taken]
    return [
        (one[0], other[0])
        for index, one in enumerate(ranges)
        for other in ranges[index + 1 :]
        if one[1] <= other[2] and other[1] <= one[2]
    ]


def merged(ports: Iterable[Port]) -> list[tuple[int, int]]:
    """Ranges of port numbers, sorted, without overlaps and gaps of nothing: as a firewall lists them."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted((port.first, port.last) for port in ports):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined
