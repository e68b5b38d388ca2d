"""Models of llama.cpp's architectures as GGUF files of zeros: what its loader asks for, in any size and quantisation.

Names and shapes of the weights are those of llama.cpp (src/llama-arch.cpp, src/llama-model.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.gguf_files import Signed, write_gguf

Rows = list[tuple[str, tuple[int, ...], str]]


@dataclass(frozen=True)
class Shape:
    """Sizes of a model. ``quant`` is the type of the large weights."""

    arch: str = "llama"
    layers: int = 4
    hidden: int = 1024
    heads: int = 16
    kv_heads: int = 4
    head: int = 64
    inner: int = 2816
    vocabulary: int = 32000
    quant: str = "Q4_0"
    output: str | None = "Q6_K"  # None: the embedding serves as output
    embedding: str = "Q4_0"
    window: int = 0
    experts: int = 0
    used: int = 0
    expert_inner: int = 0
    context: int = 32768
    fused: bool = False  # one matrix for queries, keys and values
    down: str = ""  # the type of every second matrix after the feed-forward, as in Q4_K_M
    extra: dict[str, Any] = field(default_factory=dict)


def _attention(shape: Shape, layer: int) -> Rows:
    at, quant = f"blk.{layer}.", shape.quant
    query, keys = shape.heads * shape.head, shape.kv_heads * shape.head
    rows: Rows = [
        (at + "attn_norm.weight", (shape.hidden,), "F32"),
        (at + "attn_output.weight", (query, shape.hidden), quant),
    ]
    if shape.fused:
        rows.append((at + "attn_qkv.weight", (shape.hidden, query + 2 * keys), quant))
    else:
        rows += [
            (at + f"attn_{name}.weight", (shape.hidden, size), quant)
            for name, size in (("q", query), ("k", keys), ("v", keys))
        ]
    if shape.arch in ("qwen2", "gpt-oss"):
        rows += [(at + f"attn_{name}.bias", (size,), "F32") for name, size in (("q", query), ("k", keys), ("v", keys))]
    if shape.arch in ("qwen3", "qwen3moe", "gemma3"):
        rows += [(at + f"attn_{name}_norm.weight", (shape.head,), "F32") for name in "qk"]
    if shape.arch == "gpt-oss":
        rows += [(at + "attn_output.bias", (shape.hidden,), "F32"), (at + "attn_sinks.weight", (shape.heads,), "F32")]
    if shape.arch in ("gemma2", "gemma3"):
        rows += [(at + f"post_{name}_norm.weight", (shape.hidden,), "F32") for name in ("attention", "ffw")]
    return rows


def _latent(shape: Shape, layer: int) -> Rows:
    """DeepSeek's attention: keys and values of all heads from one short vector."""
    at, quant, heads = f"blk.{layer}.", shape.quant, shape.heads
    rank, rope, nope, value = (
        shape.extra[f"deepseek2.{name}"]
        for name in ("attention.kv_lora_rank", "rope.dimension_count", "nope", "attention.value_length_mla")
    )
    return [
        (at + "attn_norm.weight", (shape.hidden,), "F32"),
        (at + "attn_kv_a_norm.weight", (rank,), "F32"),
        (at + "attn_q_a.weight", (shape.hidden, shape.extra["deepseek2.attention.q_lora_rank"]), quant),
        (at + "attn_q_a_norm.weight", (shape.extra["deepseek2.attention.q_lora_rank"],), "F32"),
        (at + "attn_q_b.weight", (shape.extra["deepseek2.attention.q_lora_rank"], heads * (nope + rope)), quant),
        (at + "attn_kv_a_mqa.weight", (shape.hidden, rank + rope), quant),
        (at + "attn_k_b.weight", (nope, rank, heads), quant),
        (at + "attn_v_b.weight", (rank, value, heads), quant),
        (at + "attn_output.weight", (heads * value, shape.hidden), quant),
    ]


def _experts(shape: Shape, layer: int) -> Rows:
    at, quant = f"blk.{layer}.", shape.quant
    count, inner = shape.experts, shape.expert_inner
    rows: Rows = [
        (at + "ffn_gate_inp.weight", (shape.hidden, count), "F32"),
        (at + "ffn_gate_exps.weight", (shape.hidden, inner, count), quant),
        (at + "ffn_up_exps.weight", (shape.hidden, inner, count), quant),
        (at + "ffn_down_exps.weight", (inner, shape.hidden, count), quant),
    ]
    if shape.arch == "gpt-oss":
        rows += [(at + "ffn_gate_inp.bias", (count,), "F32")]
        rows += [
            (at + f"ffn_{name}_exps.bias", (size, count), "F32")
            for name, size in (("gate", inner), ("up", inner), ("down", shape.hidden))
        ]
    if shape.arch == "deepseek2":
        shared = inner * shape.extra["deepseek2.expert_shared_count"]
        rows += [(at + f"ffn_{name}_shexp.weight", (shape.hidden, shared), quant) for name in ("gate", "up")]
        rows += [(at + "ffn_down_shexp.weight", (shared, shape.hidden), quant)]
    return rows


def _dense(shape: Shape, layer: int) -> Rows:
    at, quant = f"blk.{layer}.", shape.quant
    if shape.arch == "phi3":  # gate and up in one
        return [
            (at + "ffn_up.weight", (shape.hidden, 2 * shape.inner), quant),
            (at + "ffn_down.weight", (shape.inner, shape.hidden), quant),
        ]
    return [
        *((at + f"ffn_{name}.weight", (shape.hidden, shape.inner), quant) for name in ("gate", "up")),
        (at + "ffn_down.weight", (shape.inner, shape.hidden), (layer % 2 and shape.down) or quant),
    ]


def tensors(shape: Shape) -> Rows:
    rows: Rows = [
        ("token_embd.weight", (shape.hidden, shape.vocabulary), shape.embedding),
        ("output_norm.weight", (shape.hidden,), "F32"),
    ]
    if shape.output:
        rows.append(("output.weight", (shape.hidden, shape.vocabulary), shape.output))
    dense = shape.extra.get("deepseek2.leading_dense_block_count", 0)
    for layer in range(shape.layers):
        rows += _latent(shape, layer) if shape.arch == "deepseek2" else _attention(shape, layer)
        norm = "post_attention_norm" if shape.arch == "gpt-oss" else "ffn_norm"
        rows.append((f"blk.{layer}.{norm}.weight", (shape.hidden,), "F32"))
        rows += _experts(shape, layer) if shape.experts and layer >= dense else _dense(shape, layer)
    return rows


def values(shape: Shape, has_words: bool = True) -> dict[str, Any]:
    """Metadata, with a vocabulary of words that mean nothing, or without one: llama.cpp needs the words, the planner their number."""
    arch = shape.arch
    words = ["<unk>", "<s>", "</s>", *(f"<0x{number:02X}>" for number in range(256))]
    words += [f"w{number}" for number in range(len(words), shape.vocabulary if has_words else 300)]
    found: dict[str, Any] = {
        "general.architecture": arch,
        f"{arch}.block_count": shape.layers,
        f"{arch}.context_length": shape.context,
        f"{arch}.embedding_length": shape.hidden,
        f"{arch}.feed_forward_length": shape.inner,
        f"{arch}.attention.head_count": shape.heads,
        f"{arch}.attention.head_count_kv": shape.kv_heads,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.attention.key_length": shape.head,
        f"{arch}.attention.value_length": shape.head,
        f"{arch}.vocab_size": shape.vocabulary,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.scores": [-1.0] * len(words),
        "tokenizer.ggml.token_type": Signed([2, 3, 3, *([6] * 256), *([1] * (len(words) - 259))]),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    if shape.arch not in ("deepseek2",):
        found[f"{arch}.rope.dimension_count"] = shape.head
    if shape.experts:
        found |= {
            f"{arch}.expert_count": shape.experts,
            f"{arch}.expert_used_count": shape.used,
            f"{arch}.expert_feed_forward_length": shape.expert_inner,
        }
    if shape.window:
        found[f"{arch}.attention.sliding_window"] = shape.window
    return {**found, **{key: value for key, value in shape.extra.items() if not key.endswith(".nope")}}


def write_model(path: Path, shape: Shape) -> Path:
    return write_gguf(path, values(shape), tensors(shape))


LATENT = {
    "deepseek2.attention.q_lora_rank": 768,
    "deepseek2.attention.kv_lora_rank": 512,
    "deepseek2.rope.dimension_count": 64,
    "deepseek2.nope": 128,
    "deepseek2.attention.key_length": 576,
    "deepseek2.attention.value_length": 512,
    "deepseek2.attention.key_length_mla": 192,
    "deepseek2.attention.value_length_mla": 128,
    "deepseek2.expert_shared_count": 2,
    "deepseek2.leading_dense_block_count": 1,
    "deepseek2.expert_weights_scale": 1.0,
}

# What is compared with llama.cpp, by name: several architectures, quantisations and sizes.
MODELS = {
    "llama": Shape(layers=3),
    "llama mixed": Shape(
        layers=6, hidden=2048, heads=32, kv_heads=8, inner=5632, quant="Q4_K", down="Q6_K", embedding="Q4_K"
    ),
    "llama f16": Shape(
        layers=2, hidden=512, heads=8, kv_heads=8, inner=1408, quant="F16", output=None, embedding="F16"
    ),
    "qwen2": Shape(arch="qwen2", layers=3, hidden=896, heads=14, kv_heads=2, inner=4864, output=None, embedding="Q8_0"),
    "qwen3": Shape(arch="qwen3", layers=4, heads=16, kv_heads=8, head=128, inner=3072, vocabulary=64000, quant="Q4_K"),
    "qwen3moe": Shape(
        arch="qwen3moe", layers=3, heads=16, head=128, inner=3072, experts=32, used=8, expert_inner=768, quant="Q4_K"
    ),
    "gemma2": Shape(
        arch="gemma2", hidden=1152, heads=8, head=256, inner=6912, output=None, embedding="Q8_0", window=1024
    ),
    "gemma3": Shape(
        arch="gemma3",
        layers=8,
        hidden=1152,
        heads=4,
        kv_heads=1,
        head=256,
        inner=6912,
        output=None,
        embedding="Q8_0",
        window=512,
    ),
    "gpt-oss": Shape(
        arch="gpt-oss", kv_heads=8, inner=1024, experts=8, used=4, expert_inner=1024, quant="MXFP4", window=128
    ),
    "deepseek2": Shape(
        arch="deepseek2",
        layers=3,
        kv_heads=1,
        head=576,
        inner=4096,
        experts=16,
        used=6,
        expert_inner=512,
        quant="Q8_0",
        extra=LATENT,
    ),
    "phi3": Shape(
        arch="phi3", layers=3, hidden=1536, heads=24, kv_heads=8, inner=4096, vocabulary=32064, quant="Q5_0", fused=True
    ),
}
# Of these the figures were compared once the rules stood: a few layers of models that people serve.
MODELS |= {
    "Llama-3.1-8B": Shape(
        layers=2, hidden=4096, heads=32, kv_heads=8, head=128, inner=14336, quant="Q4_K", embedding="Q4_K"
    ),
    "Qwen2.5-7B": Shape(arch="qwen2", layers=2, hidden=3584, heads=28, head=128, inner=18944, quant="Q8_0"),
    "Qwen3-4B": Shape(
        arch="qwen3",
        layers=3,
        hidden=2560,
        heads=32,
        kv_heads=8,
        head=128,
        inner=9728,
        quant="Q4_K",
        down="Q6_K",
        output=None,
        embedding="Q6_K",
    ),
    "Qwen3-30B-A3B": Shape(
        arch="qwen3moe",
        layers=2,
        hidden=2048,
        heads=32,
        head=128,
        inner=6144,
        experts=128,
        used=8,
        expert_inner=768,
        quant="Q4_K",
    ),
    "gemma-3-4b": Shape(
        arch="gemma3",
        layers=7,
        hidden=2560,
        heads=8,
        head=256,
        inner=10240,
        output=None,
        embedding="Q6_K",
        quant="Q4_K",
        window=1024,
    ),
}
# A draft model beside the served one: both, and how they are started, by the planner's names.
DRAFTED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("llama", "llama f16", {"context": 4096}),
    ("llama f16", "llama", {"context": 8192, "requests": 4, "unified": True}),
    ("qwen2", "qwen3", {"context": 8192, "key_type": "q8_0", "value_type": "q8_0"}),
    ("qwen3", "qwen2", {"context": 6000, "batch": 128, "requests": 3}),
    ("gemma3", "llama", {"context": 4096, "requests": 2, "unified": True}),
    ("llama mixed", "gemma2", {"context": 2048}),
)
# How a model alone is started.
STARTS: tuple[dict[str, Any], ...] = (
    {"context": 4096},
    {"context": 32768},
    {"context": 8192, "key_type": "q8_0", "value_type": "q8_0"},
    {"context": 8192, "key_type": "q4_0", "value_type": "q4_0"},
    {"context": 8192, "key_type": "q8_0"},
    {"context": 8192, "batch": 1024, "requests": 4},
    {"context": 8192, "batch": 256, "requests": 2, "unified": True},
    {"context": 6000, "batch": 128, "requests": 3},
    {"context": 2048, "flash": False},
    {"context": 4096, "whole_window": True},
)
