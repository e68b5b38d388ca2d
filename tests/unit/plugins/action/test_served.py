"""Two hosts, both this machine with a folder of its own each, note what they serve with, and go back to the version before."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.support.playbooks import playbook

# Playbooks in processes.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[4]
INVENTORY = """
all:
  hosts: {gpu1: , gpu2: , localhost: }
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    llm_host_dir: "{{ inventory_dir }}/{{ inventory_hostname }}"
    llm_engine: "{{ asked_engine | default('vllm') }}"
    vllm_version: "1"
    vllm_model: m
    vllm_environment: {HF_TOKEN: marked-secret, OPEN: x}
"""
PLAY = """
- hosts: gpu1:gpu2
  gather_facts: false
  vars:
    _llm: "{{ llm_decision.hosts[inventory_hostname] }}"
    _llm_lost: []
    section:
      {deployment: chat, engine: vllm, runtime: container, is_head: "{{ inventory_hostname == 'gpu1' }}", image: "image:1",
       names: {vllm: llm-vllm, ray: llm-ray}, environment: {made: false}, asked: {},
       models: [{model: m, folder: "{{ llm_host_dir }}/models/m", revision: r1, files: ""}],
       ray: {needed: false, environment_file: {names: []}}, vllm: {needed: true, environment_file: {names: [HF_TOKEN]}}}
  tasks:
    - ansible.builtin.set_fact:
        llm_inventory: {deployments: {chat: {hosts: [gpu1, gpu2], head: gpu1}}, names: {}}
      delegate_to: localhost
      delegate_facts: true
      run_once: true
    - ansible.builtin.file: {path: "{{ llm_host_dir }}/models/m", state: directory}
    - ansible.builtin.include_tasks: serve.yml
      loop: [a, b]
      loop_control: {loop_var: version}
    - baremetal.llm.gather: &look {host_dir: "{{ llm_host_dir }}", records_dir: "{{ llm_host_dir }}/records"}
    - ansible.builtin.set_fact: {llm_decision: {}}
    - baremetal.llm.served: {state: looked}
      register: __rollback_before
      no_log: true
    - baremetal.llm.upgrade_plan: {hosts: [gpu2], back: true}
      delegate_to: localhost
      run_once: true
      register: plan
    - ansible.builtin.debug: {msg: "{{ plan.lines }} {{ plan.turns }}"}
    - ansible.builtin.set_fact: {asked_engine: llama_cpp}
    - ansible.builtin.include_role: {name: baremetal.llm.common, tasks_from: go_back}
      vars: {common_go_back_reason: no token}
    - ansible.builtin.set_fact: {asked_engine: vllm}
    - baremetal.llm.gather: *look
    - ansible.builtin.copy:
        content: "{{ {'served': ansible_facts['llm_served'], 'decision': llm_decision, 'changed': __common_former.changed, 'ran': ran} | to_json }}"
        dest: "{{ llm_host_dir }}/found.json"
        mode: "0600"
"""
ROLE = """
- ansible.builtin.set_fact:
    ran: "{{ ran | default([]) + [[_common_role, llm_deployment, vllm_version, _common_goes_back, _common_closed | length, _llm.version, llm_engine]] }}"
"""
SERVE = """
- ansible.builtin.copy: {dest: "{{ llm_host_dir }}/models/m/weights", content: "{{ version }}", mode: "0644"}
- ansible.builtin.set_fact:
    llm_decision: {hosts: "{{ {inventory_hostname: section | combine({'version': version})} }}", plans: {chat: {ok: true}}}
- baremetal.llm.served: {state: begun}
- baremetal.llm.served: {state: kept}
"""


def test_a_deployment_goes_back_on_all_of_its_hosts(tmp_path: Path) -> None:
    for name, content in (("hosts.yml", INVENTORY), ("play.yml", PLAY), ("serve.yml", SERVE)):
        (tmp_path / name).write_text(content)
    # The tasks that go back are the real ones, and the roles that they run only note with what.
    collection = tmp_path / "collections/ansible_collections/baremetal/llm"
    for role in ("ray", "vllm"):
        (collection / "roles" / role / "tasks").mkdir(parents=True)
        (collection / "roles" / role / "tasks/main.yml").write_text(ROLE)
    (collection / "roles/common/tasks").mkdir(parents=True)
    (collection / "roles/common/tasks/go_back.yml").symlink_to(ROOT / "roles/common/tasks/go_back.yml")
    for name in ("plugins", "meta"):
        (collection / name).symlink_to(ROOT / name)
    environment = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections")}
    done = playbook("-i", tmp_path / "hosts.yml", tmp_path / "play.yml", "-vvv", environment=environment)
    assert done.returncode == 0, done.stdout
    assert "chat on gpu1, gpu2: back to image:1, release 1, m@r1, since" in done.stdout
    for host in ("gpu1", "gpu2"):
        found: dict[str, Any] = json.loads((tmp_path / host / "found.json").read_text())
        assert (tmp_path / host / "models/m/weights").read_text() == "a"
        assert [state["version"] for state in found["served"]["states"]] == ["a"]
        returned = found["served"]["returned"]
        assert (returned["version"], returned["image"], returned["reason"]) == ("b", "image:1", "no token")
        assert found["served"]["begun"] is None
        assert found["changed"] is True
        assert found["ran"] == [[role, "chat", "1", True, 1, "a", "vllm"] for role in ("ray", "vllm")]
        assert found["decision"]["hosts"][host]["version"] == "a"
        assert found["decision"]["plans"] == ({"chat": {"ok": True}} if host == "gpu1" else {})
        # The secret is in this file alone, and nobody else reads it.
        note = tmp_path / host / "served.json"
        assert "marked-secret" in note.read_text()
        assert stat.S_IMODE(note.stat().st_mode) == 0o600
    shown = done.stdout.replace(INVENTORY, "")
    assert "marked-secret" not in shown
