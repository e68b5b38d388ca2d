# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bytes of parameters and buffers that a rank holds after loading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.allocator import Allocator
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.layers import (
    Build,
    LayerModules,
    layers_of,
    with_kernels,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.loading import load
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import Shard
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at

DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


def offloaded(layers: Sequence[LayerModules], gib: float) -> int:
    """Bytes that --cpu-offload-gb moves to the host: whole parameters in the order of the layers until `gib` GiB are gone."""
    limit = int(gib * changes.GIB)
    gone = 0
    for size in (size for layer in layers for part in layer for module in part for size in module.sizes):
        if gone >= limit:
            break
        gone += size
    return gone


class Loading(NamedTuple):
    """How weights are loaded: over how many ranks experts are divided, GiB left on the host, the card's capability, LoRA's count and rank."""

    expert_parallel: int = 1
    offload_gib: float = 0.0
    capability: tuple[int, int] = (0, 0)
    lora: tuple[int, int] | None = None


ALONE = Loading()


def rank_weights(model: Model, shard: Shard, dtype: str, key: tuple[int, ...], loading: Loading = ALONE) -> int:
    """Bytes on the GPU after loading."""
    if not model.known and model.tensors is not None:
        from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.tensors import rank_bytes  # rarely needed

        return rank_bytes(model, shard, DTYPE_BYTES[dtype])
    build = with_kernels(
        Build(model, shard, DTYPE_BYTES[dtype], key, loading.expert_parallel, loading.capability, loading.lora)
    )
    layers, store = layers_of(build), Allocator(at(changes.MAX_SPLIT_SIZE, key))
    load(build, layers, store)
    total = store.allocated
    if model.tensors is not None and shard.first:
        from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.tensors import vision_bytes  # rarely needed

        total += vision_bytes(model, DTYPE_BYTES[dtype])
    if loading.offload_gib:
        total -= offloaded(layers, loading.offload_gib)
    return total
