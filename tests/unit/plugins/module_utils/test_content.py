"""JSON and YAML of others: what can be walked through, copied and printed, or a ValueError."""

from __future__ import annotations

import copy
import io
import json
import time
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.module_utils._content import (
    MOST_LEVELS,
    digits,
    load_json,
    read_json,
    read_yaml,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support.junk import DAMAGED, JUNK

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
DEEP = {
    "lists": "[" * 5000 + "]" * 5000,
    "lists that nobody closes": "[" * 100_000,
    "mappings that nobody closes": "{a: " * 20_000,
    "lists in one line": "- " * 20_000 + "a",
    "keys in one line": "? " * 20_000 + "a",
    "blocks": "".join(" " * level + "a:\n" for level in range(1000)),
    "an alias of aliases": BOMB + "files: *i\n",
    "an alias within itself": "&a [*a]",
    "a mapping within itself": "&a {b: *a}",
    "a key within itself": "&a {*a : 1}",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in DEEP.items()])
def test_yaml_that_nobody_can_walk_through_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    for given_text in (text, text.encode()):
        with pytest.raises(ValueError, match=r"content_|recursive|unhashable|parsing|construct"):
            read_yaml(given_text)
    assert time.process_time() - began < 5


def test_what_is_as_deep_as_nothing_ever_is_can_be_read() -> None:
    levels = MOST_LEVELS - 2
    assert json.dumps(read_yaml("[" * levels + "]" * levels)) == "[" * levels + "]" * levels
    assert read_json("[" * levels + "]" * levels) is not None
    for text in ("[" * (MOST_LEVELS + 1) + "]" * (MOST_LEVELS + 1), "[" * 900 + "]" * 900):
        for read in (read_json, read_yaml):
            with pytest.raises(ValueError, match="content_deep"):
                read(text)


def test_an_alias_that_is_used_twice_is_none_of_these() -> None:
    """PyYAML writes one where two records have the same list."""
    shared = ["sm_70"]
    text = yaml.safe_dump({"files": [{"a": shared}, {"a": shared}]})
    assert "&id001" in text
    assert read_yaml(text) == {"files": [{"a": ["sm_70"]}, {"a": ["sm_70"]}]}


def test_brackets_in_texts_are_no_levels() -> None:
    assert read_yaml('a: "' + "[" * 5000 + '"') == {"a": "[" * 5000}
    assert read_json(json.dumps("[" * 5000)) == "[" * 5000


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in DAMAGED.items()])
def test_damage_is_a_value_error_or_a_value(content: bytes) -> None:
    for read in (read_json, read_yaml, lambda text: load_json(io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))):
        try:
            found = read(content)
        except ValueError:
            continue
        json.dumps(copy.deepcopy(found))


@given(JUNK)
def test_what_is_no_more_than_a_value_stays_what_it_is(value: Any) -> None:
    assert json.dumps(read_json(json.dumps(value))) == json.dumps(value)


@given(st.text(max_size=60))
def test_no_text_of_yaml_ends_in_another_error(text: str) -> None:
    try:
        read_yaml(text)
    except ValueError:
        pass


@given(st.text(max_size=30) | st.integers().map(str) | JUNK)
def test_a_number_is_what_is_written_in_digits(text: Any) -> None:
    found = digits(text)
    assert found is None or (found >= 0 and str(found) == (text.lstrip("0") or "0"))


@pytest.mark.parametrize("text", ["", " 7", "-1", "+1", "1_000", "²", "٣", "１２", "9" * 5000, "1.5", None, 7, True])
def test_nothing_else_is_one(text: Any) -> None:
    assert digits(text) is None
    assert (digits("0"), digits("570"), digits("0" * 18)) == (0, 570, 0)
