"""vLLM as a unit of systemd, from a Python environment of its host."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import work
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.unit import quoted

from tests.support.deployments import member

VENV: dict[str, Any] = {
    "vllm_runtime": "venv",
    "vllm_python": "/opt/env/bin/python3",
    "vllm_version": "0.20.0",
    "vllm_environment": {"HF_TOKEN": "secret-token"},
}


def sections(**more: Any) -> dict[str, Any]:
    return host_sections(member(executor="uni", ranks=(1,), **{**VENV, **more}))


def lines(**more: Any) -> list[str]:
    text: str = sections(**more)["vllm"]["unit"]["text"]
    return text.splitlines()


def test_it_runs_the_command_of_a_container_where_its_files_lie() -> None:
    vllm = sections()["vllm"]
    assert vllm["container"] == {}
    assert (
        'ExecStart="/bin/bash" "/opt/llm/scripts/start-vllm.sh" "0" "vllm" "serve" "/opt/llm/models/lab--tiny" "--config" "/opt/llm/scripts/vllm.yaml"'
        in vllm["unit"]["text"].splitlines()
    )
    in_container = host_sections(member(executor="uni", ranks=(1,), vllm_version="0.20.0"))["vllm"]
    assert vllm["config"] == in_container["config"]


def test_its_environment_is_in_a_file_and_names_no_place_of_a_container() -> None:
    unit = sections()["vllm"]["unit"]
    environment = unit["environment"]
    assert environment["PATH"].startswith("/opt/env/bin:")
    assert environment["HF_TOKEN"] == "secret-token"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["LLM_API_KEY_FILE"] == "/opt/llm/secrets/vllm_api_key"
    assert environment["LLM_SECRETS_DIR"] == "/opt/llm/secrets"
    assert environment["VLLM_CACHE_ROOT"] == "/opt/llm/cache/venv-0.20.0-7.0/vllm"
    assert not [name for name in environment if name.startswith(("NVIDIA_", "RAY_"))]
    assert not [value for value in environment.values() if "/var/cache/llm" in value or "/run/secrets" in value]
    assert "secret-token" not in unit["text"]
    assert "EnvironmentFile=/opt/llm/secrets/llm-vllm.env" in unit["text"].splitlines()


def test_it_may_write_to_its_caches_only() -> None:
    found = sections()
    assert found["cache"] == found["tmp"]["path"] == "/opt/llm/cache/venv-0.20.0-7.0"
    assert found["tmp"]["uid"] == "llm-vllm"
    said = lines()
    assert [line for line in said if line.startswith("ReadWritePaths=")] == [f"ReadWritePaths={found['cache']}"]
    for line in ("ProtectSystem=strict", "NoNewPrivileges=yes", "DevicePolicy=closed", "CapabilityBoundingSet="):
        assert line in said
    assert "DeviceAllow=/dev/nvidia0 rw" in said
    assert "DeviceAllow=/dev/nvidia1 rw" not in said


def test_a_low_port_needs_one_capability() -> None:
    low = lines(vllm_port=443)
    assert "CapabilityBoundingSet=CAP_NET_BIND_SERVICE" in low
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE" in low
    assert not [line for line in lines() if line.startswith("AmbientCapabilities=")]


def test_limits_are_those_of_containers() -> None:
    said = lines(ray_ulimits=["nofile:1024:2048", "core:0"], ray_memory_lock_enabled=True, ray_pids_limit=99)
    for line in ("LimitNOFILE=1024:2048", "LimitCORE=0:0", "LimitMEMLOCK=infinity:infinity", "TasksMax=99"):
        assert line in said


def test_another_option_is_another_unit() -> None:
    assert lines() == lines()
    assert lines() != lines(vllm_port=8001)


def test_chosen_gpus_are_named() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in sections()["vllm"]["unit"]["environment"]
    chosen = sections(_llm_devices="GPU-1")["vllm"]["unit"]["environment"]
    assert chosen["CUDA_VISIBLE_DEVICES"] == "GPU-1"


def test_what_runs_in_containers_is_left_out() -> None:
    vllm = sections(vllm_collective_enabled=True)["vllm"]
    assert vllm["collective"] == {"possible": False}
    assert "vllm_runtime: venv" in vllm["benchmark"]["problem"]
    assert vllm["probe"]["command"][-2:] != ["--unit", ""]
    command = vllm["probe"]["command"]
    assert command[command.index("--unit") + 1] == "llm-vllm.service"
    assert vllm["runtime"]["log"][0] == "journalctl"


def test_its_user_is_tried_with_the_same_interpreter() -> None:
    command = sections()["vllm"]["unit"]["user_check"]
    assert command[:5] == ["runuser", "-u", "llm-vllm", "--", "/opt/env/bin/python3"]
    assert command[-1] == "/opt/llm/models/lab--tiny"
    assert "/dev" in command[7]
    assert "DEVICES" not in command[7]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("plain", '"plain"'),
        ("a b", '"a b"'),
        ('{"a": 1}', '"{\\"a\\": 1}"'),
        ("$HOME 100%", '"$$HOME 100%%"'),
        ("a\\b\nc", '"a\\\\b\\nc"'),
    ],
)
def test_words_are_quoted_for_systemd(word: str, expected: str) -> None:
    assert quoted(word) == expected


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="this machine has no systemd")
def test_systemd_reads_it(tmp_path: Path) -> None:
    unit = tmp_path / "llm-vllm.service"
    text = sections()["vllm"]["unit"]["text"].replace("User=llm-vllm", "User=root").replace("Group=llm-vllm", "")
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert not [line for line in done.stderr.splitlines() if "llm-vllm.service" in line and "Unknown" in line]


def test_a_host_without_containers_has_nothing_to_do_for_them() -> None:
    variables = {"llm_host_dir": "/opt/llm", "vllm_model": "lab/tiny", **VENV, "ansible_facts": {}}
    options: dict[str, list[str]] = {role: [] for role in work.BY_VARIABLES}
    asked = work.asked_by_variables(variables, options, (), "", {"engine": False})
    unused = {role for role, found in asked.items() if found == work.UNUSED}
    assert unused == {"docker", "nvidia_container_toolkit", "images"}
    found = work.to_do({"": ["gpu1"]}, {"gpu1": asked}, {"gpu1": {}})
    assert {reason["role"] for reason in found["prepare"]["gpu1"]} == {"nvidia_driver"}
    assert found["images"] == {}
    # Also where every role is run, and where tags choose.
    left = work.left_out(["gpu1"], found, {"llm_full_check": True}, asked={"gpu1": asked})
    assert (left["images"], left["prepare"]) == (":!gpu1", "")


def test_an_engine_that_something_else_needs_is_brought() -> None:
    variables = {"llm_host_dir": "/opt/llm", "vllm_model": "lab/tiny", **VENV, "ansible_facts": {}}
    options: dict[str, list[str]] = {role: [] for role in work.BY_VARIABLES}
    asked = work.asked_by_variables(variables, options, (), "", {"engine": True})
    assert {role for role, found in asked.items() if found == work.UNUSED} == {"images"}
