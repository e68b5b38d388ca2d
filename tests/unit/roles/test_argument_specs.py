"""argument_specs are the one truth about variables: defaults and names agree with them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.support.each import check_each

ROLES = sorted(path.parent.parent for path in (Path(__file__).parents[3] / "roles").glob("*/meta/argument_specs.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else None


def options(role: Path) -> dict[str, Any]:
    specs = read(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: option for entry in specs.values() for name, option in (entry.get("options") or {}).items()}


def test_every_role_has_specs() -> None:
    assert sorted(path for path in ROLES[0].parent.iterdir() if path.is_dir()) == ROLES


def test_every_default_is_specified() -> None:
    for role in ROLES:
        assert set(read(role / "defaults/main.yml") or {}) <= set(options(role)), role.name


def test_documented_defaults_are_the_real_ones() -> None:
    """A default that is a template is described in words instead, or by what it comes to."""

    def check(case: tuple[dict[str, Any], Any]) -> None:
        option, actual = case
        documented = option.get("default")
        if documented is not None and "{{" not in str(actual):
            assert documented == actual
        if actual is not None and documented is None:
            assert "{{" in str(actual), f"it has the default {actual!r}, which its specification does not name"

    cases = {}
    for role in ROLES:
        real = read(role / "defaults/main.yml") or {}
        for name, option in options(role).items():
            if role.name == "common" or not name.startswith("llm_"):  # common has its default
                cases[name] = (option, real.get(name))
    check_each(cases, check)


def test_every_option_is_described_and_named_after_its_role() -> None:
    named = [(role.name, name, option) for role in ROLES for name, option in options(role).items()]
    assert [name for _role, name, option in named if not option["description"]] == []
    assert [(role, name) for role, name, _option in named if not name.startswith((f"{role}_", "llm_"))] == []


BOOLEANS = sorted(name for role in ROLES for name, option in options(role).items() if option.get("type") == "bool")
WRITTEN = sorted(
    path
    for role in ROLES
    for folder in ("tasks", "handlers", "vars", "templates")
    for path in (role.parent / role.name / folder).rglob("*")
    if path.suffix in (".yml", ".j2")
)


def test_a_switch_that_comes_as_text_is_read_as_one() -> None:
    """On the command line and in an INI inventory false is a text, which Jinja takes for true. Modules convert what they are given."""
    use = re.compile(rf"(?<![\w'])(?:{'|'.join(BOOLEANS)})\b(?: \| default\(\w+\))?(?! \| (?:bool|default))")
    given = re.compile(r'^\s+\w+: (?:"\{\{ \w+ \}\}"|(?:true|false)(?: #.*)?)$')
    assert len(WRITTEN) > 150
    found = [
        f"{path.relative_to(ROLES[0].parent)}: {line.strip()}"
        for path in WRITTEN
        for line in path.read_text().splitlines()
        if use.search(line) and not (path.parent.name == "tasks" and given.match(line))
    ]
    assert found == []
