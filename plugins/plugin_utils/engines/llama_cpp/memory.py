# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much memory llama.cpp takes: weights, the cache of keys and values, and the values that are computed between the weights.

Source of the rules: src/llama-kv-cache.cpp, src/llama-kv-cache-iswa.cpp, src/llama-context.cpp and src/llama-model.cpp of
https://github.com/ggml-org/llama.cpp; each figure is compared with what llama.cpp prints (tests/data/llama_cpp/memory.json).
"""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._gguf import TYPES
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.graph import Batch, compute_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.model import GgufModel, Layer

# What --cache-type-k and --cache-type-v take. Source: kv_cache_types of common/arg.cpp.
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_BLOCKS = {name.lower(): (weights, size) for name, weights, size in TYPES.values()}
# Cells of a cache are reserved in such steps (llama_context), and those of a window too.
_STEP = 256


class Settings(NamedTuple):
    """How a server is started. ``context`` is shared by all requests at once, as --ctx-size is."""

    context: int
    requests: int = 1
    batch: int = 512  # --ubatch-size
    key_type: str = "f16"
    value_type: str = "f16"
    flash: bool = True
    unified: bool = False  # one pool for all requests (--kv-unified)
    whole_window: bool = False  # --swa-full
    all_outputs: bool = False  # of older builds, which keep room for an answer to every token of a batch


class Cells(NamedTuple):
    streams: int
    full: int  # of a stream
    window: int  # of a stream, in layers that look at a window; 0 where there are none


class Memory(NamedTuple):
    """Bytes."""

    weights: int
    cache: int
    state: int  # of layers that keep a state
    compute: int

    @property
    def total(self) -> int:
        return sum(self)


def cells(model: GgufModel, settings: Settings) -> Cells:
    streams = 1 if settings.unified else settings.requests
    full = _up(-(-settings.context // streams), _STEP)
    if not model.slides:
        return Cells(streams, full, 0)
    at_once = settings.requests if settings.unified else 1
    window = _up(min(full, model.window * at_once + settings.batch), _STEP)
    return Cells(streams, full, full if settings.whole_window else window)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _row(values: int, kind: str) -> int:
    weights, size = _BLOCKS[kind]
    return values // weights * size


def layer_cache(model: GgufModel, layer: Layer, settings: Settings, found: Cells) -> int:
    """Bytes of a layer's keys and values. DeepSeek keeps one short vector for both."""
    if layer.recurrent:
        return 0
    count = (found.window if layer.slides else found.full) * found.streams
    keys = layer.kv_heads * model.key_dim
    values = layer.kv_heads * model.value_dim
    if model.latent and layer.has("attn_kv_a_mqa.weight") and layer.has("attn_k_b.weight"):
        keys, values = model.latent + model.rope_dim, 0
    return count * (_row(keys, settings.key_type) + _row(values, settings.value_type))


def layer_state(model: GgufModel, layer: Layer, settings: Settings) -> int:
    if not layer.recurrent or model.recurrent is None:
        return 0
    return sum(model.recurrent) * 4 * settings.requests


def batch_of(model: GgufModel, settings: Settings, found: Cells, on_gpu: bool = False) -> Batch:
    quantised = [kind.startswith(("q", "iq")) for kind in (settings.key_type, settings.value_type)]
    # A batch is spread over the streams, so each sees only its own cells.
    outputs = settings.batch if settings.all_outputs else settings.requests
    batch = Batch(settings.batch, outputs, found.full, found.window, settings.flash, *quantised)
    if not on_gpu:
        return batch
    plain = [kind != "f16" for kind in (settings.key_type, settings.value_type)]
    return batch._replace(on_gpu=True, plain_keys=plain[0], plain_values=plain[1], streams=found.streams)


def whole(model: GgufModel, settings: Settings) -> Memory:
    """All of it in one place, as on one GPU or on a CPU."""
    found = cells(model, settings)
    return Memory(
        model.size,
        sum(layer_cache(model, layer, settings, found) for layer in model.layers),
        sum(layer_state(model, layer, settings) for layer in model.layers),
        compute_bytes(model, batch_of(model, settings, found)),
    )


def output_size(model: GgufModel) -> int:
    """Bytes of what turns the last layer's values into words. A model without a matrix of its own for that gets a copy of the table of words on the GPU."""
    words = sum(one.size or 0 for name, one in model.rest.items() if name.startswith("token_embd"))
    own = "output.weight" in model.rest
    return sum(one.size or 0 for name, one in model.rest.items() if name.startswith("output")) + (0 if own else words)
