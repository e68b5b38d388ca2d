"""What roles compute in their variables stays small: decisions belong to the plugins, where they are typed and tested."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import yaml
from jinja2 import nodes

ROOT = Path(__file__).parents[3]
VARIABLES = sorted(path for part in ("vars", "defaults") for path in ROOT.glob(f"roles/*/{part}/*.yml"))
TASKS = sorted(
    path for part in ("roles/*/tasks", "roles/*/handlers", "playbooks") for path in ROOT.glob(f"{part}/**/*.yml")
)
# What Ansible evaluates without braces.
CONDITIONS = {"changed_when", "failed_when", "that", "until", "when"}


def texts(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, str):
        yield f"{{{{ {value} }}}}" if key in CONDITIONS and "{{" not in value else value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from texts(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, key)


def chained(node: nodes.Node) -> int:
    """How many filters follow one another, attributes and items between them included."""
    count = 0
    while isinstance(node, nodes.Filter | nodes.Getattr | nodes.Getitem):
        count += isinstance(node, nodes.Filter)
        assert node.node is not None
        node = node.node
    return count


def found_in(paths: list[Path]) -> Iterator[tuple[str, str]]:
    """Each text of these files, with the name of its file."""
    for path in paths:
        for text in texts(yaml.safe_load(path.read_text())):
            yield str(path.relative_to(ROOT)), text


def test_no_chain_is_longer_than_two_filters() -> None:
    environment = jinja2.Environment(autoescape=True)
    wrong = [
        (name, text)
        for name, text in found_in([*VARIABLES, *TASKS])
        if "{" in text
        if any(chained(node) > 2 for node in environment.parse(text).find_all(nodes.Filter))
        or re.search(r"\{%[-+]?(?! *(?:raw|endraw))", text)
    ]
    assert wrong == []


def test_variables_join_nothing_of_other_hosts() -> None:
    """Only the controller's own variables are read, as `hostvars['localhost']`, or where the inventory is."""
    allowed = ("hostvars['localhost']['llm_inventory']", "hostvars[groups['all'] | first]['inventory_dir']")
    found = [(name, text) for name, text in found_in(VARIABLES) if "hostvars" in text]
    assert [(name, text) for name, text in found if not any(part in text for part in allowed)] == []


def test_the_check_would_find_one() -> None:
    (output,) = (
        jinja2.Environment(autoescape=True).parse("{{ (a | first).b[0] | map('x') | list }}").find_all(nodes.Output)
    )
    assert chained(output.nodes[0]) == 3
    assert len(VARIABLES) > 15
    assert len(TASKS) > 100
    assert list(texts({"when": ["a | b"], "name": "c"})) == ["{{ a | b }}", "c"]
