"""Nothing that a role waits for can hang for ever: an engine that does not answer, a unit that does not come up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.roles import ROLES, tasks_of

FILES = sorted([*ROLES.glob("*/tasks/*.yml"), *ROLES.glob("*/handlers/*.yml")])
UNITS = sorted(path for path in ROLES.glob("*/templates/*.service.j2"))
# As its publisher has it: an engine with many containers may take long, and systemd tells when it is up.
WITHOUT_LIMIT = {"docker.service.j2"}


def asks_docker(task: dict[str, Any]) -> bool:
    command = task.get("ansible.builtin.command") or {}
    argv = command.get("argv") or str(command.get("cmd", "")).split()
    commands = task.get("loop") if argv == "{{ item }}" else [argv]
    return any(words and words[0] == "docker" for words in commands if isinstance(words, list))


def test_every_question_to_docker_has_a_limit() -> None:
    asking = [(path, task) for path in FILES for task in tasks_of(path) if asks_docker(task)]
    assert len(asking) > 8
    assert [f"{path.relative_to(ROLES)}: {task['name']}" for path, task in asking if "timeout" not in task] == []
    assert all(30 <= task["timeout"] <= 600 for _path, task in asking)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_every_unit_has_a_limit(path: Path) -> None:
    """systemd's own is 90 s, but for what runs once: that may take for ever."""
    lines = path.read_text().splitlines()
    assert [line for line in lines if line.startswith("TimeoutStartSec=")] != [] or "Type=oneshot" not in lines
    assert ("TimeoutStartSec=0" in lines) == (path.name in WITHOUT_LIMIT)
    assert "TimeoutStartSec=infinity" not in lines


def test_units_are_looked_at() -> None:
    assert {"docker.service.j2", "llm-firewall.service.j2", "llm-probe.service.j2"} <= {path.name for path in UNITS}
