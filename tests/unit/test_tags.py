"""--tags ROLE runs that role of the road, with what it needs and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.playbooks import playbook

ROOT = Path(__file__).resolve().parents[2]
CHECKS = {
    "Inventory | Check the inventory",
    "Bundle | Compare the bundle with the manifest",
    "Preflight | Look at the hosts",
}
# A run holds the hosts, and says what it did, whatever part of the road it is.
ENDS = {"Lock | Keep other runs away", "Report | Let other runs in", "Report | Show the report"}
DECIDE, NETWORK = "Decide | Plan every deployment", "Network | Verify the network, and close the ports to other hosts"
PREPARE, SERVE = "Prepare | Install driver, engine and toolkit", "Serve | Start the cluster and the model"
PLAYS = {
    "nvidia_driver": {PREPARE},
    "docker": {PREPARE},
    "nvidia_container_toolkit": {PREPARE},
    "network": {DECIDE, NETWORK},
    "images": {"Images | Bring the images to the hosts", "Images | Wait until the images are loaded"},
    "models": {"Models | Bring the models to the hosts"},
    "ray": {DECIDE, NETWORK, SERVE},
    "vllm": {DECIDE, NETWORK, "Collective | All-reduce over every rank", SERVE, "Serve | Ask the model"},
}


def test_the_name_of_a_role_is_a_tag() -> None:
    done = playbook("playbooks/site.yml", "--inventory", "inventories/single_node", "--list-tags")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"play #\d+ \([^)]*\): (.*?)\tTAGS.*\n\s+TASK TAGS: \[(.*)\]", done.stdout)
    tags = {play: set(names.split(", ")) for play, names in found}
    assert set(tags) >= CHECKS | ENDS
    for role, plays in PLAYS.items():
        assert (ROOT / "roles" / role).is_dir()
        assert {play for play in tags if role in tags[play]} == plays, role
    assert all(tags[play] == {"always"} for play in CHECKS | ENDS)


STEPS = ("nvidia_driver", "docker", "nvidia_container_toolkit", "network")


def described(role: Path, file: str, tags: set[str]) -> Iterator[tuple[set[str], dict[str, Any]]]:
    """Every task of a role with its tags, those of files that it includes too."""
    for task in yaml.safe_load((role / "tasks" / file).read_text()):
        yield from one(role, task, tags)


def one(role: Path, task: dict[str, Any], tags: set[str]) -> Iterator[tuple[set[str], dict[str, Any]]]:
    tags = tags | set(task.get("tags", []))
    for part in ("block", "rescue", "always"):
        for below in task.get(part, []):
            yield from one(role, below, tags)
    yield tags, {name: value for name, value in task.items() if name not in ("block", "rescue", "always")}
    for module in ("ansible.builtin.import_tasks", "ansible.builtin.include_tasks"):
        named = task.get(module, {"file": ""})
        file = named if isinstance(named, str) else named["file"]
        # A name with a template in it may be any file that begins and ends so.
        for path in sorted((role / "tasks").glob(re.sub(r"{{.*}}", "*", file))) if file else []:
            yield from described(role, path.name, tags)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_needs_nothing_that_only_another_step_finds_out(name: str) -> None:
    role = ROOT / "roles" / name
    variables = {
        key: str(value)
        for file in ("defaults/main.yml", "vars/main.yml")
        if (role / file).exists()
        for key, value in yaml.safe_load((role / file).read_text()).items()
    }

    def read(text: str, seen: frozenset[str] = frozenset()) -> set[str]:
        names = set(re.findall(r"\w+", text))
        return names.union(*(read(variables[key], seen | names) for key in names & set(variables) - seen))

    tasks = list(described(role, "main.yml", set()))
    for step in ("install", "configure", "validate"):
        mine = [task for tags, task in tasks if f"{name}_{step}" in tags]
        assert mine or (name, step) == ("network", "install")
        found, found_here = (
            {task["register"] for task in some if "register" in task}
            for some in ([task for _tags, task in tasks], mine)
        )
        lacking = {task["name"]: (read(str(task)) & found) - found_here for task in mine}
        assert not any(lacking.values()), (step, lacking)
