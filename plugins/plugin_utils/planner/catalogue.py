# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Much-used models, each with what the planner reads of its config.json: planning needs no download for them.

data/models holds a file for each, Qwen__Qwen3-8B.json for Qwen/Qwen3-8B: ``model`` (its name at Hugging Face), ``modelscope`` and ``renamed_from``
where other names differ, ``source`` of the facts and ``date`` (of the source, or on which it was read), and ``config``.
benchmarks/catalogue.py writes one from a config.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "data" / "models"


class Entry(NamedTuple):
    model: str
    modelscope: str  # its name there
    names: frozenset[str]  # all of its names, in small letters
    config: Mapping[str, object]


@cache
def entries() -> tuple[Entry, ...]:
    """All models, by name."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        modelscope = row.get("modelscope") or row["model"]
        names = {row["model"], modelscope, row.get("renamed_from") or row["model"]}
        found.append(Entry(row["model"], modelscope, frozenset(name.lower() for name in names), row["config"]))
    return tuple(found)


def entry_of(model: str) -> Entry | None:
    """A model by its name at Hugging Face or ModelScope; None where the catalogue lacks it."""
    name = model.strip().strip("/").lower()
    return next((entry for entry in entries() if name in entry.names), None)


def config_of(model: str) -> dict[str, object] | None:
    """The config.json of a model as far as the planner reads it; None where the catalogue lacks it."""
    entry = entry_of(model)
    return None if entry is None else dict(entry.config)
