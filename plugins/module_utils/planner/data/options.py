# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engine options: when each exists, its type, and what replaced it.

Source: vllm/engine/arg_utils.py, vllm/entrypoints/openai/cli_args.py and vllm/config of the examined releases
(0.2.7 to 0.33.0), compared release by release.
"""

from __future__ import annotations

# option: (type, first release or null when older than all, last release or null, what replaced it)
OPTIONS: dict[str, tuple[str, str | None, str | None, str | None]] = {
    "api_key": ("str", "0.3.0", None, None),
    "api_server_count": ("int", "0.9.1", None, None),
    "attention_backend": ("str", "0.13.0", None, None),
    "block_size": ("int", None, None, None),
    "chat_template": ("str", None, None, None),
    "compilation_config": ("json", "0.6.5", None, None),
    "config": ("str", "0.6.0", None, None),
    "cpu_offload_gb": ("float", "0.5.3", None, None),
    "cudagraph_capture_sizes": ("list", "0.11.1", None, None),
    "data_parallel_address": ("str", "0.9.0", None, None),
    "data_parallel_backend": ("str", "0.9.1", None, None),
    "data_parallel_external_lb": ("bool", "0.11.1", None, None),
    "data_parallel_hybrid_lb": ("bool", "0.10.0", None, None),
    "data_parallel_rank": ("int", "0.9.2", None, None),
    "data_parallel_rpc_port": ("int", "0.9.0", None, None),
    "data_parallel_size": ("int", "0.8.3", None, None),
    "data_parallel_size_local": ("int", "0.9.0", None, None),
    "data_parallel_start_rank": ("int", "0.9.0", None, None),
    "device": ("str", "0.3.1", "0.9.2", None),
    "disable_custom_all_reduce": ("bool", "0.3.0", None, None),
    "disable_frontend_multiprocessing": ("bool", "0.5.4", "0.18.1", None),
    "disable_log_requests": ("bool", None, "0.16.0", "--enable-log-requests"),
    "disable_log_stats": ("bool", None, None, None),
    "distributed_executor_backend": ("str", "0.4.3", None, None),
    "distributed_timeout_seconds": ("int", "0.18.0", None, None),
    "download_dir": ("str", None, None, None),
    "dtype": ("str", None, None, None),
    "enable_chunked_prefill": ("bool", "0.4.0", None, None),
    "enable_expert_parallel": ("bool", "0.8.0", None, None),
    "enable_log_requests": ("bool", "0.10.1", None, None),
    "enable_prefix_caching": ("bool", "0.4.0", None, None),
    "enforce_eager": ("bool", None, None, None),
    "engine_use_ray": ("bool", None, "0.6.0", None),
    "generation_config": ("str", "0.6.6", None, None),
    "gpu_memory_utilization": ("float", None, None, None),
    "guided_decoding_backend": ("str", "0.4.0", "0.11.2", "--structured-outputs-config (0.11.0)"),
    "headless": ("bool", "0.9.0", None, None),
    "hf_token": ("str", "0.8.4", None, None),
    "host": ("str", None, None, None),
    "kv_cache_dtype": ("str", "0.3.0", None, None),
    "kv_cache_memory_bytes": ("int", "0.10.2", None, None),
    "kv_offloading_backend": ("str", "0.11.1", None, None),
    "kv_offloading_size": ("float", "0.11.1", None, None),
    "load_format": ("str", None, None, None),
    "master_addr": ("str", "0.11.1", None, None),
    "master_port": ("int", "0.11.1", None, None),
    "max_cudagraph_capture_size": ("int", "0.11.1", None, None),
    "max_model_len": ("int", None, None, None),
    "max_num_batched_tokens": ("int", None, None, None),
    "max_num_seqs": ("int", None, None, None),
    "max_paddings": ("int", None, "0.3.3", None),
    "max_parallel_loading_workers": ("int", None, None, None),
    "max_seq_len_to_capture": (
        "int",
        "0.4.3",
        "0.10.2",
        "--max-cudagraph-capture-size / --cudagraph-capture-sizes (0.11.1)",
    ),
    "nnodes": ("int", "0.11.1", None, None),
    "node_rank": ("int", "0.11.1", None, None),
    "num_gpu_blocks_override": ("int", "0.4.0", None, None),
    "num_scheduler_steps": ("int", "0.5.5", "0.10.0", None),
    "optimization_level": ("int", "0.12.0", None, None),
    "pipeline_parallel_size": ("int", None, None, None),
    "port": ("int", None, None, None),
    "preemption_mode": ("str", "0.5.1", "0.10.2", None),
    "quantization": ("str", None, None, None),
    "ray_workers_use_nsight": ("bool", "0.4.0", None, None),
    "root_path": ("str", "0.3.0", None, None),
    "served_model_name": ("list", None, None, None),
    "ssl_ca_certs": ("str", "0.4.0", None, None),
    "ssl_certfile": ("str", None, None, None),
    "ssl_keyfile": ("str", None, None, None),
    "swap_space": ("float", None, "0.17.1", None),
    "task": ("str", "0.6.4", "0.12.0", "--runner / --convert (0.10.1)"),
    "tensor_parallel_size": ("int", None, None, None),
    "trust_remote_code": ("bool", None, None, None),
    "uds": ("str", "0.10.1", None, None),
    "use_v2_block_manager": ("bool", "0.4.0", "0.9.2", None),
    "worker_use_ray": ("bool", None, "0.6.6", "--distributed-executor-backend ray (from 0.4.3)"),
}

# Names that people use and that no release ever had: what to use instead.
NEVER_EXISTED: dict[str, str] = {
    "enable_prometheus": "nothing: /metrics is always served; only disable_log_stats affects it",
    "kv_cache_memory": "kv_cache_memory_bytes (0.10.2 and later)",
    "ray_address": "nothing: the address comes from RAY_ADDRESS or the running Ray cluster",
}

# Keys of `settings` that are not engine options: they describe the start and never reach the command line.
DESCRIPTIVE: tuple[str, ...] = (
    "vllm_version",
    "nodes",
    "compute_capabilities",
    "environment",
    "engine",
    "free_memory_mib",
    "observations",
    "objective",
    "interconnect",
    "host_memory_mib",
)

# Boolean options whose default is on, by release: switching them off has to be written.
ON_BY_DEFAULT: dict[str, str] = {"enable_chunked_prefill": "0.8.0", "enable_prefix_caching": "0.8.0"}

# How "off" is written: `--option=False` (vLLM's StoreBoolean) before this release, `--no-option` from it on.
NO_FORM_SINCE: dict[str, str] = {"enable_prefix_caching": "0.6.5", "": "0.8.5"}
