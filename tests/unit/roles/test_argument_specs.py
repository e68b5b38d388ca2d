"""argument_specs are the one truth about variables: defaults and names agree with them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = sorted(path.parent.parent for path in (Path(__file__).parents[3] / "roles").glob("*/meta/argument_specs.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else None


def options(role: Path) -> dict[str, Any]:
    specs = read(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: option for entry in specs.values() for name, option in (entry.get("options") or {}).items()}


def test_every_role_has_specs() -> None:
    assert sorted(path for path in ROLES[0].parent.iterdir() if path.is_dir()) == ROLES


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_default_is_specified(role: Path) -> None:
    assert set(read(role / "defaults/main.yml") or {}) <= set(options(role))


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_documented_defaults_are_the_real_ones(role: Path) -> None:
    """A default that is a template is described in words instead, or by what it comes to."""
    real = read(role / "defaults/main.yml") or {}
    for name, option in options(role).items():
        if name.startswith("llm_") and role.name != "common":
            continue  # common has its default
        documented, actual = option.get("default"), real.get(name)
        if documented is not None and "{{" not in str(actual):
            assert documented == actual, name
        if actual is not None and documented is None:
            assert "{{" in str(actual), f"{name} has the default {actual!r}, which its specification does not name"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_option_is_described_and_named_after_its_role(role: Path) -> None:
    for name, option in options(role).items():
        assert option["description"], name
        assert name.startswith((f"{role.name}_", "llm_")), name


BOOLEANS = sorted(name for role in ROLES for name, option in options(role).items() if option.get("type") == "bool")
WRITTEN = sorted(
    path
    for role in ROLES
    for folder in ("tasks", "handlers", "vars", "templates")
    for path in (role.parent / role.name / folder).rglob("*")
    if path.suffix in (".yml", ".j2")
)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROLES[0].parent)))
def test_a_switch_that_comes_as_text_is_read_as_one(path: Path) -> None:
    """On the command line and in an INI inventory false is a text, which Jinja takes for true. Modules convert what they are given."""
    use = re.compile(rf"(?<![\w'])(?:{'|'.join(BOOLEANS)})\b(?: \| default\(\w+\))?(?! \| (?:bool|default))")
    given = re.compile(r'^\s+(?:\w+): "\{\{ \w+ \}\}"$') if path.parent.name == "tasks" else re.compile(r"(?!)")
    assert [line for line in path.read_text().splitlines() if use.search(line) and not given.match(line)] == []
