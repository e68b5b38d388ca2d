# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Encoders of images beside a language model: how vLLM builds each, and what it profiles.

Source: vllm/model_executor/models (qwen2_vl.py, qwen2_5_vl.py, qwen3_vl.py, gemma3_mm.py with siglip.py, gemma4_mm.py) of 0.8.5.post1, 0.12.0, 0.20.2 and
0.33.0. The weights of Qwen2.5-VL-72B on 4 ranks are printed as 34.43 GiB in issue 16570 of vllm-project/vllm. The tokens of an item are those of the largest
image that the model's own processor makes (Qwen: 12,845,056 pixels and more, 16,384 tokens); for Gemma 4 they are printed in decoderesearch/interp-engine,
pull request 2.
"""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """An encoder. Names are fields of vision_config."""

    hidden: str
    inner: str  # the size of the MLP, or mlp_ratio
    depth: str
    parts: int  # matrices of an MLP
    projector: str  # merger (two layers over merged patches), mergers (one more for each deepstack layer), linear
    tokens: int  # of the largest item
    patches: int  # for each token
    whole: bool  # an item has to fit into one batch
    shards: bool  # over tensor-parallel ranks


# Family, hidden size, inner size, depth, matrices of an MLP, projector, tokens of the largest item, patches for each token, whole items, sharded.
_FAMILIES = """
qwen2_vl|embed_dim|mlp_ratio|depth|2|merger|16384|4|no|yes
qwen2_5_vl|hidden_size|intermediate_size|depth|3|merger|16384|4|no|yes
qwen3_vl|hidden_size|intermediate_size|depth|2|mergers|16384|4|no|yes
gemma3|hidden_size|intermediate_size|num_hidden_layers|2|linear|256|16|no|yes
gemma4|hidden_size|intermediate_size|num_hidden_layers|3|linear|2496|9|yes|no
"""
FAMILIES: dict[str, Family] = {
    name: Family(
        hidden, inner, depth, int(parts), projector, int(tokens), int(patches), whole == "yes", shards == "yes"
    )
    for name, hidden, inner, depth, parts, projector, tokens, patches, whole, shards in (
        line.split("|") for line in _FAMILIES.strip().splitlines()
    )
}

# Values of the hidden size that a patch holds at the fullest moment of the encoder (residual, norm, queries, keys and values, their rotated copies in
# float32, the result): an estimate, which the uncertainty of a prediction contains once more.
VALUES_OF_A_PATCH = 14
# The rotary cache of a language model with three positions for each token is four times as long (MRotaryEmbedding in rotary_embedding).
MROPE_LENGTH = 4
# Releases whose encoders of Qwen have no attention for GPUs below 8.0 (get_vit_attn_backend in vllm/platforms/cuda.py; vllm-project/vllm, issue 29743).
ENCODER_WITHOUT_TURING = ("0.11.2", "0.11.2")
