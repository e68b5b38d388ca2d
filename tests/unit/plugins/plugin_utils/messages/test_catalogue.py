"""The catalogue of messages: complete in both languages, and readable."""

from __future__ import annotations

import string

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import role_defaults
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import (
    LANGUAGES,
    TEXTS,
    Refused,
    language,
    language_of,
    message,
    names,
    problem,
    reason,
    render,
    shown,
)

from tests.support.each import check_each

CODES = frozenset(TEXTS["en"])


def placeholders(text: str) -> set[str]:
    return {field for _text, field, _spec, _conversion in string.Formatter().parse(text) if field is not None}


def test_both_files_have_the_same_codes_in_the_same_order() -> None:
    assert list(TEXTS["en"]) == list(TEXTS["zh"])


def test_both_languages_say_it_with_the_same_values() -> None:
    def check(code: str) -> None:
        english, chinese = TEXTS["en"][code], TEXTS["zh"][code]
        assert english.strip()
        assert chinese.strip()
        assert placeholders(english) == placeholders(chinese)
        assert "" not in placeholders(english), "placeholders have names"

    check_each({code: code for code in sorted(CODES)}, check)


def test_a_problem_says_four_things() -> None:
    def check(code: str) -> None:
        fields = placeholders(TEXTS["en"][code]) | placeholders(TEXTS["en"][code + "_allowed"])
        for lang in LANGUAGES:
            entry = problem(code, lang, value="x", where="y", **dict.fromkeys(fields, "z"))
            assert list(entry) == ["code", "what", "value", "where", "allowed"]
            assert all(entry.values())
            assert "{" not in entry["what"]

    check_each({code: code for code in sorted(CODES) if code + "_allowed" in CODES}, check)


def test_every_text_of_what_is_allowed_belongs_to_a_problem() -> None:
    allowed = [code for code in CODES if code.endswith("_allowed") and code != "label_allowed"]
    assert [code for code in allowed if code[: -len("_allowed")] not in CODES] == []


def test_chinese_is_chinese() -> None:
    assert "问题" in message("problems_header", "zh", count=2)


@pytest.mark.parametrize(
    ("value", "lang"), [("zh", "zh"), ("en", "en"), ("fr", "en"), (None, "en"), (["zh"], "en"), ("", "en")]
)
def test_an_unknown_language_is_english(value: object, lang: str) -> None:
    assert language(value) == lang


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "(not set)"),
        ("", "(not set)"),
        (True, "true"),
        (0, "0"),
        ("8000", '"8000"'),
        ({"a": [1, "b"]}, '{a: [1, "b"]}'),
        ("a\nb", '"a b"'),
    ],
)
def test_values_are_shown_as_an_inventory_has_them(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_long_value_is_cut() -> None:
    assert len(shown("x" * 5000)) == 200


def test_of_a_value_that_nobody_can_write_down_the_beginning_is_shown() -> None:
    """An alias of aliases is as long as all that they stand for, and Python writes no number of 5000 digits."""
    value: object = ["x"] * 9
    for _level in range(40):
        value = [value] * 9
    within: list[object] = []
    within.append(within)
    for large in (value, within, {"a": within}, [10**5000], {"a": -(10**5000)}, [0] * 10**6):
        assert 0 < len(shown(large)) <= 200
    assert shown(10**5000) == "..."
    assert shown([[1], {"a": [2]}]) == "[[1], {a: [2]}]"


def test_many_names_are_cut() -> None:
    assert names([f"gpu{number}" for number in range(10)], limit=3) == "gpu0, gpu1, gpu2 and 7 more"
    assert names([]) == "(none)"


def test_rendered_problems_stand_one_below_the_other() -> None:
    entries = [
        problem("model_is_url", value="v1", where="w1", deployment="one", suggestion="a/b"),
        problem("deployment_without_host", value="v2", where="w2", deployment="two"),
    ]
    assert render(entries).splitlines() == [
        "2 problems. No host has been changed.",
        "",
        "1. vllm_model of the deployment one is a URL.",
        "   value:   v1",
        "   where:   w1",
        "   allowed: the model's name alone (a/b) or its directory on the hosts",
        "",
        "2. The deployment two has no host.",
        "   value:   v2",
        "   where:   w2",
        "   allowed: at least one host in the group two, or no such group",
    ]
    assert render(entries[:1]).startswith("One problem.")
    assert render(entries, header="No").startswith("No\n\n1. ")


def test_an_error_says_why_in_the_language_of_whoever_catches_it() -> None:
    refused = Refused("cluster_absent_unknown", host="gpu01")
    assert str(refused) == reason(refused) == "gpu01 did not join"
    assert reason(refused, "zh") == "gpu01 未加入"
    assert reason(OSError("disk full"), "zh") == "disk full"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
    ],
)
def test_the_language_of_a_person_is_that_of_the_locale(
    environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default of llm_language, which Ansible evaluates, says the same."""
    assert language_of(environment) == said
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    loader = DataLoader()
    default = role_defaults(loader)["llm_language"]
    assert Templar(loader=loader, variables={}).template(default) == said
