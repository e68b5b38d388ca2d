"""A line while a task goes on: in a real run, and what it says of several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.progress import Progress

ROOT = Path(__file__).resolve().parents[4]
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Quick
      ansible.builtin.command: "true"
    - name: Slow
      ansible.builtin.command: sleep 3
      when: inventory_hostname == 'one'
"""


def run(folder: Path, **settings: str) -> list[str]:
    """The lines of a play with two tasks, one of which takes three seconds."""
    (folder / "play.yml").write_text(PLAY)
    hosts = "one ansible_connection=local\ntwo ansible_connection=local\n"
    (folder / "hosts").write_text(f"{hosts}[all:vars]\nansible_python_interpreter={sys.executable}\n")
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", folder / "hosts", folder / "play.yml"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("language", "line"), [("en", "Slow: still running after "), ("zh", "Slow：已运行 ")])
def test_a_slow_task_is_told_of_with_its_host(tmp_path: Path, language: str, line: str) -> None:
    said = run(tmp_path, LLM_PROGRESS_EVERY_SECONDS="1", LLM_PROGRESS_LANGUAGE=language)
    mine = [one for one in said if one.startswith(line)]
    assert mine
    assert all("one" in one and "two" not in one for one in mine)


@pytest.mark.slow
def test_the_checkout_has_it_and_a_quick_run_prints_nothing_of_it(tmp_path: Path) -> None:
    assert not any("still running" in line for line in run(tmp_path))


def test_hosts_of_one_task_are_one_line() -> None:
    running = Progress(every=60)
    running.began("a", "Load", 0)
    running.began("b", "Load", 30)
    running.began("c", "Copy", 30)
    assert running.lines(89) == []
    assert running.lines(90) == [
        "Load: still running after 2 min on a, b",
        "Copy: still running after 60 s on c",
    ]
    assert running.lines(149) == [], "the line itself was one"
    running.said(150)
    assert running.lines(209) == [], "an item or another try is a line as well"
    running.ended("a", 210)
    running.ended("b", 210)
    assert running.lines(270) == ["Copy: still running after 4 min on c"]
    running.ended("c", 271)
    assert running.lines(1000) == []
