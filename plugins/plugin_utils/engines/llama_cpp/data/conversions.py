# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What converters and quantisers of llama.cpp make of a checkpoint: its architecture, and the types of its weights."""

from __future__ import annotations

from typing import NamedTuple

# The architecture of a GGUF file by that of config.json. Source: the classes of convert_hf_to_gguf.py of https://github.com/ggml-org/llama.cpp.
CONVERTED: dict[str, str] = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "MixtralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3moe",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3",
    "Phi3ForCausalLM": "phi3",
}


class Mix(NamedTuple):
    """Types of the weights of a file. ``more`` is that of values and of the matrix after the feed-forward in the layers that get more bits."""

    base: str
    more: str
    output: str


# Source: llama_tensor_get_type and use_more_bits of src/llama-quant.cpp. Compared with the sizes of published files: tests/data/llama_cpp/sizes.json.
MIXES: dict[str, Mix] = {
    "Q4_K_M": Mix("Q4_K", "Q6_K", "Q6_K"),
    "Q5_K_M": Mix("Q5_K", "Q6_K", "Q6_K"),
    "Q6_K": Mix("Q6_K", "Q6_K", "Q6_K"),
    "Q8_0": Mix("Q8_0", "Q8_0", "Q8_0"),
    "F16": Mix("F16", "F16", "F16"),
}
# Where a row is no multiple of 256, which the types with K need. Source: llama_tensor_quantize of the same file.
NARROW: dict[str, str] = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
