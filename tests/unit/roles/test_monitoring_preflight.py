"""Hosts that the role monitoring cannot watch, or that cannot watch, are refused before anything is changed: its own tasks, on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.playbooks import playbook

# Playbooks in processes.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
ROCKY = {"distribution": "Rocky", "distribution_version": "9.4", "os_family": "RedHat"}
DEBIAN = {"distribution": "Debian", "distribution_version": "12", "os_family": "Debian"}


def run(folder: Path, facts: dict[str, str], watches: bool = False, **variables: Any) -> tuple[int, str]:
    tasks = [
        # As the facts of a host: these, and not those of this machine.
        {"name": "Facts | Say them", "ansible.builtin.set_fact": {**facts, "cacheable": True}},
        {
            "name": "Role | Look",
            "ansible.builtin.include_role": {"name": "baremetal.llm.monitoring", "tasks_from": "preflight"},
        },
    ]
    play = [{"name": "Look", "hosts": "gpu01", "gather_facts": False, "tasks": tasks}]
    (folder / "play.yml").write_text(yaml.safe_dump(play))
    hosts = {"gpu01": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}}
    groups = {"llm_monitoring": {"hosts": {"gpu01": None} if watches else {}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": groups}}))
    arguments = ["--inventory", str(folder / "hosts.yml"), "--extra-vars", json.dumps(variables)]
    done = playbook(folder / "play.yml", *arguments)
    return done.returncode, done.stdout


@pytest.mark.parametrize("more", [{"watches": False}, {"watches": True, "monitoring_exporter_enabled": False}])
def test_a_system_without_the_packages_is_refused(tmp_path: Path, more: dict[str, Any]) -> None:
    status, said = run(tmp_path, ROCKY, **more)
    assert status == 2, said
    for part in ("Rocky 9.4", "monitoring_exporter_enabled: false", "node_exporter of your own"):
        assert part in said


@pytest.mark.parametrize("more", [{}, {"watches": True, "monitoring_mode": "rules_only"}])
def test_a_host_with_an_exporter_of_its_own_may_run_anything(tmp_path: Path, more: dict[str, Any]) -> None:
    status, said = run(tmp_path, ROCKY, monitoring_exporter_enabled=False, **more)
    assert status == 0, said


def test_more_metrics_than_the_disk_holds_are_refused(tmp_path: Path) -> None:
    data = {"monitoring_data_dir": str(tmp_path / "metrics")}
    status, said = run(tmp_path, DEBIAN, watches=True, monitoring_retention_gib=1000000, **data)
    assert status == 2, said
    for part in ("1000000 GiB on gpu01", "monitoring_retention_gib", str(tmp_path / "metrics")):
        assert part in said
    status, said = run(tmp_path, DEBIAN, watches=True, monitoring_retention_gib=0, **data)
    assert status == 0, said
    # Where nobody watches there is nothing to hold.
    assert run(tmp_path, DEBIAN, monitoring_retention_gib=1000000, **data)[0] == 0


def test_more_journals_than_the_disk_holds_are_refused(tmp_path: Path) -> None:
    more = {"watches": True, "monitoring_retention_gib": 0, "monitoring_journal_central_gib": 1000000}
    status, said = run(tmp_path, DEBIAN, monitoring_journal_central_enabled=True, **more)
    assert status == 2, said
    for part in ("1000000 GiB on gpu01", "monitoring_journal_central_gib", "/var/log/journal/remote"):
        assert part in said
    assert run(tmp_path, DEBIAN, **more)[0] == 0, "nobody sends one"
