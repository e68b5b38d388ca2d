"""The table of ports agrees with what roles use, and its functions do what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.module_utils._nics import DEFAULT_DYNAMIC
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import (
    CLIENTS,
    COLLECTORS,
    FLEET,
    ITSELF,
    PORTS,
    clashes,
    deployment_ports,
    merged,
)
from hypothesis import given
from hypothesis import strategies as st

ROLES = Path(__file__).parents[5] / "roles"
DEFAULTS = {
    name: value
    for role in ("ray", "vllm", "monitoring")
    for name, value in yaml.safe_load((ROLES / role / "defaults/main.yml").read_text()).items()
}


def test_defaults_do_not_clash_with_each_other_or_with_ssh() -> None:
    assert clashes(PORTS, [("sshd", 22)]) == []


def test_the_kernel_hands_out_none_of_them() -> None:
    assert [port.variable for port in PORTS if port.last >= DEFAULT_DYNAMIC[0]] == []


def test_the_roles_have_the_same_defaults() -> None:
    numbers = {port.variable: port.first for port in PORTS} | {port.last_variable: port.last for port in PORTS}
    shared = numbers.keys() & DEFAULTS.keys()
    assert len(shared) > 10
    assert {name: DEFAULTS[name] for name in shared} == {name: numbers[name] for name in shared}


def test_every_port_of_a_role_is_in_the_table() -> None:
    known = {name for port in PORTS for name in (port.variable, port.last_variable)}
    # On the host that watches alone, and like Prometheus beside it on the loopback interface.
    assert {name for name in DEFAULTS if name.endswith("_port")} - known == {"monitoring_grafana_port"}


def test_variables_move_ports() -> None:
    ports = {
        port.variable: port for port in deployment_ports({"ray_port": "7000", "ray_max_worker_port": 10050}, "ray")
    }
    assert (ports["ray_port"].first, ports["ray_port"].last) == (7000, 7000)
    assert (ports["ray_min_worker_port"].first, ports["ray_min_worker_port"].last) == (10002, 10050)
    assert "vllm_master_port" not in ports
    assert "ray_port" not in {port.variable for port in deployment_ports({}, "mp")}


def test_an_exporter_is_ours_where_something_collects() -> None:
    moved = {"monitoring_exporter_port": 9200}
    assert "exporter" not in {port.name for port in deployment_ports(moved, "mp")}
    (port,) = [port for port in deployment_ports(moved, "mp", watched=True) if port.name == "exporter"]
    assert (port.first, port.last, port.reached_by) == (9200, 9200, COLLECTORS)


def test_a_clash_is_named() -> None:
    ports = deployment_ports({"vllm_port": 10500})
    assert clashes(ports) == [("vllm_port", "ray_min_worker_port")]
    assert clashes(deployment_ports({"ray_port": 22}), [("sshd", 22)]) == [("ray_port", "sshd")]


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 30)), max_size=12))
def test_merged_ranges_hold_the_same_ports(ranges: list[tuple[int, int]]) -> None:
    ports = [PORTS[0]._replace(first=first, last=first + more) for first, more in ranges]
    result = merged(ports)
    assert {n for a, b in result for n in range(a, b + 1)} == {n for p in ports for n in range(p.first, p.last + 1)}
    assert all(result[i][1] + 1 < result[i + 1][0] for i in range(len(result) - 1))


@pytest.mark.parametrize(
    ("variables", "reached_by"),
    [
        ({}, ITSELF),
        ({"ray_dashboard_enabled": True}, ITSELF),
        ({"ray_dashboard_host": "0.0.0.0"}, ITSELF),
        ({"ray_dashboard_enabled": "true", "ray_dashboard_host": "localhost"}, ITSELF),
        ({"ray_dashboard_enabled": True, "ray_dashboard_host": "::1"}, ITSELF),
        ({"ray_dashboard_enabled": "false", "ray_dashboard_host": "0.0.0.0"}, ITSELF),
        ({"ray_dashboard_enabled": True, "ray_dashboard_host": "0.0.0.0"}, CLIENTS),
        ({"ray_dashboard_enabled": "yes", "ray_dashboard_host": "::"}, CLIENTS),
        ({"ray_dashboard_enabled": True, "ray_dashboard_host": "gpu01.lan"}, CLIENTS),
    ],
)
def test_the_dashboard_is_reached_by_clients_where_it_listens_for_them(variables: Any, reached_by: str) -> None:
    (port,) = [port for port in deployment_ports(variables, "ray") if port.name == "dashboard"]
    assert port.reached_by == reached_by


def test_journals_have_a_port_where_they_are_collected() -> None:
    asked = {"monitoring_journal_central_enabled": "true", "monitoring_journal_central_port": 20000}
    (port,) = [port for port in deployment_ports(asked, "mp", watched=True) if port.name == "journal"]
    assert (port.first, port.last, port.reached_by) == (20000, 20000, FLEET)
    for variables, watched in (({**asked, "monitoring_journal_central_enabled": "false"}, True), (asked, False)):
        assert "journal" not in {port.name for port in deployment_ports(variables, "mp", watched=watched)}
