"""Whoever reads JSON or YAML that others may have written reads it with module_utils/_content.py, or says here why not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
READERS = {"json": ("load", "loads"), "yaml": ("load", "safe_load", "full_load", "unsafe_load", "load_all")}
# Files of the collection itself.
OWN = {
    "plugins/plugin_utils/engines/capabilities.py",
    "plugins/plugin_utils/engines/vllm/engine.py",
    "plugins/plugin_utils/inventory/argument_specs.py",
    "plugins/plugin_utils/messages/catalogue.py",
    "plugins/plugin_utils/monitoring/rules.py",
    "plugins/plugin_utils/planner/catalogue.py",
    "roles/gateway/files/llm-gateway-usage.py: main",
    "roles/monitoring/files/llm-alert-relay.py: main",
}
# Each ends with what it says then, for whoever started it.
TOLD = {
    "roles/gateway/files/llm-gateway.py: ask",
    "roles/common/files/ask.py: <module>",
    "roles/vllm/files/vocabulary.py: read",
}


def readers(path: Path) -> Iterator[tuple[str, ast.Call, list[ast.Try]]]:
    """Each call that reads JSON or YAML: in which function, and the try statements around it."""

    def walk(node: ast.AST, name: str, tries: list[ast.Try]) -> Iterator[tuple[str, ast.Call, list[ast.Try]]]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = node.name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module = node.func.value
            if isinstance(module, ast.Name) and node.func.attr in READERS.get(module.id, ()):
                yield name, node, tries
        for child in ast.iter_child_nodes(node):
            inside = isinstance(node, ast.Try) and child in node.body
            yield from walk(child, name, [*tries, node] if isinstance(node, ast.Try) and inside else tries)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), "<module>", [])


def catches_deep_nesting(tries: list[ast.Try]) -> bool:
    names = {ast.unparse(handler.type) for each in tries for handler in each.handlers if handler.type}
    return any("RecursionError" in name or "WRONG" in name or name == "Exception" for name in names)


def is_own_text(call: ast.Call, function: str) -> bool:
    """Written by the program itself a moment ago: ``json.loads(json.dumps(...))``, or a text that it is about to write."""
    about_to_write = function in ("write_record", "write_served") and ast.unparse(call) == "json.loads(text)"
    return about_to_write or ast.unparse(call.args[0]).startswith(("json.dumps(", "_json("))


def test_plugins_read_with_the_reader_that_has_limits() -> None:
    wrong = []
    files = sorted((ROOT / "plugins").rglob("*.py"))
    for path in files:
        name = str(path.relative_to(ROOT))
        if name in OWN or path.name == "_content.py":
            continue
        for function, call, tries in readers(path):
            # A program that hosts start by itself has no other file to import.
            alone = path.name == "_rehash.py" and catches_deep_nesting(tries)
            if not alone and not is_own_text(call, function):
                wrong.append(f"{name}: {function}: {ast.unparse(call)}")
    assert wrong == []
    assert len(files) > 300


def test_programs_of_hosts_survive_what_nobody_can_walk_through() -> None:
    found, wrong = [], []
    for path in sorted((ROOT / "roles").glob("*/files/**/*.py")):
        for function, call, tries in readers(path):
            name = f"{path.relative_to(ROOT)}: {function}"
            found.append(name)
            if name not in OWN | TOLD and not catches_deep_nesting(tries):
                wrong.append(f"{name}: {ast.unparse(call)}")
    assert wrong == []
    assert len(found) > 15
    assert {each for each in OWN | TOLD if ": " in each} <= set(found), "what is said here is there"


def test_nobody_takes_a_digit_for_a_number() -> None:
    """'²'.isdigit() is true, and int('²') fails, as int of 5000 digits does: module_utils/_content.py has digits() for numbers that others wrote."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "plugins").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("isdigit", "isdecimal", "isnumeric")
    ]
    assert wrong == []
