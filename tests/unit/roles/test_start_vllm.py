"""What start-vllm.sh leaves for vLLM before it becomes vLLM."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

FILE = Path(__file__).parents[3] / "roles/vllm/files/start-vllm.sh"
PER_HOST = {"NCCL_SOCKET_IFNAME": "=eth1", "NCCL_IB_HCA": "=mlx5_0:1", "UCX_NET_DEVICES": "eth1"}


@pytest.mark.parametrize(
    ("variables", "folder", "names"),
    [
        ({**PER_HOST, "VLLM_LOGGING_LEVEL": "INFO"}, ".config/vllm", sorted(PER_HOST)),
        ({**PER_HOST, "XDG_CONFIG_HOME": "{home}/xdg"}, "xdg/vllm", sorted(PER_HOST)),
        ({**PER_HOST, "VLLM_CONFIG_ROOT": "{home}/own"}, "own", sorted(PER_HOST)),
        ({}, ".config/vllm", [""]),
    ],
)
def test_workers_keep_their_own_names_of_interfaces(
    tmp_path: Path, variables: dict[str, str], folder: str, names: list[str]
) -> None:
    """In the file and the form in which vllm/ray/ray_env.py reads it."""
    waits = tmp_path / "python3"
    waits.write_text("#!/bin/sh\n")  # the GPUs are there at once
    waits.chmod(0o755)
    environment = {name: value.format(home=tmp_path) for name, value in variables.items()}
    environment.update(HOME=str(tmp_path), PATH=f"{tmp_path}:{os.environ['PATH']}", RAY_ADDRESS="10.0.0.1:6379")
    subprocess.run(["bash", str(FILE), "2", "true"], env=environment, check=True)
    written = tmp_path / folder / "ray_non_carry_over_env_vars.json"
    assert sorted(json.loads(written.read_text())) == names


@pytest.mark.parametrize(("before", "after"), [("", "/llm/middleware"), ("/mine", "/llm/middleware:/mine")])
def test_vllm_finds_the_middleware(before: str, after: str) -> None:
    environment = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], **({"PYTHONPATH": before} if before else {})}
    command = ["bash", str(FILE), "0", "sh", "-c", "echo $PYTHONPATH"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == after
