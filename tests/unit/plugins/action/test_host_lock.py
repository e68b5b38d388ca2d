"""Hosts a and b, both this machine with a folder of its own each: taken together or not at all, and given back."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.lock import this_run

from tests.support.playbooks import playbook

# Playbooks in processes.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[4]
INVENTORY = """
all:
  hosts: {a: , b: }
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    llm_host_dir: "{{ inventory_dir }}/{{ inventory_hostname }}"
    vllm_model: lab/tiny
    vllm_version: "0.8.5"
  children:
    llm_deployments:
      children: {pair: {hosts: {a: , b: }}}
"""
PLAY = """
- hosts: llm_deployments
  gather_facts: false
  tasks:
    - baremetal.llm.gather:
        lock_file: "{{ llm_host_dir }}/lock.json"

- import_playbook: PLAYBOOKS/stages/lock.yml

- hosts: llm_deployments
  gather_facts: false
  tasks:
    - ansible.builtin.slurp:
        src: "{{ llm_host_dir }}/lock.json"
      register: held
    - ansible.builtin.copy:
        content: "{{ held.content | b64decode }}"
        dest: "{{ llm_host_dir }}/seen.json"
        mode: "0644"
    - ansible.builtin.import_role:
        name: baremetal.llm.preflight
        tasks_from: give_back
"""
OTHER = {"run": {"machine": "another", "pid": 1, "started": "1"}, "who": "ops@laptop", "since": 0}


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    (folder / "hosts.yml").write_text(INVENTORY)
    (folder / "play.yml").write_text(PLAY.replace("PLAYBOOKS", str(ROOT / "playbooks")))
    done = playbook("-i", folder / "hosts.yml", folder / "play.yml", *arguments)
    return done.returncode, done.stdout + done.stderr


def lock(folder: Path, host: str, name: str = "lock.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / host / name).read_text())
    return found


def held_by(folder: Path, host: str, holder: dict[str, Any]) -> None:
    (folder / host).mkdir(exist_ok=True)
    (folder / host / "lock.json").write_text(json.dumps({"format": 1, "given_back": 4, "holder": holder}))


def test_hosts_are_taken_and_given_back(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        over = this_run(process.pid)
    held_by(
        tmp_path, "b", {**over, "run": {**over["run"], "started": "1"}}
    )  # a run of this machine that ended without a word
    status, said = run(tmp_path)
    assert status == 0, said
    for host, before in (("a", 0), ("b", 4)):
        during = lock(tmp_path, host, "seen.json")["holder"]
        assert during["who"] == this_run(os.getpid())["who"]
        assert during["run"]["machine"] == this_run(os.getpid())["run"]["machine"]
        assert lock(tmp_path, host) == {"format": 1, "given_back": before + 1, "holder": None}


def test_all_are_refused_where_another_run_has_one(tmp_path: Path) -> None:
    held_by(tmp_path, "b", OTHER)
    status, said = run(tmp_path)
    assert status != 0
    assert "b is being changed by another run, of ops@laptop" in said
    assert "a is being changed" not in said
    assert lock(tmp_path, "a")["holder"] is None
    assert lock(tmp_path, "b") == {"format": 1, "given_back": 4, "holder": OTHER}
    assert not (tmp_path / "a/seen.json").exists()
    status, said = run(tmp_path, "--extra-vars=llm_take_over=true")
    assert status == 0, said
    assert lock(tmp_path, "b")["given_back"] == 5


def test_check_mode_takes_nothing(tmp_path: Path) -> None:
    held_by(tmp_path, "b", OTHER)
    (tmp_path / "a").mkdir()
    status, said = run(tmp_path, "--check")
    assert "is being changed" not in said
    assert not (tmp_path / "a/lock.json").exists()
    assert lock(tmp_path, "b")["holder"] == OTHER
    assert status in (0, 2), said  # slurp finds no file on a
