"""What a host asks on itself: a proxy in the environment of root has nothing to do with it."""

from __future__ import annotations

from tests.support.roles import ROLES, tasks_of


def test_it_is_asked_through_no_proxy() -> None:
    asking = [task for path in ROLES.glob("*/tasks/*.yml") for task in tasks_of(path) if "ansible.builtin.uri" in task]
    assert asking
    assert [task["name"] for task in asking if task["ansible.builtin.uri"].get("use_proxy") is not False] == []
