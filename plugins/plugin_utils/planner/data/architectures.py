# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Model architectures: how vLLM builds each, as traits. Which release has which architecture is in registry.py.

Source: vllm/model_executor/models of the examined releases. A trait is a value, or "config:<key>" for a field of
config.json with the default behind a second colon ("config:attention_bias:false").

Traits
  base        another row whose traits hold unless said otherwise; config: the row of the language model that config.json names inside
  pp          first release in which it runs as a pipeline, where that is before 0.6.3 (null: what registry.py says)
  qkv_bias, o_bias, mlp_bias, lm_head_bias, norm_bias   whether those carry a bias
  norms       norm vectors of the hidden size in each layer
  qk_norm     null, "head" (one vector of the head's size for q and one for k) or "full" (the whole projection)
  mlp         "gated" (gate_up and down) or "plain" (up and down)
  positions   "rope", "learned" or "none"
  mlp_keeps   the MLP's code holds gate_up while down_proj runs (its names are not reused)
  norm_copies tensors of the hidden size that norms out of place leave alive
  tied        default of tie_word_embeddings
  encoder     every token sees all others; there is no head, and no request needs a cache
  vision      the family of its encoder of images (towers.py), or true where nothing is known of that
  ties_since  first release that keeps one table for a tied model; before it there are two
  scales_since
              first release whose model hands rope_scaling on (null: none does); others ignore it
  embeds_first_since, head_last_since
              first release in which only the first stage of a pipeline holds the embedding, and only the last the head (null: every stage has its own)
"""

from __future__ import annotations

from typing import Any

DEFAULTS: dict[str, Any] = {
    "pp": None,
    "qkv_bias": False,
    "o_bias": False,
    "mlp_bias": False,
    "lm_head_bias": False,
    "norm_bias": False,
    "norms": 2,
    "qk_norm": None,
    "mlp": "gated",
    "positions": "rope",
    "tied": False,
    "ties_since": "0.0",
    "scales_since": "0.0",
    "embeds_first_since": "0.0",
    "head_last_since": "0.0",
    "mlp_keeps": False,
    "norm_copies": 0,
    "attention": "gqa",
    "layout": "dense",
    "vision": False,
    "encoder": False,
}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {
        "pp": "0.5.1",
        "ties_since": "0.4.3",
        "embeds_first_since": "0.5.3",
        "head_last_since": "0.5.3",
        "qkv_bias": "config:attention_bias:false",
        "o_bias": "config:attention_bias:false",
        "mlp_bias": "config:mlp_bias:false",
    },
    "LLaMAForCausalLM": {"base": "LlamaForCausalLM"},
    "YiForCausalLM": {"base": "LlamaForCausalLM"},
    "AquilaForCausalLM": {"base": "LlamaForCausalLM"},
    "AquilaModel": {"base": "LlamaForCausalLM"},
    "InternLMForCausalLM": {"base": "LlamaForCausalLM", "qkv_bias": "config:bias:true", "o_bias": "config:bias:true"},
    "InternLM3ForCausalLM": {
        "base": "LlamaForCausalLM",
        "qkv_bias": "config:qkv_bias:false",
        "o_bias": "config:bias:false",
    },
    "InternLM2ForCausalLM": {"mlp_keeps": True, "qkv_bias": "config:bias:false", "o_bias": "config:bias:false"},
    "MistralForCausalLM": {"base": "LlamaForCausalLM"},
    "Mistral3ForConditionalGeneration": {"base": "LlamaForCausalLM", "pp": None, "vision": "mistral3"},
    "PixtralForConditionalGeneration": {"base": "LlamaForCausalLM", "pp": None, "vision": "pixtral"},
    "MllamaForConditionalGeneration": {"base": "LlamaForCausalLM", "pp": None, "vision": "mllama"},
    "InternVLChatModel": {"base": "config", "pp": "0.6.2", "vision": "internvl"},
    "InternVLForConditionalGeneration": {"base": "config", "pp": None, "vision": "internvl"},
    "WhisperForConditionalGeneration": {
        "vision": "whisper",
        "mlp": "plain",
        "positions": "learned",
        "norm_bias": True,
        "norms": 3,
        "tied": True,
        "qkv_bias": True,
        "o_bias": True,
        "mlp_bias": True,
    },
    "XverseForCausalLM": {"base": "LlamaForCausalLM"},
    "DeciLMForCausalLM": {"base": "LlamaForCausalLM"},
    "GraniteForCausalLM": {"base": "LlamaForCausalLM", "tied": True},
    "TeleChat2ForCausalLM": {"base": "LlamaForCausalLM"},
    "Qwen2ForCausalLM": {
        "pp": "0.5.4",
        "ties_since": "0.4.0",
        "scales_since": "0.4.3",
        "embeds_first_since": "0.6.3",
        "head_last_since": "0.6.6",
        "qkv_bias": "config:qkv_bias:true",
        "mlp_keeps": True,
    },
    "Qwen3ForCausalLM": {
        "qkv_bias": "config:attention_bias:false",
        "o_bias": "config:attention_bias:false",
        "qk_norm": "head",
        "mlp_keeps": True,
    },
    "QWenLMHeadModel": {
        "mlp_keeps": True,
        "qkv_bias": True,
        "pp": "0.5.4",
        "embeds_first_since": None,
        "head_last_since": None,
        "layout": "qwen1",
    },
    "Qwen2MoeForCausalLM": {
        "pp": "0.5.4",
        "embeds_first_since": None,
        "head_last_since": None,
        "qkv_bias": "config:qkv_bias:true",
        "layout": "moe",
        "mlp_keeps": True,
        "shared_gate": True,
    },
    "Qwen3MoeForCausalLM": {
        "embeds_first_since": None,
        "head_last_since": None,
        "qkv_bias": "config:attention_bias:false",
        "qk_norm": "head",
        "layout": "moe",
        "mlp_keeps": True,
    },
    "MixtralForCausalLM": {
        "pp": "0.5.3",
        "scales_since": None,
        "embeds_first_since": None,
        "head_last_since": None,
        "layout": "moe_all",
    },
    "PhiMoEForCausalLM": {
        "layout": "moe_all",
        "qkv_bias": "config:attention_bias:false",
        "o_bias": "config:attention_bias:false",
        "norm_bias": True,
        "lm_head_bias": "config:lm_head_bias:false",
    },
    "DeepseekForCausalLM": {
        "mlp_keeps": True,
        "layout": "moe",
        "embeds_first_since": None,
        "head_last_since": None,
    },
    "DeepseekV2ForCausalLM": {
        "mlp_keeps": True,
        "pp": "0.5.4",
        "embeds_first_since": "0.5.4",
        "head_last_since": "0.8.0",
        "attention": "mla",
        "layout": "moe",
    },
    "DeepseekV3ForCausalLM": {"base": "DeepseekV2ForCausalLM", "router_bias": "noaux"},
    "DeepseekV32ForCausalLM": {"base": "DeepseekV3ForCausalLM", "indexer": True},
    "Gemma2ForCausalLM": {
        "norms": 4,
        "tied": True,
        "mlp_keeps": True,
        "norm_copies": 1,
        "windows": "alternate",
    },
    "GemmaForCausalLM": {"mlp_keeps": True, "tied": True},
    "Gemma3ForCausalLM": {
        "norms": 4,
        "qk_norm": "head",
        "tied": True,
        "mlp_keeps": True,
        "norm_copies": 1,
        "windows": "pattern",
    },
    "Gemma3ForConditionalGeneration": {"base": "Gemma3ForCausalLM", "vision": "gemma3"},
    "Qwen2VLForConditionalGeneration": {"base": "Qwen2ForCausalLM", "pp": None, "vision": "qwen2_vl"},
    "Qwen2_5_VLForConditionalGeneration": {"base": "Qwen2ForCausalLM", "pp": None, "vision": "qwen2_5_vl"},
    "Qwen3VLForConditionalGeneration": {"base": "Qwen3ForCausalLM", "vision": "qwen3_vl"},
    "Qwen3VLMoeForConditionalGeneration": {"base": "Qwen3MoeForCausalLM", "vision": "qwen3_vl"},
    "BaichuanForCausalLM": {"mlp_keeps": True, "layout": "baichuan", "positions": "baichuan"},
    "BaiChuanForCausalLM": {"mlp_keeps": True, "layout": "baichuan", "positions": "rope"},
    "FalconForCausalLM": {
        "layout": "falcon",
        "mlp": "plain",
        "norm_bias": True,
        "tied": True,
        "qkv_bias": "config:bias:false",
        "o_bias": "config:bias:false",
        "mlp_bias": "config:bias:false",
    },
    "RWForCausalLM": {"base": "FalconForCausalLM"},
    "Phi3ForCausalLM": {"pp": "0.5.1"},
    "PhiForCausalLM": {
        "mlp": "plain",
        "qkv_bias": True,
        "o_bias": True,
        "mlp_bias": True,
        "norm_bias": True,
        "norms": 1,
        "lm_head_bias": True,
    },
    "OPTForCausalLM": {
        "mlp": "plain",
        "positions": "learned",
        "norm_bias": True,
        "tied": True,
        "qkv_bias": "config:enable_bias:true",
        "o_bias": "config:enable_bias:true",
        "mlp_bias": "config:enable_bias:true",
        "position_offset": 2,
    },
    "BertModel": {
        "mlp": "plain",
        "positions": "learned",
        "norm_bias": True,
        "tied": True,  # there is no head
        "qkv_bias": True,
        "o_bias": True,
        "mlp_bias": True,
        "encoder": True,
    },
    "BertForSequenceClassification": {"base": "BertModel"},
    "RobertaModel": {"base": "BertModel"},
    "RobertaForSequenceClassification": {"base": "BertModel"},
    "XLMRobertaModel": {"base": "BertModel"},
    "XLMRobertaForSequenceClassification": {"base": "BertModel"},
    "GPT2LMHeadModel": {
        "mlp": "plain",
        "positions": "learned",
        "norm_bias": True,
        "tied": True,
        "qkv_bias": True,
        "o_bias": True,
        "mlp_bias": True,
        "pp": "0.5.1",
    },
    "GPTNeoXForCausalLM": {
        "mlp": "plain",
        "norm_bias": True,
        "qkv_bias": "config:attention_bias:true",
        "o_bias": "config:attention_bias:true",
        "mlp_bias": True,
    },
    "StableLmForCausalLM": {"mlp_keeps": True, "norm_bias": True, "qkv_bias": "config:use_qkv_bias:false"},
    "StableLMEpochForCausalLM": {"base": "StableLmForCausalLM"},
    "Starcoder2ForCausalLM": {
        "mlp": "plain",
        "norm_bias": True,
        "tied": True,
        "qkv_bias": "config:use_bias:true",
        "o_bias": "config:use_bias:true",
        "mlp_bias": "config:use_bias:true",
    },
    "GlmForCausalLM": {"qkv_bias": "config:attention_bias:true"},
    "Glm4ForCausalLM": {"norms": 4, "qkv_bias": "config:attention_bias:true"},
    "Glm4MoeForCausalLM": {
        "mlp_keeps": True,
        "layout": "moe",
        "qkv_bias": "config:attention_bias:true",
        "qk_norm": "config:use_qk_norm:false",
        "router_bias": "always",
    },
    "ChatGLMModel": {"mlp_keeps": True, "layout": "chatglm"},
    "ChatGLMForConditionalGeneration": {"base": "ChatGLMModel"},
    "GptOssForCausalLM": {
        "layout": "moe_all",
        "qkv_bias": "config:attention_bias:true",
        "o_bias": "config:attention_bias:true",
        "expert_bias": True,
        "router_linear_bias": True,
        "sinks": True,
        "windows": "types",
    },
    "Llama4ForConditionalGeneration": {"layout": "llama4", "vision": "llama4"},
    "Qwen3NextForCausalLM": {
        "layout": "moe",
        "attention": "hybrid",
        "qk_norm": "head",
        "shared_gate": True,
        "output_gate": True,
        "mlp_keeps": True,
    },
    "Qwen3_5ForConditionalGeneration": {
        "attention": "hybrid",
        "qk_norm": "head",
        "output_gate": True,
        "vision": "qwen3_vl",
        "mlp_keeps": True,
    },
    "Qwen3_5MoeForConditionalGeneration": {
        "base": "Qwen3_5ForConditionalGeneration",
        "layout": "moe",
        "shared_gate": True,
    },
    "Gemma4ForConditionalGeneration": {
        "norms": 4,
        "qk_norm": "head",
        "tied": True,
        "mlp_keeps": True,
        "norm_copies": 1,
        "windows": "types",
        "vision": "gemma4",
        "layout": "gemma4",
    },
}

# model_type when `architectures` is missing (a bare config).
BY_MODEL_TYPE: dict[str, str] = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration",
    "gemma3_text": "Gemma3ForCausalLM",
    "baichuan": "BaichuanForCausalLM",
    "falcon": "FalconForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "phi": "PhiForCausalLM",
    "opt": "OPTForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "stablelm": "StableLmForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
    "glm": "GlmForCausalLM",
    "glm4": "Glm4ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "chatglm": "ChatGLMModel",
    "gpt_oss": "GptOssForCausalLM",
    "llama4": "Llama4ForConditionalGeneration",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen3_5": "Qwen3_5ForConditionalGeneration",
    "qwen3_5_moe": "Qwen3_5MoeForConditionalGeneration",
    "gemma4": "Gemma4ForConditionalGeneration",
    "granite": "GraniteForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "internlm": "InternLMForCausalLM",
    "phimoe": "PhiMoEForCausalLM",
    "qwen": "QWenLMHeadModel",
}

# Fields that published config.json files leave out because they equal the default of the model type.
# Source: the configuration classes of transformers.
CONFIG_DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma3_text": {
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
        "rope_local_base_freq": 10000,
    },
    "mistral": {"num_key_value_heads": 8},
    "mixtral": {"num_key_value_heads": 8},
}
