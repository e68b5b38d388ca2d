# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What torch's allocator holds when a rank has loaded its part of a model."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.allocator import Allocator
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.layers import Build, LayerModules, Module
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Attention
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import padded_vocabulary
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key


def load(build: Build, layers: Sequence[LayerModules], store: Allocator) -> None:
    """Allocate every parameter and buffer in the order in which the model is built."""
    model, shard, width = build.model, build.shard, build.width
    table = padded_vocabulary(model.vocabulary) // build.tp * model.hidden * width
    tied = model.tied and _since(build, "ties_since")
    if shard.first or (shard.last and tied) or not _since(build, "embeds_first_since"):
        store.allocate(table)
    if shard.first and model.positions:
        store.allocate(model.positions * model.hidden * width)
    ropes = list(model.rope)
    if not _since(build, "scales_since"):
        ropes = [(int(model.original_context), rotary) for _dummy, rotary in ropes]
    packed: list[tuple[Module, list[int]]] = []
    for index, (attention, rest) in enumerate(layers, shard.first_layer):
        for part in (attention, rest):
            for module in part:
                blocks = [store.allocate(size) for size in module.sizes]
                if module.packed:
                    packed.append((module, blocks))
            if part is attention and ropes and model.layers[index].attention.kind != "linear":
                _rope(build, store, ropes.pop(0), model.layers[index].attention)
    if shard.last:
        for _dummy in range(2 if model.norm_bias else 1):
            store.allocate(model.hidden * width)
    if (shard.last or not _since(build, "head_last_since")) and not tied:
        store.allocate(table)
    if shard.last:
        if model.lm_head_bias:
            store.allocate(padded_vocabulary(model.vocabulary) // build.tp * width)
    for module, blocks in packed:
        _repack(build, store, module, blocks)


def _repack(build: Build, store: Allocator, module: Module, blocks: list[int]) -> None:
    """Marlin's repacking: new tensors take the place of the loaded ones, some through large temporaries."""
    size, scales = module.sizes[0], module.sizes[1]
    weight = blocks[0]
    if build.model.quantization.method == "awq":
        if at(changes.AWQ_CONVERTED_FIRST, build.key):
            shifted = store.allocate(8 * size)
            masked = store.allocate(8 * size)
            store.free(shifted)
            unpacked = store.allocate(8 * size)
            store.free(masked)
            shifted = store.allocate(8 * size)
            packed = store.allocate(size)
            store.free(shifted)
            store.free(weight)
            store.free(unpacked)
            weight = packed
    if build.machete:
        turned = store.allocate(size)
        store.allocate(size)
        store.free(turned)
        store.free(weight)
        if build.model.quantization.zeros:  # kept as 16-bit products with the scales
            wide = store.allocate(2 * scales)
            store.allocate(scales)
            store.free(wide)
            store.free(blocks[2])
        return
    if build.model.quantization.zeros:
        store.allocate(module.sizes[2])
        store.free(blocks[2])
    store.allocate(size)
    store.free(weight)
    store.allocate(scales)
    store.free(blocks[1])


def _rope(build: Build, store: Allocator, rope: tuple[int, int], spec: Attention) -> None:
    """The cos/sin cache is computed in float32 on the GPU; what that leaves behind is reused."""
    length, rotary = rope
    half = length * rotary // 2 * 4
    steps = store.allocate(length * 4)
    parts = [store.allocate(half) for _dummy in range(3)]
    joined = store.allocate(2 * half)
    for part in parts:
        store.free(part)
    store.free(steps)
    if spec.kind == "mla" and at(changes.MLA_ROPE_FLOAT32, build.key):
        return
    store.allocate(length * rotary * build.width)
    store.free(joined)


def _since(build: Build, trait: str) -> bool:
    """Whether a trait that names a release holds."""
    since = build.model.traits[trait]
    return since is not None and build.key >= release_key(str(since))
