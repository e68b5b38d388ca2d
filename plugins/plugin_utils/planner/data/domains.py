# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which values an option takes, by release.

Source: the option parsers of the releases' wheels, run for 0.3.0 to 0.14.1 (choices and types of every option); for the releases between
and after them vllm/engine/arg_utils.py and vllm/config. A row holds option, first release and values: all of them, ``*`` for any, or what
came (``+``) and went (``-``). An option without a row takes any value of its type. Bounds are those of the configuration's checks
(_verify_args, pydantic's Field) in the same files.
"""

from __future__ import annotations

# fmt: off
_CHOICES = """
all2all_backend 0.11.1 allgather_reducescatter deepep_high_throughput deepep_low_latency flashinfer_all2allv naive pplx
all2all_backend 0.13.0 *
all2all_backend 0.14.0 allgather_reducescatter deepep_high_throughput deepep_low_latency flashinfer_all2allv naive pplx
all2all_backend 0.15.0 *
block_size 0.2.7 8 16 32
block_size 0.3.3 +128
block_size 0.4.1 -128
block_size 0.5.5 +128 +256 +512 +1024 +2048
block_size 0.6.0 8 16 32
block_size 0.6.4 +64 +128
block_size 0.8.5 +1
block_size 0.11.1 +256
block_size 0.18.0 *
config_format 0.6.0 auto hf mistral
config_format 0.10.2 *
convert 0.10.1 auto classify embed none reward
convert 0.13.0 *
convert 0.14.0 auto classify embed mm_encoder_only none reward
convert 0.15.0 *
device 0.3.1 auto cuda neuron
device 0.4.0 +cpu
device 0.5.0 +tpu
device 0.5.1 +openvino +xpu
device 0.6.4 +hpu
device 0.8.0 -openvino
distributed_executor_backend 0.4.3 mp ray
distributed_executor_backend 0.7.0 +external_launcher +uni
dtype 0.2.7 auto half float16 bfloat16 float float32
guided_decoding_backend 0.4.1 outlines lm-format-enforcer
guided_decoding_backend 0.6.5 +xgrammar
guided_decoding_backend 0.8.0 *
guided_decoding_backend 0.8.3 auto guidance lm-format-enforcer outlines xgrammar
guided_decoding_backend 0.8.5 auto guidance xgrammar
guided_decoding_backend 0.9.0 auto guidance lm-format-enforcer outlines xgrammar
kv_cache_dtype 0.3.0 auto fp8_e5m2
kv_cache_dtype 0.4.1 auto fp8
kv_cache_dtype 0.4.3 +fp8_e5m2 +fp8_e4m3
kv_cache_dtype 0.10.0 +fp8_inc
kv_cache_dtype 0.11.0 +bfloat16
kv_cache_dtype 0.11.1 +fp8_ds_mla
kv_cache_dtype 0.18.0 +float16
kv_cache_dtype 0.20.0 +turboquant_k8v4 +turboquant_4bit_nc +turboquant_k3v4_nc +turboquant_3bit_nc +int8_per_token_head +fp8_per_token_head +nvfp4
kv_cache_dtype 0.25.0 +int4_per_token_head
kv_cache_dtype 0.28.0 +nvfp4_4over6
kv_cache_dtype 0.30.0 +nvfp4_ds_mla
kv_cache_dtype 0.32.0 +ultraquant_4bit
kv_cache_dtype 0.33.0 +octave_k3v4 +octave_k3v3 +octave_k3v3_compact
kv_offloading_backend 0.11.1 lmcache native
kv_offloading_backend 0.15.0 *
load_format 0.2.7 auto pt safetensors npcache dummy
load_format 0.4.1 +tensorizer
load_format 0.5.0 +bitsandbytes
load_format 0.5.5 +sharded_state +gguf
load_format 0.6.1 +mistral
load_format 0.6.6 +runai_streamer
load_format 0.8.2 +fastsafetensors
load_format 0.8.5 +runai_streamer_sharded
load_format 0.12.0 +hf
load_format 0.18.0 +instanttensor
load_format 0.22.0 +modelexpress
load_format 0.24.0 -gguf
load_format 0.28.0 +ipc_cache -bitsandbytes
logprobs_mode 0.10.1 processed_logits processed_logprobs raw_logits raw_logprobs
expert_placement_strategy 0.11.1 linear round_robin
expert_placement_strategy 0.15.0 *
image_input_type 0.4.0 image_features pixel_values
lora_dtype 0.2.7 auto bfloat16 float16 float32
lora_dtype 0.6.4 -float32
lora_extra_vocab_size 0.3.0 0 256 512
lora_extra_vocab_size 0.8.0 -0
lora_extra_vocab_size 0.10.0 *
mamba_cache_dtype 0.10.1 auto float32
mamba_cache_dtype 0.14.0 +float16
mamba_cache_dtype 0.15.0 *
mamba_ssm_cache_dtype 0.10.1 auto float32
mamba_ssm_cache_dtype 0.14.0 +float16
mamba_ssm_cache_dtype 0.15.0 *
max_lora_rank 0.3.0 8 16 32 64
max_lora_rank 0.5.5 +128 +256
max_lora_rank 0.8.0 +320 +512
max_lora_rank 0.11.1 +1
mm_encoder_tp_mode 0.10.1 data weights
mm_processor_cache_type 0.11.1 lru shm
model_impl 0.7.0 auto transformers vllm
model_impl 0.10.1 +terratorch
model_impl 0.11.1 *
preemption_mode 0.5.0 *
preemption_mode 0.8.3 recompute swap
prefix_caching_hash_algo 0.8.3 builtin sha256
prefix_caching_hash_algo 0.9.2 *
prefix_caching_hash_algo 0.10.0 builtin sha256 sha256_cbor_64bit
prefix_caching_hash_algo 0.10.1 *
prefix_caching_hash_algo 0.10.2 sha256 sha256_cbor
prefix_caching_hash_algo 0.13.0 *
prefix_caching_hash_algo 0.14.0 sha256 sha256_cbor xxhash xxhash_cbor
prefix_caching_hash_algo 0.15.0 *
runner 0.10.1 auto draft generate pooling
scheduling_policy 0.6.2 fcfs priority
spec_decoding_acceptance_method 0.5.1 rejection_sampler typical_acceptance_sampler
task 0.6.4 auto embedding generate
task 0.6.5 +classify +embed +reward +score
task 0.7.1 +transcription
task 0.10.0 +draft
tokenizer_mode 0.2.7 auto slow
tokenizer_mode 0.6.1 +mistral
tokenizer_mode 0.7.1 +custom
tokenizer_mode 0.12.0 *
"""
# fmt: on

# Whole numbers that may be written with a unit (4k, 4K) from this release on.
WITH_UNIT: dict[str, str] = {
    "max_model_len": "0.8.5",
    "max_num_batched_tokens": "0.10.1",
    "kv_cache_memory_bytes": "0.10.2",
}

# The least value, and the greatest or null.
BOUNDS: dict[str, tuple[float, float | None]] = {
    "block_size": (1, None),
    "cpu_offload_gb": (0, None),
    "gpu_memory_utilization": (0, 1),
    "max_cpu_loras": (1, None),
    "max_loras": (1, None),
    "max_num_batched_tokens": (1, None),
    "max_num_partial_prefills": (1, None),
    "max_num_seqs": (1, None),
    "num_lookahead_slots": (0, None),
    "num_redundant_experts": (0, None),
    "num_scheduler_steps": (1, None),
    "swap_space": (0, None),
}

_READ: dict[str, list[tuple[str, tuple[str, ...] | None]]] = {}


def choices() -> dict[str, list[tuple[str, tuple[str, ...] | None]]]:
    """option: [(first release, its values or null for any)]; read when first asked for."""
    if not _READ:
        for line in _CHOICES.strip().splitlines():
            name, since, *values = line.split()
            rows = _READ.setdefault(name, [])
            if values[0][0] in "+-":
                gone = [value[1:] for value in values if value[0] == "-"]
                before = [value for value in rows[-1][1] or () if value not in gone]
                values = before + [value[1:] for value in values if value[0] == "+"]
            rows.append((since, None if values == ["*"] else tuple(values)))
    return _READ
