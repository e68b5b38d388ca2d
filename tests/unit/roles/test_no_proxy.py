"""What a host asks on itself: a proxy in the environment of root has nothing to do with it."""

from __future__ import annotations

from tests.support.roles import ROLES, tasks_of


def test_it_is_asked_through_no_proxy() -> None:
    tasks = [task for path in ROLES.glob("*/tasks/*.yml") for task in tasks_of(path)]
    waiting = [task for task in tasks if task.get("baremetal.llm.wait", {}).get("module") == "ansible.builtin.uri"]
    asked = {task["name"]: task["ansible.builtin.uri"] for task in tasks if "ansible.builtin.uri" in task}
    asked |= {task["name"]: task["baremetal.llm.wait"]["args"] for task in waiting}
    assert len(waiting) >= 3
    assert [name for name, said in asked.items() if said.get("use_proxy") is not False] == []
