# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layers lie on which GPU: llama.cpp puts the last ones on the GPUs, in order, and --tensor-split says how many on each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.graph import compute_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.memory import (
    Cells,
    Memory,
    Settings,
    batch_of,
    cells,
    layer_cache,
    layer_state,
    output_size,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.model import GgufModel
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu

# What llama.cpp itself leaves free on each GPU when it fits a model (--fit-target): CUDA's context, its libraries and what they allocate later. On an H200
# that was at most 730 MiB (tests/data/llama_cpp/gpu_memory.json).
MARGIN = 1024 * 1024**2
# With several GPUs a batch enters the first one while another leaves the last: copies of what is given to the graph (GGML_SCHED_MAX_COPIES).
_COPIES = 4
# Shares of the GPUs' memory that are tried, so that GPUs of one size get about as much.
_SHARES = tuple(number / 20 for number in range(1, 21))
_STEP = 256


class Placement(NamedTuple):
    """``gpu_layers`` as --n-gpu-layers counts them: the layers, and one for what turns the last one into words."""

    gpu_layers: int
    split: tuple[int, ...]  # layers of each GPU
    gpus: tuple[Memory, ...]
    host: int  # bytes of weights that stay on the host
    context: int
    fits: bool  # all layers are on GPUs


NOTHING = Memory(0, 0, 0, 0)


class _Costs(NamedTuple):
    """Bytes by layer, the words' layer last, and what each GPU needs besides. A draft model lies on the first GPU as a whole."""

    layers: tuple[tuple[int, int, int], ...]  # weights, cache, state
    besides: tuple[int, ...]
    words: int  # the table that stays on the host
    draft: Memory = NOTHING

    def memory(self, first: int, last: int, gpu: int) -> Memory:
        rows = self.layers[first:last]
        sums = [sum(row[part] for row in rows) for part in range(3)]
        own = Memory(sums[0], sums[1], sums[2], self.besides[gpu] if rows else 0)
        return Memory(*map(sum, zip(own, self.draft, strict=True))) if gpu == 0 else own


def room(gpu: Gpu) -> int:
    """Bytes of a GPU that a model may fill."""
    return max(0, gpu.total - MARGIN)


def place(model: GgufModel, gpus: Sequence[Gpu], settings: Settings, draft: GgufModel | None = None) -> Placement:
    """Layers on GPUs: all of them if they fit, spread by the GPUs' memory; else the last ones, as many as there is room for beside the draft model."""
    costs = costs_of(model, gpus, settings)
    if draft is not None:
        beside = costs_of(draft, gpus[:1], draft_settings(settings))
        costs = costs._replace(draft=beside.memory(0, len(beside.layers), 0), words=costs.words + beside.words)
    rooms = [room(gpu) for gpu in gpus]
    count = len(costs.layers)
    for share in _SHARES:
        found = _filled(costs, [int(one * share) for one in rooms], 0)
        if found is not None:
            return _placement(costs, found, 0, settings)
    for first in range(1, count):
        found = _filled(costs, rooms, first)
        if found is not None:
            return _placement(costs, found, first, settings)
    return _placement(costs, [0] * len(gpus), count, settings)


def draft_settings(settings: Settings) -> Settings:
    """With which a draft model is started beside a model: as long, for as many requests, and with a cache of 16 bits (common_params of b11549)."""
    return settings._replace(key_type="f16", value_type="f16")


def longest_context(
    model: GgufModel, gpus: Sequence[Gpu], settings: Settings, most: int, draft: GgufModel | None = None
) -> int:
    """The longest context, up to ``most`` for each request, with which all layers are on the GPUs; 0 where none is."""
    low, high = 0, max(1, most // _STEP)
    while low < high:
        middle = (low + high + 1) // 2
        context = min(most, middle * _STEP) * settings.requests
        if place(model, gpus, settings._replace(context=context), draft).fits:
            low = middle
        else:
            high = middle - 1
    return min(most, low * _STEP)


def _filled(costs: _Costs, rooms: Sequence[int], first: int) -> list[int] | None:
    """How many layers from ``first`` on each GPU takes, in order; None where they do not all fit."""
    counts = []
    index = first
    for gpu, free in enumerate(rooms):
        start, used = index, costs.besides[gpu] + (costs.draft.total if gpu == 0 else 0)
        while index < len(costs.layers) and used + sum(costs.layers[index]) <= free:
            used += sum(costs.layers[index])
            index += 1
        counts.append(index - start)
    whole = index == len(costs.layers) and costs.draft.total <= rooms[0]
    return counts if whole else None


def _placement(costs: _Costs, counts: Sequence[int], first: int, settings: Settings) -> Placement:
    memories = []
    start = first
    for gpu, count in enumerate(counts):
        memories.append(costs.memory(start, start + count, gpu))
        start += count
    host = costs.words + sum(row[0] for row in costs.layers[:first])
    return Placement(sum(counts), tuple(counts), tuple(memories), host, settings.context, first == 0)


def costs_of(model: GgufModel, gpus: Sequence[Gpu], settings: Settings) -> _Costs:
    found = cells(model, settings)
    rows = [
        (layer.size, layer_cache(model, layer, settings, found), layer_state(model, layer, settings))
        for layer in model.layers
    ]
    batch = batch_of(model, settings, found, on_gpu=True)
    # A few layers need as much as all: each uses the places of the one before it again.
    sample = sorted({*range(min(4, len(model.layers))), len(model.layers) - 1})
    sample = list(range(len(model.layers))) if model.slides else sample
    compute = compute_bytes(model, batch, sample)
    if len(gpus) > 1:
        width = 2 if settings.flash else 4
        given = settings.batch * ((batch.cells + batch.window_cells) * width + model.hidden * 4)
        compute += (_COPIES - 1) * given
    compute += score_bytes(model, settings, found)
    besides = tuple(compute + unpacked(model, gpu, settings) for gpu in gpus)
    words = sum(one.size or 0 for name, one in model.rest.items() if name.startswith("token_embd"))
    return _Costs((*rows, (output_size(model), 0, 0)), besides, words)


def score_bytes(model: GgufModel, settings: Settings, found: Cells) -> int:
    """Bytes for what the heads find in the cache as 16-bit numbers, which cuBLAS multiplies with the values where there is no flash attention.

    Source: two H200, with contexts of 2048 and 16384 (tests/data/llama_cpp/gpu_memory.json).
    """
    heads = 0 if settings.flash else max((layer.heads for layer in model.layers if not layer.recurrent), default=0)
    return found.full * settings.batch * heads * 2


def unpacked(model: GgufModel, gpu: Gpu, settings: Settings) -> int:
    """Bytes for a matrix as 16-bit numbers. GPUs without integer products (P100), and Volta for longer batches, multiply so.

    Source: ggml_cuda_should_use_mmq (ggml/src/ggml-cuda/mmq.cu). No log of such a GPU was at hand to compare it with.
    """
    if gpu.capability not in ((6, 0), (7, 0), (7, 2)):
        return 0
    shapes = [one.shape for layer in model.layers for one in layer.weights.values() if len(one.shape) > 1]
    largest = max((shape[0] * shape[1] for shape in shapes), default=0)
    widest = max((max(shape[:2]) for shape in shapes), default=0)
    return largest * 2 + 2 * settings.batch * widest * 2
