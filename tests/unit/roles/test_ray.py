"""A Ray node that waits for its head, and a playbook that waits for the hosts of a cluster."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tasks import ROOT, decision, run_tasks

# Playbooks in processes.
pytestmark = pytest.mark.slow

# Only the missing host is asked for its log and its state.
DOCKER = """
echo "$1" >>"$CALLS"
case $1 in
exec) {exec} ;;
logs) echo "AuthenticationError: no token" >&2 ;;
inspect) echo "restarting, restarted 4 times" ;;
esac
"""
JOINED = json.dumps({"ray": "2.60.0", "nodes": [{"host": "a", "address": "127.0.0.1", "gpus": 1}], "ranks": []})


def wait(folder: Path, answer: str, seconds: float, language: str = "en") -> tuple[str, list[str]]:
    """What the playbook said, and what was asked of docker."""
    with socket.create_server(("", 0)) as server:  # for both hosts, so that none waits for the other
        port = server.getsockname()[1]
        known = {
            "llm_decision": decision("ray", ray_port=port),
            "ray_wait_seconds": str(seconds),
            "llm_language": language,
            "ray_port": port,
            "ray_node_manager_port": port,
        }
        status, said, calls = run_tasks(folder, "ray", "wait.yml", DOCKER.format(exec=answer), known)
    assert status == 2, said
    return said, calls


def test_the_missing_host_is_told_with_the_state_and_the_log_of_its_container(tmp_path: Path) -> None:
    said, calls = wait(tmp_path, f"sleep 0.2; echo '{JOINED}'", 0.1)
    for part in (
        "pair: not all hosts joined",
        "b has another Ray token than the head, or none",
        "its state: restarting, restarted 4 times",
        "AuthenticationError: no token",
    ):
        assert part in said
    assert "a has" not in said
    assert calls[-2:] == ["logs", "inspect"]


def test_an_engine_that_hangs_is_what_is_told(tmp_path: Path) -> None:
    """The stand-in of timeout waits one second."""
    (tmp_path / "timeout").write_text(f'#!/bin/sh\nshift; exec {shutil.which("timeout")} 1 "$@"\n')
    (tmp_path / "timeout").chmod(0o755)
    said, calls = wait(tmp_path, f"echo '{JOINED}'; exit 0 ;;\nlogs | inspect) exec sleep 600", 0.1)
    assert calls[-2:] == ["logs", "inspect"]
    assert "the Docker Engine of b does not answer" in said


def test_asking_slowly_does_not_make_the_wait_longer(tmp_path: Path) -> None:
    """Ray may take a minute to say that it does not answer."""
    said, calls = wait(tmp_path, "sleep 1.5; echo no cluster >&2; exit 1", 1, "zh")
    assert calls.count("exec") == 1
    for part in ("pair：并非所有主机都在 1 秒内加入", "no cluster", "a, b 均在集群中"):
        assert part in said


def test_a_head_that_is_not_there_yet_is_told_at_once(tmp_path: Path) -> None:
    """Ray's own client would hang, and the time to wait for hosts would be gone."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/__init__.py").write_text("def init(**options):\n    raise SystemExit('Ray was asked')\n")
    (tmp_path / "ray/util.py").write_text("placement_group_table = None\n")
    (tmp_path / "ray/_private").mkdir()
    (tmp_path / "ray/_private/__init__.py").touch()
    (tmp_path / "ray/_private/state.py").write_text("state = None\n")

    def ask(port: int) -> str:
        program = [sys.executable, ROOT / "roles/ray/files/cluster.py", f"127.0.0.1:{port}"]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(program, env=environment, capture_output=True, text=True, check=False, timeout=60).stderr

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ask(port) == "Ray was asked\n"
    assert ask(port).startswith(f"Ray does not answer at 127.0.0.1:{port}: ")


def test_a_head_that_is_silent_is_asked_again_soon(tmp_path: Path) -> None:
    """What drops packets says nothing: the kernel would try for two minutes, and then with long pauses."""
    # All that is waited for takes a quarter of its time.
    programs = {"ray": 'echo "ray $*"'}
    for name in ("sleep", "timeout"):
        programs[name] = f'n=$1; shift; exec {shutil.which(name)} "$((n / 4)).$((n % 4 * 25))" "$@"'
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):  # nobody takes it, and there is no place for another one
            environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
            # By its path, so that it is none of those above: 10 s are 10 s.
            started = [
                shutil.which("timeout"),
                "10",
                "bash",
                ROOT / "roles/ray/files/start-ray.sh",
                f"--address=127.0.0.1:{port}",
            ]
            with subprocess.Popen(started, env=environment, stdout=subprocess.PIPE, text=True) as program:
                said = program.stdout.readline()
                program.terminate()
    assert said == f"waiting for the Ray head at 127.0.0.1:{port}\n"
