"""The hosts of a play, by what was found in earlier plays and what playbooks say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.playbooks import playbook

PLAYBOOK = """
- name: Nothing is known yet
  ansible.builtin.import_playbook: stage.yml

- name: Decide
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Remember where there is nothing to do
      ansible.builtin.set_fact:
        llm_left_out: {prepare: ":!gpu1:!gpu3", serve: ""}

- name: By what was decided
  ansible.builtin.import_playbook: stage.yml

- name: Whatever was decided
  ansible.builtin.import_playbook: stage.yml
  vars:
    llm_left_out: {}
"""
STAGE = """
- name: Prepare
  hosts: "{{ lookup('baremetal.llm.stage_hosts', 'prepare') }}"
  gather_facts: false
  tasks:
    - name: Say who takes part
      ansible.builtin.debug:
        msg: "hosts {{ ansible_play_hosts | join(' ') }}."
      run_once: true
"""


def hosts(folder: Path, *arguments: str) -> list[str]:
    (folder / "stage.yml").write_text(STAGE)
    (folder / "playbook.yml").write_text(PLAYBOOK)
    (folder / "hosts").write_text("[llm_deployments]\ngpu1\ngpu2\ngpu3\n")
    called = playbook("-i", folder / "hosts", *arguments, folder / "playbook.yml")
    assert called.returncode == 0, called.stdout + called.stderr
    return re.findall(r'"hosts ([^."]*)\."', called.stdout)


def test_hosts_with_nothing_to_do_are_left_out_unless_a_playbook_wants_all(tmp_path: Path) -> None:
    assert hosts(tmp_path) == ["gpu1 gpu2 gpu3", "gpu2", "gpu1 gpu2 gpu3"]


def test_a_limit_leaves_out_others_besides(tmp_path: Path) -> None:
    assert hosts(tmp_path, "--limit", "localhost,gpu1,gpu2") == ["gpu1 gpu2", "gpu2", "gpu1 gpu2"]


def test_a_single_node_is_prepared_alone(tmp_path: Path) -> None:
    assert hosts(tmp_path, "--extra-vars", "llm_node=gpu1") == ["gpu1", "gpu1"], "nothing is to be done there then"


ROLLING = """
- name: Decide
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Remember the batches
      ansible.builtin.set_fact:
        llm_rolling: {sizes: [1, 2], hosts: "gpu3:gpu1:gpu2:gpu4"}
        llm_left_out: {serve: ":!gpu4"}
        cacheable: false

- name: Serve
  hosts: "{{ lookup('baremetal.llm.stage_hosts', 'serve') }}"
  serial: "{{ (hostvars | default({'localhost': {}}))['localhost'].llm_rolling.sizes | default([]) }}"
  gather_facts: false
  pre_tasks:
    - name: Say who takes part
      ansible.builtin.debug:
        msg: "hosts {{ ansible_play_batch | join(' ') }}."
      run_once: true

    - name: Say who failed before
      ansible.builtin.debug:
        msg: "failed {{ ansible_play_hosts_all | difference(ansible_play_hosts) | join(' ') }}."

    - name: Fail
      ansible.builtin.fail:
        msg: on purpose
      when: inventory_hostname == fails | default('')
"""


@pytest.mark.slow
def test_the_stage_serve_goes_by_batches_and_knows_who_failed(tmp_path: Path) -> None:
    (tmp_path / "playbook.yml").write_text(ROLLING)
    (tmp_path / "hosts").write_text("[llm_deployments]\ngpu1\ngpu2\ngpu3\ngpu4\n")

    def output(*arguments: str) -> str:
        return playbook("-i", tmp_path / "hosts", tmp_path / "playbook.yml", *arguments).stdout

    assert output("--syntax-check").strip().startswith("playbook:")
    assert re.findall(r'"hosts ([^."]*)\."', output()) == ["gpu3", "gpu1 gpu2"]
    # A batch that fails as a whole ends the play.
    assert re.findall(r'"hosts ([^."]*)\."', output("-e", "fails=gpu3")) == ["gpu3"]
    # Of the others it is known who failed.
    assert re.findall(r'"failed ([^."]*)\."', output("-e", "fails=gpu1", "-e", '{"llm_left_out": {}}'))[-1] == "gpu1"


FORMER = """
- name: Look at the hosts
  hosts: all
  gather_facts: false
  tasks:
    - name: Remember what was found
      ansible.builtin.set_fact:
        llm_records: "{{ {former: {}} if inventory_hostname in ['gpu1', 'gpu3'] else {} }}"
        cacheable: true

- name: Remove it
  hosts: "{{ lookup('baremetal.llm.stage_hosts', former ~ '_former') }}"
  gather_facts: false
  tasks:
    - name: Say who takes part
      ansible.builtin.debug:
        msg: "hosts {{ ansible_play_hosts | join(' ') }}."
      run_once: true
"""


@pytest.mark.parametrize("former", ["gateway", "web_ui"])
def test_a_host_that_is_no_gateway_any_more_is_found_by_its_record(tmp_path: Path, former: str) -> None:
    (tmp_path / "playbook.yml").write_text(FORMER)
    (tmp_path / "hosts").write_text("[llm_deployments]\ngpu1\ngpu2\ngpu3\n[llm_gateway]\ngpu3\n")
    arguments = ("-i", tmp_path / "hosts", "-e", f"former={former}", tmp_path / "playbook.yml")
    called = playbook(*arguments)
    assert called.returncode == 0, called.stdout + called.stderr
    assert re.findall(r'"hosts ([^."]*)\."', called.stdout) == ["gpu1"]
    assert playbook("--syntax-check", *arguments).returncode == 0


ABSENT = """
- name: Settle
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Remember who takes part
      ansible.builtin.set_fact:
        llm_left_out: {prepare: ":!gpu3"}
        llm_inventory: {out: [gpu1]}

- name: Whoever takes part
  hosts: "{{ query('baremetal.llm.stage_hosts', STAGES) }}"
  gather_facts: false
  tasks:
    - name: Say who takes part
      ansible.builtin.debug:
        msg: "hosts {{ ansible_play_hosts | join(' ') }}."
      run_once: true
"""


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ("'prepare'", ["gpu2"]),
        ("'llm_deployments', 'llm_monitoring'", ["gpu2 gpu3 gpu4"]),
        ("'watcher'", ["gpu4"]),
        pytest.param("'llm_gateway'", [], marks=pytest.mark.slow),
    ],
)
def test_hosts_that_do_not_take_part_are_in_no_play(tmp_path: Path, stages: str, expected: list[str]) -> None:
    (tmp_path / "playbook.yml").write_text(ABSENT.replace("STAGES", stages))
    (tmp_path / "hosts").write_text(
        "[llm_deployments]\ngpu1\ngpu2\ngpu3\n[llm_monitoring]\ngpu1\ngpu4\n[llm_gateway]\ngpu1\n"
    )
    called = playbook("-i", tmp_path / "hosts", tmp_path / "playbook.yml")
    assert called.returncode == 0, called.stdout + called.stderr
    assert re.findall(r'"hosts ([^."]*)\."', called.stdout) == expected
