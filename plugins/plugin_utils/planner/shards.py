# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a model is cut: which layers a pipeline stage holds, which stage and tensor rank a rank is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at

VOCABULARY_PADDING = 64


class Shard(NamedTuple):
    """A rank's place in the grid."""

    tp: int
    pp: int
    stage: int
    first_layer: int
    last_layer: int  # one behind

    @property
    def first(self) -> bool:
        return self.stage == 0

    @property
    def last(self) -> bool:
        return self.stage == self.pp - 1


def stage_layers(layers: int, pp: int, key: tuple[int, ...], partition: tuple[int, ...] | None = None) -> list[int]:
    """The number of layers on each stage, as the release cuts them."""
    if partition is not None:
        return list(partition)
    counts = [layers // pp] * pp
    rest = layers % pp
    rule = at(changes.PP_REMAINDER, key)
    if rest and rule == "middle":
        for back in range(2, rest + 2):
            counts[-back] += 1
    elif rest:
        counts[-1] += rest
    return counts


def shards(
    layers: int, tp: int, pp: int, key: tuple[int, ...], partition: tuple[int, ...] | None = None
) -> list[Shard]:
    """The shard of each stage (all tensor ranks of a stage hold the same amount)."""
    result = []
    start = 0
    for stage, count in enumerate(stage_layers(layers, pp, key, partition)):
        result.append(Shard(tp, pp, stage, start, start + count))
        start += count
    return result


def spread(gpus: Sequence[int], tp: int, pp: int) -> list[int] | None:
    """How many ranks each node gets: stages in order, each inside one node when sizes allow. None when the GPUs do not suffice."""
    if sum(gpus) < tp * pp:
        return None
    inside = sum(count // tp for count in gpus) >= pp
    left = tp * pp
    ranks = []
    for count in gpus:
        ranks.append(min(count // tp * tp if inside else count, left))
        left -= ranks[-1]
    return ranks


def divides_heads(model: Model, tp: int) -> bool:
    """Whether attention heads and KV heads can be shared by `tp` ranks at all."""
    if model.heads % tp:
        return False
    kv = {layer.attention.kv_heads for layer in model.layers if layer.attention.kind == "gqa"}
    return all(not (heads % tp if heads >= tp else tp % heads) for heads in kv)


def padded_vocabulary(size: int) -> int:
    return -(-size // VOCABULARY_PADDING) * VOCABULARY_PADDING
