# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values that llama.cpp computes between the weights, for one batch, in its order. What a layer consists of is read from the names of its weights.

Source: src/llama-graph.cpp and src/models of https://github.com/ggml-org/llama.cpp, compared with what it prints (tests/data/llama_cpp/memory.json).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.allocator import Value, buffer_size
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.model import GgufModel, Layer

_FLOAT, _HALF, _INDEX, _PLACE = 4, 2, 4, 8


class Batch(NamedTuple):
    """One step of the engine: so many tokens, of which so many get an answer, over caches of so many cells."""

    tokens: int
    outputs: int
    cells: int  # of one stream
    window_cells: int  # of the layers with a window; 0 where the model has none
    flash: bool = True
    # Those of a quantised cache are rotated before.
    turns_keys: bool = False
    turns_values: bool = False
    on_gpu: bool = False  # the words are looked up on the host, and their vectors are copied
    plain_keys: bool = False  # flash attention of a GPU has a copy of them as 16-bit numbers
    plain_values: bool = False
    streams: int = 1


def compute_bytes(model: GgufModel, batch: Batch, layers: Sequence[int] | None = None) -> int:
    """Bytes of the buffer for the values of ``layers`` (all), as ggml places them."""
    graph = _Graph(model, batch)
    chosen = range(len(model.layers)) if layers is None else layers
    for index in chosen:
        graph.layer(model.layers[index], index == len(model.layers) - 1)
    graph.finish()
    return buffer_size(graph.nodes, graph.inputs)


class _Graph:
    def __init__(self, model: GgufModel, batch: Batch) -> None:
        self.model = model
        self.batch = batch
        self.rows = batch.tokens
        self.nodes: list[Value] = []
        self.inputs: list[Value] = []
        tokens, hidden = batch.tokens, model.hidden
        if not batch.on_gpu:
            words = self.input(tokens * _INDEX)
            # Vectors instead of words, which some callers give; what the second is for, the log does not say.
            for _copy in range(2):
                self.input(tokens * hidden * _FLOAT)
        self.positions = self.input(tokens * _INDEX)
        width = _HALF if batch.flash else _FLOAT
        # Without flash attention the values lie across, and each has a place of its own.
        kv_heads = 0 if model.latent else max((layer.kv_heads for layer in model.layers), default=0)
        values = 1 if batch.flash else max(1, kv_heads * model.value_dim)
        self.masks = {}
        for slides, cells in ((False, batch.cells), (True, batch.window_cells)):
            if cells:
                self.places = self.input(tokens * _PLACE)
                self.input(tokens * _PLACE * values)
                self.masks[slides] = self.input(tokens * cells * width)
        turned = model.key_dim & -model.key_dim
        self.rotation = self.input(turned * turned * _FLOAT) if batch.turns_keys or batch.turns_values else None
        self.answered = self.input(batch.outputs * _INDEX)
        if batch.on_gpu:
            self.current = self.input(tokens * hidden * _FLOAT)
        else:
            self.current = self.put("get_rows", (hidden, tokens), words)
        if model.architecture.startswith("gemma"):
            self.current = self.put("scale", (hidden, tokens), self.current)

    def input(self, size: int) -> Value:
        value = Value(size, ("input", size))
        self.inputs.append(value)
        return value

    def put(self, operation: str, shape: Sequence[int], *sources: Value) -> Value:
        size = _FLOAT
        for length in shape:
            size *= length
        value = Value(size, tuple(shape), operation, sources)
        self.nodes.append(value)
        return value

    def view(self, source: Value) -> Value:
        value = Value(0, (), "view", (source,), view=source.view or source)
        self.nodes.append(value)
        return value

    def store(self, value: Value) -> None:
        """Into the cache, which lies elsewhere."""
        self.nodes.append(Value(0, (), "set_rows", (self.view(value), self.places), is_outside=True))

    def norm(self, source: Value, shape: Sequence[int]) -> Value:
        return self.put("mul", shape, self.put("rms_norm", shape, source))

    def finish(self) -> None:
        last = self.norm(self.current, (self.model.hidden, self.rows))
        self.put("mul_mat", (self.model.vocabulary, self.rows), last).is_output = True

    def layer(self, layer: Layer, is_last: bool) -> None:
        hidden = self.model.hidden
        before = self.current
        normed = self.norm(before, (hidden, self.rows))
        attend = self.latent if self.model.latent and layer.has("attn_kv_a_mqa.weight") else self.attention
        found = attend(layer, normed)
        if layer.has("attn_output.bias"):
            found = self.put("add", (hidden, self.rows), found)
        if is_last:
            found, before = self.only_answered(found), self.only_answered(before)
        if layer.has("post_attention_norm.weight") and layer.has("post_ffw_norm.weight"):
            found = self.norm(found, (hidden, self.rows))
        between = self.put("add", (hidden, self.rows), found, before)
        normed = self.norm(between, (hidden, self.rows))
        fed = self.experts(layer, normed) if layer.has("ffn_gate_inp.weight") else self.dense(layer, normed, "")
        if layer.has("post_ffw_norm.weight"):
            fed = self.norm(fed, (hidden, self.rows))
        self.current = self.put("add", (hidden, self.rows), fed, between)

    def only_answered(self, value: Value) -> Value:
        self.rows = self.batch.outputs
        return self.put("get_rows", (self.model.hidden, self.rows), value, self.answered)

    def attention(self, layer: Layer, normed: Value) -> Value:
        model, rows = self.model, self.rows
        sizes = {
            "q": layer.heads * model.key_dim,
            "k": layer.kv_heads * model.key_dim,
            "v": layer.kv_heads * model.value_dim,
        }
        fused = self.put("mul_mat", (sum(sizes.values()), rows), normed) if layer.has("attn_qkv.weight") else None

        def part(name: str) -> Value:
            if fused is not None:
                return self.view(fused)
            value = self.put("mul_mat", (sizes[name], rows), normed)
            if layer.has(f"attn_{name}.bias"):
                value = self.put("add", (sizes[name], rows), value)
            return self.view(value)

        def turned(name: str, value: Value, heads: int) -> Value:
            shape = (model.key_dim, heads, rows)
            if layer.has(f"attn_{name}_norm.weight"):
                value = self.norm(value, shape)
            return self.put("rope", shape, value, self.positions)

        query, keys, values = (part(name) for name in "qkv")
        turns_keys, turns_values = self.batch.turns_keys, self.batch.turns_values
        keys = self.rotated(turned("k", keys, layer.kv_heads), sizes["k"], turns_keys)
        values = self.rotated(values, sizes["v"], turns_values)
        query = turned("q", query, layer.heads)
        if model.architecture.startswith("gemma"):
            query = self.put("scale", (model.key_dim, layer.heads, rows), query)
        query = self.rotated(query, sizes["q"], turns_keys)
        self.store(keys)
        self.store(values)
        answer = self.look(layer, query, model.value_dim)
        answer = self.rotated(answer, layer.heads * model.value_dim, turns_values)
        return self.put("mul_mat", (model.hidden, rows), self.view(answer))

    def rotated(self, value: Value, size: int, turns: bool) -> Value:
        """Turned for a quantised cache."""
        if self.rotation is None or not turns:
            return value
        return self.view(self.put("mul_mat", (size, self.rows), self.view(value), self.rotation))

    def look(self, layer: Layer, query: Value, dim: int) -> Value:
        """What the heads find in the cache."""
        rows = self.rows
        mask = self.masks.get(layer.slides, next(iter(self.masks.values())))
        turned = self.view(query)
        if self.batch.flash:
            found = self.put("flash", (dim, layer.heads, rows), turned, mask)
            found.size += self.plain_cache(layer)
            return found
        cells = self.batch.window_cells if layer.slides else self.batch.cells
        scores = self.put("mul_mat", (cells, rows, layer.heads), turned)
        weights = self.put("soft_max", (cells, rows, layer.heads), scores, mask)
        found = self.put("mul_mat", (dim, rows, layer.heads), weights)
        return found if self.model.latent else self.put("cont", (dim * layer.heads, rows), self.view(found))

    def plain_cache(self, layer: Layer) -> int:
        """Bytes behind the result of flash attention on a GPU for keys and values as 16-bit numbers, which its kernels read.

        Source: ggml_cuda_flash_attn_ext_get_f16_extra_data of ggml/src/ggml-cuda/fattn-common.cuh.
        """
        batch = self.batch
        # The kernels for one short vector read it as it is: tests/data/llama_cpp/gpu_memory.json.
        if self.model.latent:
            return 0
        width = self.model.key_dim * batch.plain_keys + self.model.value_dim * batch.plain_values
        cells = batch.window_cells if layer.slides else batch.cells
        return cells * batch.streams * layer.kv_heads * width * _HALF

    def latent(self, layer: Layer, normed: Value) -> Value:
        """DeepSeek: one short vector for keys and values, and a second one with positions."""
        model, rows, heads = self.model, self.rows, layer.heads
        rank, rope = model.latent, model.rope_dim
        nope = layer.weights["attn_k_b.weight"].shape[0]
        value_dim = layer.weights["attn_v_b.weight"].shape[1]
        source = normed
        if layer.has("attn_q_a.weight"):
            short = layer.weights["attn_q_a.weight"].shape[1]
            source = self.norm(self.put("mul_mat", (short, rows), normed), (short, rows))
        query = self.put("mul_mat", (heads * (nope + rope), rows), source)
        plain, placed = self.view(query), self.view(query)
        short_keys = self.put("mul_mat", (rank + rope, rows), normed)
        short_part, placed_keys = self.view(short_keys), self.view(short_keys)
        placed = self.put("rope", (rope, heads, rows), placed, self.positions)
        placed_keys = self.put("rope", (rope, 1, rows), placed_keys, self.positions)
        compressed = self.norm(short_part, (rank, rows))
        absorbed = self.put("mul_mat", (rank, rows, heads), self.view(plain))
        query = self.put("concat", (rank + rope, heads, rows), self.view(absorbed), placed)
        keys = self.put("concat", (rank + rope, 1, rows), self.view(compressed), placed_keys)
        self.store(keys)
        found = self.look(layer, query, rank)
        values = self.put("mul_mat", (value_dim, rows, heads), self.view(found))
        joined = self.put("cont", (value_dim * heads, rows), self.view(values))
        return self.put("mul_mat", (model.hidden, rows), joined)

    def dense(self, layer: Layer, normed: Value, suffix: str) -> Value:
        hidden, rows = self.model.hidden, self.rows
        inner = layer.weights[f"ffn_down{suffix}.weight"].shape[0] if layer.has(f"ffn_down{suffix}.weight") else hidden
        if layer.has(f"ffn_gate{suffix}.weight"):
            gate = self.put("mul_mat", (inner, rows), normed)
            up = self.put("mul_mat", (inner, rows), normed)
            middle = self.put("glu", (inner, rows), gate, up)
        else:
            wide = layer.weights[f"ffn_up{suffix}.weight"].shape[1] if layer.has(f"ffn_up{suffix}.weight") else inner
            up = self.put("mul_mat", (wide, rows), normed)
            middle = self.put("glu" if wide != inner else "unary", (inner, rows), up)
        return self.put("mul_mat", (hidden, rows), middle)

    def experts(self, layer: Layer, normed: Value) -> Value:
        model, rows, used = self.model, self.rows, max(1, self.model.experts_used)
        hidden = model.hidden
        inner = layer.weights["ffn_down_exps.weight"].shape[0] if layer.has("ffn_down_exps.weight") else hidden
        scores = self.put("mul_mat", (model.experts, rows), normed)
        if layer.has("ffn_gate_inp.bias"):
            scores = self.put("add", (model.experts, rows), scores)
        shares = self.put("soft_max", (model.experts, rows), scores)
        chosen = self.view(self.put("argsort", (model.experts, rows), shares))
        weights = self.put("get_rows", (1, used, rows), self.view(shares), chosen)
        total = self.put("clamp", (1, rows), self.put("sum_rows", (1, rows), self.view(weights)))
        weights = self.view(self.put("div", (used, rows), self.view(weights), total))
        one = self.view(normed)
        gate = self.put("mul_mat_id", (inner, used, rows), one, chosen)
        up = self.put("mul_mat_id", (inner, used, rows), one, chosen)
        if layer.has("ffn_up_exps.bias"):
            up = self.put("add", (inner, used, rows), up, chosen)
            gate = self.put("add", (inner, used, rows), gate, chosen)
        middle = self.put("glu", (inner, used, rows), gate, up)
        down = self.put("mul_mat_id", (hidden, used, rows), middle, chosen)
        if layer.has("ffn_down_exps.bias"):
            down = self.put("add", (hidden, used, rows), down, chosen)
        down = self.put("mul", (hidden, used, rows), down, weights)
        parts = [self.view(down) for _number in range(used)]
        total = self.put("add", (hidden, rows), *parts[:2]) if used > 1 else self.put("cont", (hidden, rows), parts[0])
        for one_more in parts[2:]:
            total = self.put("add", (hidden, rows), total, one_more)
        if layer.has("ffn_up_shexp.weight"):
            total = self.put("add", (hidden, rows), total, self.dense(layer, normed, "_shexp"))
        return total
