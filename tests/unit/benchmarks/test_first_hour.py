# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the benchmark of the first hour reads from README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.first_hour import first_screen, on_lab_hosts

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_first_screen_leads_to_a_plan_in_three_commands(page: str) -> None:
    screen = first_screen((ROOT / page).read_text(encoding="utf-8"))
    assert len(screen.road) == 3
    assert screen.environment.startswith("make env")
    assert screen.inventory == "inventories/fleet"
    assert "llm_fleet=" in screen.one_line


def test_the_hosts_of_the_lab_stand_in_for_the_reader_s() -> None:
    line = on_lab_hosts(first_screen((ROOT / "README.md").read_text(encoding="utf-8")).discover)
    assert "gpu01" not in line
    assert line.count(".11,") == 1
    assert "-e llm_model=" in line


def test_a_page_without_the_commands_is_no_first_screen() -> None:
    with pytest.raises(ValueError, match="make env"):
        first_screen("```bash\nmake demo\n```\n")
