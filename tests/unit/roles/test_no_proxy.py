"""What a host asks on itself: a proxy in the environment of root has nothing to do with it."""

from __future__ import annotations

import pytest

from tests.support.roles import ROLES, tasks_of

ASKED = [
    task for path in sorted(ROLES.glob("*/tasks/*.yml")) for task in tasks_of(path) if "ansible.builtin.uri" in task
]


@pytest.mark.parametrize("task", ASKED, ids=lambda task: task["name"])
def test_it_is_asked_through_no_proxy(task: dict[str, dict[str, object]]) -> None:
    assert task["ansible.builtin.uri"].get("use_proxy") is False
