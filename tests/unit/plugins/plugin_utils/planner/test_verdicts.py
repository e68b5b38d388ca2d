# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner against the releases themselves: what their own code accepts and refuses."""

from __future__ import annotations

import json

import pytest

from benchmarks.verdicts import VERDICTS, Row, agreement, compare

# What was reached. It only rises.
AGREEMENT = 1.0


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return compare(json.loads(VERDICTS.read_text(encoding="utf-8")))


def test_the_planner_says_what_the_releases_say(rows: list[Row]) -> None:
    assert len(rows) == 1087
    assert agreement(rows) >= AGREEMENT


def test_nothing_is_promised_that_a_release_refuses(rows: list[Row]) -> None:
    assert [row.verdict for row in rows if row.promises] == []
