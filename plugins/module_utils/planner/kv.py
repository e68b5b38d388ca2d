# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV cache: bytes of a block, blocks, tokens, and what one request needs."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils.planner.data import eras
from ansible_collections.baremetal.llm.plugins.module_utils.planner.model import Attention, Layer, Model
from ansible_collections.baremetal.llm.plugins.module_utils.planner.parallel import Shard
from ansible_collections.baremetal.llm.plugins.module_utils.planner.settings import Settings
from ansible_collections.baremetal.llm.plugins.module_utils.planner.versions import at
from ansible_collections.baremetal.llm.plugins.module_utils.planner.weights import DTYPE_BYTES


class Group(NamedTuple):
    """Layers that share block tables: `layers` of them, each with pages of `page` bytes for `block` tokens."""

    layers: int
    page: int
    block: int
    window: int | None


class Cache(NamedTuple):
    """The cache of one rank."""

    groups: tuple[Group, ...]
    block_bytes: int  # of one block of the pool, over all layers that it serves


def kv_width(settings: Settings, dtype: str) -> int:
    return 1 if settings.kv_dtype.startswith("fp8") else DTYPE_BYTES[dtype]


def token_bytes(attention: Attention, tp: int, width: int, latent: bool) -> int:
    """Bytes of one token in one layer on a rank."""
    if attention.kind == "mla":
        if latent:
            return (attention.kv_lora + attention.rope_dim) * width
        heads = (
            attention.heads // tp
        )  # before the latent cache: keys and values of every head, values padded to the keys
        return 2 * heads * (256 if attention.head_dim > 128 else attention.head_dim) * width
    if attention.kind == "linear":
        return 0
    return max(1, attention.kv_heads // tp) * (attention.head_dim + attention.value_dim) * width


def cache(model: Model, shard: Shard, settings: Settings, dtype: str) -> Cache:
    """Pages of a rank's layers, in groups."""
    width = kv_width(settings, dtype)
    latent = at(eras.MLA_LATENT, settings.release.key) or settings.engine == "V1"
    counts: dict[tuple[int, int | None], int] = {}
    layers: tuple[Layer, ...] = model.layers[shard.first_layer : shard.last_layer]
    for layer in layers:
        size = token_bytes(layer.attention, shard.tp, width, latent)
        if size:
            window = layer.attention.window if settings.engine == "V1" else None
            key = (size, window)
            counts[key] = counts.get(key, 0) + 1
    block = settings.block_size
    groups: list[Group] = []
    if len(counts) <= 1:
        for (size, window), count in counts.items():
            groups.append(Group(count, size * block, block, window))
        return Cache(tuple(groups), sum(group.layers * group.page for group in groups))
    smallest = min(counts.values())
    largest_page = max(size for size, _ in counts) * block
    for (size, window), count in counts.items():
        scale = max(1, largest_page // (size * block))
        for start in range(0, count, smallest):
            groups.append(Group(min(smallest, count - start), size * block * scale, block * scale, window))
    return Cache(tuple(groups), smallest * largest_page)


def request_blocks(store: Cache, tokens: int, batched_tokens: int) -> int:
    """Blocks of the pool that one request of `tokens` needs."""
    total = 0
    for group in store.groups:
        length = tokens
        if group.window is not None:
            length = min(group.window - 1 + batched_tokens, tokens)
            total += -(-length // group.block) + (1 if length < tokens else 0)
        else:
            total += -(-length // group.block)
    return max(total, 1)


def blocks(store: Cache, available: int) -> int:
    return max(0, available // store.block_bytes) if store.block_bytes else 0
