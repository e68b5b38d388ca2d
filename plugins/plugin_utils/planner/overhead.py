# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory outside torch's allocator, and CUDA graphs."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import overhead as facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import Shard
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at

GIB = 1024**3


def budget_rule(settings: Settings) -> str:
    """How the release computes the KV budget."""
    return at(changes.BUDGET_V1 if settings.engine == "V1" else changes.BUDGET_V0, settings.release.key)


def non_torch(shard: Shard, settings: Settings, gpu: Gpu) -> int:
    """Bytes that the device loses to libraries and communicators, as far as the release counts them."""
    key = settings.release.key
    if budget_rule(settings) == "allocated":
        return 0
    alone = shard.tp * shard.pp == 1
    if settings.engine == "V1" and not at(changes.NCCL_INSIDE_BUDGET, key):
        if alone:
            return int(at(facts.SINGLE["V1"], key) * GIB)
        gathers = shard.tp > 1 and shard.last
        return int((facts.GATHERS if gathers else facts.AMONG_OTHERS) * GIB)
    total = at(facts.SINGLE[settings.engine], key)
    if budget_rule(settings) in ("peak", "device"):
        total += facts.CONTEXT
    if not alone:
        linked = any(name in gpu.name for name in facts.NVLINK_NAMES)
        share = 0.0
        for ranks, pcie, nvlink in facts.COMMUNICATORS:
            if shard.tp >= ranks:
                share = nvlink if linked else pcie
        total += share + (facts.PIPELINE if shard.pp > 1 else 0.0)
    return int(total * GIB)


def graph_batches(settings: Settings) -> list[int]:
    """Batch sizes for which graphs are captured."""
    if settings.eager:
        return []
    if settings.graph_sizes is not None:
        return list(settings.graph_sizes)
    if settings.engine == "V1":
        largest = min(2 * settings.sequences, 512)
        sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
        return [size for size in sizes if size <= min(largest, settings.batched_tokens)]
    sizes = [1, 2, 4, *range(8, 257, 8)]
    return [size for size in sizes if size < settings.sequences + 8]


def graphs(model: Model, shard: Shard, settings: Settings) -> int:
    """Bytes of captured CUDA graphs: an estimate."""
    batches = graph_batches(settings)
    if not batches:
        return 0
    layers = model.layers[shard.first_layer : shard.last_layer]
    each = facts.GRAPH_PER_LAYER[settings.engine]
    heavy = 0
    if settings.engine == "V0" and model.quantization.scheme == "fp8_block":
        heavy = sum(layer.mlp.kind == "moe" for layer in layers)
    # V0 captures each size once for every batch that is under way, and there are as many as stages (capture_model in worker/model_runner.py).
    times = len(batches) * (shard.pp if settings.engine == "V0" else 1)
    widest = max((layer.mlp.intermediate or layer.mlp.expert_intermediate) for layer in model.layers) / shard.tp
    captured = times * ((len(layers) - heavy) * each + heavy * facts.GRAPH_PER_BLOCK_FP8_LAYER) * GIB
    return int(captured + sum(batches) * widest * facts.GRAPH_BYTES)
