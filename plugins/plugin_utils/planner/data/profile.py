# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the profile run executes and keeps, by release.

Source: vllm/worker/model_runner.py (V0), vllm/v1/worker/gpu_model_runner.py and vllm/v1/worker/gpu/model_runner.py (V1 and V2
model runner), vllm/v1/sample/ops, vllm/model_executor/layers/fused_moe of the examined releases. Bytes an entry of the sampler
are counted from that code and agree with what engines logged (tests/data/planner): 38 in V0 0.6 to 0.8 and V1 to 0.16, 14
with the Triton top-k/top-p kernel, 6 in the V2 runner.
"""

from __future__ import annotations

from typing import NamedTuple

MIB = 1024**2


class V2Rule(NamedTuple):
    """When the V2 model runner is chosen by itself."""

    dense: bool
    quantised: bool
    architectures: frozenset[str]
    everything: bool = False


V2_RUNNER: list[tuple[str, V2Rule]] = [
    ("0.22.0", V2Rule(False, False, frozenset({"Qwen3ForCausalLM"}))),
    (
        "0.25.0",
        V2Rule(True, True, frozenset({"DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM"})),
    ),
    (
        "0.28.0",
        V2Rule(True, True, frozenset({"DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM"})),
    ),
    ("0.33.0", V2Rule(True, True, frozenset(), everything=True)),
]

# Bytes an entry of (rows x vocabulary) at the sampler's fullest moment with 16-bit logits, and whether a float32 row of the
# vocabulary for each multiprocessor is kept beside (the Triton kernel's buffer).
SAMPLER: dict[str, list[tuple[str, tuple[int, bool]]]] = {
    "v0": [("0.2.7", (38, False))],
    "v1": [("0.2.7", (38, False)), ("0.18.0", (14, True))],
    "v2": [("0.2.7", (6, False)), ("0.33.0", (14, True))],
}

# The experts' intermediate results: three tensors; two (first and last share one); or one workspace that is never freed.
MOE_BUFFERS: list[tuple[str, str]] = [("0.2.7", "separate"), ("0.8.4", "shared"), ("0.13.0", "workspace")]
MOE_CHUNK: list[tuple[str, int]] = [("0.2.7", 65536), ("0.8.0", 32768), ("0.13.0", 2**30)]

# Releases whose plain AWQ kernel holds as many partial sums of its result as it packs weights into a word, whatever the number of tokens
# (pack_factor is split_k_iters of csrc/quantization/awq/gemm_kernels.cu). From 0.3.0 on more than 255 tokens go through a dequantised
# weight (apply_weights in vllm/model_executor/layers/quantization/awq.py).
AWQ_PARTIAL_SUMS: list[tuple[str, int]] = [("0.2.7", 8), ("0.3.0", 0)]

# Mixtral's experts run one after the other over all tokens, each whole on one rank, unless the release has fused ones for the method: its
# names here, null for all (vllm/model_executor/models/mixtral.py of 0.2.7; later mixtral_quant.py, which get_model_architecture in
# vllm/model_executor/model_loader takes for every other method).
MIXTRAL_FUSED: list[tuple[str, frozenset[str] | None]] = [
    ("0.2.7", frozenset()),
    ("0.3.0", frozenset({"none"})),
    ("0.4.1", frozenset({"none", "fp8"})),
    ("0.6.0", frozenset({"none", "fp8", "compressed-tensors"})),
    ("0.6.1", frozenset({"none", "fp8", "compressed-tensors", "gptq_marlin"})),
    ("0.6.3", frozenset({"none", "fp8", "compressed-tensors", "gptq_marlin", "awq_marlin"})),
    ("0.9.0", frozenset({"none", "fp8", "compressed-tensors", "gptq_marlin", "awq_marlin", "quark"})),
    ("0.10.0", frozenset({"none", "fp8", "compressed-tensors", "gptq_marlin", "awq_marlin", "quark", "bitsandbytes"})),
    ("0.10.2", None),
]

# Experts in turn are in every stage of a pipeline before this release, whatever its list of models says (mixtral_quant.py).
MIXTRAL_IN_TURN_PIPELINES_SINCE = "0.6.3"

# MLA: the profile run allocates what the decompression of the chunked context would take.
MLA_CONTEXT_IMITATED: list[tuple[str, bool]] = [("0.2.7", False), ("0.8.0", True)]

# Experts whose kernels bring their own buffers and free them after each layer, by scheme and major compute capability: OpenAI's
# Triton kernels for MXFP4 on Hopper. Measured on 0.25.1.
MOE_FREED = frozenset({("mxfp4", 9)})

# torch.compile (V1 without enforce_eager): while it compiles for the first time, one more tensor of the largest input lives for a
# moment, the embedding. It decides the peak of starts with few tokens. Measured on 0.25.1 (16 sequences, 2048 tokens); a start
# that finds the compiled model in its cache has that much more for the KV cache.
COMPILE_COPIES_EMBEDDING: list[tuple[str, bool]] = [("0.2.7", False), ("0.20.0", True)]
# Buffers of the compiled model beside the layers' own. Measured on 0.25.1, two models.
COMPILED_EXTRA = 57 * MIB


def cublas_workspace(capability: tuple[int, int]) -> int:
    """torch's cuBLAS workspace: CUBLAS_WORKSPACE_CONFIG :4096:2:16:8, and 32 MiB on Hopper and later."""
    return 32 * MIB if capability >= (9, 0) else 8 * MIB + 128 * 1024


def processors(capability: tuple[int, int]) -> int:
    """Streaming multiprocessors of the generation's data-centre GPU."""
    return {7: 80, 8: 108, 9: 132, 10: 148, 12: 170}.get(capability[0], 108)


# Schemes whose linear layers do not use cuBLAS (Marlin, Machete, exllama, CUTLASS kernels).
OWN_KERNELS = frozenset({"int4", "int8", "int8_channel", "fp8_tensor", "fp8_channel", "fp8_block", "nvfp4"})

# Releases whose Triton (3.2, of torch 2.6) compiles the kernel for experts in 16 bits not for Volta: "Failed to compute parent layout for slice layout"
# (issues 17392 and 17666 of vllm-project/vllm, 1294 of QwenLM/Qwen3). In float32 it uses no matrix units, as the kernel of attention (issue 14071).
VOLTA_EXPERTS_BROKEN = ("0.8.0", "0.8.5.post1")
