# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bytes of parameters and buffers that a rank holds after loading."""

from __future__ import annotations

from typing import Iterable

from ansible_collections.baremetal.llm.plugins.module_utils.planner.data import eras
from ansible_collections.baremetal.llm.plugins.module_utils.planner.model import Attention, Layer, Mlp, Model
from ansible_collections.baremetal.llm.plugins.module_utils.planner.parallel import Shard
from ansible_collections.baremetal.llm.plugins.module_utils.planner.quantization import NONE, Quantization, linear_bytes
from ansible_collections.baremetal.llm.plugins.module_utils.planner.versions import at

MIB = 1024**2
DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
VOCABULARY_PADDING = 64


def padded_vocabulary(size: int) -> int:
    return -(-size // VOCABULARY_PADDING) * VOCABULARY_PADDING


class Layout:
    """Sizes of the tensors of one rank. One instance per start; layers that are alike are computed once."""

    def __init__(self, model: Model, shard: Shard, dtype: str, key: tuple[int, ...], expert_parallel: int = 1) -> None:
        self.model = model
        self.shard = shard
        self.tp = shard.tp
        self.width = DTYPE_BYTES[dtype]
        self.key = key
        self.expert_parallel = expert_parallel
        self._layers: dict[Layer, list[int]] = {}

    # -- one layer ---------------------------------------------------------------------------------------------
    def kv_heads(self, attention: Attention) -> int:
        return max(1, attention.kv_heads // self.tp)

    def _linear(
        self, inputs: int, outputs: int, bias: bool, quantised: bool = True, whole: int | None = None
    ) -> list[int]:
        scheme = self.model.quantization if quantised else NONE
        sizes = linear_bytes(scheme, inputs, outputs, self.width, whole)
        if bias:
            sizes.append(outputs * self.width)
        return sizes

    def attention(self, spec: Attention) -> list[int]:
        hidden, tp, width = self.model.hidden, self.tp, self.width
        quantised = not self.model.quantization.experts_only
        if spec.kind == "mla":
            return self._mla(spec)
        if spec.kind == "linear":
            return self._linear_attention(spec)
        kv = self.kv_heads(spec)
        heads = spec.heads // tp
        queries = heads * spec.head_dim * (2 if spec.output_gate else 1)
        sizes = self._linear(hidden, queries + 2 * kv * spec.head_dim, spec.qkv_bias, quantised)
        sizes += self._linear(heads * spec.head_dim, hidden, spec.o_bias, quantised, spec.heads * spec.head_dim)
        if spec.qk_norm == "head":
            sizes += [spec.head_dim * width] * 2
        elif spec.qk_norm == "full":
            sizes += [heads * spec.head_dim * width, kv * spec.head_dim * width]
        if spec.sinks:
            sizes.append(heads * 4)
        return sizes

    def _mla(self, spec: Attention) -> list[int]:
        hidden, tp, width = self.model.hidden, self.tp, self.width
        heads = spec.heads // tp
        sizes: list[int] = []
        if spec.q_lora:
            sizes += self._linear(hidden, spec.q_lora + spec.kv_lora + spec.rope_dim, False)
            sizes.append(spec.q_lora * width)
            sizes += self._linear(spec.q_lora, heads * spec.head_dim, False)
        else:
            sizes += self._linear(hidden, heads * spec.head_dim, False)
            sizes += self._linear(hidden, spec.kv_lora + spec.rope_dim, False)
        sizes.append(spec.kv_lora * width)
        sizes += self._linear(spec.kv_lora, heads * (spec.nope_dim + spec.value_dim), False)
        sizes += self._linear(heads * spec.value_dim, hidden, False)
        if at(eras.MLA_ABSORBED_COPIES, self.key) == "kept":
            sizes.append(heads * spec.nope_dim * spec.kv_lora * width)
            sizes.append(heads * spec.value_dim * spec.kv_lora * width)
        if spec.indexer:
            count, size = spec.indexer
            sizes += self._linear(spec.q_lora, count * size, False)
            sizes += self._linear(hidden, size, False)
            sizes += [hidden * count * width, size * 4, size * 4]
        return sizes

    def _linear_attention(self, spec: Attention) -> list[int]:
        assert spec.linear is not None
        hidden, tp, width = self.model.hidden, self.tp, self.width
        key_heads, value_heads, key_dim, value_dim, kernel = spec.linear
        keys, values = key_heads * key_dim // tp, value_heads * value_dim // tp
        sizes = self._linear(hidden, 2 * keys + 2 * values, False)
        sizes += self._linear(hidden, 2 * value_heads // tp, False, quantised=False)
        sizes.append((2 * keys + values) * kernel * width)
        sizes += [value_heads // tp * 4, value_heads // tp * width, value_dim * width]
        sizes += self._linear(values, hidden, False)
        return sizes

    def mlp(self, spec: Mlp) -> list[int]:
        if spec.kind == "moe":
            return self._experts(spec)
        return self._feed_forward(spec.intermediate, spec.kind, spec.bias)

    def _feed_forward(self, intermediate: int, kind: str, bias: bool) -> list[int]:
        hidden, tp = self.model.hidden, self.tp
        quantised = not self.model.quantization.experts_only
        part = intermediate // tp
        up = 2 * part if kind == "gated" else part
        sizes = self._linear(hidden, up, bias, quantised)
        sizes += self._linear(part, hidden, bias, quantised, intermediate)
        return sizes

    def _experts(self, spec: Mlp) -> list[int]:
        hidden, width = self.model.hidden, self.width
        count, part = spec.experts, spec.expert_intermediate
        if self.expert_parallel > 1:
            count = -(-count // self.expert_parallel)
        else:
            part = part // self.tp
        sizes = [spec.experts * hidden * width]
        if spec.router_bias:
            sizes.append(spec.experts * 4)
        quantised = self.model.quantization
        inner = part
        if quantised.scheme == "mxfp4":  # padded by the kernels
            inner = -(-part // 64) * 64
        for one in linear_bytes(quantised, hidden, 2 * inner, width):
            sizes.append(count * one)
        for one in linear_bytes(quantised, inner, hidden, width):
            sizes.append(count * one)
        if spec.expert_bias:
            sizes += [count * 2 * inner * width, count * hidden * width, spec.experts * width]
        if spec.shared_intermediate:
            sizes += self._feed_forward(spec.shared_intermediate, "gated", False)
        if spec.shared_gate:
            sizes.append(hidden * width)
        if spec.dense_intermediate:
            sizes += self._feed_forward(spec.dense_intermediate, "gated", False)
        return sizes

    def layer(self, spec: Layer) -> list[int]:
        """Bytes of each tensor of one layer."""
        if spec not in self._layers:
            norm = self.model.hidden * self.width
            norms = [norm] * (spec.norms * (2 if self.model.norm_bias else 1))
            self._layers[spec] = self.attention(spec.attention) + self.mlp(spec.mlp) + norms
        return self._layers[spec]

    # -- the ends ----------------------------------------------------------------------------------------------
    def ends(self) -> list[int]:
        """Embedding, learned positions, final norm, head, rope caches."""
        model, shard, width = self.model, self.shard, self.width
        rows = padded_vocabulary(model.vocabulary) // self.tp
        table = rows * model.hidden * width
        sizes: list[int] = []
        if shard.first or (shard.last and model.tied):
            sizes.append(table)
        if shard.first and model.positions:
            sizes.append(model.positions * model.hidden * width)
        if shard.last:
            sizes += [model.hidden * width] * (2 if model.norm_bias else 1)
            if not model.tied:
                sizes.append(table)
            if model.lm_head_bias:
                sizes.append(rows * width)
        for length, rotary in model.rope:
            sizes.append(length * rotary * width)
        return sizes

    def tensors(self) -> list[int]:
        """Bytes of every tensor of the rank."""
        sizes = self.ends()
        for spec in self.model.layers[self.shard.first_layer : self.shard.last_layer]:
            sizes += self.layer(spec)
        return sizes


def allocated(sizes: Iterable[int], key: tuple[int, ...]) -> int:
    """What torch's caching allocator counts for these tensors."""
    keeps = at(eras.ALLOCATOR_KEEPS_REST_FROM, key)
    total = 0
    for size in sizes:
        size = -(-size // 512) * 512
        if size >= 10 * MIB:
            whole = -(-size // (2 * MIB)) * (2 * MIB)
            if whole - size <= MIB or (keeps is not None and size >= keeps):
                size = whole
        total += size
    return total


def offloadable(layout: Layout) -> int:
    """Bytes of decoder layers: what --cpu-offload-gb may move to the host."""
    return sum(
        sum(layout.layer(spec)) for spec in layout.model.layers[layout.shard.first_layer : layout.shard.last_layer]
    )


def rank_weights(
    model: Model, shard: Shard, dtype: str, key: tuple[int, ...], expert_parallel: int = 1, offload_gib: float = 0.0
) -> int:
    """Bytes on the GPU after loading."""
    layout = Layout(model, shard, dtype, key, expert_parallel)
    total = allocated(layout.tensors(), key)
    if offload_gib:
        total -= min(int(offload_gib * eras.GIB), offloadable(layout))
    return total


__all__ = ["DTYPE_BYTES", "Layout", "Quantization", "allocated", "offloadable", "padded_vocabulary", "rank_weights"]
