"""Tasks of a role on this machine, which stands for hosts a and b, with a stand-in of the docker command."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = """
all:
  hosts:
    a: {llm_interface: {interface: lo, address: 127.0.0.1}}
    b: {llm_interface: {interface: lo, address: 127.0.0.2}}
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    llm_deployment: pair
"""
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: baremetal.llm.ROLE
        tasks_from: TASKS
        public: true
    - ansible.builtin.debug:
        msg: "{{ SHOWN }}"
"""


def run_tasks(
    folder: Path, role: str, tasks: str, docker: str, known: Mapping[str, Any], shown: str = "''"
) -> tuple[int, str, list[str]]:
    """The exit status, what the playbook said of host a, and each line that the stand-in wrote into the file $CALLS."""
    play = PLAY.replace("ROLE", role).replace("TASKS", tasks).replace("SHOWN", shown)
    for name, text in {"play.yml": play, "hosts.yml": INVENTORY, "docker": f"#!/bin/sh\n{docker}"}.items():
        (folder / name).write_text(text)
    (folder / "docker").chmod(0o755)
    (folder / "calls").touch()
    done = subprocess.run(
        ["ansible-playbook", folder / "play.yml", "-i", folder / "hosts.yml", "--limit", "a", "-e", json.dumps(known)],
        cwd=ROOT,
        env={
            **os.environ,
            "NO_COLOR": "1",
            "PATH": f"{folder}:{os.environ['PATH']}",
            "CALLS": str(folder / "calls"),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout, (folder / "calls").read_text().splitlines()
