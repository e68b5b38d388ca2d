# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changed between releases, as [first release, value] rows.

Source: the release trees named in docs/reference (vllm/config, vllm/worker, vllm/v1/worker, vllm/engine/arg_utils.py),
read release by release; "measured" means logged by a real engine (tests/data/planner).
"""

from __future__ import annotations

GIB = 1024**3

# Which engine runs by default, and on which compute capabilities V1 refuses and falls back to V0.
ENGINE: list[tuple[str, str]] = [("0.2.7", "V0"), ("0.8.0", "V1")]
V1_LOWEST_CAPABILITY: list[tuple[str, tuple[int, int]]] = [("0.2.7", (8, 0)), ("0.10.2", (0, 0))]
V0_LAST = "0.10.2"
# Executors with which V1 runs a pipeline, null the one that the release chooses; with others V0 runs (the same function as below).
V1_PIPELINE_EXECUTORS: list[tuple[str, tuple[str | None, ...]]] = [
    ("0.8.0", ("ray",)),
    ("0.9.0", ("ray", "mp", "external_launcher")),
    ("0.9.2", (None, "ray", "mp", "external_launcher", "uni")),
]
# Options that V1 lacked, with their defaults and the last release that then runs V0 (_is_v1_supported_oracle in vllm/engine/arg_utils.py).
V1_LACKS: dict[str, tuple[object, str]] = {
    "cpu_offload_gb": (0, "0.8.2"),
    "disable_async_output_proc": (False, "0.10.2"),
    "enable_lora": (False, "0.8.2"),
    "enable_prompt_adapter": (False, "0.9.2"),
    "max_long_partial_prefills": (1, "0.10.2"),
    "max_num_partial_prefills": (1, "0.10.2"),
    "num_scheduler_steps": (1, "0.10.0"),
    "preemption_mode": (None, "0.10.2"),
    "scheduler_delay_factor": (0, "0.10.2"),
    "scheduling_policy": ("fcfs", "0.8.5.post1"),
}

# The least compute capability of LoRA's kernels: Punica's until Triton's came (vllm/lora/punica.py of 0.4.2, 0.5.3.post1 and 0.5.4).
LORA_LEAST: list[tuple[str, tuple[int, int]]] = [("0.2.7", (8, 0)), ("0.5.4", (0, 0))]

# The largest vocabulary beside adapters (LogitsProcessorWithLoRA in vllm/lora/layers).
LORA_VOCABULARY: list[tuple[str, int]] = [("0.2.7", 33024), ("0.4.1", 128512), ("0.5.5", 257024), ("0.17.0", 258048)]
# What V0 cannot keep in the host's memory: it moves the parameters of a layer to the GPU for each call, by their names, and finds neither the
# adapters' nor what bitsandbytes and GGUF keep beside them, nor MLA's parts of kv_b (issues 11748, 8757, 14096 and 15871 of vllm-project/vllm). In
# 0.5.3 what Marlin repacks lay in the host's memory already (issue 6952).
V0_OFFLOAD_LACKS = ("bitsandbytes", "gguf")
MARLIN_OFFLOAD_BROKEN = ("0.5.3", "0.5.3.post1")

# Default of gpu_memory_utilization.
UTILIZATION: list[tuple[str, float]] = [("0.2.7", 0.90), ("0.20.0", 0.92)]

# The budget of the KV cache (vllm/worker/worker.py, vllm/v1/worker/gpu_worker.py).
#   growth      total * U - what the device lost since the worker started (the allocator's reserved peak)
#   peak        total * U - (torch's allocated peak + everything else on the device)
#   accounted   total * U - (weights + peak increase + non-torch increase)
#   snapshot    the same from 0.27 on, counted from free memory
BUDGET_V0: list[tuple[str, str]] = [
    ("0.0", "allocated"),
    ("0.2.6", "device"),
    ("0.3.1", "growth"),
    ("0.6.4", "peak"),
    ("0.6.5", "accounted"),
]
# Where the device is looked at, what torch has reserved counts and not what it has handed out: the peak grows by fragments.
# Fitted on three published starts of 0.5 and 0.6 (1.6-1.85).
RESERVED_OVER_ALLOCATED = 1.6
BUDGET_V1: list[tuple[str, str]] = [("0.2.7", "peak"), ("0.9.1", "accounted"), ("0.27.0", "snapshot")]

# The start is refused when less than total * U is free (V1).
FREE_MEMORY_CHECK: list[tuple[str, bool]] = [("0.2.7", False), ("0.9.1", True)]
# Whether NCCL's base buffers lie inside the budget (V1: the snapshot is taken after NCCL from 0.11.0 on).
NCCL_INSIDE_BUDGET: list[tuple[str, bool]] = [("0.2.7", True), ("0.11.0", False)]

# CUDA graphs: whether an estimate is taken off the budget, by model runner (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS).
CUDAGRAPH_IN_BUDGET: dict[str, list[tuple[str, bool]]] = {
    "v0": [("0.2.7", False)],
    "v1": [("0.2.7", False), ("0.20.0", True)],
    "v2": [("0.2.7", False), ("0.33.0", True)],  # to 0.28 at least its estimate is 0
}

# V0: max_num_batched_tokens when not given: (with chunked prefill, floor without it).
V0_BATCHED_TOKENS: list[tuple[str, tuple[int | None, int]]] = [
    ("0.2.7", (None, 2048)),
    ("0.4.2", (512, 2048)),
    ("0.6.5", (2048, 2048)),
]
# V0: chunked prefill comes on by itself above this context.
V0_AUTO_CHUNKED_ABOVE: list[tuple[str, int | None]] = [("0.2.7", None), ("0.5.3", 32768)]
V0_SEQS = 256
# Prefix caching when nothing is said, by engine.
PREFIX_CACHING: dict[str, bool] = {"V0": False, "V1": True}

# Models whose code refuses a sliding window whatever config.json says of its layers, and later one that holds for some layers only
# (vllm/model_executor/models/qwen2.py).
QWEN_WITHOUT_WINDOW = ("0.4.3", "0.8.5.post1")

# How a release learns its own address (get_ip in vllm/utils.py): by the route to 8.8.8.8, which takes a default route (to 0.3.0); by the route to
# dns.google, a name that the container's hosts file can give an address of the cluster (0.3.1 to 0.3.3); from HOST_IP (0.4.0, 0.4.1); from
# VLLM_HOST_IP (0.4.2 on). Which of 0.3.1 and 0.3.2 came with the name was not read: both get it.
ADDRESS_BY_NAME_SINCE = "0.3.1"
HOST_IP_SINCE, VLLM_HOST_IP_SINCE = "0.4.0", "0.4.2"
ADDRESS_NAME = "dns.google"

# bitsandbytes (vllm/config.py, verify_with_parallel_config): the last release that refuses several ranks, and those that refuse CUDA graphs.
BITSANDBYTES_ALONE_LAST = "0.6.2"
BITSANDBYTES_EAGER = ("0.5.4", "0.5.4")
# V1, OpenAI server: (device memory GiB at least, batched tokens, sequences), largest tier that fits; A100 small from 0.9.
V1_TIERS: list[tuple[str, list[tuple[float, int, int]]]] = [
    ("0.2.7", [(0, 2048, 256), (70, 8192, 1024)]),
    ("0.28.0", [(0, 2048, 256), (70, 8192, 1024), (160, 16384, 1024)]),
]
# The same for the LLM class (offline use; `usage: offline`).
V1_TIERS_OFFLINE: list[tuple[str, list[tuple[float, int, int]]]] = [("0.2.7", [(0, 8192, 256), (70, 16384, 1024)])]
# The default number of sequences is not above the batched tokens that are asked for.
V1_SEQS_WITHIN_BATCH: list[tuple[str, bool]] = [("0.2.7", False), ("0.10.1", True)]
V1_TIERS_SMALL_NAMES: list[tuple[str, tuple[str, ...]]] = [
    ("0.2.7", ()),
    ("0.9.0", ("A100",)),
    ("0.33.0", ("A100", "GB10")),
]

# Pipeline parallel.
PP_REMAINDER: list[tuple[str, str]] = [("0.2.7", "divisible"), ("0.5.1", "last"), ("0.8.0", "middle")]
PP_SINCE: list[tuple[str, str]] = [("0.2.7", "none"), ("0.5.1", "list"), ("0.6.3", "interface")]

# More ranks than GPUs of a node without naming an executor.
AUTO_EXECUTOR: list[tuple[str, str]] = [
    ("0.2.7", "ray"),
    ("0.5.0", "mp_then_ray"),
    ("0.11.1", "mp_only"),
]
EXECUTOR_OPTION_SINCE = "0.4.3"
MP_NODES_SINCE = "0.11.1"
# Since when the image is known to serve other users than root: Python and its packages are readable to them, the group of root may write where
# caches lie (docker/Dockerfile of 0.28.0; https://github.com/vllm-project/vllm/pull/40275; not verified for 0.20 to 0.27).
# Before: 0.4.1 and 0.4.2 load libnccl from /root (docs/source/serving/deploying_with_docker.rst), Python of 0.8.0 and 0.8.1 lies in /root
# (https://github.com/vllm-project/vllm/issues/15174), and in later ones /root/.local/bin is in PATH, where another user gets "permission
# denied" for a program that is not there (https://github.com/vllm-project/vllm/pull/28741).
OTHER_USERS_SINCE = "0.28.0"
# From this compute capability on FlashInfer makes links for kernels of TensorRT-LLM in the folder of its package flashinfer_cubin, which belongs to
# root in the image and which no variable replaces (ensure_symlink in flashinfer/jit/cubin_loader.py, gen_trtllm_gen_fused_moe_sm100_module in
# flashinfer/jit/fused_moe.py; https://github.com/flashinfer-ai/flashinfer/issues/2834 and /2976, both open). Kernels for older GPUs are made in
# the user's cache.
OTHER_USERS_BELOW_CAPABILITY = (10, 0)
# The last release whose image holds Ray (requirements/cuda.txt and docker/Dockerfile of the examined releases).
RAY_IN_IMAGE_LAST = "0.17.1"

# dtype auto with a bf16 checkpoint on a GPU without bf16: refuse, or fall back to float16.
AUTO_DTYPE_FALLS_BACK: list[tuple[str, bool]] = [("0.2.7", False), ("0.9.1", True)]
# Model types that refuse float16 (numerically unstable).
FLOAT16_REFUSED: list[tuple[str, tuple[str, ...]]] = [
    ("0.2.7", ()),
    ("0.9.1", ("gemma2", "gemma3", "gemma3_text", "plamo2", "glm4")),
]

# V0 with a pipeline: one request may use only blocks // pp (checked at start from 0.8.0 on, true in every V0 release).
V0_PP_SPLITS_CHECK: list[tuple[str, bool]] = [("0.2.7", False), ("0.8.0", True)]
# V1 with a pipeline: the check holds the cache of one request on all stages together against the memory of the fullest rank
# (get_kv_cache_configs in vllm/v1/core/kv_cache_utils.py; issue 34076 of vllm-project/vllm).
WHOLE_CACHE_CHECKED = ("0.14.0", "0.16.0")
# V1: the start-up check reserves the null block.
NULL_BLOCK_CHECKED: list[tuple[str, bool]] = [("0.2.7", False), ("0.29.0", True)]

# MLA: latent cache (one vector a token) or one key and value per head.
MLA_LATENT: list[tuple[str, bool]] = [("0.2.7", False), ("0.7.1", True)]
# MLA: products of q with kv_b and of kv_b with o are kept beside the parts (0.7); later only the parts of kv_b, as views of it
# when it is not quantised and as 16-bit copies when it is.
MLA_ABSORBED: list[tuple[str, str]] = [("0.2.7", "none"), ("0.7.1", "absorbed"), ("0.8.0", "views")]

# Methods whose checkpoints may scale keys and values, and since when: they exclude fp8_e5m2 (vllm/attention/layer.py, and the class for Attention
# in vllm/model_executor/layers/quantization).
SCALED_CACHE_METHODS: dict[str, str] = {
    "fp8": "0.4.3",
    "compressed-tensors": "0.5.3",
    "modelopt": "0.6.1",
    "quark": "0.7.0",
    "ptpc_fp8": "0.7.2",
    "petit_nvfp4": "0.10.1",
}
# FlashAttention 3 (Hopper) reads fp8 keys and values only beside bfloat16: a float16 start dies in its warm-up. Measured on 0.25.1.
FP8_KV_WANTS_BFLOAT16: list[tuple[str, bool]] = [("0.2.7", False), ("0.25.0", True)]
FLASH_ATTENTION_3 = ((9, 0), (10, 0))  # compute capabilities from, below

# max_split_size of torch's allocator while the weights load (vllm/v1/worker/gpu_worker.py load_model).
MAX_SPLIT_SIZE: list[tuple[str, int | None]] = [("0.2.7", None), ("0.21.0", 20 * 1024**2)]

# MLA rope caches stay float32 where FlashInfer's rope kernel is used.
MLA_ROPE_FLOAT32: list[tuple[str, bool]] = [("0.2.7", False), ("0.11.0", True)]

# rope_scaling: the key that names its kind, the kinds, and what a kind needs (get_rope in vllm/model_executor/layers/rotary_embedding,
# patch_rope_scaling in vllm/transformers_utils/config.py, _get_and_verify_max_len in vllm/config). The configuration of Llama in
# transformers before 4.43, which 0.5.3 is the first to ask for, takes no other keys than type and factor.
ROPE_SPELLING: list[tuple[str, str]] = [("0.2.7", "type"), ("0.5.3", "rope_type")]
ROPE_OPTION_NEEDS_ROPE_TYPE = ("0.6.3", "0.9.2")
_OLD_KINDS = ("linear", "dynamic", "yarn")
_KINDS = (*_OLD_KINDS, "deepseek_yarn", "su", "longrope", "llama3")
ROPE_TYPES: list[tuple[str, tuple[str, ...]]] = [
    ("0.2.7", _OLD_KINDS),
    ("0.4.2", (*_OLD_KINDS, "su")),
    ("0.5.1", (*_OLD_KINDS, "su", "deepseek_yarn", "longrope")),
    ("0.5.3", _KINDS),
    ("0.6.1", (*_KINDS, "mrope")),
    ("0.6.3", (*_KINDS, "mrope", "default")),
    ("0.8.3", (*_KINDS, "mrope", "default", "mllama4")),
    ("0.10.0", (*_KINDS, "mrope", "default", "mllama4", "ntk", "xdrope", "proportional")),
]
ROPE_TYPES_LLAMA: list[tuple[str, tuple[str, ...]]] = [("0.2.7", ("linear", "dynamic")), *ROPE_TYPES[3:]]
ROPE_NEEDS: dict[str, tuple[str, ...]] = {"yarn": ("factor", "original_max_position_embeddings"), "linear": ("factor",)}
ROPE_NEEDS_LAST = "0.11.0"

# Swap space for each tensor-parallel rank (GiB, where nothing is said), the share of the host's memory that it may take, and the last release with it
# (CacheConfig.verify_with_parallel_config in vllm/config).
SWAP_SPACE_GIB, SWAP_SPACE_SHARE, SWAP_SPACE_LAST = 4, 0.7, "0.17.1"

# Weights can stay in the memory of the host (cpu_offload_gb).
CPU_OFFLOAD_SINCE = "0.5.3"

# The max_model_len "auto" value.
AUTO_MAX_MODEL_LEN_SINCE = "0.14.0"

# Marlin repacks AWQ and GPTQ on compute capability 8.0 and higher (7.5 from 0.14 on).
MARLIN_CAPABILITY: list[tuple[str, tuple[int, int]]] = [("0.2.7", (8, 0)), ("0.14.0", (7, 5))]
# AWQ is unpacked to int32 and packed anew before Marlin repacks it.
AWQ_CONVERTED_FIRST: list[tuple[str, bool]] = [("0.2.7", False), ("0.24.0", True)]

# MXFP4 experts: by release and compute capability, what the inner and the hidden size are padded to.
MXFP4_PADDING: list[tuple[str, list[tuple[tuple[int, int], tuple[int, int]]]]] = [
    (
        "0.2.7",
        [
            ((0, 0), (128, 256)),  # Marlin
            ((9, 0), (256, 32)),  # Triton on Hopper; logged
            ((10, 0), (256, 256)),
        ],
    ),
    # Measured on 0.25.1; which release stopped padding on Hopper is not known.
    ("0.25.0", [((0, 0), (128, 256)), ((9, 0), (32, 32)), ((10, 0), (256, 256))]),
]

# Methods whose linear layers run on Machete on Hopper.
MACHETE_METHODS: list[tuple[str, tuple[str, ...]]] = [("0.2.7", ()), ("0.6.6", ("gptq",)), ("0.19.0", ("gptq", "awq"))]

# V1: layers with and without a window in groups of one size (before: the window was ignored).
HYBRID_GROUPS: list[tuple[str, bool]] = [("0.2.7", False), ("0.9.1", True)]
# V1: the printed tokens are the concurrency times max_model_len (before: blocks by groups).
TOKENS_FROM_CONCURRENCY: list[tuple[str, bool]] = [("0.2.7", False), ("0.22.0", True)]
# Head size to which DeepSeek's keys and values were padded before the latent cache.
MLA_PADDED_HEAD = 256

# Options from a YAML file: `vllm serve MODEL --config FILE` (FlexibleArgumentParser._pull_args_from_config and load_config_file in vllm/utils.py,
# vllm/utils/__init__.py and, from 0.11.1, vllm/utils/argparse_utils.py; 0.6.6 to 0.33.0 read; run in 0.11.1, 0.12.0, 0.13.0, 0.14.0, 0.16.0,
# 0.17.0, 0.20.0, 0.25.0, 0.32.0 and 0.33.0, which make the same words of the planner's files). `serve` has it since 0.6.0, but images
# start as `vllm serve` from 0.11.1 on. Their former entry point, the api_server module, has no such option: it puts the file's words behind the
# first word of the command line and so tears an option from its value (repaired by 0.11.1).
# What the file says comes before the command line's words, whose values win. True is the switch. False is left out instead of switching off
# (0.25.0; no longer so in 0.33.0: https://github.com/vllm-project/vllm/pull/51573). A list is all its items behind one option (from 0.10.2). A mapping
# becomes Python's text of it, which is no JSON (0.11.1 and 0.12.0), or JSON (0.16.0). Nothing (null) becomes the text "None".
CONFIG_FILE_SINCE = "0.11.1"

# How a release is kept from logging each request with its prompt ("Received request ...: prompt: ..."). The option is in the parsers of all releases from
# 0.2.7 to 0.16.0; from 0.10.1 on nothing is logged unless --enable-log-requests is given (AsyncEngineArgs in vllm/engine/arg_utils.py:
# disable_log_requests is False up to 0.10.0, enable_log_requests is False from 0.10.1).
KEEPS_PROMPTS: list[tuple[str, str]] = [("0.2.7", "--disable-log-requests"), ("0.10.1", "")]

# `vllm bench serve`: vLLM's benchmark of a running server as part of its package (https://github.com/vllm-project/vllm/pull/13993, whose options
# for latency and throughput came with https://github.com/vllm-project/vllm/pull/16508 before 0.8.5). Before, it was a script of the repository.
BENCHMARK_SINCE = "0.8.5"

# A draft model: --speculative-model and --num-speculative-tokens up to 0.8.2, whose log says that only --speculative-config will be read from the
# next release on (vllm/engine/arg_utils.py of 0.8.2 and 0.8.4).
SPECULATIVE_CONFIG_SINCE = "0.8.3"
# --reasoning-parser needs --enable-reasoning as well (0.7.1 and 0.8.5.post1 read); 0.9.2 calls that option deprecated and does without.
ENABLE_REASONING_LAST = "0.8.5.post1"

# Releases that read each entry of CUDA_VISIBLE_DEVICES as a number, and so know no UUID of a GPU or of a MIG slice
# (device_id_to_physical_device_id in vllm/platforms; issues 41848 and 6551 of vllm-project/vllm).
DEVICES_BY_INDEX = ("0.5.2", "0.23.0")

# The second model runner: with which methods of speculation it works until when, until when it has no hybrid models, and from when on the first one
# refuses pipelines (_validate_v2_model_runner and _validate_v1_model_runner in vllm/config/vllm.py of 0.20.2 and 0.33.0; issue 7166 of
# intel/intel-xpu-backend-for-triton for the releases between).
SECOND_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
SECOND_RUNNER_EAGLE_ONLY = ("0.20.0", "0.22.1")
SECOND_RUNNER_NO_HYBRIDS = ("0.20.0", "0.20.2")
FIRST_RUNNER_NO_PIPELINE = "0.33.0"

# Models with an encoder and a decoder that V0 runs as long as it is there, and those that V1 runs from a later release on (is_encoder_decoder in
# vllm/engine/arg_utils.py; pull request 21088 of vllm-project/vllm for Whisper).
ENCODER_DECODER_V1_SINCE: dict[str, str | None] = {"mllama": None, "whisper": "0.10.2"}
# From this release on vLLM's image puts the driver's libraries that it brings before those of the host only if VLLM_ENABLE_CUDA_COMPATIBILITY asks
# for that (pull request 33992); before, the linker found them first (docker/Dockerfile).
DRIVER_LIBRARIES_ASKED_SINCE = "0.17.0"
