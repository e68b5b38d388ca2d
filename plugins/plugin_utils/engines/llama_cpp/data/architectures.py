# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Architectures of GGUF files as llama.cpp has them."""

from __future__ import annotations

# Source: LLM_ARCH_NAMES of src/llama-arch.cpp of https://github.com/ggml-org/llama.cpp at 0c1e57098, without those that are no model of texts.
_ARCHITECTURES = """
afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bailingmoe3 bert bitnet bloom chameleon chatglm codeshell cogvlm cohere2
cohere2moe command-r dbrx deci deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4 dflash dots1 dots3note dream eagle3 ernie4_5 ernie4_5-moe
eurobert exaone exaone-moe exaone4 falcon falcon-h1 gemma gemma-embedding gemma2 gemma3 gemma3n gemma4 gemma4-assistant glm-dsa glm4 glm4moe
glm5-next gpt-oss gpt2 gptj gptneox granite granite_swa granitehybrid granitemoe graniteswitch grok grovemoe hrm_text hunyuan-dense hunyuan-moe
hunyuan_vl hy_v3 hy_v4 internlm2 jais jais2 jamba jina-bert-v2 jina-bert-v3 kimi-k3 kimi-linear laguna lfm2 lfm2moe llada llada-moe llama
llama-embed llama4 maincoder mamba mamba2 maple mellum mimo2 minicpm minicpm3 minimax-01 minimax-m2 minimax-m3 mistral3 mistral4 modern-bert mpt
muse-glimmer nanbeige nemotron nemotron_h nemotron_h_moe neo-bert nomic-bert nomic-bert-moe olmo olmo2 olmoe openelm orion paddleocr
pangu-embedded phi2 phi3 phimoe plamo plamo2 plamo3 plm pockettts qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3tts
qwen3vl qwen3vlmoe qwen4exp refact rnd1 rwkv6 rwkv6qwen2 rwkv7 seed_oss smallthinker smollm3 spark2_5 stablelm starcoder starcoder2 step35 t5
t5encoder talkie xverse
"""
ARCHITECTURES = frozenset(_ARCHITECTURES.split())

# Those whose memory was compared with what llama.cpp prints: tests/data/llama_cpp/memory.json.
MEASURED = frozenset(("llama", "qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3", "gpt-oss", "deepseek2", "phi3"))

# Layers that look at a window only, where the file does not say which: all but every n-th, the last of each n or (True) the first. The number between is
# the window where the file has none. Source: load_swa_pattern in src/models of https://github.com/ggml-org/llama.cpp at 0c1e57098; gemma2, gemma3 and gpt-oss
# are measured. EXAONE 4 has a window at one size only, and is planned without one: what it needs is less.
WINDOW_PATTERNS: dict[str, tuple[int, int, bool]] = {
    "afmoe": (4, 0, False),
    "cohere2": (4, 0, False),
    "cohere2moe": (4, 0, True),
    "exaone-moe": (4, 128, False),
    "gemma-embedding": (6, 0, False),
    "gemma2": (2, 4096, False),
    "gemma3": (6, 0, False),
    "gemma3n": (5, 0, False),
    "gpt-oss": (2, 0, False),
    "laguna": (4, 0, True),
    "llama4": (4, 8192, False),
    "mellum": (4, 0, False),
    "modern-bert": (3, 0, True),
    "muse-glimmer": (4, 0, False),
    "olmo2": (4, 0, False),
    "plamo3": (8, 0, False),
    "smallthinker": (4, 0, True),
}

# Every n-th layer has attention, the others keep a state. Source: load_hparams of qwen3next, qwen35 and qwen35moe.
RECURRENT_INTERVAL: dict[str, int] = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}

# What a whole file is called by its number. Source: LlamaFileType of the Python package gguf 0.19.0.
FILE_TYPES: dict[int, str] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
}
