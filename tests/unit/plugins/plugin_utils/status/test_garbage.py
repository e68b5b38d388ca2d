"""A host that lies, or whose facts are damaged, is one host of whose answer nothing can be made: the others are told of as ever."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.checks import examine
from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.finding import Question
from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.report import doctor_document, doctor_lines
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.asked import series_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import Looked, looked_at, made_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.report import (
    status_document,
    status_lines,
    status_page,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.trends import check_series, kept_looks
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.junk import JUNK, ODD, Place, places, replaced
from tests.support.looks import NOW, asked, facts

RIGHT: dict[str, Any] = {
    **facts(),
    "llm_lock": {"holder": {"who": "a@b", "playbook": "site.yml", "since": NOW - 60, "run": {"pid": 1}}},
    "llm_journal": [{"run": {"pid": 1}, "begun": int(NOW) - 60, "ended": None, "roles": ["vllm"], "who": "a@b"}],
}


def status(hosts: Sequence[Looked]) -> dict[str, Any]:
    series = series_of(hosts)
    check_series(series)
    looks = kept_looks(None, hosts, NOW)
    document = status_document(hosts, NOW, {}, series)
    json.dumps([document, looks])
    for lang in ("en", "zh"):
        status_lines(document, lang, "")
        status_page(document, lang)
    return document


def doctor(hosts: Sequence[Looked]) -> dict[str, Any]:
    series = series_of(hosts)
    check_series(series)
    found = examine(Question(hosts, looks=kept_looks(None, hosts, NOW), series=series, now=NOW))
    document = doctor_document(found, "now")
    doctor_lines(document, "en", "")
    return document


def both(place: Place, value: Any) -> list[Looked]:
    """Of two hosts the head is well; the other says something in the wrong place."""
    wrong = replaced({**RIGHT, **facts(head=False)}, place, value)
    return [looked_at(asked("gpu01"), facts(), ""), looked_at(asked("gpu02"), wrong, "")]


def test_two_hosts_that_are_well() -> None:
    document = made_of(both(("llm_host", "kernel"), "6.1.0-18-amd64"), status)
    assert [row["state"] for row in document["rows"]] == ["serving", "running"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("llm_lock", "holder"), 7),
        (("llm_journal",), [7]),
        (("llm_journal",), [{"run": {}, "begun": "yesterday", "ended": None, "roles": []}]),
        (("llm_records",), ["x"]),
        (("llm_gpus_found",), [7]),
        (("llm_live", "disks", 0, "available_bytes"), "much"),
        (("llm_live", "containers", 0, "arguments"), {"node-rank": "0", "nnodes": "0"}),
        (("llm_live", "series"), {"running": [7]}),
        (("llm_live", "now"), float("nan")),
    ],
)
def test_what_one_host_says_is_no_other_s_trouble(place: Place, value: Any) -> None:
    document = made_of(both(place, value), status)
    assert document["rows"][0]["state"] == "serving"
    assert len(document["rows"]) == 2
    assert made_of(both(place, value), doctor)["exit_code"] in (0, 1, 2)


@given(st.data())
@examples(150)
def test_no_value_at_any_place_of_a_host_s_facts_ends_the_look_at_the_fleet(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from([each for each in places({**RIGHT, **facts(head=False)}) if each]))
    value = data.draw(JUNK)
    for make in (status, doctor):
        made_of(both(place, value), make)


@pytest.mark.slow
def test_no_odd_value_at_any_place_does() -> None:
    wrong = []
    for place in places({**RIGHT, **facts(head=False)}):
        for odd in ODD if place else ():
            for make in (status, doctor):
                try:
                    made_of(both(place, odd), make)
                except Exception as error:
                    wrong.append(f"{place}: {str(odd)[:20]!r}: {type(error).__name__}: {error}")
    assert wrong == []
