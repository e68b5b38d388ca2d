"""Nothing that a role waits for can hang for ever: an engine that does not answer, a unit that does not come up."""

from __future__ import annotations

import re
from typing import Any

from tests.support.roles import ROLES, tasks_of

FILES = sorted([*ROLES.glob("*/tasks/*.yml"), *ROLES.glob("*/handlers/*.yml")])
UNITS = sorted(path for path in ROLES.glob("*/templates/*.service.j2"))
# As its publisher has it: an engine with many containers may take long, and systemd tells when it is up.
WITHOUT_LIMIT = {"docker.service.j2"}
# What the decision has as a whole command of docker, or of systemd.
QUESTIONS = (
    *("_llm.user.check", "_llm.vllm.runtime.log", "_llm.vllm.runtime.log_of_start", "_llm.serves"),
    *("_llm.ray.runtimes[item].end_of_log", "_llm.ray.runtimes[item].state"),
)
# A template of a whole list, after the limit that the task puts before it.
ONE_LIST = re.compile(rf"{{{{ \['timeout', '(\d+)'\] \+ (item|{'|'.join(map(re.escape, QUESTIONS))}) }}}}")


def commands(task: dict[str, Any]) -> list[list[Any]]:
    """The words of each command that a task runs, templates of whole lists among them."""
    command = task.get("ansible.builtin.command") or {}
    argv = command.get("argv") or str(command.get("cmd", "")).split()
    if isinstance(argv, list):
        return [argv]
    limit = ONE_LIST.fullmatch(argv)
    decided = any(name in argv for name in QUESTIONS)
    rest = [["docker"]] if decided else task["loop"] if "item" in argv and "loop" in task else []
    return [[*(("timeout", limit[1]) if limit else ()), *words] for words in rest if isinstance(words, list)]


def limits(task: dict[str, Any]) -> list[int | None]:
    """After how many seconds each of its calls of docker is ended."""
    return [
        int(words[1]) if words[0] == "timeout" else task.get("timeout")
        for words in commands(task)
        if words and "docker" in (words[0], words[2] if words[0] == "timeout" else "")
    ]


def test_every_question_to_docker_has_a_limit() -> None:
    asking = {f"{path.relative_to(ROLES)}: {task['name']}": limits(task) for path in FILES for task in tasks_of(path)}
    asking = {name: found for name, found in asking.items() if found}
    assert len(asking) > 10
    assert [name for name, found in asking.items() if None in found] == []
    assert all(30 <= limit <= 600 for found in asking.values() for limit in found if limit)


def test_no_task_has_a_limit_that_fails_whatever_it_says_itself() -> None:
    """Where the keyword's time is over, ansible-core fails the task and does not ask failed_when: the command needs the limit, whose status it reads."""
    both = [
        f"{path.relative_to(ROLES)}: {task['name']}"
        for path in FILES
        for task in tasks_of(path)
        if "timeout" in task and "failed_when" in task
    ]
    assert both == []


def test_every_unit_has_a_limit() -> None:
    """systemd's own is 90 s, but for what runs once: that may take for ever."""
    assert {"docker.service.j2", "llm-firewall.service.j2", "llm-probe.service.j2"} <= {path.name for path in UNITS}
    for path in UNITS:
        lines = path.read_text().splitlines()
        limited = any(line.startswith("TimeoutStartSec=") for line in lines)
        assert limited or "Type=oneshot" not in lines, path.name
        assert ("TimeoutStartSec=0" in lines) == (path.name in WITHOUT_LIMIT), path.name
        assert "TimeoutStartSec=infinity" not in lines, path.name
