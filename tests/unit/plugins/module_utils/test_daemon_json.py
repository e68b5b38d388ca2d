"""What a merge does to Docker's daemon.json."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._daemon_json import DaemonJsonError, merge, parse, render
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import reason
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import refused

PATH = "/etc/docker/daemon.json"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
CONFIG = st.dictionaries(st.sampled_from(["log-driver", "log-opts", "runtimes", "hosts", "a"]), JSON, max_size=4)


@pytest.mark.parametrize("text", ["", " \n", "{}", "\n{}\n"])
def test_nothing_is_an_empty_object(text: str) -> None:
    assert parse(text, PATH) == {}


@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [
        ('{\n  "live-restore": true\n  "debug": false\n}\n', 3, '"debug": false'),
        # From Python 3.13 on the comma is blamed, before that what follows it.
        ('{\n  "a": 1,\n}\n', *((2, '"a": 1') if sys.version_info >= (3, 13) else (3, "}"))),
        ('{"a": "b', 1, '{"a": "b'),
        ('{"a": 1}\n{"b": 2}\n', 2, '{"b": 2}'),
        ('\ufeff{"a": 1}', 1, '{"a": 1}'),
        ("{\n", 2, ""),
        ("// note\n{}", 1, "// note"),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(text: str, line: int, shown: str) -> None:
    with pytest.raises(DaemonJsonError) as caught:
        parse(text, PATH)
    text = reason(caught.value)
    assert f"{PATH} is no valid JSON: line {line}, column" in text
    assert f"{line:6} | " in text
    assert shown in text
    assert "Nothing was changed" in text


@pytest.mark.parametrize(
    ("text", "kind"), [("[]", "a list"), ("\n\n3", "a number"), ("null", "null"), ("true", "true")]
)
def test_what_is_no_object_is_refused(text: str, kind: str) -> None:
    with refused(DaemonJsonError, f"holds {kind}"):
        parse(text, PATH)


def test_messages_are_in_chinese_too() -> None:
    with refused(DaemonJsonError, "第 1 行", "zh"):
        parse("{", PATH)
    with refused(DaemonJsonError, "列表", "zh"):
        parse("[]", PATH)


def test_other_keys_stay_and_mappings_are_merged() -> None:
    current = {"hosts": ["fd://"], "runtimes": {"kata": {"path": "/usr/bin/kata"}}, "debug": True}
    ours = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}, "debug": False}
    assert merge(current, ours) == {
        "hosts": ["fd://"],
        "runtimes": {"kata": {"path": "/usr/bin/kata"}, "nvidia": {"path": "nvidia-container-runtime", "args": []}},
        "debug": False,
    }


def test_null_removes_a_key() -> None:
    assert merge({"live-restore": True, "a": {"b": 1, "c": 2}}, {"live-restore": None, "a": {"b": None}}) == {
        "a": {"c": 2}
    }


def test_a_list_is_replaced() -> None:
    assert merge({"dns": ["10.0.0.1"]}, {"dns": ["10.0.0.2"]}) == {"dns": ["10.0.0.2"]}


def test_options_of_another_logging_driver_do_not_stay() -> None:
    ours = {"log-driver": "json-file", "log-opts": {"max-size": "50m"}}
    assert merge({"log-driver": "syslog", "log-opts": {"syslog-address": "udp://x"}}, ours) == ours
    assert merge({"log-driver": "syslog", "log-opts": {"syslog-address": "udp://x"}}, {"log-driver": "journald"}) == {
        "log-driver": "journald"
    }


def test_options_of_the_same_logging_driver_are_merged() -> None:
    ours = {"log-driver": "json-file", "log-opts": {"max-size": "50m"}}
    assert merge({"log-opts": {"tag": "x"}}, ours)["log-opts"] == {"tag": "x", "max-size": "50m"}


@given(CONFIG, CONFIG)
def test_a_second_merge_changes_nothing(current: dict[str, Any], options: dict[str, Any]) -> None:
    before = json.dumps([current, options])
    once = merge(current, options)
    assert merge(once, options) == once
    assert parse(render(once), PATH) == once
    assert json.dumps([current, options]) == before
    assert all(once[key] == value for key, value in current.items() if key not in options and key != "log-opts")
