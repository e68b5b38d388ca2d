"""The connectivity check as lines of a terminal and as a page."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.connectivity import check_connectivity
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.network import (
    network_html,
    network_lines,
    network_report,
)

from tests.support.connectivity import A, B, candidate, cut, good
from tests.support.pages import Page, assert_self_contained

HOSTILE = "<script>alert('x')</script> \"&amp; 主机"


def check_with_a_dead_path(language: str = "en") -> dict[str, Any]:
    results = good(A, B)
    cut(results, A, "gpu1", "gpu2")
    return check_connectivity([candidate(A), candidate(B)], results, lang=language)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_matrix_for_people(lang: str) -> None:
    results = good(A, B)
    cut(results, A, "gpu1", "gpu2")
    checked = check_connectivity([candidate(A), candidate(B)], results, lang=lang)
    text = "\n".join(network_lines(checked, lang))
    assert A in text
    assert "9.0 Gbit/s, 0.2 ms, MTU 1500" in text
    assert "timeout" in text
    page = network_html({"tiny": checked}, lang)
    assert page.count("<table>") == 2
    assert page.count('class="bad"') == 2


@pytest.mark.parametrize(
    ("hosts", "limit", "titles"),
    [
        (3, 3, ["network 10.0.0.0/24, verified", "网络 10.0.0.0/24，已验证"]),
        (3, 2, ["not verified in this run: gpu3 took no part", "未验证：未包含 gpu3"]),
        (3, 1, ["not verified in this run: gpu2, gpu3 took no part", "未验证：未包含 gpu2"]),
        (1, 1, ["network 10.0.0.0/24, one host", "网络 10.0.0.0/24，单台主机"]),
    ],
)
def test_what_was_not_part_of_the_run_is_not_verified(hosts: int, limit: int, titles: list[str]) -> None:
    for lang, title in zip(("en", "zh"), titles, strict=True):
        checked = check_connectivity([candidate(A, hosts)], good(A, hosts=limit), lang=lang)
        lines = network_lines(checked, lang)
        assert title in lines[0]
        assert len(lines) == (1 if limit == 1 else limit + 2)
        assert title in network_html({"tiny": checked}, lang)


def test_many_hosts_are_summed_up() -> None:
    checked = check_connectivity([candidate(A, 40)], good(A, hosts=40))
    assert any("1560 of 1560 paths between 40 hosts work" in line for line in network_lines(checked))
    assert max(len(line) for line in network_lines(checked)) < 160


def test_a_note_is_in_both_and_once() -> None:
    mixed = candidate(A)
    mixed["interfaces"]["gpu3"]["mtu"] = 9000
    check = check_connectivity([mixed], good(A))
    (note,) = check["notes"]
    assert network_lines(check)[-1] == f"  {note}"
    assert note in Page(network_html({"tiny": check})).text


def test_columns_are_aligned_under_chinese_titles() -> None:
    check = check_connectivity([candidate(A)], good(A), lang="zh")
    lines = network_lines(check, "zh")
    # Five Chinese characters take ten columns of "gpu1 (eth1)", which has eleven.
    assert lines[1].startswith("  发送，接收   gpu1  ")
    assert lines[2].startswith("  gpu1 (eth1)  -     ")
    assert lines[1].index("gpu2") + len("发送，接收") == lines[2].index("9.0 Gbit/s")


@pytest.mark.parametrize(("language", "title"), [("en", "Network connectivity"), ("zh", "网络连通性")])
def test_the_page_is_complete_in_each_language(language: str, title: str) -> None:
    page = Page(network_html({"tiny": check_with_a_dead_path(language)}, language))
    assert_self_contained(page)
    assert page.all("html") == [{"lang": language}]
    assert f"<title>{title}</title>" in page.source
    assert "prefers-color-scheme: dark" in page.source
    assert len(page.all("thead")) == len(page.all("table")) == 2


def test_the_page_says_where_to_set_what_is_wrong() -> None:
    check = check_with_a_dead_path()
    text = Page(network_html({"tiny": check})).text
    (problem,) = next(entry["problems"] for entry in check["networks"] if entry["network"] == A)
    for key in ("what", "value", "where", "allowed"):
        assert problem[key] in text


def test_the_cells_of_the_matrix_belong_to_their_hosts() -> None:
    results = good(A)
    results["gpu3"]["reached"][A]["gpu1"]["mbps"] = 94.0
    page = network_html({"tiny": check_connectivity([candidate(A)], results)})
    rows = page.split('<th scope="row">')[1:]
    assert [row.partition(" ")[0] for row in rows] == ["gpu1", "gpu2", "gpu3"]
    cells = [[cell.partition("</td>")[0] for cell in row.split("<td ")[1:]] for row in rows]
    for number, other in itertools.product(range(3), range(3)):
        assert ('class="self"' in cells[number][other]) == (number == other)
        assert ("94 Mbit/s" in cells[number][other]) == ((number, other) == (2, 0))


def test_hostile_texts_are_text() -> None:
    check = check_connectivity([candidate(A)], good(A))
    entry = check["networks"][0]
    entry["warnings"], check["notes"] = [f"warning {HOSTILE}"], [HOSTILE]
    entry["problems"] = [dict.fromkeys(("code", "what", "value", "where", "allowed"), HOSTILE)]
    entry["interfaces"]["gpu1"]["interface"] = HOSTILE
    page = Page(network_html({HOSTILE: check}))
    assert_self_contained(page)
    assert page.text.count(HOSTILE) == 8


def test_without_networks_the_page_says_so() -> None:
    assert "(none)" in Page(network_html({"tiny": {"networks": [], "notes": []}})).text


def test_json_is_what_was_found() -> None:
    check = check_with_a_dead_path("zh")
    text = network_report({"tiny": check}, "json", "zh")
    assert json.loads(text) == {"tiny": json.loads(json.dumps(check))}
    assert "未使用 10.0.0.0/24" in text


def test_text_has_a_block_for_each_deployment() -> None:
    check = check_connectivity([candidate(A, 1)], good(A, hosts=1))
    assert network_report({"b": check, "a": check}).splitlines() == [
        "a",
        "  network 10.0.0.0/24, one host",
        "b",
        "  network 10.0.0.0/24, one host",
    ]
