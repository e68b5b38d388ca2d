# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which engine has code for which format on which GPUs. The facts and their sources are in capabilities.yml; what vLLM has is in planner/data."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple, TypedDict

import yaml

Capability = tuple[int, int]
LOSSES = ("loss_none", "loss_hardly", "loss_small", "loss_unknown")


class Engine(NamedTuple):
    """An engine beside vLLM."""

    name: str
    title: str
    no_code_below: Capability
    # The engine that it runs, whose plans and formats are its own.
    inside: str


class Runs(TypedDict):
    """The formats that an engine computes on GPUs from one compute capability to another."""

    engine: str
    formats: list[str]
    first: str
    last: str


class Facts(TypedDict):
    """What is read of capabilities.yml: of an engine its name, title and no_code_below, perhaps the engine inside; formats by how much answers suffer."""

    engines: list[dict[str, str]]
    runs: list[Runs]
    losses: dict[str, list[str]]


@cache
def facts() -> Facts:
    content = Path(__file__).with_suffix(".yml").read_bytes()
    found: Facts = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return found


def _capability(text: str) -> Capability:
    major, minor = text.split(".")
    return int(major), int(minor)


@cache
def engines() -> tuple[Engine, ...]:
    return tuple(
        Engine(row["name"], row["title"], _capability(row["no_code_below"]), row.get("inside", ""))
        for row in facts()["engines"]
    )


def runs(engine: str, form: str, capability: Capability) -> bool:
    """Whether an engine is known to compute a format on a GPU."""
    return any(
        row["engine"] == engine
        and form in row["formats"]
        and _capability(row["first"]) <= capability <= _capability(row["last"])
        for row in facts()["runs"]
    )


def loss_of(form: str) -> str:
    """How much the answers suffer from a format, as a code of the catalogue of messages."""
    rows = facts()["losses"]
    return next((code for code in LOSSES if form in rows.get(code.removeprefix("loss_"), ())), LOSSES[-1])
