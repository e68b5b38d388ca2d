# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GGUF file that would be made of a checkpoint: for plans before anybody has fetched one."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.baremetal.llm.plugins.module_utils._gguf import TYPES, Tensor
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.data.conversions import (
    CONVERTED,
    MIXES,
    NARROW,
    Mix,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.model import GgufModel, Layer
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import model as checkpoint

_NUMBERS = {name: number for number, (name, _weights, _size) in TYPES.items()}


def convert(model: checkpoint.Model, quantization: str) -> GgufModel | None:
    """The model as a GGUF file; None where the collection does not know what its layers become."""
    architecture = CONVERTED.get(model.architecture)
    known = all(layer.attention.kind == "gqa" and layer.mlp.kind in ("gated", "moe") for layer in model.layers)
    if architecture is None or quantization not in MIXES or not known or not model.layers:
        return None
    mix = MIXES[quantization]
    count = len(model.layers)
    layers = tuple(_layer(model, index, mix, _gets_more(index, count)) for index in range(count))
    rest = {"token_embd.weight": _tensor("token_embd.weight", (model.hidden, model.vocabulary), mix.base)}
    rest["output_norm.weight"] = _tensor("output_norm.weight", (model.hidden,), "F32")
    if model.tied:  # the table of words is both, and gets the better type
        rest["token_embd.weight"] = _tensor("token_embd.weight", (model.hidden, model.vocabulary), mix.output)
    else:
        rest["output.weight"] = _tensor("output.weight", (model.hidden, model.vocabulary), mix.output)
    attention = model.layers[0].attention
    return GgufModel(
        name=model.name,
        architecture=architecture,
        quantization=quantization,
        layers=layers,
        rest=rest,
        hidden=model.hidden,
        key_dim=attention.head_dim,
        value_dim=attention.value_dim,
        window=max((layer.attention.window or 0 for layer in model.layers), default=0),
        latent=0,
        rope_dim=attention.head_dim,
        experts=model.experts,
        experts_used=max((layer.mlp.per_token for layer in model.layers), default=0),
        context=model.context,
        vocabulary=model.vocabulary,
        recurrent=None,
        unknown_types=(),
    )


def _gets_more(index: int, count: int) -> bool:
    """Layers whose values matter most: the first and last eighth, and every third between them."""
    return index < count // 8 or index >= 7 * count // 8 or (index - count // 8) % 3 == 2


def _layer(model: checkpoint.Model, index: int, mix: Mix, more: bool) -> Layer:
    layer = model.layers[index]
    spec = layer.attention
    better = mix.more if more else mix.base
    weights = {
        name: _tensor(name, shape, better if better_type else mix.base)
        for name, shape, better_type in _matrices(model, layer)
    }
    norms = ["attn_norm", "ffn_norm", *(["attn_q_norm", "attn_k_norm"] if spec.qk_norm else [])]
    weights |= {f"{name}.weight": _tensor(name, (model.hidden,), "F32") for name in norms}
    if layer.norms > 2:
        weights |= {f"post_{name}_norm.weight": _tensor(name, (model.hidden,), "F32") for name in ("attention", "ffw")}
    return Layer(weights, spec.heads, spec.kv_heads, spec.window is not None, False)


def _matrices(model: checkpoint.Model, layer: checkpoint.Layer) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    """Name, shape, and whether the better type is for it."""
    spec, mlp, hidden = layer.attention, layer.mlp, model.hidden
    query, keys, values = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim, spec.kv_heads * spec.value_dim
    if model.architecture == "Phi3ForCausalLM":
        yield "attn_qkv.weight", (hidden, query + keys + values), False
    else:
        yield "attn_q.weight", (hidden, query), False
        yield "attn_k.weight", (hidden, keys), False
        yield "attn_v.weight", (hidden, values), True
    yield "attn_output.weight", (spec.heads * spec.value_dim, hidden), False
    if mlp.kind == "moe":
        inner = mlp.expert_intermediate
        yield "ffn_gate_inp.weight", (hidden, mlp.experts), False
        yield "ffn_gate_exps.weight", (hidden, inner, mlp.experts), False
        yield "ffn_up_exps.weight", (hidden, inner, mlp.experts), False
        yield "ffn_down_exps.weight", (inner, hidden, mlp.experts), True
    elif model.architecture == "Phi3ForCausalLM":
        yield "ffn_up.weight", (hidden, 2 * mlp.intermediate), False
        yield "ffn_down.weight", (mlp.intermediate, hidden), True
    else:
        yield "ffn_gate.weight", (hidden, mlp.intermediate), False
        yield "ffn_up.weight", (hidden, mlp.intermediate), False
        yield "ffn_down.weight", (mlp.intermediate, hidden), True


def _tensor(name: str, shape: tuple[int, ...], kind: str) -> Tensor:
    if name == "ffn_gate_inp.weight":  # what chooses the experts is never quantised
        kind = "F32"
    if shape[0] % TYPES[_NUMBERS[kind]][1]:
        kind = NARROW.get(kind, "F16")
    return Tensor(name, shape, _NUMBERS[kind], 0)
