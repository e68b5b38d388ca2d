# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a prediction may be off, and what that makes of a start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.uncertainty import (
    COMPARED,
    ENOUGH_STARTS,
    GENERATIONS,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu

GIB = 1024**3
STARTS, NARROWLY, UNVERIFIED, NOT = "starts", "starts_narrowly", "not_verified", "does_not_start"
# Of an engine without a memory model.
UNKNOWN = "unknown"
# What is started only where somebody accepts it (vllm_accept_narrow).
UNSURE = (NARROWLY, UNVERIFIED)


class Uncertainty(NamedTuple):
    """Bytes by which the KV cache of a rank may be smaller than predicted, and why as many."""

    size: int
    reason: Text


def generation(capability: tuple[int, int]) -> str:
    """The name of a GPU's generation."""
    return next(name for least, name in GENERATIONS if capability >= least)


def uncertainty(engine: str, gpus: Sequence[Gpu], proven: bool = False) -> Uncertainty:
    """Of a start on these GPUs, the least known of them. `proven`: this model ran on this GPU with this release, and the prediction
    is corrected by what the engine measured, so it is as good as one of the generation that was measured best."""
    if proven:
        best = min(worst for rows in COMPARED.values() for count, worst in rows.values() if count >= ENOUGH_STARTS)
        return Uncertainty(int(best * GIB), Text("uncertainty_past", gib=best))
    known = [_of(engine, name) for name in sorted({generation(gpu.capability) for gpu in gpus})]
    return max(known, key=lambda one: one.size)


def _of(engine: str, name: str) -> Uncertainty:
    rows = COMPARED[engine]
    count, worst = rows.get(name, (0, 0.0))
    if count >= ENOUGH_STARTS:
        return Uncertainty(
            int(worst * GIB), Text("uncertainty_measured", count=count, engine=engine, generation=name, gib=worst)
        )
    largest = max(row[1] for row in rows.values())
    every = sum(row[0] for row in rows.values())
    return Uncertainty(
        int(largest * GIB),
        Text("uncertainty_assumed", count=count, all=every, engine=engine, generation=name, gib=largest),
    )
