"""The files of a role, by ansible-playbook onto this machine: as they are, and rendered."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.playbooks import playbook

REPOSITORY = Path(__file__).resolve().parents[4]
PLAY = """
- hosts: localhost
  gather_facts: false
  vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}", port: 8000}
  roles: [server]
"""
TASKS = """
- baremetal.llm.files:
    folders: [{path: "{{ there }}/scripts"}]
    files:
      - {path: "{{ there }}/scripts/start.sh", copy: start.sh, mode: "0755"}
      - {path: "{{ there }}/unit", template: unit.j2}
      - {path: "{{ there }}/said", content: "{{ port }}"}
  register: written
- debug: {msg: "RESULT {{ written | to_json }}"}
"""
# Braces of a shell script are not Ansible's; blank lines at the end are part of a file.
SCRIPT = '#!/bin/sh\necho "{{ port }}"\n\n'


def test_the_role_has_files_and_templates(tmp_path: Path) -> None:
    role, there = tmp_path / "roles/server", tmp_path / "there"
    files = {"tasks/main.yml": TASKS, "files/start.sh": SCRIPT, "templates/unit.j2": "port={{ port }}\n\n"}
    for name, text in files.items():
        (role / name).parent.mkdir(parents=True)
        (role / name).write_text(text)
    (tmp_path / "play.yml").write_text(PLAY)
    done = playbook("-i", "localhost,", "-c", "local", "-e", f"there={there}", tmp_path / "play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (there / "scripts/start.sh").read_text() == SCRIPT
    assert (there / "scripts/start.sh").stat().st_mode & 0o777 == 0o755
    assert ((there / "unit").read_text(), (there / "said").read_text()) == ("port=8000\n\n", "8000")
    shown = next(line for line in done.stdout.splitlines() if "RESULT " in line)
    paths = json.loads(json.loads("{" + shown.strip() + "}")["msg"].removeprefix("RESULT "))["changed_paths"]
    assert paths == [str(there / name) for name in ("scripts", "scripts/start.sh", "unit", "said")]
