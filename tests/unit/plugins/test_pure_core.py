"""What decides and what modules share is plain Python: it imports nothing of Ansible, so that a release of Ansible cannot change what it does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._engines import ENGINES

UTILS = Path(__file__).parents[3] / "plugins/plugin_utils"
# noxfile.py runs the tests of these with one release of Ansible only.
PURE = ["../module_utils", "planner", "network", "preflight", "install", "deployment", "gateway", "monitoring"]
PURE += ["status", "doctor", "engines", *(f"engines/{name}" for name in ENGINES)]


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("folder", PURE)
def test_nothing_pure_imports_ansible(folder: str) -> None:
    files = sorted((UTILS / folder).glob("*.py"))
    assert len(files) > 2
    assert [path.name for path in files if any(name.partition(".")[0] == "ansible" for name in imported(path))] == []


def test_the_planner_imports_nothing_that_does() -> None:
    own = {name for path in (UTILS / "planner").glob("*.py") for name in imported(path) if "plugin_utils" in name}
    folders = {name.partition(".plugin_utils.")[2].partition(".")[0] for name in own}
    # Of the inventory only what reads one value as the type that its reader needs.
    assert folders <= {"planner", "messages", "inventory"}
    of_inventory = {name.partition(".inventory.")[2].partition(".")[0] for name in own if ".inventory." in name}
    assert of_inventory <= {"readers", "values"}


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a checker of types reads."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from executed(node)


def test_no_imports_go_round_in_a_circle() -> None:
    """Which file is imported first would decide whether such imports work."""
    package = "ansible_collections.baremetal.llm."
    root = UTILS.parents[1]
    files = {
        package + ".".join(path.relative_to(root).with_suffix("").parts): path for path in UTILS.parent.rglob("*.py")
    }
    arrows: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for node in executed(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                arrows[name] |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)} & files.keys()
    assert sum(map(len, arrows.values())) > 500
    while leaves := {name for name, targets in arrows.items() if not targets & arrows.keys()}:
        arrows = {name: targets for name, targets in arrows.items() if name not in leaves}
    assert sorted(arrows) == []


def test_only_an_engine_imports_what_it_is_made_of() -> None:
    """All others ask for it by the name that the inventory has (engines/find.py), but for filters that are about one engine."""
    rooms = "|".join(path.name for path in (UTILS / "engines").iterdir() if path.is_dir())
    room = re.compile(rf"\.plugin_utils\.engines\.(?:{rooms})\b")
    others = {path for path in UTILS.parent.rglob("*.py") if UTILS / "engines" not in path.parents}
    wrong = {
        path.relative_to(UTILS.parent).as_posix()
        for path in others
        if any(room.search(name) for name in imported(path))
    }
    assert len(others) > 200
    assert wrong == {
        f"filter/{name}.py" for name in ("parse_engine_log", "plan_deployment", "plan_gguf", "vllm_arguments")
    }
