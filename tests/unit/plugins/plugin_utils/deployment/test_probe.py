"""The command of a host's probe."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections

from tests.support.deployments import deployment, member

START = [
    *("/usr/bin/env", "python3", "/opt/llm/probe/llm-probe.py"),
    *("--weights", "/opt/llm/models/lab--tiny", "--measured", "/opt/llm/probe/measured.json"),
]
EACH = ["--failures", "3", "--interval", "10"]
ASKED = ["--url", "http://10.0.0.1:8000", "--model", "lab/tiny", "--inner", "/opt/llm/tmp"]
ASKED += ["--key", "/opt/llm/secrets/vllm_api_key"]
RAY = ["--watch", "llm-ray:raylet,gcs_server"]
CLUSTER = "timeout 60 docker exec llm-ray python3 /llm/cluster.py 10.0.0.1:6379"
RANKS = ["--cluster", CLUSTER, "--below", "llm-ray", "--above", "llm-vllm"]


@pytest.mark.parametrize(
    ("executor", "ranks", "watched", "more"),
    [
        ("uni", (1,), [], []),
        ("mp", (2,), [], []),
        ("mp", (1, 1, 1), [], ["--followers", "2", "--meeting-port", "29501"]),
        ("ray", (1, 1), RAY, RANKS),
    ],
)
def test_the_probe_of_the_head(executor: str, ranks: tuple[int, ...], watched: list[str], more: list[str]) -> None:
    probe = host_sections(member(executor=executor, ranks=ranks))["vllm"]["probe"]
    command = [*START, *EACH, *watched, *ASKED, *more]
    assert probe == {"needed": True, "folder": "/opt/llm/probe", "start": START, "command": command}
    limited = host_sections(member(executor=executor, ranks=ranks, vllm_start_seconds=90))["vllm"]["probe"]
    assert limited["command"] == [*command, "--start-seconds", "90"]


@pytest.mark.parametrize(("executor", "watched"), [("ray", RAY), ("mp", ["--watch", "llm-vllm"])])
def test_the_probe_of_another_host_asks_nobody(executor: str, watched: list[str]) -> None:
    """It only looks whether its own container is frozen, which nobody else could repair."""
    made = deployment(executor, (1, 1, 0), vllm_version="0.20.0", vllm_start_seconds=90)
    worker, idle = (host_sections(made.of(name))["vllm"]["probe"] for name in ("gpu2", "gpu3"))
    assert worker["needed"]
    assert worker["command"] == [*START, *EACH, *watched]
    assert not idle["needed"]
