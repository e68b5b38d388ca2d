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
UTIL = "def placement_group_table():\n    print('a warning')\n    return {}\n"


def test_the_answer_stands_alone_on_standard_output(tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/__init__.py").write_text(RAY)
    (tmp_path / "ray/util.py").write_text(UTIL)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        command = [sys.executable, str(PROGRAM), address]
        environment = {"PYTHONPATH": str(tmp_path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == {
        "ray": "2.60.0",
        "nodes": [{"id": "1", "host": "gpu1", "address": "10.0.0.1", "gpus": 2}],
        "ranks": [],
    }
    for part in ("imported", "has been marked dead", "from a library in C", "a warning"):
        assert part in done.stderr
