"""What people reported of hosts that others had used before: each is found, prevented or mended."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.history import JUDGEMENTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import CHECKS

from tests.support.each import check_each
from tests.support.host_reports import JUDGES, ROOT, Report, found_codes, reports, wrong_with

EVERY = {str(report["id"]): report for report in reports()}


def test_each_report_is_answered() -> None:
    def check(report: Report) -> None:
        wrong = wrong_with(report)
        assert not wrong, wrong

    check_each(EVERY, check)


def test_each_report_has_its_sources_and_somebody_who_judges_it() -> None:
    assert len(EVERY) == len(reports())
    for report in EVERY.values():
        assert report["sources"]
        assert all(source.startswith("https://github.com/") for source in report["sources"])
        assert report["by"] in JUDGES
        # A report without an expectation would always pass.
        expected = {
            "codes",
            "never",
            "section",
            "refused",
            "problems",
            "pattern",
            "devices",
            "remedy",
            "action",
            "hca",
            "seconds",
            "limits",
            "variables",
            "network",
        }
        assert expected & set(report)


def test_what_is_found_is_said_in_both_languages() -> None:
    judged = {name: report for name, report in EVERY.items() if report["by"] == "check"}

    def check(report: Report) -> None:
        assert found_codes(report, "zh") == found_codes(report)

    check_each(judged, check)


def test_a_host_that_is_fine_has_none_of_it() -> None:
    assert found_codes({"found": {"host": {"engine": {"version": "28.5.1", "config": {"live-restore": True}}}}}) == []


def test_every_row_of_the_table_is_a_check_that_a_report_needs() -> None:
    assert set(JUDGEMENTS) <= set(CHECKS)
    needed = {code for report in EVERY.values() for code in report.get("codes", ())}
    assert set(JUDGEMENTS) - needed == set()


def test_the_pages_name_every_row_of_the_table() -> None:
    for page in ("docs/guides/hosts-not-fresh.md", "docs/zh/guides/hosts-not-fresh.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert [code for code in JUDGEMENTS if f"`{code}`" not in text] == []
