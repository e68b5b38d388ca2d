"""Tasks of a role on this machine, which stands for hosts a and b, with a stand-in of the docker command."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names

from tests.support.deployments import host
from tests.support.playbooks import playbook

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = """
all:
  hosts: {a: , b: }
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
        msg: SHOWN
"""


def decision(executor: str, **variables: Any) -> dict[str, Any]:
    """What is decided for a and b, which have a rank each; a is the head."""
    nodes = [{"host": "a", "ranks": [0]}, {"host": "b", "ranks": [1]}]
    plan = {"ok": True, "executor": executor, "nodes": nodes, "settings": {}}
    known = {
        name: host(number, llm_interface={"interface": "lo", "address": f"127.0.0.{number}"}, **variables)
        for number, name in enumerate(("a", "b"), start=1)
    }
    pair = Deployment("pair", "a", ["a", "b"], plan, "image", known)
    about = {
        "engine": "vllm",
        "deployment": "pair",
        "head": "a",
        "planned": pair.planned,
        "unknown": [],
        "former": [],
        "environment": {"made": False},
    }
    hosts = {name: {**about, "names": {**names(sharing=[name]), "folder": "/opt/llm"}} for name in known}
    return {"plans": {"pair": plan}, "hosts": {name: {**hosts[name], **host_sections(pair.of(name))} for name in known}}


def _as_it_is(known: Any) -> Any:
    """The same with texts that Ansible takes for no templates, as it does with what a module returned: docker has braces in its own formats."""
    if isinstance(known, Mapping):
        return {name: _as_it_is(value) for name, value in known.items()}
    if isinstance(known, (list, tuple)):
        return [_as_it_is(value) for value in known]
    return {"__ansible_unsafe": known} if isinstance(known, str) and "{{" in known else known


def run_tasks(
    folder: Path, role: str, tasks: str, docker: str, known: Mapping[str, Any], shown: str = ""
) -> tuple[int, str, list[str]]:
    """The exit status, what the playbook said of host a, and each line that the stand-in wrote into the file $CALLS."""
    play = PLAY.replace("ROLE", role).replace("TASKS", tasks).replace("SHOWN", json.dumps(shown))
    for name, text in {"play.yml": play, "hosts.yml": INVENTORY, "docker": f"#!/bin/sh\n{docker}"}.items():
        (folder / name).write_text(text)
    (folder / "docker").chmod(0o755)
    (folder / "calls").touch()
    arguments = [folder / "play.yml", "-i", folder / "hosts.yml", "--limit", "a", "-e", json.dumps(_as_it_is(known))]
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(folder / "calls")}
    done = playbook(*arguments, environment=environment)
    return done.returncode, done.stdout, (folder / "calls").read_text().splitlines()
