"""A task notifies a handler that is there, and one of several that belong together by what they listen to: alone it would do nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.support.roles import ROLES, tasks_of

WITH_HANDLERS = sorted(path.parent.parent for path in ROLES.glob("*/handlers/main.yml"))


def listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def heard(handlers: Iterable[dict[str, Any]]) -> set[str]:
    """What a task may notify."""
    return {name for handler in handlers for name in listed(handler.get("listen")) or [handler["name"]]}


def test_what_is_notified_is_heard_as_a_whole() -> None:
    assert len(WITH_HANDLERS) > 5
    for role in WITH_HANDLERS:
        notified = {
            name
            for path in [*role.glob("tasks/*.yml"), role / "handlers/main.yml"]
            for task in tasks_of(path)
            for name in listed(task.get("notify"))
            if "{{" not in name
        }
        assert notified, role.name
        assert notified - heard(tasks_of(role / "handlers/main.yml")) == set(), role.name
