# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Architectures of GGUF files as llama.cpp has them."""

from __future__ import annotations

# Source: MODEL_ARCH_NAMES of the Python package gguf 0.19.0, which llama.cpp's repository publishes, without those that are no model of texts.
_ARCHITECTURES = """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bert bitnet bloom chameleon chatglm
    codeshell cogvlm cohere2 command-r dbrx deci deepseek deepseek2 deepseek2-ocr dots1 dream ernie4_5
    ernie4_5-moe eurobert exaone exaone-moe exaone4 falcon falcon-h1 gemma gemma-embedding gemma2 gemma3
    gemma3n gemma4 glm-dsa glm4 glm4moe gpt-oss gpt2 gptj gptneox granite granitehybrid granitemoe grok
    grovemoe hunyuan-dense hunyuan-moe hunyuan_vl internlm2 jais jais2 jamba jina-bert-v2 jina-bert-v3
    kimi-linear lfm2 lfm2moe llada llada-moe llama llama-embed llama4 maincoder mamba mamba2 mimo2 minicpm
    minicpm3 minimax-m2 mistral3 mistral4 modern-bert mpt nemotron nemotron_h nemotron_h_moe neo-bert
    nomic-bert nomic-bert-moe olmo olmo2 olmoe openelm orion paddleocr pangu-embedded phi2 phi3 phimoe plamo
    plamo2 plamo3 plm qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3vl qwen3vlmoe
    refact rnd1 rwkv6 rwkv6qwen2 rwkv7 seed_oss smallthinker smollm3 stablelm starcoder starcoder2 step35 t5
    t5encoder xverse
"""
ARCHITECTURES = frozenset(_ARCHITECTURES.split())

# Those whose memory was compared with what llama.cpp prints: tests/data/llama_cpp/memory.json.
MEASURED = frozenset(("llama", "qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3", "gpt-oss", "deepseek2", "phi3"))

# Layers that look at a window only, where the file does not say which: all but every n-th. The second number is the window where the file has none.
# Source: load_hparams of each architecture in src/models of https://github.com/ggml-org/llama.cpp (set_swa_pattern); gemma2, gemma3 and gpt-oss are measured.
WINDOW_PATTERNS: dict[str, tuple[int, int]] = {
    "cohere2": (4, 0),
    "gemma2": (2, 4096),
    "gemma3": (6, 0),
    "gemma3n": (5, 0),
    "gpt-oss": (2, 0),
    "llama4": (4, 8192),
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
