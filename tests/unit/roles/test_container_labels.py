"""By its labels a container is known as the collection's: one without would outlive a reset, and the record that names it."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.module_utils._engine import LABELS

from tests.support.roles import ROLES, tasks_of

MODULE = "community.docker.docker_container"


def test_every_container_that_a_role_runs_has_a_label_of_the_collection() -> None:
    files = [path for path in sorted(ROLES.glob("*/tasks/*.yml")) if MODULE in path.read_text(encoding="utf-8")]
    calls = [(path.parts[-3], task[MODULE]) for path in files for task in tasks_of(path) if MODULE in task]
    # Those that the engine starts again. The one in which a bundle is looked into ends with its task.
    run = [(role, call) for role, call in calls if call.get("restart_policy")]
    assert {role for role, _call in run} >= {"monitoring", "ray", "vllm", "web_ui"}
    assert [
        role for role, call in run if not any(str(name).startswith(LABELS) for name in call.get("labels") or {})
    ] == []
