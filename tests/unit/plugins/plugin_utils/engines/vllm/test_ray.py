"""Ray's node on a host."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.ray import object_store_gib, ray_command
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.version_changes import GIB

from tests.support.deployments import deployment, member

PORTS = [
    "--node-manager-port=6380",
    "--object-manager-port=6381",
    "--runtime-env-agent-port=6382",
    "--dashboard-agent-grpc-port=6383",
    "--dashboard-agent-listen-port=6384",
    "--metrics-export-port=6385",
    "--min-worker-port=10002",
    "--max-worker-port=10999",
]


@pytest.mark.parametrize(
    ("mib", "gib"),
    [(None, 1), (15 * 1024, 1), (62 * 1024 + 700, 3), (62 * 1024 + 716, 3), (125 * 1024, 6), (2048 * 1024, 8)],
)
def test_ray_gets_whole_gibibytes_unless_somebody_says_how_much(mib: int | None, gib: int) -> None:
    found = {"ansible_facts": {} if mib is None else {"llm_memory_mib": mib}}
    assert object_store_gib(found) == gib
    assert object_store_gib({**found, "ray_object_store_memory_gib": 0.2}) == 0.2
    assert object_store_gib({**found, "ray_object_store_memory_gib": "0.2"}) == 0.2


def test_the_node_of_the_head() -> None:
    ray = host_sections(member(ranks=(2, 1), ray_object_store_memory_gib=0.5))["ray"]
    assert ray["needed"]
    assert ray["container"]["entrypoint"] == ["/bin/bash", "/llm/start-ray.sh"]
    assert ray["container"]["command"] == [
        "--head",
        "--port=6379",
        "--ray-client-server-port=10001",
        "--include-dashboard=false",
        "--block",
        "--node-ip-address=10.0.0.1",
        "--num-gpus=2",
        '--resources={"host:gpu1": 1}',
        f"--object-store-memory={GIB // 2}",
        *PORTS,
    ]


def test_the_node_of_a_worker() -> None:
    ray = host_sections(member("gpu2", ray_port=6400, ray_num_cpus=8))["ray"]
    assert ray["container"]["command"] == [
        "--address=10.0.0.1:6400",
        "--block",
        "--node-ip-address=10.0.0.2",
        "--num-gpus=1",
        '--resources={"host:gpu2": 1}',
        f"--object-store-memory={3 * GIB}",
        *PORTS,
        "--num-cpus=8",
    ]


def test_the_dashboard_where_somebody_asks_for_it() -> None:
    dashboard: dict[str, Any] = {
        "ray_dashboard_enabled": "true",
        "ray_dashboard_host": "0.0.0.0",
        "ray_dashboard_port": 8266,
    }
    command = host_sections(member(**dashboard))["ray"]["container"]["command"]
    assert command[3:6] == ["--include-dashboard=true", "--dashboard-host=0.0.0.0", "--dashboard-port=8266"]
    assert not [option for option in ray_command(member("gpu2", **dashboard), 1) if "dashboard-host" in option]


@pytest.mark.parametrize(("executor", "needed"), [("ray", [True, True, False]), ("mp", [False] * 3)])
def test_ray_runs_where_it_has_gpus_to_lend(executor: str, needed: list[bool]) -> None:
    made = deployment(executor, (1, 2, 0))
    sections = [host_sections(made.of(name))["ray"] for name in made.hosts]
    assert [section["needed"] for section in sections] == needed
    for section in sections:
        assert section["planned_gpus"] == {"gpu1": 1, "gpu2": 2}
        assert section["addresses"] == {"gpu1": "10.0.0.1", "gpu2": "10.0.0.2"}
        assert section["address"] == "10.0.0.1:6379"
        # Engines before 23 may wait for ever.
        assert section["cluster"][0] == "timeout"


def test_a_node_of_ray_notices_soon_that_its_head_is_another() -> None:
    name = "RAY_raylet_liveness_self_check_interval_ms"
    for each in ("gpu1", "gpu2"):
        assert host_sections(member(each))["ray"]["container"]["environment"][name] == "5000"
    slower = host_sections(member(ray_environment={name: 60000}))["ray"]["container"]["environment"]
    assert slower[name] == "60000"


def test_a_head_of_ray_shows_metrics_where_it_is_told() -> None:
    moved = {"ray_monitor_metrics_port": 45000, "ray_dashboard_metrics_port": 45001}
    head, worker = (
        host_sections(member(name, **moved))["ray"]["container"]["environment"] for name in ("gpu1", "gpu2")
    )
    assert (head["AUTOSCALER_METRIC_PORT"], head["DASHBOARD_METRIC_PORT"]) == ("45000", "45001")
    assert "AUTOSCALER_METRIC_PORT" not in worker
