"""A container that does not see the GPUs of its host, and an engine that does not answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.tasks import decision, run_tasks

# Playbooks in processes.
pytestmark = pytest.mark.slow


def verify(folder: Path, docker: str, limit: int = 1) -> tuple[int, str, list[str]]:
    """The stand-in of timeout waits so many seconds, and that of nvidia-smi sees one GPU."""
    texts = {"timeout": f'shift; exec {shutil.which("timeout")} {limit} "$@"', "nvidia-smi": "echo 'GPU 0: A'"}
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    known = {"llm_decision": decision("mp"), "nvidia_container_toolkit_verify_image": "image"}
    docker = f'echo "$1" >>"$CALLS"; case $1 in {docker} esac'
    return run_tasks(folder, "nvidia_container_toolkit", "verify.yml", docker, known)


@pytest.mark.parametrize(
    ("docker", "status", "called"),
    [
        ("image) echo sha256:1 ;; run) echo 'GPU 0: A' ;;", 0, ["image", "run"]),
        ("image) exit 1 ;;", 0, ["image"]),
        ("image) echo sha256:1 ;; run) exit 1 ;;", 2, ["image", "run"]),
    ],
    ids=["sees them", "no image", "sees none"],
)
def test_a_container_sees_what_the_host_sees(tmp_path: Path, docker: str, status: int, called: list[str]) -> None:
    found, said, calls = verify(tmp_path, docker, 60)
    assert (found, calls) == (status, called), said


def test_an_engine_that_hangs_is_no_image_that_is_missing(tmp_path: Path) -> None:
    status, said, calls = verify(tmp_path, "image) exec sleep 600 ;;")
    assert (status, calls) == (2, ["image"]), said


def test_a_container_that_hangs_is_told_with_what_the_host_sees(tmp_path: Path) -> None:
    status, said, calls = verify(tmp_path, "image) echo sha256:1 ;; run) exec sleep 600 ;;")
    assert (status, calls) == (2, ["image", "run"])
    for part in ("does not see the GPUs", "GPU 0: A", "no answer within 300 s"):
        assert part in said
