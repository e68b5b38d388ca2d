# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights of a rank from safetensors headers: for architectures that the planner's table does not know."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import Shard

BYTES = {
    "F64": 8,
    "I64": 8,
    "U64": 8,
    "F32": 4,
    "I32": 4,
    "U32": 4,
    "F16": 2,
    "BF16": 2,
    "I16": 2,
    "U16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
FLOATS = ("F64", "F32", "F16", "BF16")
VISION = re.compile(
    r"(^|\.)(visual|vision_tower|vision_model|vision_embed|multi_modal_projector|mm_projector|audio_tower|embed_vision)\."
)
VOCABULARY = re.compile(
    r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings|embedding|lm_head|output|embed_out)\.weight$"
)
KV = re.compile(r"\.(k_proj|v_proj|wk|wv|k|v)\.")
ROW = re.compile(
    r"\.(o_proj|down_proj|out_proj|dense_4h_to_h|dense|c_proj|wo|w2|fc2|fc_out|proj_out)\.(weight|qweight|scales|qzeros)$"
)
COLUMN = re.compile(
    r"\.(q_proj|qkv_proj|query_key_value|Wqkv|wqkv|c_attn|gate_proj|up_proj|gate_up_proj|w1|w3|fc1|fc_in|c_fc|dense_h_to_4h|q_b_proj|kv_b_proj|"
    r"W_pack|in_proj_qkvz|in_proj)\.(weight|bias|qweight|scales|qzeros)$"
)
EXPERT = re.compile(r"\.experts\.")
LAYER = re.compile(r"\.(?:layers|h|blocks|layer)\.(\d+)\.")


def size_of(name: str, entry: object, width: int) -> tuple[int, list[int]]:
    """Bytes of a tensor in the serving dtype, and its shape."""
    if not isinstance(entry, Mapping) or "shape" not in entry:
        raise InputError("model.tensors.{0}".format(name), "input_tensor")
    kind = str(entry.get("dtype") or "").upper()
    if kind not in BYTES:
        raise InputError("model.tensors.{0}.dtype".format(name), "input_tensor_dtype", found=entry.get("dtype"))
    shape = [int(x) for x in entry["shape"]]
    if any(x < 0 for x in shape):
        raise InputError("model.tensors.{0}.shape".format(name), "input_negative")
    count = 1
    for x in shape:
        count *= x
    return count * (width if kind in FLOATS else BYTES[kind]), shape


def entries(model: Model) -> Mapping[str, object]:
    if model.tensors is None:
        raise ValueError("a model without the headers of its tensors")
    return {str(name): entry for name, entry in model.tensors.items() if name != "__metadata__"}


def vision_bytes(model: Model, width: int) -> int:
    """Bytes of what is not the language model: held in full by the first stage."""
    return sum(size_of(name, entry, width)[0] for name, entry in entries(model).items() if VISION.search(name))


def rank_bytes(model: Model, shard: Shard, width: int) -> int:
    """Bytes of a rank: each tensor is classified by its name."""
    total = 0.0
    kv_heads = max((layer.attention.kv_heads for layer in model.layers), default=1)
    has_head = any(
        VOCABULARY.search(name) and "embed" not in name and "wte" not in name for name in model.tensors or {}
    )
    for name, entry in entries(model).items():
        size, _dummy = size_of(name, entry, width)
        layer = LAYER.search(name)
        if VISION.search(name):
            total += size if shard.first else 0
        elif layer:
            index = int(layer.group(1))
            if index >= len(model.layers) or not shard.first_layer <= index < shard.last_layer:
                continue
            if KV.search(name):
                total += size / min(shard.tp, kv_heads)
            elif COLUMN.search(name) or ROW.search(name) or EXPERT.search(name):
                total += size / shard.tp
            else:
                total += size
        elif VOCABULARY.search(name):
            head = "head" in name or name.startswith("output") or "embed_out" in name
            if (head and shard.last) or (not head and (shard.first or (shard.last and not has_head))):
                total += size / shard.tp
        elif shard.last:
            total += size
    for length, rotary in model.rope:
        total += length * rotary * width
    return int(total)
