# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long starts took whose cache was empty: what later starts save is measured against them."""

from __future__ import annotations

import json
from pathlib import Path


def first_start(path: Path, head: str, cache: str, seconds: float) -> float | None:
    """The seconds of the first start of a head with this cache; None where this start is the first that the file hears of, and notes."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    mine = known.setdefault(head, {})
    if cache in mine:
        return float(mine[cache])
    mine[cache] = round(seconds, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return None
