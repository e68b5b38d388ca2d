"""The folder of the backups: the role's own tasks, on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.support.playbooks import playbook
from tests.support.roles import ROLES

# Playbooks in processes.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mode", [0o700, 0o2775])
def test_a_folder_that_is_there_keeps_owner_and_modes(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    folder.chmod(mode)
    before = folder.stat()
    tasks = yaml.safe_load((ROLES / "monitoring/tasks/backup.yml").read_text(encoding="utf-8"))
    variables = {"monitoring_backup_dir": str(folder), "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = playbook(tmp_path / "play.yml", "-i", "localhost,", "-c", "local")
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout
    after = folder.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, os.getuid(), before.st_gid)
