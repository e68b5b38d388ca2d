# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules of the layers that a rank holds, with their sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Attention, Layer, Mlp, Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.quantization import (
    NONE,
    linear_bytes,
    marlin_serves,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import Shard
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at

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


class Module(NamedTuple):
    """The tensors of one module. `packed`: Marlin repacks the first ones (weight, scales, zeros) after loading."""

    sizes: tuple[int, ...]
    packed: bool = False


# The modules of one layer: the attention's, then the rest.
LayerModules = tuple[list[Module], list[Module]]


@dataclass(frozen=True)
class Build:
    """What the modules of a rank follow from."""

    model: Model
    shard: Shard
    # Bytes of a value that is not quantised.
    width: int
    key: tuple[int, ...]
    expert_parallel: int = 1
    capability: tuple[int, int] = (0, 0)
    lora: tuple[int, int] | None = None
    # The kernels that repack what was loaded.
    marlin: bool = False
    machete: bool = False
    # The linear modules of the layer that the checkpoint leaves unquantised.
    plain: frozenset[str] = frozenset()

    @property
    def tp(self) -> int:
        return self.shard.tp


def with_kernels(build: Build) -> Build:
    """The same with the kernels that the release takes for the GPU."""
    scheme, key = build.model.quantization, build.key
    marlin = (
        scheme.method in ("awq", "gptq")
        and not scheme.plain
        and build.capability >= at(changes.MARLIN_CAPABILITY, key)
        and marlin_serves(scheme, key, build.capability)
    )
    machete = marlin and build.capability == (9, 0) and scheme.method in at(changes.MACHETE_METHODS, key)
    return replace(build, marlin=marlin, machete=machete)


def layers_of(build: Build) -> list[LayerModules]:
    """Of each layer of the rank. Layers that are alike are computed once."""
    model = build.model
    known: dict[tuple[Layer, frozenset[str]], LayerModules] = {}
    found: list[LayerModules] = []
    for index in range(build.shard.first_layer, build.shard.last_layer):
        alike = model.layers[index], _unquantised(model, index)
        if alike not in known:
            known[alike] = _layer(replace(build, plain=alike[1]), alike[0])
        found.append(known[alike])
    return found


def _layer(build: Build, spec: Layer) -> LayerModules:
    norms = [_own(build.model.hidden * build.width)] * (spec.norms * (2 if build.model.norm_bias else 1))
    return _attention(build, spec.attention), _mlp(build, spec.mlp) + norms


def _attention(build: Build, spec: Attention) -> list[Module]:
    hidden, tp, width = build.model.hidden, build.tp, build.width
    if spec.kind == "mla":
        return _mla(build, spec)
    if spec.kind == "linear":
        return _linear_attention(build, spec)
    kv = max(1, spec.kv_heads // tp)
    heads = spec.heads // tp
    queries = heads * spec.head_dim * (2 if spec.output_gate else 1)
    found = [
        _linear(build, "qkv_proj", hidden, queries + 2 * kv * spec.head_dim, spec.qkv_bias, slices=3),
        _linear(build, "o_proj", heads * spec.head_dim, hidden, spec.o_bias, spec.heads * spec.head_dim),
    ]
    if spec.sinks:
        found.append(_own(heads * 4))
    if spec.qk_norm == "head":
        found.append(_own(spec.head_dim * width, spec.head_dim * width))
    elif spec.qk_norm == "full":
        found.append(_own(heads * spec.head_dim * width, kv * spec.head_dim * width))
    return found


def _mla(build: Build, spec: Attention) -> list[Module]:
    hidden, tp, width = build.model.hidden, build.tp, build.width
    heads = spec.heads // tp
    latent = spec.kv_lora + spec.rope_dim
    found: list[Module] = []
    if spec.q_lora:
        found.append(_linear(build, "fused_qkv_a_proj", hidden, spec.q_lora + latent))
        found.append(_own(spec.q_lora * width))
        found.append(_linear(build, "q_b_proj", spec.q_lora, heads * spec.head_dim))
    else:
        found.append(_linear(build, "kv_a_proj", hidden, latent))
        found.append(_linear(build, "q_proj", hidden, heads * spec.head_dim))
    found.append(_own(spec.kv_lora * width))
    found.append(_linear(build, "kv_b_proj", spec.kv_lora, heads * (spec.nope_dim + spec.value_dim)))
    found.append(_linear(build, "o_proj", heads * spec.value_dim, hidden, whole=spec.heads * spec.value_dim))
    absorbed = at(changes.MLA_ABSORBED, build.key)
    if absorbed == "absorbed":
        each = 1 if build.model.quantization.scheme.startswith("fp8") else width
        inputs = spec.q_lora or hidden
        found.append(_own(inputs * heads * spec.kv_lora * each, heads * spec.kv_lora * hidden * each))
        found.append(_own(inputs * heads * spec.rope_dim * width))
    elif absorbed == "views" and build.model.quantization.method != "none":
        found.append(_own(heads * (spec.nope_dim + spec.value_dim) * spec.kv_lora * width))
    if spec.indexer:
        count, size = spec.indexer
        found.append(_linear(build, "wq_b", spec.q_lora, count * size))
        found.append(_linear(build, "wk", hidden, size))
        found.append(_own(hidden * count * width, size * 4, size * 4))
    return found


def _linear_attention(build: Build, spec: Attention) -> list[Module]:
    if spec.linear is None:
        raise ValueError("a linear layer without its sizes")
    hidden, tp, width = build.model.hidden, build.tp, build.width
    key_heads, value_heads, key_dim, value_dim, kernel = spec.linear
    keys, values = key_heads * key_dim // tp, value_heads * value_dim // tp
    return [
        _own((2 * keys + values) * kernel * width),
        _linear(build, "in_proj_qkvz", hidden, 2 * keys + 2 * values),
        _own(hidden * 2 * value_heads // tp * width),
        _own(value_heads // tp * 4, value_heads // tp * width, value_dim * width),
        _linear(build, "out_proj", values, hidden),
    ]


def _mlp(build: Build, spec: Mlp) -> list[Module]:
    if spec.kind == "moe":
        return _experts(build, spec)
    return _feed_forward(build, spec.intermediate, spec.kind, spec.bias)


def _feed_forward(build: Build, intermediate: int, kind: str, bias: bool = False) -> list[Module]:
    hidden, part = build.model.hidden, intermediate // build.tp
    gated = kind == "gated"
    return [
        _linear(build, "gate_up_proj", hidden, 2 * part if gated else part, bias, slices=2 if gated else 1),
        _linear(build, "down_proj", part, hidden, bias, intermediate),
    ]


def _experts(build: Build, spec: Mlp) -> list[Module]:
    hidden, width = build.model.hidden, build.width
    count, part = spec.experts, spec.expert_intermediate
    if build.expert_parallel > 1:
        count = -(-count // build.expert_parallel)
    else:
        part = part // build.tp
    found = [_own(spec.experts * hidden * width)]
    if spec.expert_bias:
        found.append(_own(spec.experts * width))
    if spec.router_bias:
        found.append(_own(spec.experts * 4))
    if spec.shared_intermediate:
        found += _feed_forward(build, spec.shared_intermediate, "gated")
    if spec.shared_gate:
        found.append(_own(hidden * width))
    scheme = NONE if "experts" in build.plain else build.model.quantization
    inner, outer = part, hidden
    if scheme.scheme == "mxfp4":  # padded for the kernels
        paddings = [pads for least, pads in at(changes.MXFP4_PADDING, build.key) if build.capability >= least]
        unit, outer_unit = paddings[-1]
        inner = -(-part // unit) * unit
        outer = -(-hidden // outer_unit) * outer_unit
    for one in linear_bytes(scheme, outer, 2 * inner, width):
        found.append(_own(count * one))
    for one in linear_bytes(scheme, inner, outer, width, spec.expert_intermediate):
        found.append(_own(count * one))
    if spec.expert_bias:
        found.append(_own(count * 2 * inner * width, count * outer * width))
    if spec.dense_intermediate:
        found += _feed_forward(build, spec.dense_intermediate, "gated")
    return found


def _linear(
    build: Build, name: str, inputs: int, outputs: int, bias: bool = False, whole: int | None = None, slices: int = 1
) -> Module:
    """One linear layer of `inputs` x `outputs` on this rank; `slices` projections are fused in it."""
    scheme = build.model.quantization
    if scheme.experts_only or name in build.plain:
        scheme = NONE
    sizes = linear_bytes(scheme, inputs, outputs, build.width, whole)
    packed = build.marlin and scheme.method != "none"
    if packed and scheme.method == "gptq":
        sizes = sizes[:2] if not scheme.act_order else [sizes[0], sizes[1], inputs * 4, inputs * 4]
    if bias:
        sizes.append(outputs * build.width)
    if build.lora is not None:
        adapters, rank = build.lora
        sizes.append(slices * adapters * rank * inputs * build.width)
        sizes.append(adapters * rank * outputs * build.width)
    return Module(tuple(sizes), packed)


def _own(*sizes: int) -> Module:
    return Module(sizes)


def _unquantised(model: Model, index: int) -> frozenset[str]:
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
