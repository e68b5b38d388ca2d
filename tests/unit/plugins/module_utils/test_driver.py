"""Which driver drives which card."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.llm.plugins.filter.driver_problems import FilterModule
from ansible_collections.baremetal.llm.plugins.module_utils.driver import driver_problems

problems = FilterModule().filters()["driver_problems"]


@pytest.mark.parametrize(
    ("version", "capabilities"),
    [
        ("570.195.03", ["7.0", "7.0"]),
        ("580.95.05", ["6.0", "7.0"]),
        ("535.288.01", ["8.0"]),
        ("590.44.01", ["7.5", "9.0"]),
        ("610.10", ["12.0"]),
        ("470.256.02", ["3.7"]),
        ("390.157", ["2.0"]),
        ("590.44.01", []),
    ],
)
def test_what_fits_is_accepted(version: str, capabilities: list[str]) -> None:
    assert driver_problems(version, capabilities) == []


@pytest.mark.parametrize(
    ("version", "capability", "last"),
    [("590.44.01", "7.0", 580), ("581.1", "6.1", 580), ("580.95.05", "3.7", 470), ("535.1.1", "2.1", 390)],
)
def test_a_branch_that_is_too_new_is_refused(version: str, capability: str, last: int) -> None:
    (text,) = driver_problems(version, [capability, "9.0", capability])
    assert version in text
    assert f"compute capability {capability}" in text
    assert f"R{last} is the last branch" in text


def test_open_modules_need_turing() -> None:
    assert driver_problems("570.195.03", ["7.5"], "open") == []
    (text,) = driver_problems("570.195.03", ["7.0"], "open")
    assert "Allowed: proprietary" in text


def test_every_problem_is_told_at_once() -> None:
    assert len(driver_problems("590.44.01", ["7.0", "6.0"], "open")) == 4


@pytest.mark.parametrize("version", ["", "570", "latest", "570.195.03-1", "R570"])
def test_what_is_no_version_is_refused(version: str) -> None:
    (text,) = driver_problems(version, [])
    assert "as in 570.195.03" in text


def test_the_filter_passes_over_what_is_not_known() -> None:
    assert problems("590.44.01", [None, "9.0"]) == []
    assert "580" in problems("590.44.01", [7.0], language="zh")[0]
