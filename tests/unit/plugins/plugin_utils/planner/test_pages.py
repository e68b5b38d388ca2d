# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages whose figures the planner prints."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.pages import PAGES, ROOT, written

# Reports made anew.
pytestmark = pytest.mark.slow


def marked(page: str) -> Any:
    """Hundreds of plans take a while."""
    return pytest.param(page, marks=pytest.mark.slow) if page.endswith("what-fits.md") else page


@pytest.mark.parametrize("page", [marked(page) for page in sorted(PAGES)])
def test_a_page_says_what_the_planner_prints(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert written(page, text) == text, "run: python benchmarks/pages.py"
    assert text.count("\n| ") + text.count("\n## ") > 15
