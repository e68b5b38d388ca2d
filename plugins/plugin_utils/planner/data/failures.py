# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: ISC004 (patterns of one line)
"""Failures that vLLM, Ray, NCCL, CUDA and the container engine print. Cause and remedy are in the catalogue of messages.

Source: the error texts of the examined releases (vllm/worker, vllm/v1, vllm/config, vllm/distributed, vllm/engine, vllm/executor) and of torch
(torch/cuda/__init__.py, ProcessGroupNCCL.cpp), the operator issues of docs/reference, and what people paste into issues (vllm-project/vllm
19185, 20465, 10024 and 17386, opendatalab/MinerU 3416, LMCache/LMCache 411). The order is the order of causes: what stops a start first stands
first, and what only follows from another failure stands last.
"""

from __future__ import annotations

# (code, pattern). The texts failure_<code> and failure_<code>_remedy may hold {names} of groups of the pattern.
FAILURES: tuple[tuple[str, str], ...] = (
    (
        "driver_too_old_for_image",
        r"nvidia-container-cli: requirement error: unsatisfied condition: (?P<condition>cuda>=[\d.]+)|requirement error.*cuda>=",
    ),
    (
        "driver_too_old",
        (
            r"The NVIDIA driver on your system is too old \(found version (?P<found>\d+)\)"
            r"|CUDA driver version is insufficient for CUDA runtime version"
        ),
    ),
    (
        "gpu_too_old_for_torch",
        r"[Mm]inimum [Cc][Uu][Dd][Aa] capability supported by this library is (?P<least>[\d.]+)",
    ),
    (
        "sglang_gpu_too_old",
        r"SGLang only supports sm ?(?P<least>\d+) and\s+above",
    ),
    (
        "no_kernel_image",
        r"no kernel image is available for execution on the device|CUDA error: no kernel image|is not compatible with the current PyTorch",
    ),
    (
        "gpu_too_old",
        r"(?P<gpu>[\w .-]+) which is too old to be supported by the triton|Triton only supports devices of CUDA Capability >= (?P<least>[\d.]+)",
    ),
    (
        "ptx_toolchain",
        r"PTX was compiled with an unsupported toolchain",
    ),
    (
        "driver_mismatch",
        r"Failed to initialize NVML: Driver/library version mismatch|NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    ),
    (
        "no_gpu_in_container",
        r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver on your system|could not select device driver",
    ),
    (
        "bf16_unsupported",
        r"Bfloat16 is only supported on GPUs with compute capability of at least (?P<least>[\d.]+)",
    ),
    (
        "float16_refused",
        r"does not support (?:torch\.)?float16|numerical instability.*float16|float16.*numerical instability",
    ),
    (
        "quantization_unsupported",
        r"quantization method (?P<method>[\w-]+) is not supported for the current GPU.*?(?P<least>\d+)?|Unknown quantization method: (?P<unknown>[\w-]+)",
    ),
    (
        "architecture_unsupported",
        (r"Model architectures \[(?P<name>[^\]]+)\] (?:are not supported|failed)"),
    ),
    (
        "transformers_too_old",
        (
            r"model type `(?P<type>[\w-]+)` but Transformers|Transformers does not recognize this architecture"
            r"|cannot import name '\w+' from 'transformers"
        ),
    ),
    (
        "unknown_option",
        r"(?:api_server\.py|vllm|serve): error: unrecognized arguments: (?P<options>.+)|error: unrecognized arguments: (?P<others>.+)",
    ),
    (
        "heads_not_divisible",
        (
            r"attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size(?: \((?P<tp>\d+)\))?"
            r"|assert self\.total_num_(?:kv_)?heads % (?:attn_)?tp_size == 0"
        ),
    ),
    (
        "not_divisible",
        r"AssertionError: (?P<size>\d+) is not divisible by (?P<tp>\d+)",
    ),
    (
        "quant_group_not_divisible",
        (
            r"input size is not aligned with the quantized weight shape"
            r"|size_k must divisible by BLOCK_SIZE_K|not divisible by weight quantization block|min_thread_[kn]"
        ),
    ),
    (
        "pp_unsupported",
        r"Pipeline parallelism is (?:only )?(?:not )?supported.*|NotImplementedError: Pipeline parallelism",
    ),
    (
        "max_model_len_too_long",
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len",
    ),
    (
        "free_memory",
        r"Free memory on device .*?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than desired",
    ),
    (
        "no_cache_blocks",
        r"No available memory for the cache blocks",
    ),
    (
        "max_model_len_exceeds_kv_cache",
        r"max seq len \((?P<asked>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((?P<fits>\d+)\)"
        r"|max seq len \((?P<asked1>\d+)\).*?GiB KV cache is needed(?:.*estimated maximum model length is (?P<fits1>\d+))?",
    ),
    (
        "no_gpu_blocks",
        r"# (?:GPU|CUDA|cuda) blocks: 0\b",
    ),
    (
        "bitsandbytes_state",
        r"has no attribute '?bnb_quant_state|KeyError: '?\S*bnb_quant_state",
    ),
    (
        "memory_profiling",
        r"Error in memory profiling",
    ),
    (
        "out_of_memory",
        r"CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ [GM]iB)|torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory",
    ),
    (
        "ray_no_resources",
        (
            r"No available node types can fulfill resource request"
            r"|Cannot provide a placement group|placement group.*timed? ?out|The number of required GPUs exceeds"
        ),
    ),
    (
        "ray_version_mismatch",
        r"Version mismatch: The cluster was started with|Ray: (?P<one>[\d.]+).*?Python: .*?Ray: (?P<two>[\d.]+)",
    ),
    (
        "ray_missing",
        r"No module named 'ray'|Ray is not installed|ray is not importable",
    ),
    (
        "placement_group_waiting",
        r"Waiting for creating a placement group of specs for (?P<seconds>\d+) seconds",
    ),
    (
        "nccl_watchdog",
        r"Watchdog caught collective operation timeout.*?OpType=(?P<kind>\w+)|Watchdog caught collective operation timeout",
    ),
    (
        "nccl",
        (
            r"ncclUnhandledCudaError|NCCL error|ncclSystemError|ncclInternalError|unhandled system error"
            r"|Connection closed by (?:remote )?peer.*NCCL|ProcessGroupNCCL.*timed? ?out"
        ),
    ),
    (
        "gloo",
        r"Gloo connectFullMesh failed|gloo.*(?:Connection refused|timed? ?out)|RuntimeError: .*gloo",
    ),
    (
        "shared_memory",
        r"bus error|No space left on device.*/dev/shm|unable to (?:open|mmap) shared memory|insufficient shared memory",
    ),
    (
        "peer_access",
        r"peer access is not supported|CUDA error: OS call failed|custom_all_reduce.*(?:error|failed)",
    ),
    (
        "port_in_use",
        r"\[Errno 98\]|[Aa]ddress already in use",
    ),
    (
        "vllm_port_is_uri",
        r"VLLM_PORT '?(?P<value>tcp://\S+?)'? appears to be a URI|invalid literal for int\(\) with base 10: 'tcp://",
    ),
    (
        "model_missing",
        (
            r"Can't load the configuration of|does not appear to have a file named config\.json"
            r"|Cannot find any model weights|LocalEntryNotFoundError|OfflineModeIsEnabled"
        ),
    ),
    (
        "corrupt_weights",
        r"SafetensorError|HeaderTooLarge|InvalidHeaderDeserialization|MetadataIncompleteBuffer|PytorchStreamReader failed",
    ),
    (
        "remote_code",
        r"trust_remote_code=True|requires you to execute the configuration file",
    ),
    (
        "ready_timeout",
        r"Timed out waiting for engine(?: core|s to send)|VLLM_ENGINE_READY_TIMEOUT_S|Engine core.*did not (?:respond|start)|RPCServer process died before",
    ),
    (
        "xid",
        r"NVRM: Xid \([^)]*\): (?P<xid>\d+)",
    ),
    (
        "host_out_of_memory",
        r"Out of memory: Killed process|oom-kill|Killed\s+python|exit(?:ed with)? code 137",
    ),
    # What follows from another failure, or is none: it comes last, so that a root stands before it.
    (
        "terminated_while_loading",
        r"KeyboardInterrupt: terminated|MQLLMEngine terminated",
    ),
    (
        "worker_died",
        r"Worker proc \S+ died unexpectedly|WorkerProc (?:failed to start|initialization failed)",
    ),
    (
        "engine_failed_to_start",
        r"Engine process failed to start|Engine core initialization failed",
    ),
    (
        "engine_dead",
        r"(?:MQ|Async)?EngineDeadError|MQLLMEngine is already dead|Engine loop (?:has died|is not running)",
    ),
    (
        "custom_all_reduce_off",
        r"Custom allreduce is disabled because (?P<why>.+?)(?:\.|$)",
    ),
)
