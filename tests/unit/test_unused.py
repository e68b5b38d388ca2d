"""What nothing uses is not kept: functions, constants, messages, variables, files and shared documentation.

A use is a name in a program or a task, also as a part of a text, since names are looked up by text in Ansible. Comments, documentation and tests use nothing.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORD = re.compile(r"[A-Za-z_]\w*")
# What Ansible, Python's servers and logging, and vLLM's platforms look up in classes that others wrote.
CALLED_BY_OTHERS = {
    "ActionModule",
    "FilterModule",
    "LookupModule",
    "ModuleDocFragment",
    "TRANSFERS_FILES",
    "_log_invocation",
    "_requires_connection",
    "check_and_update_config",
    "do_POST",
    "feed_eof",
    "get_device_communicator_cls",
    "device_control_env_var",
    "log_message",
    "ray_device_key",
    "redirect_request",
    "register_triton_kernel_overrides",
    "set_exception",
}
# What Ansible looks up in callback plugins.
OF_CALLBACKS = re.compile(r"CallbackModule$|CALLBACK_|v2_")
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}


@cache
def sources() -> dict[Path, str]:
    """The programs and tasks that run for somebody who uses the collection or its lab."""
    folders = ("plugins", "roles", "playbooks", "lab")
    return {
        path.relative_to(ROOT): path.read_text(encoding="utf-8")
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file()
        and not {".llm", "__pycache__"} & set(path.parts)
        and path.suffix not in (".json", ".md", ".pyc", ".png", ".gz")
    }


def is_message_file(path: Path) -> bool:
    return path.parent.name == "messages" and path.suffix == ".yml"


def without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def documentation(tree: ast.AST) -> set[int]:
    """The texts of a program that document it."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            found.update(map(id, ast.walk(node.body[0])))
        elif isinstance(node, ast.Assign):
            if any(isinstance(target, ast.Name) and target.id in DOCUMENTATION for target in node.targets):
                found.update(map(id, ast.walk(node.value)))
    return found


class Uses(ast.NodeVisitor):
    """The names that a program uses. What a function says of itself is no use of it."""

    def __init__(self, skipped: set[int]) -> None:
        self.skipped = skipped
        self.inside: list[str] = []
        self.found: Counter[str] = Counter()

    def add(self, name: str) -> None:
        if name not in self.inside:
            self.found[name] += 1

    def define(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.inside.append(node.name)
        self.generic_visit(node)
        self.inside.pop()

    visit_FunctionDef = visit_ClassDef = define

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.add(node.attr)
        self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        self.add(node.arg or "")
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and id(node) not in self.skipped:
            for word in WORD.findall(node.value):
                self.add(word)


def uses_of(path: Path, text: str) -> Counter[str]:
    if path.suffix != ".py":
        return Counter(WORD.findall(without_comments(text)))
    tree = ast.parse(text)
    uses = Uses(documentation(tree))
    uses.visit(tree)
    return uses.found


@cache
def uses() -> Counter[str]:
    """How often each name is used, outside of the catalogue of messages."""
    found: Counter[str] = Counter()
    for path, text in sources().items():
        if not is_message_file(path):
            found += uses_of(path, text)
    return found


def definitions(text: str) -> Iterator[tuple[int, str]]:
    """Functions, methods and classes of a program, and the names that modules and classes give to values."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        for entry in node.body if isinstance(node, (ast.Module, ast.ClassDef)) else []:
            if isinstance(entry, (ast.Assign, ast.AnnAssign)):
                targets = entry.targets if isinstance(entry, ast.Assign) else [entry.target]
                for name in [part for target in targets for part in ast.walk(target)]:
                    if isinstance(name, ast.Name) and (name in targets or not name.id.startswith("_")):
                        yield entry.lineno, name.id


@pytest.mark.slow
def test_every_function_and_constant_is_used() -> None:
    known = CALLED_BY_OTHERS | DOCUMENTATION
    defined = [
        (path, line, name)
        for path, text in sources().items()
        if path.suffix == ".py" and path.parent.name != "doc_fragments"
        for line, name in definitions(text)
        if not name.startswith("__") and name not in known and not OF_CALLBACKS.match(name)
    ]
    assert len(defined) > 3000
    assert [f"{path}:{line}: {name}" for path, line, name in defined if not uses()[name]] == []


@pytest.mark.parametrize(
    ("program", "unused"),
    [
        ("def ask():\n    return 1\n", ["ask"]),
        ("def ask():\n    return ask()\n", ["ask"]),
        ('def ask():\n    """What ask does."""\nprint(ask())\n', []),
        ('LIMIT = 1\n"""LIMIT"""\n', []),
        ("class Host:\n    name: str\nprint(Host(name=1))\n", []),
        ("class Host:\n    name: str\nprint(Host())\n", ["name"]),
        ("# LIMIT\nLIMIT = 1\n", ["LIMIT"]),
    ],
)
def test_the_search_finds_what_is_unused(program: str, unused: list[str]) -> None:
    found = uses_of(Path("x.py"), program)
    assert [name for _line, name in definitions(program) if not found[name]] == unused


@pytest.mark.slow
def test_every_name_that_others_call_is_there() -> None:
    defined = {name for path, text in sources().items() if path.suffix == ".py" for _line, name in definitions(text)}
    assert defined >= CALLED_BY_OTHERS


# Messages


@cache
def said() -> set[str]:
    """The words that stand alone as a text in a program or a task: codes of messages, and the parts that codes are put together from."""
    texts = "\n".join(text for path, text in sources().items() if path.parts[0] != "lab" and not is_message_file(path))
    failures = str(sources()[Path("plugins/plugin_utils/planner/data/failures.py")])
    # Options that are refused stand below the code that says why.
    refusals = "\n".join(text for path, text in sources().items() if path.name == "data.yml")
    # A row of the table of failures begins with its code.
    return {
        *re.findall(r"""["']([a-z0-9_]+)["']""", texts),
        *re.findall(r"^([a-z0-9_]+) +\w", failures, re.MULTILINE),
        *re.findall(r"^ +([a-z0-9_]+):$", refusals, re.MULTILINE),
    }


def is_said(code: str) -> bool:
    return (
        code in said()
        or any(code.startswith(part) and code[len(part) :] in said() for part in said() if part.endswith("_"))
        or any(code.endswith(part) and is_said(code[: -len(part)]) for part in said() if part.startswith("_"))
    )


@pytest.mark.slow
def test_every_message_is_said() -> None:
    codes = yaml.safe_load(sources()[Path("plugins/plugin_utils/messages/en.yml")])
    assert len(codes) > 1000
    assert [code for code in codes if not is_said(code)] == []
    assert not is_said("nobody_ever_says_this")


# Filters and modules

# For whoever writes a playbook; roles have the decision.
PUBLIC_FILTERS = {
    "plan_deployment",
    "plan_gguf",
    "plan_report",
    "predict_start",
    "recommended_release",
    "valid_pp_sizes",
    "valid_tp_sizes",
    "vllm_arguments",
}


@pytest.mark.parametrize("kind", ["filter", "lookup", "modules"])
def test_every_plugin_is_called_by_a_role_or_a_playbook(kind: str) -> None:
    tasks = "\n".join(
        without_comments(text) for path, text in sources().items() if path.parts[0] in ("roles", "playbooks")
    )
    plugins = {path.stem for path in sources() if path.parts[:2] == ("plugins", kind)} - PUBLIC_FILTERS
    assert plugins
    assert [name for name in sorted(plugins) if not re.search(rf"baremetal\.llm\.{name}\b", tasks)] == []


def test_filters_for_playbooks_of_others_are_named() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| What may a playbook of somebody else call\? \|(.*)\|$", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == PUBLIC_FILTERS
    assert {path.stem for path in sources() if path.parts[:2] == ("plugins", "filter")} > PUBLIC_FILTERS


# Roles


@cache
def uses_in_roles() -> Counter[str]:
    """How often each name stands in programs and tasks, without what describes variables and gives them a default."""
    found: Counter[str] = Counter()
    for path, text in sources().items():
        if not is_message_file(path) and path.name != "argument_specs.yml" and path.parts[2:3] != ("defaults",):
            found.update(WORD.findall(without_comments(text)))
    return found


def described() -> Iterator[tuple[Path, str]]:
    for path, text in sources().items():
        if path.name == "argument_specs.yml":
            for entry in yaml.safe_load(text)["argument_specs"].values():
                yield from ((path, name) for name in entry.get("options") or {})


def given() -> Iterator[tuple[Path, str]]:
    """The variables in vars/, and those that a task registers or sets for itself."""
    for path, text in sources().items():
        if path.parts[0] in ("roles", "playbooks") and path.suffix == ".yml":
            if path.parts[2:3] == ("vars",):
                yield from ((path, name) for name in yaml.safe_load(text) or {})
            yield from ((path, name) for name in re.findall(r"^ +register: (\w+)$", text, re.MULTILINE))
            yield from ((path, name) for name in re.findall(r"^ +(__\w+):", text, re.MULTILINE))


def test_every_variable_of_a_role_is_used() -> None:
    """A public one by its name, with or without the role's; others beside the place that gives them a value."""
    wanted = set(described())
    assert len(wanted) > 200
    unused = [
        f"{path}: {name}"
        for path, name in sorted(wanted)
        if not uses_in_roles()[name] and not uses_in_roles()[name.removeprefix(f"{path.parts[1]}_")]
    ]
    others = Counter(given())
    assert len(others) > 100
    unused += [f"{path}: {name}" for (path, name), times in others.items() if mentions()[name] <= times]
    assert unused == []


@cache
def mentions() -> Counter[str]:
    """How often each name stands anywhere: defaults use what is in vars/, and action plugins what a task registers."""
    found: Counter[str] = Counter()
    for path, text in sources().items():
        if path.parts[0] != "lab" and path.name != "argument_specs.yml":
            found.update(WORD.findall(without_comments(text)))
    return found


# What is chosen by a fact, or by its kind: `include_tasks: "install_{{ method }}.yml"`.
CHOSEN = re.compile(r'"([\w/]*)\{\{.*\}\}([\w/]*)\.yml"')


def test_every_file_is_named_somewhere() -> None:
    files = [
        path
        for path in sources()
        if (path.parts[0] == "roles" and path.parts[2] in ("files", "templates", "tasks") and path.name != "main.yml")
        or path.parent.name == "templates"
        or path.parts[:2] == ("lab", "files")
    ]
    assert len(files) > 150
    unused = []
    for path in files:
        named = {path.name, path.name.removesuffix(".j2"), f"tasks_from: {path.stem}"}
        role = path.parts[:2]
        texts = [text for other, text in sources().items() if other != path]
        mine = [text for other, text in sources().items() if other.parts[:2] == role]
        chosen = any(
            path.stem.startswith(begin) and path.stem.endswith(end)
            for text in mine
            for begin, end in CHOSEN.findall(text)
        )
        if not chosen and not any(name in text for name in named for text in texts):
            unused.append(str(path))
    assert unused == []


def test_every_shared_documentation_is_used() -> None:
    fragments = {
        f"baremetal.llm.{path.stem}" + ("" if name == "DOCUMENTATION" else f".{name.lower()}")
        for path, text in sources().items()
        if path.parent.name == "doc_fragments"
        for name in re.findall(r"^    ([A-Z_]+) = ", text, re.MULTILINE)
    }
    lines = {line.strip(" -") for path, text in sources().items() if path.suffix == ".py" for line in text.splitlines()}
    assert len(fragments) > 5
    assert fragments - lines == set()
