"""What is stopped and removed on a host that sends its journal no longer: the role's own tasks, in a folder instead of /etc."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.playbooks import playbook
from tests.support.roles import ROLES, tasks_of

# Playbooks in processes.
pytestmark = pytest.mark.slow

ROLE = ROLES / "monitoring"
SENDS, COLLECTS = "_monitoring_journal_files", "_monitoring_journal_server_files"
SERVER = [
    "systemd-journal-remote.socket",
    "llm-journal-gate.service",
    "llm-journal-limit.timer",
    "systemd-journal-remote.service",
]


def off(folder: Path, *written: str) -> tuple[list[str], list[str]]:
    """The units that are stopped, and the files that are left, where these were written. No systemd is asked."""
    text = (ROLE / "vars/main.yml").read_text(encoding="utf-8")
    variables: dict[str, Any] = yaml.safe_load(re.sub(r"(?<= )/(?=etc|usr)", f"{folder}/", text))
    gate = variables["_monitoring_journal_gate"]
    places = {
        part: [file["path"].replace("{{ _monitoring_journal_gate }}", gate) for file in variables[part]["files"]]
        for part in (SENDS, COLLECTS)
    }
    for path in (Path(place) for part in written for place in places[part]):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    tasks = list(tasks_of(ROLE / "tasks/journal_off.yml"))
    (stop,) = (task for task in tasks if "ansible.builtin.systemd_service" in task)
    del stop["ansible.builtin.systemd_service"]
    stop["ansible.builtin.debug"] = {"msg": "stop {{ item }}"}
    variables["ansible_python_interpreter"] = "{{ ansible_playbook_python }}"
    play = {"name": "Off", "hosts": "watch2", "gather_facts": False, "vars": variables, "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    # The second host that watches: only the first one collects.
    hosts = {"watch1": None, "watch2": {"ansible_connection": "local"}}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"llm_monitoring": {"hosts": hosts}}))
    done = playbook(folder / "play.yml", "-i", str(folder / "hosts.yml"))
    assert done.returncode == 0, done.stdout
    left = [str(path) for part in ("etc", "usr") for path in (folder / part).rglob("*") if path.is_file()]
    return re.findall(r'"stop ([^"]+)"', done.stdout), left


@pytest.mark.parametrize(
    ("written", "stopped"),
    [
        ((), []),
        ((SENDS,), ["systemd-journal-upload.service"]),
        ((SENDS, COLLECTS), ["systemd-journal-upload.service", *SERVER]),
        ((COLLECTS,), SERVER),
    ],
    ids=["neither", "sends", "both", "collects"],
)
def test_what_was_started_is_stopped_and_nothing_else(
    tmp_path: Path, written: tuple[str, ...], stopped: list[str]
) -> None:
    """A unit that is not there cannot be stopped: the task would fail."""
    assert off(tmp_path, *written) == (stopped, [])
