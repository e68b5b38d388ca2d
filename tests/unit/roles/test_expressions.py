"""What roles compute in their variables stays small: decisions belong to the plugins, where they are typed and tested."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from jinja2 import nodes

ROOT = Path(__file__).parents[3]
FILES = sorted(path for part in ("vars", "defaults") for path in ROOT.glob(f"roles/*/{part}/*.yml"))


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


def chained(node: nodes.Node) -> int:
    """How many filters follow one another, attributes and items between them included."""
    count = 0
    while isinstance(node, nodes.Filter | nodes.Getattr | nodes.Getitem):
        count += isinstance(node, nodes.Filter)
        assert node.node is not None
        node = node.node
    return count


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_chain_is_longer_than_two_filters(path: Path) -> None:
    environment = jinja2.Environment(autoescape=True)
    long = []
    for text in texts(yaml.safe_load(path.read_text())):
        if any(chained(node) > 2 for node in environment.parse(text).find_all(nodes.Filter)):
            long.append(text)
        assert "{%" not in text, text
    assert not long


def test_the_check_would_find_one() -> None:
    (output,) = (
        jinja2.Environment(autoescape=True).parse("{{ (a | first).b[0] | map('x') | list }}").find_all(nodes.Output)
    )
    assert chained(output.nodes[0]) == 3
    assert len(FILES) > 15
