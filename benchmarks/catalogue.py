# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An entry of the catalogue of models from a config.json.

usage: python benchmarks/catalogue.py MODEL CONFIG_JSON --source TEXT --date YYYY-MM-DD [--modelscope ID] [--renamed-from ID]

Writes plugins/plugin_utils/planner/data/models/PUBLISHER__NAME.json: of the config.json the keys that the planner reads.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / ".collections")]

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import FOLDER  # noqa: E402

WORD = re.compile(r"\w+")
# What plugin_utils/planner/model.py, towers.py and quantization.py read of a config.json. Not its _name_or_path: it is the folder of whoever saved it.
PARTS = ("text_config", "llm_config", "language_config")
KEYS = frozenset(
    WORD.findall("""
    add_bias_linear add_qkv_bias alibi architectures attention_bias attention_head_size attn_logit_softcapping auto_map bias d_model
    decoder_attention_heads decoder_ffn_dim decoder_layers encoder_ffn_dim encoder_layers id2label max_target_positions num_labels num_mel_bins
    decoder_sparse_step dtype enable_bias enable_moe_block expert_intermediate_size experts_per_token ffn_dim ffn_hidden_size first_k_dense_replace
    full_attention_interval global_head_dim head_dim hidden_size index_head_dim index_n_heads interleave_moe_layer_step intermediate_size
    intermediate_size_mlp kv_channels kv_lora_rank layer_types linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads
    linear_num_value_heads linear_value_head_dim lm_head_bias max_position_embeddings max_seq_len max_sequence_length max_window_layers mlp_bias
    mlp_only_layers model_max_length model_type moe_intermediate_size moe_layer_freq moe_num_experts moe_topk multi_query multi_query_attention
    multi_query_group_num n_embd n_head n_head_kv n_heads n_inner n_layer n_layers n_positions n_routed_experts n_shared_experts
    new_decoder_architecture num_attention_heads num_experts num_experts_per_tok num_experts_per_token num_global_key_value_heads num_hidden_layers
    num_key_value_heads num_kv_heads num_layers num_local_experts num_shared_experts padded_vocab_size parallel_attn partial_rotary_factor
    q_lora_rank qk_nope_head_dim qk_rope_head_dim qkv_bias rope_local_base_freq rope_parameters rope_scaling rotary_pct seq_length
    shared_expert_intermediate_size sliding_window sliding_window_pattern tie_word_embeddings top_k_experts topk_method torch_dtype use_bias
    use_qk_norm use_qkv_bias use_sliding_window v_head_dim vocab_size
    """)
)
VISION_PART = "vision_config"
VISION_KEYS = frozenset(
    WORD.findall("""
    deepstack_visual_indexes depth embed_dim hidden_size image_size intermediate_size max_num_tiles mlp_ratio num_global_layers num_hidden_layers
    num_position_embeddings out_hidden_size patch_size position_embedding_size projector_input_dim projector_output_dim spatial_merge_size
    temporal_patch_size vision_output_dim
    """)
)
QUANTIZATION_PARTS = ("quantization_config", "compression_config")
QUANTIZATION_KEYS = frozenset(
    WORD.findall("""
    bits config_groups desc_act exclude_modules format group_size ignore ignored_layers llm_int8_skip_modules lm_head load_in_4bit load_in_8bit
    modules_to_not_convert q_group_size quant_algo quant_method quantization quantization_method sym w_bit weight_bits weight_block_size
    """)
)


def reduced(config: Mapping[str, Any]) -> dict[str, Any]:
    """Of a config.json the keys that the planner reads."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if key in PARTS and isinstance(value, Mapping):
            found[key] = reduced(value)
        elif key == VISION_PART and isinstance(value, Mapping):
            found[key] = {name: value[name] for name in value if name in VISION_KEYS}
        elif key in QUANTIZATION_PARTS and isinstance(value, Mapping):
            found[key] = {name: value[name] for name in value if name in QUANTIZATION_KEYS}
        elif key in KEYS:
            found[key] = value
    return found


def file_name(model: str) -> str:
    """``Qwen/Qwen3-8B`` is in Qwen__Qwen3-8B.json."""
    return model.replace("/", "__") + ".json"


def write_entry(model: str, config: Mapping[str, Any], said: Mapping[str, str]) -> Path:
    """One file. ``said`` has its source and date, and its other names."""
    path = FOLDER / file_name(model)
    entry = {"model": model, **said, "config": reduced(config)}
    path.write_text(_lines(entry) + "\n", encoding="utf-8")
    return path


def _lines(entry: Mapping[str, Any], indent: str = "") -> str:
    """JSON with a line for each key, of the entry and of its config."""
    rows = []
    for key, value in entry.items():
        text = _lines(value, indent + "  ") if key == "config" else json.dumps(value, ensure_ascii=False)
        rows.append(f"{indent}  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("config", type=Path)
    parser.add_argument("--source", required=True)
    parser.add_argument("--date", required=True)
    parser.add_argument("--modelscope")
    parser.add_argument("--renamed-from")
    arguments = parser.parse_args()
    names = ("modelscope", "renamed_from", "source", "date")
    said = {name: getattr(arguments, name) for name in names if getattr(arguments, name)}
    config = json.loads(arguments.config.read_text(encoding="utf-8"))
    print(write_entry(arguments.model, config, said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
