"""The tables of variables: each variable has a topic and a meaning in both languages. That the pages hold them is in planner/test_pages.py."""

from __future__ import annotations

import re

import pytest

from benchmarks.variables import DATA, page, topic_of, variables


def test_each_variable_has_a_topic() -> None:
    assert [name for name in variables() if topic_of(name) is None] == []


def test_a_name_counts_more_than_a_pattern_and_the_longer_pattern_more_than_the_shorter() -> None:
    titles = [topic["en"] for topic in DATA["topics"]]
    assert titles[topic_of("vllm_collective_port")] == "Network and firewall"
    assert titles[topic_of("vllm_port")] == "The server and its API"
    assert titles[topic_of("gateway_drain_seconds")] == "One run, on the command line"
    assert titles[topic_of("gateway_anything_else")] == "Gateway"
    with pytest.raises(ValueError, match="no topic for nothing_of_ours"):
        topic_of("nothing_of_ours")


def test_each_variable_has_a_meaning_in_chinese() -> None:
    known = variables()
    assert [name for name in known if name not in DATA["zh"]] == [], "a line in benchmarks/variables.yml, please"
    assert [name for name in DATA["zh"] if name not in known] == []
    assert [name for name, said in DATA["zh"].items() if not re.search(r"[\u4e00-\u9fff]", said)] == []


def test_the_first_ten_and_the_internal_ones_exist() -> None:
    known = variables()
    assert len(DATA["first"]) == 10
    assert [name for name in DATA["first"] if name not in known] == []
    assert [name for name in DATA["internal"] if name in known] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page_has_a_row_for_each_variable_and_no_markup_of_ansible(language: str) -> None:
    said = page(language)
    rows = re.findall(r"^\| `(\w+)` \|", said, re.MULTILINE)
    assert sorted(rows[10:]) == sorted(variables())
    assert rows[:10] == DATA["first"]
    assert re.findall(r"\b[OVCEIBMPUL]\([^)]*\)", said) == []
    assert "{{" not in said
