# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of llama-server, written with underscores: its long names.

Source: the list of options in tools/server/README.md of https://github.com/ggml-org/llama.cpp at commit 00dc8057, which its program llama-gen-docs writes.
Releases are the numbers of builds, b6327 for instance. Whether an older build has each option was not compared.
"""

from __future__ import annotations

# By kind of value: a word or number, a switch, and a switch that can be turned off by no_ before its name.
_VALUES = """
threads threads_batch ctx_size predict batch_size ubatch_size keep flash_attn rope_scaling rope_scale rope_freq_base rope_freq_scale yarn_orig_ctx
yarn_ext_factor yarn_attn_factor yarn_beta_slow yarn_beta_fast cache_type_k cache_type_v load_mode lazy_mode numa device override_tensor n_cpu_moe
moe_cache_mib n_cpu_ffn gpu_layers split_mode tensor_split main_gpu fit fit_target fit_ctx override_kv lora lora_scaled model log_verbosity spec_type
spec_draft_n_max spec_draft_n_min spec_draft_p_min spec_draft_p_split spec_draft_sampling spec_ngram_mod_n_min spec_ngram_mod_n_max
spec_ngram_mod_n_match model_draft gpu_layers_draft device_draft spec_draft_type_k spec_draft_type_v samplers seed temp top_k top_p min_p
repeat_last_n repeat_penalty presence_penalty frequency_penalty kv_unified_per_slot ctx_checkpoints checkpoint_min_step cache_ram pooling parallel
mmproj mmproj_device image_min_tokens image_max_tokens mtmd_batch_max_tokens alias tags embd_normalize host port path cors_origins cors_methods
cors_headers api_prefix api_key_file ssl_key_file ssl_cert_file chat_template_kwargs timeout sse_ping_interval threads_http cache_reuse slot_save_path
media_path models_dir models_preset models_max reasoning_format reasoning reasoning_effort reasoning_budget reasoning_budget_message chat_template
chat_template_file
"""
_SWITCHES = """
swa_full no_host cpu_moe check_tensors offline special spm_infill reuse_port embedding rerank metrics props
"""
_TURNED = """
perf escape kv_offload repack op_offload log_prefix log_timestamps kv_unified cache_idle_slots context_shift warmup cont_batching mmproj_offload
cors_credentials ui cache_prompt slots models_autoload jinja reasoning_preserve
"""
VALUES = frozenset(_VALUES.split())
SWITCHES = frozenset(_SWITCHES.split())
TURNED = frozenset(_TURNED.split())
# Before this build flash_attn was a switch (mybigday/llama.node, pull request 102).
OLDEST = 6327
# Builds from here on keep room for one answer of each request at a time, not for one to every token of a batch: ggml-org/llama.cpp, pull request 23861, of
# June 2026. Which build had it first was not looked up; this one did.
FEW_OUTPUTS = 10000

# Draft models were tried with this build. Older ones want other options: spec_type names the kind of a draft since 2026, and one that is not named is loaded
# and never asked ("no implementations specified for speculative decoding").
DRAFTS = 11549

# What opens a host to whoever reaches the server; the README warns of each.
CLOSED = frozenset(("tools", "tools_runtime", "agent", "mcp_servers_config", "mcp_servers_json", "ui_mcp_proxy"))
# What fetches from the internet: the bundle brings the model.
FETCHES = frozenset(("hf_repo", "hf_file", "hf_token", "model_url", "docker_repo", "mmproj_url"))
# What takes in other hosts, of which neither plan nor firewall knows. Official images are built without it (GGML_RPC, .devops/cuda.Dockerfile).
SPANS = frozenset(("rpc",))
