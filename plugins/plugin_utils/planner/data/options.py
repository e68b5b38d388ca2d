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
    "guided_decoding_backend": ("str", "0.4.1", "0.11.2", "--structured-outputs-config (0.11.0)"),
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
    "num_gpu_blocks_override": ("int", "0.4.1", None, None),
    "num_scheduler_steps": ("int", "0.5.5", "0.10.0", None),
    "optimization_level": ("int", "0.12.0", None, None),
    "pipeline_parallel_size": ("int", None, None, None),
    "port": ("int", None, None, None),
    "preemption_mode": ("str", "0.5.0", "0.10.2", None),
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

# Options compared in only some releases: option, type, first release that has it, the one before (without it), last release that has it,
# the one after (without it). Between two releases the option gets the benefit of the doubt. Up to 0.14.1 the option parsers of the wheels
# were run (0.3.0, 0.3.3, 0.4.0.post1, 0.4.1, 0.4.2, 0.4.3, 0.5.0.post1, 0.5.1, 0.5.3.post1, 0.5.4, 0.5.5, 0.6.1.post2, 0.6.3.post1,
# 0.6.4.post1, 0.6.6, 0.7.0, 0.7.3, 0.8.2, 0.8.5.post1, 0.10.0, 0.10.2, 0.11.2, 0.12.0, 0.14.1); the trees 0.9.2, 0.16.0, 0.19.1, 0.22.0, 0.25.1,
# 0.28.0, 0.32.0 and 0.33.0 were read.
# fmt: off
_SAMPLED = """
additional_config json 0.7.3 0.7.0 - -
aggregate_engine_logging bool 0.11.2 0.10.2 - -
all2all_backend str 0.11.2 0.10.2 - -
allow_credentials bool 0.3.0 - - -
allow_deprecated_quantization bool 0.14.1 0.12.0 - -
allowed_headers json 0.3.0 - - -
allowed_local_media_path str 0.6.4.post1 0.6.3.post1 - -
allowed_media_domains list 0.11.2 0.10.2 - -
allowed_methods json 0.3.0 - - -
allowed_origins json 0.3.0 - - -
anthropic_disabled_thinking_effort str 0.32.0 0.28.0 - -
async_scheduling bool 0.10.0 0.9.2 - -
attention_config json 0.14.1 0.12.0 - -
aux_output_config json 0.32.0 0.28.0 - -
calculate_kv_scales bool 0.7.0 0.6.6.post1 0.25.1 0.28.0
chat_template_content_format str 0.6.6.post1 0.5.4 - -
chat_template_text_format str 0.6.4.post1 0.6.3.post1 0.6.4.post1 0.6.6
code_revision str 0.3.3 0.3.0 - -
cohere_format str 0.28.0 0.25.1 - -
cohere_is_reasoning_model bool 0.28.0 0.25.1 - -
collect_detailed_traces list 0.5.5 0.5.4 - -
config_format str 0.6.1.post2 0.5.5 - -
convert str 0.10.2 0.10.0 - -
cp_kv_cache_interleave_size int 0.12.0 0.11.2 - -
cpu_distributed_timeout_seconds int 0.22.0 0.19.1 - -
cpu_offload_params str 0.19.1 0.16.0 - -
cuda_graph_sizes list 0.9.2 0.8.5.post1 0.12.0 0.14.1
cudagraph_metrics bool 0.14.1 0.12.0 - -
custom_histogram_buckets list 0.32.0 0.28.0 - -
data_parallel_multi_port_external_lb bool 0.22.0 0.19.1 - -
data_parallel_supervisor_port int 0.22.0 0.19.1 - -
dbo_decode_token_threshold int 0.11.2 0.10.2 - -
dbo_prefill_token_threshold int 0.11.2 0.10.2 - -
dcp_comm_backend str 0.19.1 0.16.0 - -
dcp_kv_cache_interleave_size int 0.11.2 0.10.2 - -
dcp_q_replicate bool 0.32.0 0.28.0 - -
decode_context_parallel_size int 0.10.2 0.10.0 - -
default_chat_template_kwargs json 0.14.1 0.11.2 - -
default_mm_loras json 0.10.0 0.9.2 - -
device_ids list 0.25.1 0.22.0 - -
device_memory_utilization str 0.32.0 0.28.0 - -
diffusion_config json 0.25.1 0.22.0 - -
disable_access_log_for_endpoints str 0.16.0 0.14.1 - -
disable_async_output_proc bool 0.6.1.post2 0.5.5 0.10.2 0.11.2
disable_cascade_attn bool 0.8.2 0.7.3 - -
disable_chunked_mm_input bool 0.8.5.post1 0.8.2 - -
disable_fastapi_docs bool 0.6.6.post1 0.5.4 - -
disable_hybrid_kv_cache_manager bool 0.9.2 0.8.5.post1 - -
disable_image_processor bool 0.5.0.post1 0.4.3 0.5.0.post1 0.5.1
disable_logprobs_during_spec_decoding bool 0.5.3.post1 0.5.1 0.8.2 0.8.5.post1
disable_mm_preprocessor_cache bool 0.6.6 0.6.4.post1 0.12.0 0.14.1
disable_nccl_for_dp_synchronization bool 0.11.2 0.10.2 - -
disable_sliding_window bool 0.4.3 0.4.2 - -
disable_uvicorn_access_log bool 0.8.5.post1 0.7.3 - -
dp_supervisor_probe_failure_threshold int 0.22.0 0.19.1 - -
dp_supervisor_probe_interval_s float 0.22.0 0.19.1 - -
dp_supervisor_probe_timeout_s float 0.22.0 0.19.1 - -
dp_sync_interval int 0.32.0 0.28.0 - -
ec_manager_config json 0.28.0 0.25.1 - -
ec_transfer_config json 0.11.2 0.10.2 - -
elastic_ep_max_dp_size int 0.32.0 0.28.0 - -
enable_auto_tool_choice bool 0.6.0 0.5.5 - -
enable_batch_sharded_sampling bool 0.32.0 0.28.0 - -
enable_bf16x3_router_gemm bool 0.28.0 0.25.1 0.28.0 0.33.0
enable_cumem_allocator bool 0.22.0 0.19.1 - -
enable_dbo bool 0.11.2 0.10.2 - -
enable_elastic_ep bool 0.19.1 0.16.0 - -
enable_ep_weight_filter bool 0.19.1 0.16.0 - -
enable_eplb bool 0.9.2 0.8.5.post1 - -
enable_fault_tolerance bool 0.28.0 0.25.1 - -
enable_flash_late_interaction bool 0.22.0 0.19.1 - -
enable_flashinfer_autotune bool 0.16.0 0.14.1 - -
enable_force_include_usage bool 0.9.2 0.8.5.post1 - -
enable_hc_sp bool 0.32.0 0.28.0 - -
enable_layerwise_nvtx_tracing bool 0.14.1 0.12.0 - -
enable_log_deltas bool 0.14.1 0.11.2 - -
enable_log_outputs bool 0.10.2 0.9.2 - -
enable_logging_iteration_details bool 0.14.1 0.12.0 - -
enable_lora bool 0.3.0 - - -
enable_lora_bias bool 0.6.4.post1 0.6.3.post1 0.10.2 0.11.2
enable_mamba_cache_stochastic_rounding bool 0.22.0 0.19.1 - -
enable_mamba_shared_prefix_checkpoint bool 0.32.0 0.28.0 - -
enable_mfu_metrics bool 0.14.1 0.12.0 - -
enable_mixed_moe_lora_format bool 0.22.0 0.19.1 - -
enable_mm_embeds bool 0.11.2 0.10.2 - -
enable_moe_shared_loras bool 0.28.0 0.25.1 - -
enable_multimodal_encoder_data_parallel bool 0.9.2 0.8.5.post1 0.12.0 0.14.1
enable_nccl_comm_suspend bool 0.32.0 0.28.0 - -
enable_offline_docs bool 0.14.1 0.11.2 - -
enable_per_request_metrics bool 0.25.1 0.22.0 - -
enable_prompt_adapter bool 0.5.3.post1 0.5.1 0.10.0 0.10.2
enable_prompt_embeds bool 0.9.2 0.8.5.post1 - -
enable_prompt_tokens_details bool 0.6.6.post1 0.5.4 - -
enable_reasoning bool 0.7.1 0.6.6 0.9.2 0.10.0
enable_request_id_headers bool 0.6.6.post1 0.5.4 - -
enable_return_routed_experts bool 0.14.1 0.12.0 - -
enable_scale_out bool 0.32.0 0.28.0 - -
enable_server_load_tracking bool 0.8.5.post1 0.7.3 - -
enable_shm_tensor_arena bool 0.32.0 0.28.0 - -
enable_sleep_mode bool 0.7.0 0.6.6.post1 - -
enable_ssl_refresh bool 0.8.5.post1 0.7.3 - -
enable_tokenizer_info_endpoint bool 0.10.2 0.9.2 - -
enable_tower_connector_lora bool 0.14.1 0.12.0 - -
enable_trace_replay bool 0.32.0 0.28.0 - -
engram_config json 0.32.0 0.28.0 - -
eplb_config json 0.10.2 0.10.0 - -
eplb_log_balancedness bool 0.9.2 0.8.5.post1 0.11.2 0.12.0
eplb_step_interval int 0.9.2 0.8.5.post1 0.11.2 0.12.0
eplb_window_size int 0.9.2 0.8.5.post1 0.11.2 0.12.0
exclude_tools_when_tool_choice_none bool 0.10.2 0.9.2 - -
expand_tools_even_if_tool_choice_none bool 0.9.2 0.8.5.post1 0.9.2 0.10.2
expert_placement_strategy str 0.11.2 0.10.2 - -
fail_on_environ_validation bool 0.19.1 0.16.0 - -
fault_tolerance_config json 0.28.0 0.25.1 - -
fingerprint_mode str 0.22.0 0.19.1 - -
fingerprint_value str 0.22.0 0.19.1 - -
forced_num_gpu_blocks int 0.4.0.post1 0.3.3 0.4.0.post1 0.4.1
fully_sharded_loras bool 0.4.2 0.4.1 - -
gdn_prefill_backend str 0.19.1 0.16.0 - -
grpc bool 0.22.0 0.19.1 - -
grpc_port int 0.32.0 0.28.0 - -
guided_decoding_disable_additional_properties bool 0.9.2 0.8.5.post1 0.11.2 0.12.0
guided_decoding_disable_any_whitespace bool 0.9.2 0.8.5.post1 0.11.2 0.12.0
guided_decoding_disable_fallback bool 0.9.2 0.8.5.post1 0.11.2 0.12.0
h11_max_header_count int 0.10.2 0.9.2 - -
h11_max_incomplete_event_size int 0.10.2 0.9.2 - -
hf_config_path str 0.8.2 0.7.3 - -
hf_overrides json 0.6.4.post1 0.6.3.post1 - -
ignore_patterns list 0.5.3.post1 0.5.1 - -
image_feature_size int 0.4.0.post1 0.3.3 0.5.0.post1 0.5.1
image_input_shape str 0.4.0.post1 0.3.3 0.5.0.post1 0.5.1
image_input_type str 0.4.0.post1 0.3.3 0.5.0.post1 0.5.1
image_processor str 0.5.0.post1 0.4.3 0.5.0.post1 0.5.1
image_processor_revision str 0.5.0.post1 0.4.3 0.5.0.post1 0.5.1
image_token_id int 0.4.0.post1 0.3.3 0.5.0.post1 0.5.1
interleave_mm_strings bool 0.10.0 0.9.2 - -
io_processor_plugin str 0.10.2 0.10.0 - -
ir_op_priority json 0.22.0 0.19.1 - -
jit_monitor_mode str 0.25.1 0.22.0 - -
jit_monitor_verbose bool 0.25.1 0.22.0 - -
kda_decode_backend str 0.32.0 0.28.0 - -
kda_prefill_backend str 0.28.0 0.25.1 - -
kernel_config json 0.16.0 0.14.1 - -
kv_cache_dtype_skip_layers list 0.19.1 0.16.0 - -
kv_cache_metrics bool 0.12.0 0.11.2 - -
kv_cache_metrics_sample float 0.12.0 0.11.2 - -
kv_events_config json 0.9.2 0.8.5.post1 - -
kv_sharing_fast_prefill bool 0.10.2 0.10.0 - -
kv_transfer_config json 0.6.6 0.6.4.post1 - -
language_model_only bool 0.19.1 0.16.0 - -
limit_mm_per_prompt json 0.5.5 0.5.4 - -
linear_backend str 0.22.0 0.19.1 - -
log_config_file str 0.9.2 0.8.5.post1 - -
log_error_stack bool 0.10.2 0.9.2 - -
log_level str 0.32.0 0.28.0 - -
logging_config json 0.32.0 0.28.0 - -
logits_processor_pattern str 0.6.6 0.6.4.post1 0.16.0 0.19.1
logits_processors list 0.10.2 0.10.0 - -
logprobs_mode str 0.10.0 0.9.2 - -
long_lora_scaling_factors float 0.4.3 0.4.2 0.9.2 0.10.0
long_prefill_token_threshold int 0.7.3 0.7.0 - -
long_prefill_token_threshold_adaptive bool 0.32.0 0.28.0 - -
lora_dtype str 0.3.0 - - -
lora_extra_vocab_size int 0.3.0 - 0.11.2 0.12.0
lora_modules list 0.3.3 0.3.0 - -
lora_target_modules list 0.19.1 0.16.0 - -
mamba_backend str 0.22.0 0.19.1 - -
mamba_block_size int 0.11.2 0.10.2 - -
mamba_cache_dtype str 0.10.2 0.10.0 - -
mamba_cache_mode str 0.16.0 0.14.1 - -
mamba_cache_philox_rounds int 0.22.0 0.19.1 - -
mamba_ssm_cache_dtype str 0.10.2 0.10.0 - -
mamba_ssu_algorithm str 0.28.0 0.25.1 - -
max_context_len_to_capture int 0.3.0 - 0.6.3.post1 0.6.4.post1
max_cpu_loras int 0.3.0 - - -
max_log_len int 0.3.0 - - -
max_logprobs int 0.4.0.post1 0.3.3 - -
max_long_partial_prefills int 0.7.3 0.7.0 0.25.1 0.28.0
max_lora_cls_labels int 0.32.0 0.28.0 - -
max_lora_rank int 0.3.0 - - -
max_loras int 0.3.0 - - -
max_num_active_seqs int 0.32.0 0.28.0 - -
max_num_partial_prefills int 0.7.3 0.7.0 0.25.1 0.28.0
max_num_queued_reqs int 0.32.0 0.28.0 - -
max_num_queued_tokens int 0.32.0 0.28.0 - -
max_num_scheduled_tokens int 0.28.0 0.25.1 - -
max_prompt_adapter_token int 0.5.3.post1 0.5.1 0.9.2 0.10.0
max_prompt_adapters int 0.5.3.post1 0.5.1 0.9.2 0.10.0
media_io_kwargs json 0.9.2 0.8.5.post1 - -
middleware list 0.3.0 - - -
mm_device_do_normalize bool 0.28.0 0.25.1 - -
mm_encoder_attn_backend str 0.11.2 0.10.2 - -
mm_encoder_attn_dtype str 0.22.0 0.19.1 - -
mm_encoder_fp8_scale_path str 0.22.0 0.19.1 - -
mm_encoder_fp8_scale_save_margin float 0.22.0 0.19.1 - -
mm_encoder_fp8_scale_save_path str 0.22.0 0.19.1 - -
mm_encoder_only bool 0.16.0 0.14.1 - -
mm_encoder_tp_mode str 0.10.2 0.10.0 - -
mm_hasher_algorithm str 0.28.0 0.25.1 - -
mm_ipc_gpu_memory_gb float 0.25.1 0.22.0 - -
mm_processor_cache_gb float 0.10.2 0.10.0 - -
mm_processor_cache_type str 0.11.2 0.10.2 - -
mm_processor_device str 0.28.0 0.25.1 - -
mm_processor_kwargs json 0.6.3.post1 0.6.1.post2 - -
mm_shm_cache_max_object_size_mb int 0.11.2 0.10.2 - -
mm_tensor_ipc str 0.19.1 0.16.0 - -
model_class_overrides json 0.25.1 0.22.0 - -
model_impl str 0.7.3 0.7.0 - -
model_loader_extra_config json 0.4.1 0.4.0.post1 - -
moe_backend str 0.19.1 0.16.0 - -
monokernel bool 0.33.0 0.28.0 - -
multi_step_stream_outputs bool 0.6.3.post1 0.6.1.post2 0.10.0 0.10.2
ngram_prompt_lookup_max int 0.4.2 0.4.1 0.8.2 0.8.5.post1
ngram_prompt_lookup_min int 0.4.2 0.4.1 0.8.2 0.8.5.post1
num_lookahead_slots int 0.4.0.post1 0.3.3 0.11.2 0.12.0
num_redundant_experts int 0.9.2 0.8.5.post1 0.11.2 0.12.0
num_speculative_tokens int 0.4.1 0.4.0.post1 0.8.2 0.8.5.post1
numa_bind bool 0.22.0 0.19.1 - -
numa_bind_cpus list 0.22.0 0.19.1 - -
numa_bind_nodes list 0.22.0 0.19.1 - -
offload_backend str 0.19.1 0.16.0 - -
offload_group_size int 0.19.1 0.16.0 - -
offload_num_in_group int 0.19.1 0.16.0 - -
offload_params str 0.19.1 0.16.0 - -
offload_prefetch_step int 0.19.1 0.16.0 - -
otlp_traces_endpoint str 0.5.1 0.5.0.post1 - -
override_attention_dtype str 0.9.2 0.8.5.post1 0.25.1 0.28.0
override_generation_config json 0.7.3 0.7.0 - -
override_neuron_config json 0.6.1.post2 0.5.5 0.10.0 0.10.2
override_pooler_config json 0.6.4.post1 0.6.3.post1 0.11.2 0.12.0
per_request_spec_decode_metrics str 0.32.0 0.28.0 - -
performance_mode str 0.19.1 0.16.0 - -
pooler_config json 0.11.2 0.10.2 - -
prefill_context_parallel_size int 0.12.0 0.11.2 - -
prefill_schedule_interval int 0.25.1 0.22.0 - -
prefix_cache_retention_interval int 0.32.0 0.28.0 - -
prefix_caching_hash_algo str 0.8.5.post1 0.8.2 - -
prefix_match_unit int 0.28.0 0.25.1 - -
profiler_config json 0.14.1 0.12.0 - -
prompt_adapters str 0.5.4 0.4.2 0.9.2 0.10.2
pt_load_map_location json 0.9.2 0.8.5.post1 - -
qlora_adapter_name_or_path str 0.5.0.post1 0.4.3 0.9.2 0.10.0
quantization_config json 0.22.0 0.19.1 - -
quantization_param_path str 0.4.1 0.4.0.post1 0.6.6.post1 0.7.0
reasoning_config json 0.19.1 0.16.0 - -
reasoning_effort_map json 0.33.0 0.28.0 - -
reasoning_parser str 0.7.1 0.6.6 - -
reasoning_parser_plugin str 0.11.2 0.10.2 - -
renderer_num_workers int 0.19.1 0.16.0 - -
replayssm_buffer_len int 0.28.0 0.25.1 - -
response_role str 0.3.0 - - -
return_sampling_mask bool 0.28.0 0.25.1 - -
return_tokens_as_token_ids bool 0.5.4 0.4.2 - -
revision str 0.3.0 - - -
rope_scaling json 0.4.3 0.4.2 0.10.2 0.11.2
rope_theta float 0.5.0.post1 0.4.3 0.10.2 0.11.2
runner str 0.10.2 0.10.0 - -
safetensors_load_strategy str 0.10.2 0.10.0 - -
safetensors_prefetch_block_size int 0.22.0 0.19.1 - -
safetensors_prefetch_num_threads int 0.22.0 0.19.1 - -
scheduler_cls str 0.7.3 0.7.0 - -
scheduler_delay_factor float 0.4.0.post1 0.3.3 0.10.2 0.11.2
scheduler_reserve_full_isl bool 0.19.1 0.16.0 - -
scheduling_policy str 0.6.3.post1 0.6.1.post2 - -
seed int 0.3.0 - - -
show_hidden_metrics_for_version str 0.8.2 0.7.3 - -
shutdown_timeout int 0.19.1 0.16.0 - -
skip_mm_profiling bool 0.10.2 0.10.0 - -
skip_tokenizer_init bool 0.4.1 0.4.0.post1 - -
sleep_mode_backend str 0.33.0 0.28.0 - -
sleep_mode_offload_cudagraph bool 0.32.0 0.28.0 - -
sleep_preserve_parameter_names list 0.32.0 0.28.0 - -
sparse_indexer_topk_backend str 0.32.0 0.28.0 - -
spec_decoding_acceptance_method str 0.5.1 0.5.0.post1 0.8.2 0.8.5.post1
spec_method str 0.22.0 0.19.1 - -
spec_model str 0.22.0 0.19.1 - -
spec_tokens int 0.22.0 0.19.1 - -
specialize_active_lora bool 0.16.0 0.14.1 - -
speculative_config json 0.8.2 0.7.3 - -
speculative_disable_by_batch_size int 0.4.3 0.4.2 0.8.2 0.8.5.post1
speculative_disable_mqa_scorer bool 0.6.3.post1 0.6.1.post2 0.8.2 0.8.5.post1
speculative_draft_tensor_parallel_size int 0.5.1 0.5.0.post1 0.8.2 0.8.5.post1
speculative_max_model_len int 0.4.1 0.4.0.post1 0.8.2 0.8.5.post1
speculative_model str 0.4.1 0.4.0.post1 0.8.2 0.8.5.post1
speculative_model_quantization str 0.5.5 0.5.4 0.8.2 0.8.5.post1
sse_keep_alive_interval int 0.32.0 0.28.0 - -
ssl_cert_reqs int 0.4.2 0.3.0 - -
ssl_ciphers str 0.16.0 0.14.1 - -
stream_interval int 0.11.2 0.10.2 - -
structured_outputs_config json 0.11.2 0.10.2 - -
swa_bounded_replay bool 0.32.0 0.28.0 - -
tokenizer str 0.3.0 - - -
tokenizer_mode str 0.3.0 - - -
tokenizer_pool_extra_config json 0.4.0.post1 0.3.3 0.9.2 0.10.0
tokenizer_pool_size int 0.4.0.post1 0.3.3 0.9.2 0.10.0
tokenizer_pool_type str 0.4.0.post1 0.3.3 0.9.2 0.10.0
tokenizer_revision str 0.3.0 - - -
tokens_only bool 0.11.2 0.10.2 - -
tool_call_parser str 0.6.0 0.5.5 - -
tool_parser_plugin str 0.6.3.post1 0.6.1.post2 - -
tool_server str 0.10.2 0.9.2 - -
tool_strict_level str 0.32.0 0.28.0 - -
trust_request_chat_template bool 0.11.2 0.10.2 - -
trust_request_mm_kwargs bool 0.32.0 0.28.0 - -
typical_acceptance_sampler_posterior_alpha float 0.5.1 0.5.0.post1 0.8.2 0.8.5.post1
typical_acceptance_sampler_posterior_threshold float 0.5.1 0.5.0.post1 0.8.2 0.8.5.post1
ubatch_size int 0.14.1 0.12.0 - -
use_fp64_gumbel bool 0.22.0 0.19.1 - -
use_replayssm bool 0.28.0 0.25.1 - -
use_tqdm_on_load bool 0.8.2 0.7.3 - -
uvicorn_log_level str 0.4.2 0.3.0 - -
video_pruning_method str 0.28.0 0.25.1 - -
video_pruning_rate float 0.11.2 0.10.2 - -
watchdog_config json 0.33.0 0.28.0 - -
watermark float 0.25.1 0.22.0 - -
watermark_config json 0.32.0 0.28.0 - -
weight_transfer_config json 0.16.0 0.14.1 - -
worker_cls str 0.6.6 0.6.4.post1 - -
worker_extension_cls str 0.8.2 0.7.3 - -
"""
# fmt: on


_READ: dict[str, tuple[str, str, str | None, str | None, str | None]] = {}


def sampled() -> dict[str, tuple[str, str, str | None, str | None, str | None]]:
    """option: (type, first tree with it, tree before, last tree with it, tree after); read when first asked for."""
    if not _READ:
        for line in _SAMPLED.strip().splitlines():
            name, kind, first, before, last, after = (None if word == "-" else word for word in line.split())
            _READ[str(name)] = (str(kind), str(first), before, last, after)
    return _READ


# Names that people use and that no release ever had. What to use instead is in the catalogue: never_existed_<name>.
NEVER_EXISTED = ("enable_prometheus", "kv_cache_memory", "ray_address")

# Keys of `settings` that are not engine options: they describe the start and never reach the command line.
DESCRIPTIVE: tuple[str, ...] = (
    "vllm_version",
    "nodes",
    "compute_capabilities",
    "cuda_code",
    "environment",
    "engine",
    "free_memory_mib",
    "observations",
    "objective",
    "interconnect",
    "usage",
    "host_memory_mib",
    "image_has_ray",
    "accept_unknown_release",
    "flavour",
    "extra_arguments",
)

# Boolean options whose default is on, by release: switching them off has to be written.
# Chunked prefill comes on above 32,768 tokens in V0 since 0.5.3 (vllm/engine/arg_utils.py).
ON_BY_DEFAULT: dict[str, str] = {"enable_chunked_prefill": "0.5.3", "enable_prefix_caching": "0.8.0"}

# How "off" is written: `--option=False` (vLLM's StoreBoolean) before this release, `--no-option` from it on.
NO_FORM_SINCE: dict[str, str] = {"enable_prefix_caching": "0.6.5", "": "0.8.5"}
