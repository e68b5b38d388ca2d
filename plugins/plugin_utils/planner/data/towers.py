# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Encoders of images beside a language model: how vLLM builds each, and what it profiles.

Source: vllm/model_executor/models (qwen2_vl.py, qwen2_5_vl.py, qwen3_vl.py, gemma3_mm.py with siglip.py, gemma4_mm.py, internvl.py with intern_vit.py,
mllama4.py, mistral3.py, pixtral.py; mllama.py of 0.6.3 to 0.10.2; whisper.py) of 0.8.5.post1, 0.12.0, 0.20.2 and 0.33.0. The weights of Qwen2.5-VL-72B on 4
ranks are printed as 34.43 GiB in issue 16570 of vllm-project/vllm, those of Llama-3.2-11B-Vision as 19.86 to 19.91 GiB in issues 9630 and 10569. The
tokens of an item are those of the largest image that the model's own processor makes (Qwen: 12,845,056 pixels and more, 16,384 tokens; InternVL: 12 tiles
and the whole; Llama 4: 16 and the whole); for Gemma 4 they are printed in decoderesearch/interp-engine, pull request 2.
"""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """An encoder. Names are fields of vision_config."""

    hidden: str
    inner: str  # the size of the MLP, or mlp_ratio
    depth: str
    parts: int  # matrices of an MLP
    # merger (two layers over merged patches), mergers (one more for each deepstack layer), linear, mlp (two layers from merged patches),
    # merged_mlp (the merger is a layer of its own), adapter (Llama 4: two layers, then linear), tiles (Llama 3.2: linear, and places of each tile)
    projector: str
    tokens: int  # of the largest item
    patches: int  # for each token
    whole: bool  # an item has to fit into one batch
    shards: bool  # over tensor-parallel ranks
    values: int  # of the hidden size that a patch holds at the fullest moment
    each: bool  # V0 encodes an item for each sequence at once, whatever the batch holds


# Values of the hidden size that a patch holds at the fullest moment of the encoder: 14 is an estimate (residual, norm, queries, keys and values, their
# rotated copies in float32, the result), which the uncertainty of a prediction contains once more. Llama 3.2 keeps what five of its layers say beside the
# end: 30, from 2,252 blocks that are left on 96 GB with 128 sequences (issue 9630 of vllm-project/vllm).
# Family, hidden size, inner size, depth, matrices of an MLP, projector, tokens of the largest item, patches for each token, whole items, sharded, values
# of a patch, an item for each sequence.
_FAMILIES = """
qwen2_vl|embed_dim|mlp_ratio|depth|2|merger|16384|4|no|yes|14|no
qwen2_5_vl|hidden_size|intermediate_size|depth|3|merger|16384|4|no|yes|14|no
qwen3_vl|hidden_size|intermediate_size|depth|2|mergers|16384|4|no|yes|14|no
gemma3|hidden_size|intermediate_size|num_hidden_layers|2|linear|256|16|no|yes|14|no
gemma4|hidden_size|intermediate_size|num_hidden_layers|3|linear|2496|9|yes|no|14|no
internvl|hidden_size|intermediate_size|num_hidden_layers|2|mlp|3328|4|no|yes|14|no
llama4|hidden_size|intermediate_size|num_hidden_layers|2|adapter|2448|4|no|yes|14|no
mistral3|hidden_size|intermediate_size|num_hidden_layers|3|merged_mlp|3080|4|no|yes|14|no
pixtral|hidden_size|intermediate_size|num_hidden_layers|3|mlp|4160|1|no|no|14|no
mllama|hidden_size|intermediate_size|num_hidden_layers|2|tiles|6432|1|no|yes|30|yes
whisper|d_model|encoder_ffn_dim|encoder_layers|2|linear|1500|1|no|yes|14|yes
"""
FAMILIES: dict[str, Family] = {
    name: Family(
        *(hidden, inner, depth, int(parts), projector, int(tokens), int(patches)),
        *(whole == "yes", shards == "yes", int(values), each == "yes"),
    )
    for name, hidden, inner, depth, parts, projector, tokens, patches, whole, shards, values, each in (
        line.split("|") for line in _FAMILIES.strip().splitlines()
    )
}
# The rotary cache of a language model with three positions for each token is four times as long (MRotaryEmbedding in rotary_embedding).
MROPE_LENGTH = 4
# Releases whose encoders of Qwen have no attention for GPUs below 8.0 (get_vit_attn_backend in vllm/platforms/cuda.py; vllm-project/vllm, issue 29743).
ENCODER_WITHOUT_TURING = ("0.11.2", "0.11.2")
# The families that people run on GPUs below 8.0; of others no start is known there, and Pixtral fails in 0.6.5 (issue 11865 of vllm-project/vllm).
TOWERS_ON_TURING = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "gemma3", "gemma4")
