# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long starts took whose cache was empty: what later starts save is measured against them."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json


def first_start(path: Path, head: str, cache: str, seconds: float) -> float | None:
    """The seconds of the first start of a head with this cache; None where this start is the first that the file hears of, and notes."""
    try:
        known = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    known = known if isinstance(known, dict) else {}
    mine = known[head] = dict(known[head]) if isinstance(known.get(head), dict) else {}
    if isinstance(mine.get(cache), (int, float)):
        return float(mine[cache])
    mine[cache] = round(seconds, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return None
