"""The catalogue of messages: complete in both languages, and readable."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages import catalogue
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import (
    LANGUAGES,
    TEXTS,
    Refused,
    language,
    message,
    names,
    problem,
    reason,
    render,
    shown,
)

REPOSITORY = Path(__file__).resolve().parents[5]
CODES = frozenset(TEXTS["en"])


def placeholders(text: str) -> set[str]:
    return {field for _text, field, _spec, _conversion in string.Formatter().parse(text) if field is not None}


def test_both_files_have_the_same_codes_in_the_same_order() -> None:
    assert list(TEXTS["en"]) == list(TEXTS["zh"])


@pytest.mark.parametrize("code", sorted(CODES))
def test_both_languages_say_it_with_the_same_values(code: str) -> None:
    english, chinese = TEXTS["en"][code], TEXTS["zh"][code]
    assert english.strip()
    assert chinese.strip()
    assert placeholders(english) == placeholders(chinese)
    assert "" not in placeholders(english), "placeholders have names"


@pytest.mark.parametrize("code", sorted(code for code in CODES if code + "_allowed" in CODES))
def test_a_problem_says_four_things(code: str) -> None:
    fields = placeholders(TEXTS["en"][code]) | placeholders(TEXTS["en"][code + "_allowed"])
    for lang in LANGUAGES:
        entry = problem(code, lang, value="x", where="y", **dict.fromkeys(fields, "z"))
        assert list(entry) == ["code", "what", "value", "where", "allowed"]
        assert all(entry.values())
        assert "{" not in entry["what"]


def test_every_text_of_what_is_allowed_belongs_to_a_problem() -> None:
    allowed = [code for code in CODES if code.endswith("_allowed") and code != "label_allowed"]
    assert [code for code in allowed if code[: -len("_allowed")] not in CODES] == []


def test_every_message_is_said_somewhere() -> None:
    """A code stands as a text in the source, whole or in the parts that it is put together from."""
    files = [path for folder in ("plugins", "roles", "playbooks") for path in (REPOSITORY / folder).rglob("*.*")]
    texts = Path(catalogue.__file__).resolve().parent
    sources = [
        path for path in files if path.suffix in (".py", ".j2") or (path.suffix == ".yml" and path.parent != texts)
    ]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    said = set(re.findall(r"""["']([a-z0-9_]+)["']""", text))

    def is_said(code: str) -> bool:
        return (
            code in said
            or any(code.startswith(part) and code[len(part) :] in said for part in said if part.endswith("_"))
            or any(code.endswith(part) and is_said(code[: -len(part)]) for part in said if part.startswith("_"))
        )

    assert len(sources) > 200
    assert not is_said("nobody_says_this")
    assert [code for code in sorted(CODES) if not is_said(code)] == []


def test_chinese_is_chinese() -> None:
    assert "清单" in message("problems_header", "zh", count=2)


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


def test_many_names_are_cut() -> None:
    assert names([f"gpu{number}" for number in range(10)], limit=3) == "gpu0, gpu1, gpu2 and 7 more"
    assert names([]) == "(none)"


def test_rendered_problems_stand_one_below_the_other() -> None:
    entries = [
        problem("model_is_url", value="v1", where="w1", deployment="one", suggestion="a/b"),
        problem("deployment_without_host", value="v2", where="w2", deployment="two"),
    ]
    assert render(entries).splitlines() == [
        "2 problems in the inventory. No host has been touched.",
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
    assert render(entries[:1]).startswith("One problem in the inventory.")
    assert render(entries, header="No").startswith("No\n\n1. ")


def test_an_error_says_why_in_the_language_of_whoever_catches_it() -> None:
    refused = Refused("cluster_absent_unknown", host="gpu01")
    assert str(refused) == reason(refused) == "gpu01 did not join"
    assert reason(refused, "zh") == "gpu01 未加入"
    assert reason(OSError("disk full"), "zh") == "disk full"
