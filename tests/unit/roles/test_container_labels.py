"""What holds for every container that a role runs: by its labels it is known as the collection's, and what it has too much makes another one."""

from __future__ import annotations

from functools import cache
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._engine import LABELS

from tests.support.roles import ROLES, tasks_of

MODULE = "community.docker.docker_container"


@cache
def containers() -> list[tuple[str, dict[str, Any]]]:
    """Role and arguments of those that the engine starts again. The one in which a bundle is looked into ends with its task."""
    files = [path for path in sorted(ROLES.glob("*/tasks/*.yml")) if MODULE in path.read_text(encoding="utf-8")]
    calls = [(path.parts[-3], task[MODULE]) for path in files for task in tasks_of(path) if MODULE in task]
    found = [(role, call) for role, call in calls if call.get("restart_policy")]
    assert {role for role, _call in found} >= {"common", "monitoring", "ray", "vllm", "web_ui"}
    return found


def test_every_container_that_a_role_runs_has_a_label_of_the_collection() -> None:
    """One without would outlive a reset, and the record that names it."""
    assert [role for role, call in containers() if LABELS not in str(call.get("labels"))] == []


def test_what_a_container_should_not_have_any_more_makes_another_one() -> None:
    """By default only what is missing does: a mount whose file a role has removed let no container start again."""
    assert [role for role, call in containers() if call.get("comparisons") != "{{ _llm_container_comparisons }}"] == []
    # A list that is left out because it is empty is not compared.
    lists = ("capabilities", "devices", "env", "etc_hosts", "labels", "volumes")
    assert [(role, name) for role, call in containers() for name in lists if "omit" in str(call.get(name, ""))] == []
