"""playbooks/status.yml and playbooks/doctor.yml, as people call them: on this machine under a name, and on a host that does not answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.playbooks import playbook

# Playbooks in processes.
pytestmark = pytest.mark.slow

SILENT = {"ansible_connection": "ssh", "ansible_host": "127.0.0.9", "ansible_port": 9}
LOG = "(Worker_TP0 pid=1) ERROR 08-16 18:47:21 [core.py:456] RuntimeError: FlashAttention only supports Ampere GPUs or newer.\n"


def inventory(tmp_path: Path) -> Path:
    """A host that is this machine, on which nothing of ours runs, and one that does not answer."""
    path = tmp_path / "hosts.yml"
    variables = {"vllm_model": "org/a", "vllm_version": "0.8.5", "llm_offline": False, "llm_host_dir": str(tmp_path)}
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    children = {"here": {"hosts": {"gpu01": local}}, "there": {"hosts": {"gpu02": SILENT}}}
    path.write_text(
        yaml.safe_dump({"all": {"vars": variables, "children": {"llm_deployments": {"children": children}}}})
    )
    return path


def test_the_state_of_hosts(tmp_path: Path) -> None:
    run = playbook("playbooks/status.yml", "-i", inventory(tmp_path))
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 of 2 deployments serve." in run.stdout
    assert "No answer from gpu02" in run.stdout
    assert "changed=0" in run.stdout
    reports = tmp_path / ".llm/reports"
    document = json.loads((reports / "status.json").read_text())
    assert [(row["host"], row["state"]) for row in document["rows"]] == [("gpu01", "absent"), ("gpu02", "silent")]
    assert "gpu02" in (reports / "status.html").read_text()


def test_a_machine_reads_the_state(tmp_path: Path) -> None:
    words = ("-e", "llm_output=json", "--limit", "gpu01", "-e", "llm_language=zh")
    run = playbook("playbooks/status.yml", "-i", inventory(tmp_path), *words)
    assert run.returncode == 0, run.stdout + run.stderr
    text = run.stdout[run.stdout.index('{\n "schema"') :]
    document, _end = json.JSONDecoder().raw_decode(text)
    assert [row["host"] for row in document["rows"]] == ["gpu01"]


def test_what_is_broken_ends_with_1_and_what_is_not_known_with_2(tmp_path: Path) -> None:
    run = playbook("playbooks/doctor.yml", "-i", inventory(tmp_path))
    assert run.returncode == 1, run.stdout + run.stderr
    assert "llm-vllm of here on gpu01: not there." in run.stdout
    document = json.loads((tmp_path / ".llm/reports/doctor.json").read_text())
    assert (document["exit_code"], document["counts"]["unknown"] > 0) == (1, True)
    run = playbook("playbooks/doctor.yml", "-i", inventory(tmp_path), "--limit", "gpu02")
    assert run.returncode == 2, run.stdout + run.stderr
    assert "gpu02 could not be looked at (exit code 2)" in run.stdout + run.stderr


@pytest.mark.parametrize(("text", "code"), [(LOG, 1), ("INFO a\nINFO b\nINFO c\nINFO d\n", 0), ("", 2)])
def test_a_saved_log(tmp_path: Path, text: str, code: int) -> None:
    (tmp_path / "vllm.log").write_text(text)
    run = playbook("playbooks/doctor.yml", "-i", "localhost,", "-e", f"llm_log={tmp_path}/vllm.log")
    assert run.returncode == code, run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
