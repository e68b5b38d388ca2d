# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner against the releases themselves: what their own code accepts and refuses."""

from __future__ import annotations

import json

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import unknown_option
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.values import domain
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import resolve_release

from benchmarks.verdicts import (
    FRESH_VERDICTS,
    LATER_VERDICTS,
    NEW_VERDICTS,
    NEWEST_VERDICTS,
    RECENT_VERDICTS,
    VERDICTS,
    WEIGHTS,
    WEIGHTS_OFF,
    Row,
    agreement,
    compared,
    page,
    weights,
)
from tests.support.each import check_each

# What was reached. It only rises.
AGREEMENT = 1.0


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return compared(VERDICTS)


def test_the_planner_says_what_the_releases_say(rows: list[Row]) -> None:
    assert len(rows) > 1080  # without what kernels decide
    assert agreement(rows) >= AGREEMENT


def test_nothing_is_promised_that_a_release_refuses(rows: list[Row]) -> None:
    assert [row.verdict for row in rows if row.promises] == []


# New verdicts that the planner does not share: an executor may be the name of a class, and one release ignores a number that is 0.
APART = ("distributed_executor_backend", "max_num_seqs")


@pytest.mark.slow
def test_new_verdicts_are_shared_as_well() -> None:
    new = compared(NEW_VERDICTS)
    assert len(new) >= 780  # without what kernels decide
    apart = [row for row in new if not row.agrees]
    assert [row.verdict for row in apart if row.promises] == []
    assert all(set(APART) & set(row.verdict[5]) for row in apart)
    assert len(apart) <= len(APART)


@pytest.mark.slow
def test_fresh_verdicts_are_shared_but_for_names_of_classes_and_numbers_that_are_0() -> None:
    fresh = compared(FRESH_VERDICTS)
    assert len(fresh) > 1000
    apart = [row for row in fresh if not row.agrees]
    assert [row.verdict for row in apart if row.promises] == []
    # The release's own checks let one start through that three reports saw end in a kernel that is not there: experts on a V100.
    kernels = [row for row in apart if row.verdict[0].startswith("mistralai__Mixtral") and row.verdict[2] == "7.0"]
    assert len(kernels) == 1
    assert all(set(APART) & set(row.verdict[5]) for row in apart if row not in kernels)
    assert agreement(fresh) > 0.995


def test_releases_that_no_rule_was_compared_with_are_shared_as_well() -> None:
    later = compared(LATER_VERDICTS)
    assert {row.verdict[4] for row in later} == {"0.7.3", "0.11.2"}
    assert [row.verdict for row in later if row.promises] == []
    assert all(set(APART) & set(row.verdict[5]) for row in later if not row.agrees)
    assert agreement(later) > 0.99


def test_the_newest_release_that_ran_is_shared() -> None:
    newest = compared(NEWEST_VERDICTS)
    assert {row.verdict[4] for row in newest} == {"0.13.0"}
    assert [row.verdict for row in newest if row.promises] == []
    assert agreement(newest) > 0.99


def test_releases_of_this_year_are_shared() -> None:
    recent = compared(RECENT_VERDICTS)
    assert {row.verdict[4] for row in recent} == {"0.20.2", "0.33.0"}
    assert len(recent) > 110
    assert [row.verdict for row in recent if not row.agrees] == []


def test_the_page_names_every_verdict_that_is_not_shared() -> None:
    text = (VERDICTS.parents[3] / "docs" / "reference" / "planner-accuracy.md").read_text(encoding="utf-8")
    assert text.endswith(page() + "\n"), "run: python benchmarks/planner.py --page"


def test_weights_of_a_rank_are_those_that_the_release_builds() -> None:
    off = weights(json.loads(WEIGHTS.read_text(encoding="utf-8")))
    assert len(off) == 7
    for release, parts in off.items():
        sizes = sorted(map(abs, parts))
        assert sizes[-1] <= WEIGHTS_OFF, release
        assert sizes[len(sizes) // 2] < 0.0001, release


PARSERS: dict[str, dict[str, list[str] | None]] = json.loads(
    (VERDICTS.parent / "option_parsers.json").read_text(encoding="utf-8")
)
# Refused behind the parser, by the loader or the executor.
BEHIND_THE_PARSER = (
    "load_format",
    "distributed_executor_backend",
    "guided_decoding_backend",
    "quantization",
    "max_lora_rank",
)
# One parser takes any list of these, or reads them itself.
OPEN = ("collect_detailed_traces", "reasoning_parser", "chat_template_text_format", "lora_extra_vocab_size")
# Options of the server that were, or became, options of the engine.
MOVED = ("served_model_name", "reasoning_parser", "enable_reasoning", "max_log_len")


def test_options_and_domains_are_those_of_the_release() -> None:
    """The options that each release's own parser knows, and the values that it takes."""
    check_each({version: version for version in PARSERS}, check)


def check(version: str) -> None:
    release = resolve_release(version)
    for name, values in PARSERS[version].items():
        assert unknown_option(name, release) is None, name
        if name in OPEN or (name in BEHIND_THE_PARSER and values is None):
            continue
        allowed = domain(name, release)
        if name not in BEHIND_THE_PARSER or name == "load_format":
            assert (sorted(allowed) if allowed else None) == values, name
    known = {name for options in PARSERS.values() for name in options}
    for name in known - set(PARSERS[version]) - set(MOVED):
        assert unknown_option(name, release) is not None, name
