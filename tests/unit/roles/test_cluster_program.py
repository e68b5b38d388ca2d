"""What the program cluster.py answers, with a stand-in of Ray that prints what Ray prints."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[3] / "roles/ray/files/cluster.py"
RAY = """
import os
__version__ = "2.60.0"
print("imported")

def init(**settings):
    print("The node with node id: 1 has been marked dead")
    os.write(1, b"from a library in C\\n")

def nodes():
    return [{"Alive": True, "NodeID": "1", "NodeManagerAddress": "10.0.0.1", "Resources": {"host:gpu1": 1, "GPU": 2}}]
"""
# Two ranks of a vLLM that runs, one of them dead with its host; one of a vLLM that ended; an actor of somebody else.
STATE = """
def actor(name, job, state, node):
    return {"ActorClassName": name, "JobID": job, "State": state, "Address": {"NodeID": node}}

class state:
    def job_table():
        return [{"JobID": "1", "IsDead": True}, {"JobID": "2", "IsDead": False}]

    def actor_table(actor_id):
        return {
            "a": actor("RayWorkerWrapper", "2", "ALIVE", "1"),
            "b": actor("RayWorkerWrapper", "2", "DEAD", "1"),
            "c": actor("RayWorkerProc", "2", "DEAD", "2"),
            "d": actor("RayWorkerWrapper", "1", "DEAD", "1"),
            "e": actor("Other", "2", "DEAD", "1"),
        }
"""
UTIL = "def placement_group_table():\n    print('a warning')\n    return {}\n"


def ask(tmp_path: Path, *planned: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/__init__.py").write_text(RAY)
    (tmp_path / "ray/util.py").write_text(UTIL)
    (tmp_path / "ray/_private").mkdir()
    (tmp_path / "ray/_private/__init__.py").touch()
    (tmp_path / "ray/_private/state.py").write_text(STATE)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        command = [sys.executable, str(PROGRAM), address, *planned]
        environment = {"PYTHONPATH": str(tmp_path)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_the_answer_stands_alone_on_standard_output(tmp_path: Path) -> None:
    done = ask(tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "ray": "2.60.0",
        "nodes": [{"id": "1", "host": "gpu1", "address": "10.0.0.1", "gpus": 2}],
        "ranks": [],
        "lost": ["RayWorkerProc on a host that is gone", "RayWorkerWrapper on gpu1"],
    }
    for part in ("imported", "has been marked dead", "from a library in C", "a warning"):
        assert part in done.stderr


def test_it_succeeds_once_the_planned_hosts_have_joined_with_their_gpus(tmp_path: Path) -> None:
    for number, (planned, status) in enumerate(((["gpu1=2"], 0), (["gpu1=1"], 3), (["gpu1=2", "gpu2=2"], 3))):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = ask(folder, *planned)
        assert done.returncode == status
        assert json.loads(done.stdout)["nodes"][0]["host"] == "gpu1"
