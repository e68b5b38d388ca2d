"""playbooks/cleanup.yml, as people call it: on this machine under a name, and on a host that does not answer."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.support.playbooks import playbook

# Playbooks in processes.
pytestmark = pytest.mark.slow

SILENT = {"ansible_connection": "ssh", "ansible_host": "127.0.0.9", "ansible_port": 9}
# Of this machine itself nothing is removed: only this class, which has nothing but what lies in the test's own folder.
ONLY = ("-e", "llm_cleanup_what=transfers")


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """A host that is this machine, with two halves of files, and one that does not answer."""
    path, incoming = tmp_path / "hosts.yml", tmp_path / "llm/models/.incoming"
    variables = {
        "vllm_model": "org/a",
        "vllm_version": "0.8.5",
        "llm_offline": False,
        "llm_host_dir": str(tmp_path / "llm"),
    }
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    children = {"here": {"hosts": {"gpu01": local}}, "there": {"hosts": {"gpu02": SILENT}}}
    path.write_text(
        yaml.safe_dump({"all": {"vars": variables, "children": {"llm_deployments": {"children": children}}}})
    )
    incoming.mkdir(parents=True)
    for name, age in (("old", 3600), ("new", 0)):
        (incoming / name).write_text(name)
        os.utime(incoming / name, (time.time() - age,) * 2)
    return path


def left(inventory: Path) -> list[str]:
    return sorted(os.listdir(inventory.parent / "llm/models/.incoming"))


def test_nothing_goes_without_a_yes_and_a_look_changes_nothing(inventory: Path) -> None:
    run = playbook("playbooks/cleanup.yml", "-i", inventory, "-e", "llm_target=gpu01", *ONLY)
    assert run.returncode == 2, run.stdout + run.stderr
    assert "Nothing has been changed" in run.stdout
    run = playbook("playbooks/cleanup.yml", "-i", inventory, "-e", "llm_target=gpu01", *ONLY, "--check", "--diff")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "models/.incoming/old" in run.stdout
    assert "gpu01: 1 would be removed" in run.stdout
    assert left(inventory) == ["new", "old"]


def test_a_host_that_does_not_answer_is_named_and_the_other_is_freed_once(inventory: Path) -> None:
    words = ("-e", "llm_target=all", "-e", "llm_confirm=true", *ONLY)
    run = playbook("playbooks/cleanup.yml", "-i", inventory, *words)
    assert run.returncode == 4, run.stdout + run.stderr
    assert "gpu02: no answer" in run.stdout
    assert "gpu01: removed 1" in run.stdout
    assert left(inventory) == ["new"]
    document = json.loads((inventory.parent / ".llm/reports/cleanup.json").read_text())
    assert [(host["host"], host["answered"]) for host in document["hosts"]] == [("gpu01", True), ("gpu02", False)]
    journal = (inventory.parent / "llm/journal.jsonl").read_text()
    assert "cleanup.yml" in journal
    words = (
        "-e",
        "llm_target=gpu01",
        "-e",
        "llm_confirm=true",
        *ONLY,
        "-e",
        "llm_output=json",
        "-e",
        "llm_language=zh",
    )
    run = playbook("playbooks/cleanup.yml", "-i", inventory, *words)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "changed=1" not in run.stdout
    document, _end = json.JSONDecoder().raw_decode(run.stdout[run.stdout.index('{\n "schema"') :])
    assert document["hosts"][0]["removed"] == []


def test_a_class_that_nobody_knows_is_refused_before_a_host_is_touched(inventory: Path) -> None:
    run = playbook(
        "playbooks/cleanup.yml", "-i", inventory, "-e", "llm_target=all", "-e", "llm_cleanup_what=everything"
    )
    assert run.returncode == 2, run.stdout + run.stderr
    for part in ("everything", "-e llm_cleanup_what", "images, layers, models"):
        assert part in run.stdout
    assert "Look at the hosts" not in run.stdout
