# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a GGUF model is, from the headers of its files: architecture, quantisation, and the weights of each layer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._gguf import TYPES, GgufError, Header, Tensor
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.data.architectures import (
    ARCHITECTURES,
    FILE_TYPES,
    RECURRENT_INTERVAL,
    WINDOW_PATTERNS,
)

_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_MOST = 1 << 20


class Recurrent(NamedTuple):
    """Layers that keep a state instead of a cache: values of its two parts for one request, in 32 bits."""

    convolution: int
    state: int


class Layer(NamedTuple):
    weights: Mapping[str, Tensor]  # by the name within the layer: attn_q.weight
    heads: int
    kv_heads: int
    slides: bool  # looks only at a window of the last tokens
    recurrent: bool

    @property
    def size(self) -> int:
        return sum(one.size or 0 for one in self.weights.values())

    def has(self, name: str) -> bool:
        return name in self.weights


class GgufModel(NamedTuple):
    name: str
    architecture: str
    quantization: str  # as llama.cpp names the file's type: Q4_K_M
    layers: tuple[Layer, ...]
    rest: Mapping[str, Tensor]  # weights of no layer
    hidden: int
    key_dim: int
    value_dim: int
    window: int
    latent: int  # rank of DeepSeek's compressed keys and values; 0 for others
    rope_dim: int
    experts: int
    experts_used: int
    context: int
    vocabulary: int
    recurrent: Recurrent | None
    unknown_types: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(layer.size for layer in self.layers) + sum(one.size or 0 for one in self.rest.values())

    @property
    def bits(self) -> float:
        """Bits of a weight, over all of them."""
        tensors = [*self.rest.values(), *(one for layer in self.layers for one in layer.weights.values())]
        return 8 * self.size / max(1, sum(one.elements for one in tensors))

    @property
    def slides(self) -> bool:
        return any(layer.slides for layer in self.layers)


def read_model(headers: Sequence[Header], path: str) -> GgufModel:
    """The model in the files with these headers, the first of which has the values. GgufError, with ``path``, where it is none that is served."""
    values = headers[0].values
    name = values.get("general.architecture")
    if not isinstance(name, str) or not name:
        raise GgufError("gguf_no_value", path=path, key="general.architecture")
    if name not in ARCHITECTURES:
        raise GgufError("gguf_architecture", path=path, architecture=name)
    read = _Values(values, name, path)
    layers, rest = _weights(headers)
    count = read.whole("block_count")
    hidden, heads = read.whole("embedding_length"), read.each("attention.head_count", count)
    kv_heads = read.each("attention.head_count_kv", count, heads)
    dim = hidden // max(1, *heads)
    latent = read.whole("attention.kv_lora_rank", 0)
    window = read.whole("attention.sliding_window", WINDOW_PATTERNS.get(name, (0, 0, False))[1])
    slides = _slides(read, name, count) if window else [False] * count
    recurrent = _recurrent(read)
    interval = read.whole("full_attention_interval", RECURRENT_INTERVAL.get(name, 0))
    said = read.raw("attention.recurrent_layers")
    is_state = [bool(interval) and (index + 1) % interval != 0 for index in range(count)]
    if isinstance(said, list) and len(said) == count:
        is_state = [bool(one) for one in said]
    found = tuple(
        Layer(layers.get(index, {}), heads[index], kv_heads[index], slides[index], is_state[index])
        for index in range(count)
    )
    tensors = [one for header in headers for one in header.tensors]
    return GgufModel(
        name=str(values.get("general.name") or ""),
        architecture=name,
        quantization=_quantization(values, tensors),
        layers=found,
        rest=rest,
        hidden=hidden,
        key_dim=read.whole("attention.key_length", dim),
        value_dim=read.whole("attention.value_length", dim),
        window=window if any(slides) else 0,
        latent=latent,
        rope_dim=read.whole("rope.dimension_count", dim),
        experts=read.whole("expert_count", 0),
        experts_used=read.whole("expert_used_count", 0),
        context=read.whole("context_length", 0),
        vocabulary=read.whole("vocab_size", 0) or headers[0].counts.get("tokenizer.ggml.tokens", 0),
        recurrent=recurrent,
        unknown_types=tuple(sorted({one.type for one in tensors} - set(TYPES))),
    )


class _Values:
    """The values of an architecture."""

    def __init__(self, values: Mapping[str, object], architecture: str, path: str) -> None:
        self.values = values
        self.architecture = architecture
        self.path = path

    def raw(self, key: str) -> object:
        return self.values.get(f"{self.architecture}.{key}")

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number; of a list, the largest."""
        found = self.raw(key)
        if isinstance(found, list) and found:
            found = max((one for one in found if isinstance(one, int)), default=None)
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MOST * 64:
            return found
        if found is None and default is not None:
            return default
        raise GgufError("gguf_no_value", path=self.path, key=f"{self.architecture}.{key}")

    def each(self, key: str, count: int, default: Sequence[int] | None = None) -> list[int]:
        """A number of each layer."""
        if count > _MOST:
            raise GgufError("gguf_no_value", path=self.path, key=f"{self.architecture}.block_count")
        found = self.raw(key)
        if isinstance(found, list):
            if len(found) != count or not all(isinstance(one, int) and 0 <= one < _MOST for one in found):
                raise GgufError("gguf_no_value", path=self.path, key=f"{self.architecture}.{key}")
            return [int(one) for one in found]
        if found is None and default is not None:
            return list(default)
        return [self.whole(key)] * count


def _slides(read: _Values, name: str, count: int) -> list[bool]:
    """Which layers look at a window: said by the file, layer by layer or as every which; else as llama.cpp has it for the architecture."""
    said = read.raw("attention.sliding_window_pattern")
    if isinstance(said, list) and len(said) == count:
        return [bool(one) for one in said]
    every, _window, is_first = WINDOW_PATTERNS.get(name, (1, 0, False))
    if isinstance(said, int) and not isinstance(said, bool):
        every = said
    full = 0 if is_first else every - 1
    return [every == 0 or index % every != full for index in range(count)]


def _recurrent(read: _Values) -> Recurrent | None:
    kernel, inner = read.whole("ssm.conv_kernel", 0), read.whole("ssm.inner_size", 0)
    groups, state = read.whole("ssm.group_count", 0), read.whole("ssm.state_size", 0)
    if not kernel:
        return None
    return Recurrent((kernel - 1) * (inner + 2 * groups * state), state * inner)


def _weights(headers: Sequence[Header]) -> tuple[dict[int, dict[str, Tensor]], dict[str, Tensor]]:
    layers: dict[int, dict[str, Tensor]] = {}
    rest: dict[str, Tensor] = {}
    for header in headers:
        for tensor in header.tensors:
            match = _LAYER.fullmatch(tensor.name)
            if match:
                layers.setdefault(int(match[1]), {})[match[2]] = tensor
            else:
                rest[tensor.name] = tensor
    return layers, rest


def _quantization(values: Mapping[str, object], tensors: Sequence[Tensor]) -> str:
    """The file's own word, else the type of most bytes."""
    said = values.get("general.file_type")
    if isinstance(said, int) and said in FILE_TYPES:
        return FILE_TYPES[said]
    sizes: Counter[str] = Counter()
    for one in tensors:
        sizes[TYPES[one.type][0] if one.type in TYPES else str(one.type)] += one.size or 0
    return sizes.most_common(1)[0][0] if sizes else ""
