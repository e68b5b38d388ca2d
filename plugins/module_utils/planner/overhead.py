# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory outside torch's allocator, and CUDA graphs."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.module_utils.planner.data import eras
from ansible_collections.baremetal.llm.plugins.module_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.module_utils.planner.parallel import Shard
from ansible_collections.baremetal.llm.plugins.module_utils.planner.settings import Settings
from ansible_collections.baremetal.llm.plugins.module_utils.planner.versions import at

GIB = 1024**3


def non_torch(shard: Shard, settings: Settings) -> int:
    """Bytes that the device loses to libraries and communicators between the baseline and the end of the profile run."""
    nccl_inside = at(eras.NCCL_INSIDE_BUDGET, settings.release.key)
    if settings.engine == "V1" and not nccl_inside:
        if shard.tp > 1 and shard.last:
            return int(0.54 * GIB)
        return int((0.06 if shard.tp * shard.pp > 1 else 0.22) * GIB)
    if shard.tp * shard.pp == 1:
        return int(0.09 * GIB)
    return int(0.4 * GIB)


def graph_batches(settings: Settings) -> list[int]:
    """Batch sizes for which graphs are captured."""
    if settings.eager:
        return []
    if settings.graph_sizes is not None:
        return list(settings.graph_sizes)
    if settings.engine == "V1":
        largest = min(2 * settings.sequences, 512)
        sizes = [1, 2, 4, *range(8, min(largest + 1, 256), 8), *range(256, largest + 1, 16)]
        return [size for size in sizes if size <= min(largest, settings.batched_tokens)]
    return [size for size in (1, 2, 4, *range(8, 257, 8)) if size <= max(settings.sequences, 1)] or [1]


def graphs(model: Model, shard: Shard, settings: Settings) -> int:
    """Bytes of captured CUDA graphs."""
    batches = graph_batches(settings)
    if not batches:
        return 0
    layers = shard.last_layer - shard.first_layer
    return int((0.1 + 0.0004 * layers * len(batches)) * GIB)
