# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that mean about the same in several engines: whoever gives one engine the option of another is told its name there.

Source: vllm/engine/arg_utils.py (0.33.0), tools/server/README.md of llama.cpp, lmdeploy/cli/serve.py and utils.py (0.16.0), and
sglang/srt/server_args.py (0.5.23). Ollama reads environment variables (docs/faq.mdx of ollama/ollama). Triton has
those of vLLM's engine (src/model.py of triton-inference-server/vllm_backend), and those of its frontend (python/openai/openai_frontend/main.py of server).
"""

from __future__ import annotations

from collections.abc import Mapping

COLUMNS = ("vllm", "llama_cpp", "lmdeploy", "sglang", "ollama", "triton")
# A dash: the engine has nothing of the kind.
_ROWS = """
model                   model               model_path             model_path            -                      model
max_model_len           ctx_size            session_len            context_length        OLLAMA_CONTEXT_LENGTH  max_model_len
max_num_seqs            parallel            max_batch_size         max_running_requests  OLLAMA_NUM_PARALLEL    max_num_seqs
max_num_batched_tokens  ubatch_size         max_prefill_token_num  chunked_prefill_size  -                      max_num_batched_tokens
tensor_parallel_size    tensor_split        tp                     tp_size               OLLAMA_SCHED_SPREAD    tensor_parallel_size
pipeline_parallel_size  split_mode          -                      pp_size               -                      pipeline_parallel_size
gpu_memory_utilization  fit_target          cache_max_entry_count  mem_fraction_static   OLLAMA_GPU_OVERHEAD    gpu_memory_utilization
kv_cache_dtype          cache_type_k        quant_policy           kv_cache_dtype        OLLAMA_KV_CACHE_TYPE   kv_cache_dtype
quantization            -                   model_format           quantization          -                      quantization
served_model_name       alias               model_name             served_model_name     -                      served_model_name
enable_prefix_caching   cache_prompt        enable_prefix_caching  -                     -                      enable_prefix_caching
chat_template           chat_template_file  chat_template          chat_template         -                      chat_template
reasoning_parser        reasoning_format    reasoning_parser       reasoning_parser      -                      -
tool_call_parser        jinja               tool_call_parser       tool_call_parser      -                      tool_call_parser
api_key                 api_key_file        api_keys               api_key               -                      -
cpu_offload_gb          gpu_layers          -                      cpu_offload_gb        -                      cpu_offload_gb
dtype                   -                   dtype                  dtype                 -                      dtype
enforce_eager           -                   -                      disable_cuda_graph    -                      enforce_eager
port                    port                server_port            port                  OLLAMA_HOST            openai_port
"""
ROWS: tuple[Mapping[str, str], ...] = tuple(
    {engine: name for engine, name in zip(COLUMNS, line.split(), strict=True) if name != "-"}
    for line in _ROWS.strip().splitlines()
)


def counterpart(option: str, engine: str) -> tuple[str, str] | None:
    """The engine that an option belongs to, and what the option is called in ``engine``, empty for nothing; None for an option that is in no row."""
    for row in ROWS:
        for other, name in row.items():
            if name.lower() == option.lower() and other != engine:
                return other, row.get(engine, "")
    return None
