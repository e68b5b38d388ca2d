"""The program that loads the GPUs, without a GPU: what it says where nothing can be loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "roles/accept/files/burn_in.py"
pytestmark = pytest.mark.slow


def run(folder: Path, smi: str) -> tuple[int, str, str]:
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{smi}\n")
    (folder / "nvidia-smi").chmod(0o755)
    # A torch that fails as one without a driver does.
    (folder / "torch.py").write_text("raise RuntimeError('Found no NVIDIA driver\\nand more lines')\n")
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(folder)}
    command = [sys.executable, str(PROGRAM), "0.1", "0.5"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_each_card_without_figures_says_why(tmp_path: Path) -> None:
    status, out, _err = run(tmp_path, "printf 'GPU 0: Tesla T4 (UUID: GPU-a)\\nGPU 1: Tesla T4 (UUID: GPU-b)\\n'")
    wanted = [
        {"index": index, "uuid": uuid, "error": "Found no NVIDIA driver"}
        for index, uuid in enumerate(("GPU-a", "GPU-b"))
    ]
    assert (status, json.loads(out)["gpus"]) == (0, wanted)


def test_a_driver_that_lists_nothing_is_said_in_one_line(tmp_path: Path) -> None:
    status, out, err = run(tmp_path, "echo 'Unable to determine the device handle'; exit 1")
    assert (status, out) == (1, "")
    assert err.strip() == "nvidia-smi -L lists no GPU: Unable to determine the device handle"
