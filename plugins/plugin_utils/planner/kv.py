# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV cache: bytes of a block, blocks, tokens, and what one request needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Attention, Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import Settings, keeps_latent
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import Shard
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.weights import DTYPE_BYTES


class Group(NamedTuple):
    """Layers that share block tables: a block holds `block` tokens of each of them."""

    layers: int
    page: int  # bytes of one layer's block
    block: int
    window: int | None
    state: bool = False  # a recurrent state: one block for each request, whatever its length


class Cache(NamedTuple):
    """The cache of one rank. `block_bytes` is a block of the pool, over all layers that it serves."""

    groups: tuple[Group, ...]
    block_bytes: int


def kv_width(settings: Settings, dtype: str) -> int:
    return 1 if settings.kv_dtype.startswith(("fp8", "int8")) else DTYPE_BYTES[dtype]


def token_bytes(spec: Attention, tp: int, width: int, latent: bool) -> int:
    """Bytes of one token in one layer on a rank."""
    if spec.kind == "linear":
        return 0
    if spec.kind == "mla":
        if latent:
            indexer = spec.indexer[1] + 4 if spec.indexer else 0
            return (spec.kv_lora + spec.rope_dim) * width + indexer
        # Before the latent cache: keys and values of every head, padded to a head size that the kernels know.
        return 2 * (spec.heads // tp) * changes.MLA_PADDED_HEAD * width
    return max(1, spec.kv_heads // tp) * (spec.head_dim + spec.value_dim) * width


def state_bytes(spec: Attention, tp: int, width: int) -> int:
    """Bytes of a linear layer's state for one request on a rank."""
    if spec.linear is None:
        raise ValueError("a linear layer without its sizes")
    key_heads, value_heads, key_dim, value_dim, kernel = spec.linear
    convolution = (2 * key_heads * key_dim + value_heads * value_dim) // tp * (kernel - 1) * width
    return convolution + value_heads // tp * key_dim * value_dim * 4


def cache(model: Model, shard: Shard, settings: Settings, dtype: str) -> Cache:
    """Pages of a rank's layers, in groups."""
    key = settings.release.key
    width = kv_width(settings, dtype)
    latent = keeps_latent(settings.engine, key, settings.environment)
    hybrid = (
        settings.engine == "V1"
        and at(changes.HYBRID_GROUPS, key)
        and not settings.raw.get("disable_hybrid_kv_cache_manager")
    )
    layers = model.layers[shard.first_layer : shard.last_layer]
    windows = {layer.attention.window for layer in layers}
    full_only = settings.engine == "V0" or (len(windows) > 1 and not hybrid)
    counts: dict[tuple[int, int | None], int] = {}
    linear: Attention | None = None
    states = 0
    for layer in layers:
        spec = layer.attention
        if spec.kind == "linear":
            linear, states = spec, states + 1
            continue
        kind = (token_bytes(spec, shard.tp, width, latent), None if full_only else spec.window)
        counts[kind] = counts.get(kind, 0) + 1
    block = settings.block_size
    if linear is not None and counts:
        largest = max(size for size, _dummy in counts)
        state = state_bytes(linear, shard.tp, width)
        block = max(block, -(-state // (largest * 16)) * 16)
        page = block * largest
        return _grouped(
            [(count, page, block, window, False) for (_dummy, window), count in counts.items()]
            + [(states, page, block, None, True)]
        )
    if len({window for _dummy, window in counts}) <= 1:
        window = next(iter(counts))[1] if counts else None
        total = sum(size * count for (size, _dummy), count in counts.items())
        number = sum(counts.values())
        return Cache((Group(number, total * block // max(number, 1), block, window),), total * block)
    largest = max(size for size, _dummy in counts)
    rows = []
    for (size, window), count in counts.items():
        ratio = largest // size if largest % size == 0 else 1
        rows.append((count, largest * block, block * ratio, window, False))
    return _grouped(rows)


def _grouped(rows: Sequence[tuple[int, int, int, int | None, bool]]) -> Cache:
    """Layers of several kinds in groups of one size, all sharing the pool's pages."""
    fewest, most = min(row[0] for row in rows), max(row[0] for row in rows)
    size = most if most < fewest * 1.5 else fewest
    groups = []
    for count, page, block, window, state in rows:
        groups += [Group(size, page, block, window, state)] * -(-count // size)
    return Cache(tuple(groups), size * rows[0][1])


def request_blocks(store: Cache, tokens: int, batched_tokens: int) -> int:
    """Blocks of the pool that one request of `tokens` needs."""
    total = 0
    for group in store.groups:
        if group.state:
            total += 1
        elif group.window is not None:
            total += -(-min(group.window - 1 + batched_tokens, tokens) // group.block) + 1
        else:
            total += -(-tokens // group.block)
    return max(total, 1)


def blocks(store: Cache, available: int) -> int:
    return max(0, available // store.block_bytes) if store.block_bytes else 0


def printed_tokens(stores: Sequence[Cache], number: int, settings: Settings) -> int:
    """Tokens as the engine prints them. With several groups that is no usable capacity."""
    groups = max((store.groups for store in stores), key=len)
    if settings.engine == "V0":
        return number * settings.block_size
    if at(changes.TOKENS_FROM_CONCURRENCY, settings.release.key):
        needed = max(request_blocks(store, settings.max_model_len, settings.batched_tokens) for store in stores)
        plain = len(groups) == 1 and groups[0].window is None
        # The engine multiplies rounded figures; with whole blocks that is the pool itself.
        whole = plain and settings.max_model_len % groups[0].block == 0
        return number * groups[0].block if whole else int(number / needed * settings.max_model_len)
    return number // max(len(groups), 1) * min(group.block for group in groups)
