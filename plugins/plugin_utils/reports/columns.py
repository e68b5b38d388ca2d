# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence


def width(text: str) -> int:
    """Columns of a terminal that a text takes: a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = (), ruled: bool = False) -> list[str]:
    """A line for each row. The columns in ``right`` are aligned to the right; ``ruled`` draws a line below the first row."""
    widths = [max(width(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for index, cell in enumerate(row):
            padding = " " * (widths[index] - width(cell))
            cells.append(padding + cell if index in right else cell + padding)
        lines.append("  ".join(cells).rstrip())
    if ruled:
        lines.insert(1, "  ".join("-" * size for size in widths))
    return lines
