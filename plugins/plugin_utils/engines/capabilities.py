# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which engine has code for which format on which GPUs, each fact with its source. What vLLM has is in planner/data, by release.

A row says what is known, from one capability to another; where no row speaks of a GPU, nothing is known, or it is known that there is none (``NO_CODE``).
The facts were read in November 2026.
"""

from __future__ import annotations

from typing import NamedTuple

Capability = tuple[int, int]
NEWEST: Capability = (12, 1)


class Runs(NamedTuple):
    engine: str
    formats: tuple[str, ...]
    first: Capability
    last: Capability
    source: str


class Engine(NamedTuple):
    """An engine beside vLLM. ``host_only``: one model cannot lie on several hosts."""

    name: str
    title: str
    host_only: bool
    no_code_below: Capability
    source: str  # of no_code_below


ENGINES: tuple[Engine, ...] = (
    Engine(
        "llama_cpp",
        "llama.cpp",
        False,  # by RPC, which knows no authentication: only inside our firewall (tools/rpc/README.md)
        (5, 0),
        "ggml/src/ggml-cuda/CMakeLists.txt: 50-virtual is the first of the builds with CUDA 12; with CUDA 13 75-virtual is",
    ),
    Engine(
        "lmdeploy",
        "LMDeploy (TurboMind)",
        True,
        (7, 0),
        "CMakeLists.txt of LMDeploy 0.16.0: 70-real is the first of the builds with CUDA 12, 80-real of those with CUDA 13",
    ),
    Engine(
        "sglang",
        "SGLang",
        False,
        (7, 5),
        "notes of a fork for Volta (RomanMoz/power-sglang-cuda124, v1.0.2) on the guard of model_runner.py; docs.sglang.io: releases after 0.5.19 need CUDA 13",
    ),
    Engine(
        "ollama", "Ollama", True, (5, 0), "docs/gpu.mdx of ollama/ollama: 5.0 and newer; 5.0 to 6.2 need driver 570"
    ),
)

_TURBOMIND = "src/turbomind/kernels/gemm/kernel of LMDeploy 0.16.0: sm70_884, sm75_16816, sm80_16816 and sm90, with 4 (U4, MXF4), 8 (E4M3) and 16 bits"
RUNS: tuple[Runs, ...] = (
    Runs(
        "llama_cpp",
        ("gguf",),
        (5, 0),
        NEWEST,
        "ggml/src/ggml-cuda/CMakeLists.txt; docs/docker.md: the image server-cuda is built with CUDA 12",
    ),
    Runs("lmdeploy", ("16-bit", "awq", "gptq", "fp8", "mxfp4"), (7, 0), (9, 0), _TURBOMIND),
    Runs(
        "sglang",
        ("16-bit", "awq", "gptq"),
        (8, 0),
        (10, 0),
        "NVIDIA's release notes of its SGLang container, 26.05: Ampere and Hopper",
    ),
    Runs("ollama", ("gguf",), (5, 0), NEWEST, "docs/gpu.mdx of ollama/ollama"),
)

# Architectures, by config.json, that TurboMind serves. Source: docs/en/supported_models/supported_models.md of LMDeploy 0.16.0. It has no sliding
# window, but for the second set.
TURBOMIND_MODELS = frozenset(
    (
        "LlamaForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "MixtralForCausalLM",
        "GptOssForCausalLM",
    )
)

TURBOMIND_WINDOWS = frozenset(("GptOssForCausalLM",))

# How much the answers suffer, by format: how much larger the perplexity is than that of 16-bit weights, in classes: nothing, below 0.3 %, below 3 %, more.
# GGUF: figures of LLaMA-7B in ggml-org/llama.cpp, pull request 1684 (5.91 with 16 bits; Q8_0 +0.0004, Q6_K +0.0044, Q5_K_M +0.0142, Q4_K_M +0.0535).
# AWQ and GPTQ: Llama-2-7B with groups of 128, arXiv 2306.00978, table 4 (5.47; AWQ 5.60, GPTQ with reordering 5.63). Of FP8 and MXFP4 no such figure was read.
LOSS: dict[str, str] = {
    "16-bit": "loss_none",
    "F16": "loss_none",
    "Q8_0": "loss_hardly",
    "Q6_K": "loss_hardly",
    "Q5_K_M": "loss_hardly",
    "Q4_K_M": "loss_small",
    "awq": "loss_small",
    "gptq": "loss_small",
    "fp8": "loss_unknown",
    "mxfp4": "loss_unknown",
}
LOSSES = ("loss_none", "loss_hardly", "loss_small", "loss_unknown")


def runs(engine: str, form: str, capability: Capability) -> Runs | None:
    """The fact by which an engine computes a format on a GPU; None where there is none."""
    for row in RUNS:
        if row.engine == engine and form in row.formats and row.first <= capability <= row.last:
            return row
    return None
