"""What roles write on the controller: each module that runs there is a Python of its own, half a CPU second for a copy and its folder."""

from __future__ import annotations

from tests.support.roles import ROLES, tasks_of

WRITERS = {f"ansible.builtin.{name}" for name in ("copy", "file", "template")}
FILES = sorted(path for path in ROLES.glob("*/tasks/*.yml") if "delegate_to: localhost" in path.read_text())


def test_a_folder_and_its_files_are_one_call() -> None:
    there = [task for path in FILES for task in tasks_of(path) if task.get("delegate_to") == "localhost"]
    assert len(there) >= len(FILES) > 5
    assert [task["name"] for task in there if WRITERS & set(task)] == []
