"""Where the programs of the engine are found: also as root by sudo, whose path on the RHEL family has no /usr/local/bin."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.support.tasks import decision

ROOT = Path(__file__).resolve().parents[2]
PLAYS: list[dict[str, Any]] = [
    play
    for path in sorted(ROOT.glob("playbooks/**/*.yml"))
    for play in yaml.safe_load(path.read_text())
    if "hosts" in play
]
# Their tasks call docker, and those of the last two run commands that plugins/plugin_utils/deployment/ makes.
BY_TASKS = {"docker", "nvidia_container_toolkit"}
ROLES = BY_TASKS | {"ray", "vllm"}


def roles(play: dict[str, Any]) -> set[str]:
    """The roles that a play runs on hosts."""
    found = {entry["role"] for entry in play.get("roles", ())}
    for task in play.get("tasks", ()):
        found |= {task[name]["name"] for name in task if name.endswith((".include_role", ".import_role"))}
    # The role of whichever engine serves: vLLM's stands for all.
    return {"vllm" if "{{" in name else name.rpartition(".")[2] for name in found}


def test_every_role_that_calls_docker_is_known() -> None:
    calling = {
        path.relative_to(ROOT / "roles").parts[0]
        for path in ROOT.glob("roles/*/tasks/*.yml")
        if re.search(r"^ +(?:cmd: |argv: \[)docker\b", path.read_text(), re.M)
    }
    assert calling == BY_TASKS
    section = decision("ray")["hosts"]["a"]
    assert "docker" in section["ray"]["cluster"]
    assert "docker" in section["serves"]


def test_their_plays_name_the_folders_of_the_engine() -> None:
    unit = (ROOT / "roles/common/templates/llm-probe.service.j2").read_text()
    (path,) = re.findall(r"^Environment=PATH=(\S+)$", unit, re.M)
    assert "/usr/local/bin" in path.split(":")
    # vllm: the plan's files are written on the controller.
    plays = {play["name"]: play for play in PLAYS if roles(play) & ROLES and play["hosts"] != "localhost,all"}
    assert len(plays) == 5
    assert {str(play.get("environment")) for play in plays.values()} == {str({"PATH": path})}
