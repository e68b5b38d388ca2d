"""The turns of an upgrade: which hosts change, go back or are left alone where one of them fails. The roles only note that they ran."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.playbooks import playbook

# Playbooks in processes.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
INVENTORY = """
all:
  hosts: {a1: , a2: , b: , localhost: }
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    fails: ""
"""
FACTS = """
- hosts: localhost:a1:a2:b
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact:
        llm_turns: {hosts: "a1:a2:b", sizes: [2, 1], canaries: [a]}
        llm_work: {prepare: {a1: []}}
        ansible_facts: {llm_served: {states: [{version: before}]}}
        llm_decision:
          hosts:
            a1: {deployment: a, engine: vllm, is_head: true, roles: [ray, vllm], measures: true}
            a2: {deployment: a, engine: vllm, is_head: false, roles: [ray, vllm], measures: true}
            b: {deployment: b, engine: vllm, is_head: true, roles: [ray, vllm], measures: true}
"""
NOTE = """
- ansible.builtin.lineinfile:
    path: "{{ inventory_dir }}/said.{{ inventory_hostname }}"
    line: "%s {{ common_go_back_to | default('') }} {{ common_go_back_reason | default('') }}"
    create: true
- ansible.builtin.fail: {msg: "%s is broken"}
  when: fails == '%s ' ~ inventory_hostname
"""
ENDS = """
- hosts: a1:a2:b
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "still there: {{ inventory_hostname }}"}
"""
CHANGED = {
    "a1": ["before", "machine", "ray", "vllm", "canary", "report"],
    "a2": ["ray", "vllm"],
    "b": ["ray", "vllm", "report"],
}


def walk(folder: Path, fails: str, *other: str) -> tuple[str, dict[str, list[str]]]:
    """The output of the play, and what was done on each host. ``other`` is a text of the decision, and what stands there in its place."""
    playbooks = folder / "playbooks"
    (playbooks / "tasks").mkdir(parents=True)
    roles = folder / "ansible_collections/baremetal/llm/roles"
    for role, files in {
        "ray": ["main"],
        "vllm": ["main", "canary_before", "canary", "report"],
        "common": ["go_back"],
    }.items():
        (roles / role / "tasks").mkdir(parents=True)
        for file in files:
            said = {"main": role, "canary_before": "before"}.get(file, file)
            (roles / role / "tasks" / f"{file}.yml").write_text(NOTE % (said, said, said))
    collection = roles.parent
    (collection / "plugins").symlink_to(ROOT / "plugins")
    (collection / "meta").symlink_to(ROOT / "meta")
    (playbooks / "tasks/stage.yml").write_text((ROOT / "playbooks/tasks/stage.yml").read_text())
    (playbooks / "tasks/renew_machine.yml").write_text(NOTE % (("machine",) * 3))
    (folder / "hosts.yml").write_text(INVENTORY)
    play = next(
        each
        for each in yaml.safe_load((ROOT / "playbooks/upgrade.yml").read_text())
        if each["name"].endswith("after the other")
    )
    text = (FACTS.replace(*other) if other else FACTS) + yaml.safe_dump([play], sort_keys=False) + ENDS
    (playbooks / "play.yml").write_text(text)
    done = playbook(
        *("-i", folder / "hosts.yml", playbooks / "play.yml", "-e", f"fails='{fails}'"),
        environment={"ANSIBLE_COLLECTIONS_PATH": str(folder)},
    )
    found = {}
    for host in CHANGED:
        note = folder / f"said.{host}"
        found[host] = [line.strip() for line in note.read_text().splitlines()] if note.exists() else []
    return done.stdout, found


def test_replicas_take_turns_and_the_first_is_compared(tmp_path: Path) -> None:
    output, found = walk(tmp_path, "")
    assert found == CHANGED, output


def test_an_engine_that_measures_nothing_is_changed_without_a_comparison(tmp_path: Path) -> None:
    output, found = walk(tmp_path, "", "roles: [ray, vllm], measures: true", "roles: [vllm], measures: false")
    assert found == {"a1": ["machine", "vllm", "report"], "a2": ["vllm"], "b": ["vllm", "report"]}, output


@pytest.mark.parametrize("fails", ["vllm a1", "ray a2", "canary a1", "before a1", "machine a1"])
def test_a_deployment_goes_back_as_a_whole_and_the_next_is_left_alone(tmp_path: Path, fails: str) -> None:
    output, found = walk(tmp_path, fails)
    back = f"go_back before {fails.split()[0]} is broken"
    assert (found["a1"][-1], found["a2"][-1], found["b"]) == (back, back, []), output
    # All of them are in the plays that follow, which give the hosts back.
    assert all(f"still there: {host}" in output for host in CHANGED)


def test_where_the_last_replica_fails_the_others_stay(tmp_path: Path) -> None:
    output, found = walk(tmp_path, "vllm b")
    assert (found["a1"], found["a2"]) == (CHANGED["a1"], CHANGED["a2"]), output
    assert found["b"] == ["ray", "vllm", "go_back before vllm is broken"]
