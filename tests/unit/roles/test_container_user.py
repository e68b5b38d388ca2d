"""A user of the containers who cannot serve is refused before a container is replaced."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.tasks import decision, run_tasks

# Playbooks in processes.
pytestmark = pytest.mark.slow

WEIGHTS = "/opt/llm/models/lab--tiny/model.safetensors"
DOCKER = 'echo "$1" >>"$CALLS"; {answer}'


def verify(folder: Path, answer: str, language: str = "en", **variables: Any) -> tuple[int, str, list[str]]:
    known = {"llm_decision": decision("mp", **variables), "llm_language": language}
    return run_tasks(folder, "common", "user.yml", DOCKER.format(answer=answer), known)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_the_user_cannot_read_is_named(tmp_path: Path, language: str) -> None:
    cannot = f"echo '{WEIGHTS}: Permission denied' >&2; exit 1"
    status, said, calls = verify(tmp_path, cannot, language, vllm_version="0.32.0")
    assert (status, set(calls)) == (2, {"run"})
    for part in (f"{WEIGHTS}: Permission denied", "70000", "llm_container_uid"):
        assert part in said


def test_one_who_can_is_not_mentioned(tmp_path: Path) -> None:
    status, said, calls = verify(tmp_path, "exit 0", vllm_version="0.32.0")
    assert (status, set(calls)) == (0, {"run"}), said


def test_root_is_not_tried(tmp_path: Path) -> None:
    status, said, calls = verify(tmp_path, "exit 1", vllm_version="0.8.5")
    assert (status, calls) == (0, []), said


def test_one_whose_container_hangs_is_told_in_time(tmp_path: Path) -> None:
    """The stand-in of timeout waits one second."""
    (tmp_path / "timeout").write_text(f'#!/bin/sh\nshift; exec {shutil.which("timeout")} 1 "$@"\n')
    (tmp_path / "timeout").chmod(0o755)
    status, said, calls = verify(tmp_path, "exec sleep 600", vllm_version="0.32.0")
    assert (status, set(calls)) == (2, {"run"})
    assert "no answer within 300 s. Nothing was started" in said
