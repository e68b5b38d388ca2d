# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a config.json to the facts about an architecture that memory and validity depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import items, mapping, number, text, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.architectures import (
    ARCHITECTURES,
    BY_MODEL_TYPE,
    CONFIG_DEFAULTS,
    DEFAULTS,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.registry import converted_from, registry
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.towers import MROPE_LENGTH
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.quantization import Quantization, read_quantization
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.towers import Tower, read_tower


class Attention(NamedTuple):
    """One attention layer."""

    kind: str  # gqa, mla, linear
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    window: int | None
    qkv_bias: bool
    o_bias: bool
    qk_norm: str | None
    output_gate: bool = False
    sinks: bool = False
    q_lora: int = 0
    kv_lora: int = 0
    nope_dim: int = 0
    rope_dim: int = 0
    indexer: tuple[int, int] | None = None  # (heads, head size) of the sparse-attention indexer
    linear: tuple[int, int, int, int, int] | None = None  # key heads, value heads, key dim, value dim, convolution


class Mlp(NamedTuple):
    """One feed-forward layer."""

    kind: str  # gated, plain, moe
    intermediate: int
    bias: bool
    experts: int = 0
    per_token: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    shared_gate: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    dense_intermediate: int = 0  # a dense MLP beside the experts (Gemma 4)


class Layer(NamedTuple):
    attention: Attention
    mlp: Mlp
    norms: int


class Model(NamedTuple):
    """What the planner knows about a model."""

    architecture: str
    model_type: str
    known: bool
    traits: Mapping[str, object]
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    tied: bool
    checkpoint_dtype: str
    context: int
    original_context: float
    rope: tuple[tuple[int, int], ...]  # (positions, rotary size) of each cos/sin cache
    positions: int  # learned position embeddings
    norm_bias: bool
    lm_head_bias: bool
    quantization: Quantization
    tensors: Mapping[str, object] | None
    warnings: tuple[Text, ...]
    name: str = ""
    uniform: bool = False  # all layers are alike
    scaling: Mapping[str, object] | None = None  # rope_scaling as config.json has it
    soft_cap: bool = False  # attention logits are capped (Gemma 2)
    tower: Tower | None = None  # the encoder of images
    code: tuple[str, ...] = ()  # the classes of a repository that auto_map of config.json names
    labels: int = 2  # classes that a model for classes tells apart (Transformers: two where config.json names none)
    window_from: int | None = None  # the layer from which on a sliding window holds (Qwen's max_window_layers)

    @property
    def heads(self) -> int:
        return self.layers[0].attention.heads if self.layers else 0

    @property
    def slides(self) -> bool:
        """Whether some layers look only at a window of the last tokens."""
        return any(layer.attention.window for layer in self.layers)

    @property
    def experts(self) -> int:
        return max((layer.mlp.experts for layer in self.layers), default=0)


def _trait(traits: Mapping[str, object], name: str, config: Mapping[str, object]) -> object:
    """A trait; one that starts with config: is looked up in config.json."""
    value = traits.get(name, None)
    if isinstance(value, str) and value.startswith("config:"):
        _dummy, key, default = value.split(":")
        found = config.get(key)
        return fields.truth(found, "config.{0}".format(key), default == "true")
    return value


def _row_of(name: str) -> Mapping[str, object] | None:
    """Of an architecture, or of the text model that releases make into it."""
    source = converted_from(name)
    return ARCHITECTURES.get(name) or (ARCHITECTURES.get(source[0]) if source else None)


def _traits_of(name: str, inner: str = "") -> dict[str, object]:
    row = _row_of(name) or {}
    base = inner if row.get("base") == "config" else text(row.get("base"))
    traits = dict(_traits_of(base)) if base else dict(DEFAULTS)
    traits.update({key: value for key, value in row.items() if key != "base"})
    return traits


# The decoder's fields under the names of other models.
WHISPER = {
    "hidden_size": "d_model",
    "num_hidden_layers": "decoder_layers",
    "num_attention_heads": "decoder_attention_heads",
    "intermediate_size": "decoder_ffn_dim",
    "max_position_embeddings": "max_target_positions",
}


def text_config(config: Mapping[str, object]) -> dict[str, object]:
    """The language model's part of a multimodal config, with what it inherits from the whole; of Whisper its decoder."""
    if config.get("model_type") == "whisper":
        return {**config, **{name: config.get(other) for name, other in WHISPER.items()}}
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            merged = dict(inner)
            for name in ("quantization_config", "torch_dtype", "dtype", "tie_word_embeddings", "architectures"):
                if merged.get(name) is None and config.get(name) is not None:
                    merged[name] = config[name]
            return merged
    return dict(config)


def read_model(value: object) -> Model:
    """Facts from a config.json, or from {config:, tensors:}."""
    source = fields.mapping(value, "model")
    tensors: Mapping[str, object] | None = None
    if "config" in source and isinstance(source["config"], Mapping):
        if source.get("tensors"):
            tensors = fields.mapping(source["tensors"], "model.tensors")
        source = source["config"]
    return _read_config(source, tensors)


def _architecture(config: Mapping[str, object]) -> tuple[str, bool]:
    said = config.get("architectures") or []
    names = [said] if isinstance(said, str) else [str(name) for name in fields.listing(said, "config.architectures")]
    for name in names:
        if _row_of(name):
            return name, True
    if not names:
        by_type = BY_MODEL_TYPE.get(str(config.get("model_type") or ""))
        if by_type:
            return by_type, True
    # Of several the release takes the first one that it has.
    found = next((name for name in names if name in registry()), names[0] if names else None)
    return str(found or config.get("model_type") or "unknown"), False


def _read_config(outer: Mapping[str, object], tensors: Mapping[str, object] | None) -> Model:
    if not outer:
        raise InputError("config", "input_empty")
    name, known = _architecture(outer)
    config = text_config(outer)
    defaults = CONFIG_DEFAULTS.get(str(config.get("model_type") or ""), {})
    assumed = [key for key in defaults if config.get(key) is None]
    inner = _architecture(
        {
            **config,
            "architectures": config.get("architectures")
            if config.get("architectures") != outer.get("architectures")
            else None,
        }
    )
    known = (known and (_row_of(name) or {}).get("base") != "config") or (known and inner[1])
    traits = _traits_of(name, inner[0]) if known else dict(DEFAULTS)
    warnings: list[Text] = []
    if assumed:
        config.update({key: defaults[key] for key in assumed})
        warnings.append(Text("start_config_incomplete", names=", ".join(assumed)))
    if not known:
        if config.get("attention_bias") is not None:
            traits["qkv_bias"] = "config:attention_bias:false"
            traits["o_bias"] = "config:attention_bias:false"
        if any(config.get(key) for key in ("num_experts", "n_routed_experts", "num_local_experts")):
            traits["layout"] = "moe"
        if config.get("kv_lora_rank"):
            traits["attention"] = "mla"
    hidden = fields.needed_whole(config, ("hidden_size", "n_embd", "d_model"), "config")
    count = fields.needed_whole(config, ("num_hidden_layers", "n_layer", "num_layers", "n_layers"), "config")
    heads = fields.needed_whole(config, ("num_attention_heads", "n_head", "n_heads"), "config")
    vocabulary = fields.needed_whole(config, ("vocab_size", "padded_vocab_size"), "config")
    if count > 4096:
        raise InputError("config.num_hidden_layers", "input_absurd", found=count)
    if heads > 65536 or hidden > 2**20 or vocabulary > 2**26:
        raise InputError("config", "input_absurd_sizes")
    context, original = _context(config)
    quantization = read_quantization(outer if outer.get("quantization_config") else config)
    layers = tuple(_layers(config, traits, hidden, count, heads))
    tied = config.get("tie_word_embeddings")
    positions = 0
    rope: tuple[tuple[int, int], ...] = ()
    style = _positions(config, traits, hidden)
    if style == "learned":
        positions = context + whole(traits.get("position_offset", 0))
    elif style == "rope":
        rope = _rope(config, layers, original)
    dtype = str(
        outer.get("torch_dtype") or outer.get("dtype") or config.get("torch_dtype") or config.get("dtype") or "float32"
    )
    return Model(
        architecture=name,
        model_type=str(outer.get("model_type") or config.get("model_type") or ""),
        known=known,
        traits=traits,
        hidden=hidden,
        vocabulary=vocabulary,
        layers=layers,
        tied=fields.truth(tied, "config.tie_word_embeddings", bool(traits["tied"])),
        checkpoint_dtype=dtype.replace("torch.", ""),
        context=context,
        original_context=original,
        rope=rope,
        positions=positions,
        norm_bias=bool(_trait(traits, "norm_bias", config)),
        lm_head_bias=bool(_trait(traits, "lm_head_bias", config)),
        quantization=quantization,
        tensors=tensors,
        warnings=tuple(warnings),
        name=str(outer.get("_name_or_path") or ""),
        uniform=all(layer is layers[0] or layer == layers[0] for layer in layers),
        soft_cap=bool(config.get("attn_logit_softcapping")),
        tower=read_tower(family, outer, hidden) if isinstance(family := traits.get("vision"), str) else None,
        code=_code(outer),
        labels=len(mapping(outer.get("id2label"))) or fields.whole(outer, ("num_labels",), "config") or 2,
        window_from=fields.whole(config, ("max_window_layers",), "config", lowest=0),
        scaling=scaling if isinstance(scaling := config.get("rope_scaling"), Mapping) else None,
    )


def _code(config: Mapping[str, object]) -> tuple[str, ...]:
    """The classes that auto_map names, the configuration's first: module.Class, or REPOSITORY--module.Class."""
    said = config.get("auto_map")
    names = dict(said) if isinstance(said, Mapping) else {}
    return tuple(
        str(names[name])
        for name in sorted(names, key=lambda name: name != "AutoConfig")
        if isinstance(names[name], str)
    )


def rescaled(model: Model, scaling: Mapping[str, object] | None, positions: int | None = None) -> Model:
    """The model with another rope_scaling (the option replaces that of config.json) or other max_position_embeddings."""
    base = positions or int(model.original_context)
    section = model.scaling if scaling is None else scaling
    config = {"max_position_embeddings": base, "rope_scaling": section, "model_type": model.model_type}
    context, original = _context(config)
    longest = _scaled_positions(section, original)
    rope = tuple((longest, size) for _dummy, size in model.rope)
    return model._replace(context=context, original_context=original, rope=rope, scaling=section)


def _positions(config: Mapping[str, object], traits: Mapping[str, object], hidden: int) -> str:
    style = str(traits["positions"])
    if style == "baichuan":  # the 13B models use ALiBi
        return "rope" if hidden == 4096 else "none"
    if config.get("alibi"):
        return "none"
    return style


def _context(config: Mapping[str, object]) -> tuple[int, float]:
    """The longest context that vLLM derives, and the one before rope scaling."""
    base = fields.whole(
        config,
        (
            "max_position_embeddings",
            "n_positions",
            "max_seq_len",
            "seq_length",
            "model_max_length",
            "max_sequence_length",
        ),
        "config",
    )
    original = float(base or 2048)
    scaling = config.get("rope_scaling") or config.get("rope_parameters")
    derived = original
    if isinstance(scaling, Mapping):
        kind = str(scaling.get("rope_type") or scaling.get("type") or "")
        factor = fields.number(scaling, "factor", "config.rope_scaling", 0, 1e6)
        if factor and kind not in ("su", "longrope", "llama3", "mrope", "default", ""):
            if kind == "yarn" and scaling.get("original_max_position_embeddings"):
                derived = float(scaling["original_max_position_embeddings"]) * factor
            elif kind != "deepseek_yarn" and "gemma3" not in str(config.get("model_type") or ""):
                derived = original * factor
    return int(max(derived, 1)), original


def _scaled_positions(scaling: object, original: float) -> int:
    """How many positions the cos/sin cache has."""
    if isinstance(scaling, Mapping):
        kind = str(scaling.get("rope_type") or scaling.get("type") or "")
        factor = fields.number(scaling, "factor", "config.rope_scaling", 0, 1e6)
        if kind == "yarn" and factor:
            return int(float(scaling.get("original_max_position_embeddings") or original) * factor)
        if kind in ("linear", "dynamic") and factor:
            return int(original * factor)
    return int(original)


def _rope(config: Mapping[str, object], layers: tuple[Layer, ...], original: float) -> tuple[tuple[int, int], ...]:
    """Positions and rotary size of each cos/sin cache: one for each distinct rope."""
    positions = _scaled_positions(config.get("rope_scaling"), original)
    parameters = config.get("rope_parameters")
    for section in (config.get("rope_scaling"), parameters):
        if isinstance(section, Mapping) and section.get("mrope_section"):
            positions = int(original) * MROPE_LENGTH
    partial = config.get("partial_rotary_factor") or config.get("rotary_pct")
    if partial is None and isinstance(parameters, Mapping):
        partial = parameters.get("partial_rotary_factor")
    caches = []
    for layer in layers:
        attention = layer.attention
        if attention.kind == "linear":
            continue
        size = attention.rope_dim or int(attention.head_dim * number(partial or 1))
        theta = "local" if attention.window and config.get("rope_local_base_freq") else "global"
        entry = (int(original) if theta == "local" else positions, size, theta)
        if entry not in caches:
            caches.append(entry)
    return tuple((length, size) for length, size, _dummy in caches)


def _windows(config: Mapping[str, object], traits: Mapping[str, object], count: int) -> list[int | None]:
    """The sliding window of each layer; null means full attention."""
    window = fields.whole(config, ("sliding_window",), "config", lowest=0) or None
    types = config.get("layer_types")
    if isinstance(types, (list, tuple)) and len(types) == count:
        return [window if kind == "sliding_attention" else None for kind in types]
    if window is None or config.get("use_sliding_window") is False:
        return [None] * count
    style = traits.get("windows")
    if style == "alternate":
        return [window if index % 2 == 0 else None for index in range(count)]
    if style == "pattern":
        every = fields.whole(config, ("sliding_window_pattern",), "config") or 6
        return [None if (index + 1) % every == 0 else window for index in range(count)]
    if traits.get("windows") == "types":
        return [window if index % 2 == 0 else None for index in range(count)]
    return [window] * count


def _layers(
    config: Mapping[str, object], traits: dict[str, object], hidden: int, count: int, heads: int
) -> list[Layer]:
    windows = _windows(config, traits, count)
    norms = whole(traits["norms"])
    layout = str(traits["layout"])
    if layout == "falcon":
        new = fields.truth(config.get("new_decoder_architecture"), "config.new_decoder_architecture")
        norms = 2 if new or not fields.truth(config.get("parallel_attn"), "config.parallel_attn", True) else 1
    attentions: dict[tuple[int | None, bool], Attention] = {}
    mlps: dict[int, Mlp] = {}
    layers = []
    types = config.get("layer_types")
    for index in range(count):
        kind = str(types[index]) if isinstance(types, (list, tuple)) and len(types) == count else ""
        linear = kind == "linear_attention" or (
            traits["attention"] == "hybrid"
            and not kind
            and (index + 1) % (fields.whole(config, ("full_attention_interval",), "config") or 4) != 0
        )
        key = (windows[index], linear)
        if key not in attentions:
            attentions[key] = _attention(config, traits, hidden, heads, windows[index], linear)
        sparse = _is_sparse(config, traits, index)
        which = int(sparse)
        if which not in mlps:
            mlps[which] = _mlp(config, traits, hidden, sparse)
        layers.append(Layer(attentions[key], mlps[which], norms))
    return layers


def _attention(
    config: Mapping[str, object],
    traits: Mapping[str, object],
    hidden: int,
    heads: int,
    window: int | None,
    linear: bool,
) -> Attention:
    if traits["attention"] == "mla" and config.get("kv_lora_rank"):
        nope = fields.needed_whole(config, ("qk_nope_head_dim",), "config")
        rope = fields.needed_whole(config, ("qk_rope_head_dim",), "config")
        indexer = None
        if traits.get("indexer") and config.get("index_n_heads"):
            indexer = (whole(config["index_n_heads"]), whole(config.get("index_head_dim") or 128))
        return Attention(
            kind="mla",
            heads=heads,
            kv_heads=fields.whole(config, ("num_key_value_heads",), "config") or heads,
            head_dim=nope + rope,
            value_dim=fields.needed_whole(config, ("v_head_dim",), "config"),
            window=None,
            qkv_bias=False,
            o_bias=False,
            qk_norm=None,
            q_lora=fields.whole(config, ("q_lora_rank",), "config", lowest=0) or 0,
            kv_lora=fields.needed_whole(config, ("kv_lora_rank",), "config"),
            nope_dim=nope,
            rope_dim=rope,
            indexer=indexer,
        )
    layout = traits["layout"]
    kv_heads = fields.whole(config, ("num_key_value_heads", "multi_query_group_num"), "config") or heads
    if layout == "falcon":
        if fields.truth(config.get("new_decoder_architecture"), "config.new_decoder_architecture"):
            kv_heads = fields.whole(config, ("num_kv_heads", "n_head_kv"), "config") or heads
        elif fields.truth(config.get("multi_query"), "config.multi_query", True):
            kv_heads = 1
        else:
            kv_heads = heads
    if layout == "baichuan":
        kv_heads = heads
    head_dim = fields.whole(config, ("head_dim", "kv_channels", "attention_head_size"), "config") or 0
    if not head_dim:
        if hidden % heads:
            raise InputError("config.num_attention_heads", "input_heads", heads=heads, hidden=hidden)
        head_dim = hidden // heads
    if layout == "gemma4" and window is None:
        head_dim = fields.whole(config, ("global_head_dim",), "config") or head_dim
        kv_heads = fields.whole(config, ("num_global_key_value_heads",), "config") or kv_heads
    if kv_heads > heads:
        raise InputError("config.num_key_value_heads", "input_kv_heads", found=kv_heads, heads=heads)
    qkv_bias = _trait(traits, "qkv_bias", config)
    if layout == "chatglm":
        qkv_bias = bool(config.get("add_qkv_bias", config.get("add_bias_linear", False)))
        if not fields.truth(config.get("multi_query_attention"), "config.multi_query_attention"):
            kv_heads = heads
    qk_norm = text(traits.get("qk_norm")) or None
    if qk_norm and qk_norm.startswith("config:"):
        qk_norm = "head" if _trait(traits, "qk_norm", config) else None
    return Attention(
        kind="linear" if linear else "gqa",
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=head_dim,
        window=window,
        qkv_bias=bool(qkv_bias),
        o_bias=bool(_trait(traits, "o_bias", config)),
        qk_norm=qk_norm,
        output_gate=bool(traits.get("output_gate")),
        sinks=bool(traits.get("sinks")),
        linear=_linear(config) if linear else None,
    )


def _linear(config: Mapping[str, object]) -> tuple[int, int, int, int, int]:
    return (
        fields.needed_whole(config, ("linear_num_key_heads",), "config"),
        fields.needed_whole(config, ("linear_num_value_heads",), "config"),
        fields.needed_whole(config, ("linear_key_head_dim",), "config"),
        fields.needed_whole(config, ("linear_value_head_dim",), "config"),
        fields.whole(config, ("linear_conv_kernel_dim",), "config") or 4,
    )


def _experts(config: Mapping[str, object]) -> int:
    return (
        fields.whole(
            config, ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"), "config", lowest=0
        )
        or 0
    )


def _is_sparse(config: Mapping[str, object], traits: Mapping[str, object], index: int) -> bool:
    layout = traits["layout"]
    if layout not in ("moe", "moe_all", "llama4", "gemma4") or not _experts(config):
        return False
    if layout == "gemma4":
        return fields.truth(config.get("enable_moe_block"), "config.enable_moe_block")
    if layout == "moe_all":
        return True
    if layout == "llama4":
        step = fields.whole(config, ("interleave_moe_layer_step",), "config", lowest=0) or 1
        return (index + 1) % step == 0
    if index < (fields.whole(config, ("first_k_dense_replace",), "config", lowest=0) or 0):
        return False
    if index in items(config.get("mlp_only_layers")):
        return False
    frequency = fields.whole(config, ("moe_layer_freq", "decoder_sparse_step"), "config", lowest=0) or 1
    if "moe_layer_freq" in config and config.get("moe_layer_freq") is not None:
        return index % frequency == 0
    return (index + 1) % frequency == 0


def _mlp(config: Mapping[str, object], traits: Mapping[str, object], hidden: int, sparse: bool) -> Mlp:
    layout = traits["layout"]
    plain = traits["mlp"] == "plain"
    kind = "plain" if plain else "gated"
    bias = bool(_trait(traits, "mlp_bias", config))
    names: tuple[str, ...] = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner")
    if layout == "llama4" and not sparse:
        names = ("intermediate_size_mlp", "intermediate_size")
    intermediate = fields.whole(config, names, "config", lowest=0) or 0
    if layout == "qwen1":
        intermediate //= 2
    if not intermediate and (plain or layout == "falcon"):
        intermediate = 4 * hidden
    if not sparse:
        if not intermediate:
            raise InputError("config.intermediate_size", "input_needed")
        return Mlp(kind, intermediate, bias)
    experts = _experts(config)
    expert = fields.whole(config, ("moe_intermediate_size", "expert_intermediate_size"), "config") or intermediate
    if not expert:
        raise InputError("config.moe_intermediate_size", "input_needed")
    shared = fields.whole(config, ("shared_expert_intermediate_size",), "config", lowest=0) or 0
    if not shared:
        shared = expert * (fields.whole(config, ("n_shared_experts", "num_shared_experts"), "config", lowest=0) or 0)
    if layout == "llama4":
        shared = intermediate
    router = traits.get("router_bias")
    return Mlp(
        kind="moe",
        intermediate=intermediate,
        bias=bias,
        experts=experts,
        per_token=fields.whole(
            config,
            ("num_experts_per_tok", "experts_per_token", "top_k_experts", "moe_topk", "num_experts_per_token"),
            "config",
        )
        or 1,
        expert_intermediate=expert,
        shared_intermediate=shared,
        shared_gate=bool(traits.get("shared_gate")) and shared > 0,
        expert_bias=bool(traits.get("expert_bias")),
        router_bias=router == "always" or (router == "noaux" and config.get("topk_method") == "noaux_tc"),
        dense_intermediate=intermediate if layout == "gemma4" else 0,
    )
