# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bytes of parameters and buffers that a rank holds after loading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.allocator import Allocator
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Attention, Layer, Mlp, Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.parallel import Shard
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.quantization import (
    NONE,
    linear_bytes,
    marlin_serves,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key

DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
VOCABULARY_PADDING = 64


def padded_vocabulary(size: int) -> int:
    return -(-size // VOCABULARY_PADDING) * VOCABULARY_PADDING


class Module(NamedTuple):
    """The tensors of one module. `packed`: Marlin repacks the first ones (weight, scales, zeros) after loading."""

    sizes: tuple[int, ...]
    packed: bool = False

    @property
    def total(self) -> int:
        return sum(self.sizes)


class Layout:
    """The modules of one rank. One instance per start; layers that are alike are computed once."""

    def __init__(
        self,
        model: Model,
        shard: Shard,
        dtype: str,
        key: tuple[int, ...],
        expert_parallel: int = 1,
        capability: tuple[int, int] = (0, 0),
        max_lora: tuple[int, int] | None = None,
    ) -> None:
        self.model = model
        self.shard = shard
        self.tp = shard.tp
        self.width = DTYPE_BYTES[dtype]
        self.key = key
        self.expert_parallel = expert_parallel
        integers = model.quantization.method in ("awq", "gptq")
        self.marlin = (
            integers
            and not model.quantization.plain
            and capability >= at(changes.MARLIN_CAPABILITY, key)
            and marlin_serves(model.quantization, key, capability)
        )
        self.machete = (
            self.marlin and capability == (9, 0) and model.quantization.method in at(changes.MACHETE_METHODS, key)
        )
        self.lora = max_lora
        self.capability = capability
        self._layers: dict[tuple[Layer, frozenset[str]], tuple[list[Module], list[Module]]] = {}
        self._plain: frozenset[str] = frozenset()

    # -- one layer ---------------------------------------------------------------------------------------------
    def kv_heads(self, attention: Attention) -> int:
        return max(1, attention.kv_heads // self.tp)

    def _linear(
        self, name: str, inputs: int, outputs: int, bias: bool = False, whole: int | None = None, slices: int = 1
    ) -> Module:
        """One linear layer of `inputs` x `outputs` on this rank; `slices` projections are fused in it."""
        scheme = self.model.quantization
        if scheme.experts_only or name in self._plain:
            scheme = NONE
        sizes = linear_bytes(scheme, inputs, outputs, self.width, whole)
        packed = self.marlin and scheme.method != "none"
        if packed and scheme.method == "gptq":
            sizes = sizes[:2] if not scheme.act_order else [sizes[0], sizes[1], inputs * 4, inputs * 4]
        if bias:
            sizes.append(outputs * self.width)
        if self.lora is not None:
            adapters, rank = self.lora
            sizes.append(slices * adapters * rank * inputs * self.width)
            sizes.append(adapters * rank * outputs * self.width)
        return Module(tuple(sizes), packed)

    def _own(self, *sizes: int) -> Module:
        return Module(tuple(sizes))

    def attention(self, spec: Attention) -> list[Module]:
        hidden, tp, width = self.model.hidden, self.tp, self.width
        if spec.kind == "mla":
            return self._mla(spec)
        if spec.kind == "linear":
            return self._linear_attention(spec)
        kv = self.kv_heads(spec)
        heads = spec.heads // tp
        queries = heads * spec.head_dim * (2 if spec.output_gate else 1)
        found = [
            self._linear("qkv_proj", hidden, queries + 2 * kv * spec.head_dim, spec.qkv_bias, slices=3),
            self._linear("o_proj", heads * spec.head_dim, hidden, spec.o_bias, spec.heads * spec.head_dim),
        ]
        if spec.sinks:
            found.append(self._own(heads * 4))
        if spec.qk_norm == "head":
            found.append(self._own(spec.head_dim * width, spec.head_dim * width))
        elif spec.qk_norm == "full":
            found.append(self._own(heads * spec.head_dim * width, kv * spec.head_dim * width))
        return found

    def _mla(self, spec: Attention) -> list[Module]:
        hidden, tp, width = self.model.hidden, self.tp, self.width
        heads = spec.heads // tp
        latent = spec.kv_lora + spec.rope_dim
        found: list[Module] = []
        if spec.q_lora:
            found.append(self._linear("fused_qkv_a_proj", hidden, spec.q_lora + latent))
            found.append(self._own(spec.q_lora * width))
            found.append(self._linear("q_b_proj", spec.q_lora, heads * spec.head_dim))
        else:
            found.append(self._linear("kv_a_proj", hidden, latent))
            found.append(self._linear("q_proj", hidden, heads * spec.head_dim))
        found.append(self._own(spec.kv_lora * width))
        found.append(self._linear("kv_b_proj", spec.kv_lora, heads * (spec.nope_dim + spec.value_dim)))
        found.append(self._linear("o_proj", heads * spec.value_dim, hidden, whole=spec.heads * spec.value_dim))
        absorbed = at(changes.MLA_ABSORBED, self.key)
        if absorbed == "absorbed":
            each = 1 if self.model.quantization.scheme.startswith("fp8") else width
            inputs = spec.q_lora or hidden
            found.append(self._own(inputs * heads * spec.kv_lora * each, heads * spec.kv_lora * hidden * each))
            found.append(self._own(inputs * heads * spec.rope_dim * width))
        elif absorbed == "views" and self.model.quantization.method != "none":
            found.append(self._own(heads * (spec.nope_dim + spec.value_dim) * spec.kv_lora * width))
        if spec.indexer:
            count, size = spec.indexer
            found.append(self._linear("wq_b", spec.q_lora, count * size))
            found.append(self._linear("wk", hidden, size))
            found.append(self._own(hidden * count * width, size * 4, size * 4))
        return found

    def _linear_attention(self, spec: Attention) -> list[Module]:
        if spec.linear is None:
            raise ValueError("a linear layer without its sizes")
        hidden, tp, width = self.model.hidden, self.tp, self.width
        key_heads, value_heads, key_dim, value_dim, kernel = spec.linear
        keys, values = key_heads * key_dim // tp, value_heads * value_dim // tp
        return [
            self._own((2 * keys + values) * kernel * width),
            self._linear("in_proj_qkvz", hidden, 2 * keys + 2 * values),
            self._own(hidden * 2 * value_heads // tp * width),
            self._own(value_heads // tp * 4, value_heads // tp * width, value_dim * width),
            self._linear("out_proj", values, hidden),
        ]

    def mlp(self, spec: Mlp) -> list[Module]:
        if spec.kind == "moe":
            return self._experts(spec)
        return self._feed_forward(spec.intermediate, spec.kind, spec.bias)

    def _feed_forward(self, intermediate: int, kind: str, bias: bool = False) -> list[Module]:
        hidden, part = self.model.hidden, intermediate // self.tp
        gated = kind == "gated"
        return [
            self._linear("gate_up_proj", hidden, 2 * part if gated else part, bias, slices=2 if gated else 1),
            self._linear("down_proj", part, hidden, bias, intermediate),
        ]

    def _experts(self, spec: Mlp) -> list[Module]:
        hidden, width = self.model.hidden, self.width
        count, part = spec.experts, spec.expert_intermediate
        if self.expert_parallel > 1:
            count = -(-count // self.expert_parallel)
        else:
            part = part // self.tp
        found = [self._own(spec.experts * hidden * width)]
        if spec.expert_bias:
            found.append(self._own(spec.experts * width))
        if spec.router_bias:
            found.append(self._own(spec.experts * 4))
        if spec.shared_intermediate:
            found += self._feed_forward(spec.shared_intermediate, "gated")
        if spec.shared_gate:
            found.append(self._own(hidden * width))
        scheme = NONE if "experts" in self._plain else self.model.quantization
        inner, outer = part, hidden
        if scheme.scheme == "mxfp4":  # padded for the kernels
            unit, outer_unit = [
                pads for least, pads in at(changes.MXFP4_PADDING, self.key) if self.capability >= least
            ][-1]
            inner = -(-part // unit) * unit
            outer = -(-hidden // outer_unit) * outer_unit
        for one in linear_bytes(scheme, outer, 2 * inner, width):
            found.append(self._own(count * one))
        for one in linear_bytes(scheme, inner, outer, width, spec.expert_intermediate):
            found.append(self._own(count * one))
        if spec.expert_bias:
            found.append(self._own(count * 2 * inner * width, count * outer * width))
        if spec.dense_intermediate:
            found += self._feed_forward(spec.dense_intermediate, "gated")
        return found

    def layer(self, index: int) -> tuple[list[Module], list[Module]]:
        """The modules of one layer: the attention's, then the rest."""
        spec = self.model.layers[index]
        plain = unquantised(self.model, index)
        memo = (spec, plain)
        if memo not in self._layers:
            self._plain = plain
            norm = self.model.hidden * self.width
            norms = [self._own(norm)] * (spec.norms * (2 if self.model.norm_bias else 1))
            self._layers[memo] = (self.attention(spec.attention), self.mlp(spec.mlp) + norms)
        return self._layers[memo]

    def _since(self, trait: str) -> bool:
        """Whether a trait that names a release holds."""
        since = self.model.traits[trait]
        return since is not None and self.key >= release_key(str(since))

    # -- the whole rank ----------------------------------------------------------------------------------------
    def load(self, store: Allocator) -> None:
        """Allocate every parameter and buffer in the order in which the model is built."""
        model, shard, width = self.model, self.shard, self.width
        table = padded_vocabulary(model.vocabulary) // self.tp * model.hidden * width
        tied = model.tied and self._since("ties_since")
        if shard.first or (shard.last and tied) or not self._since("embeds_first_since"):
            store.allocate(table)
        if shard.first and model.positions:
            store.allocate(model.positions * model.hidden * width)
        ropes = list(model.rope)
        if not self._since("scales_since"):
            ropes = [(int(model.original_context), rotary) for _dummy, rotary in ropes]
        packed: list[tuple[Module, list[int]]] = []
        for index in range(shard.first_layer, shard.last_layer):
            attention, rest = self.layer(index)
            for part in (attention, rest):
                for module in part:
                    blocks = [store.allocate(size) for size in module.sizes]
                    if module.packed:
                        packed.append((module, blocks))
                if part is attention and ropes and model.layers[index].attention.kind != "linear":
                    self._rope(store, ropes.pop(0), model.layers[index].attention)
        if shard.last:
            for _dummy in range(2 if model.norm_bias else 1):
                store.allocate(model.hidden * width)
        if (shard.last or not self._since("head_last_since")) and not tied:
            store.allocate(table)
        if shard.last:
            if model.lm_head_bias:
                store.allocate(padded_vocabulary(model.vocabulary) // self.tp * width)
        for module, blocks in packed:
            self._repack(store, module, blocks)

    def _repack(self, store: Allocator, module: Module, blocks: list[int]) -> None:
        """Marlin's repacking: new tensors take the place of the loaded ones, some through large temporaries."""
        size, scales = module.sizes[0], module.sizes[1]
        weight = blocks[0]
        if self.model.quantization.method == "awq":
            if at(changes.AWQ_CONVERTED_FIRST, self.key):
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
        if self.machete:
            turned = store.allocate(size)
            store.allocate(size)
            store.free(turned)
            store.free(weight)
            if self.model.quantization.zeros:  # kept as 16-bit products with the scales
                wide = store.allocate(2 * scales)
                store.allocate(scales)
                store.free(wide)
                store.free(blocks[2])
            return
        if self.model.quantization.zeros:
            store.allocate(module.sizes[2])
            store.free(blocks[2])
        store.allocate(size)
        store.free(weight)
        store.allocate(scales)
        store.free(blocks[1])

    def _rope(self, store: Allocator, rope: tuple[int, int], spec: Attention) -> None:
        """The cos/sin cache is computed in float32 on the GPU; what that leaves behind is reused."""
        length, rotary = rope
        half = length * rotary // 2 * 4
        steps = store.allocate(length * 4)
        parts = [store.allocate(half) for _dummy in range(3)]
        joined = store.allocate(2 * half)
        for part in parts:
            store.free(part)
        store.free(steps)
        if spec.kind == "mla" and at(changes.MLA_ROPE_FLOAT32, self.key):
            return
        store.allocate(length * rotary * self.width)
        store.free(joined)


LINEARS = {
    "q_proj": "qkv_proj",
    "k_proj": "qkv_proj",
    "v_proj": "qkv_proj",
    "qkv_proj": "qkv_proj",
    "o_proj": "o_proj",
    "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
    "gate_up_proj": "gate_up_proj",
    "down_proj": "down_proj",
    "kv_b_proj": "kv_b_proj",
    "experts": "experts",
}


def unquantised(model: Model, index: int) -> frozenset[str]:
    """The linear modules of a layer that the checkpoint leaves unquantised."""
    scheme = model.quantization
    if scheme.method == "none" or not scheme.ignored:
        return frozenset()
    found = set()
    for entry in scheme.ignored:
        name = entry[3:] if entry.startswith("re:") else entry
        layer = re.search(r"layers\.(\d+)\.", name)
        if layer and int(layer.group(1)) != index:
            continue
        last = name.rsplit(".", 1)[-1].strip("*$")
        if last in LINEARS:
            found.add(LINEARS[last])
        elif layer and last == "self_attn":
            found.update(("qkv_proj", "o_proj", "kv_b_proj"))
        elif layer and last == "mlp":
            found.update(("gate_up_proj", "down_proj", "experts"))
        elif last == "self_attn":
            found.update(("qkv_proj", "o_proj"))
    return frozenset(found)


def offloadable(layout: Layout) -> Sequence[int]:
    """Bytes of each parameter of the decoder layers, in order: what --cpu-offload-gb may move to the host."""
    sizes: list[int] = []
    for index in range(layout.shard.first_layer, layout.shard.last_layer):
        for part in layout.layer(index):
            for module in part:
                sizes.extend(module.sizes)
    return sizes


def offloaded(layout: Layout, gib: float) -> int:
    """Bytes that leave the GPU: whole parameters in layer order until `gib` GiB are gone."""
    limit = int(gib * changes.GIB)
    gone = 0
    for size in offloadable(layout):
        if gone >= limit:
            break
        gone += size
    return gone


def rank_weights(
    model: Model,
    shard: Shard,
    dtype: str,
    key: tuple[int, ...],
    expert_parallel: int = 1,
    offload_gib: float = 0.0,
    capability: tuple[int, int] = (0, 0),
    lora: tuple[int, int] | None = None,
) -> int:
    """Bytes on the GPU after loading."""
    if not model.known and model.tensors is not None:
        from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.tensors import rank_bytes  # rarely needed

        return rank_bytes(model, shard, DTYPE_BYTES[dtype])
    layout = Layout(model, shard, dtype, key, expert_parallel, capability, lora)
    store = Allocator(at(changes.MAX_SPLIT_SIZE, key))
    layout.load(store)
    total = store.allocated
    if model.tensors is not None and shard.first:
        from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.tensors import vision_bytes  # rarely needed

        total += vision_bytes(model, DTYPE_BYTES[dtype])
    if offload_gib:
        total -= offloaded(layout, offload_gib)
    return total
