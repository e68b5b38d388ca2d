# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: ISC004 (sentences and patterns of one line)
"""Failures that vLLM, Ray, NCCL, CUDA and the container engine print: pattern, cause, remedy, in English and Chinese.

Source: the error texts of the examined releases (vllm/worker, vllm/v1/core/kv_cache_utils.py, vllm/config, vllm/distributed,
vllm/engine/arg_utils.py), and the operator issues of docs/reference. The order is the order of causes: what stops a start first
stands first.
"""

from __future__ import annotations

# (code, pattern, cause, remedy); {names} are groups of the pattern.
FAILURES: tuple[tuple[str, str, dict[str, str], dict[str, str]], ...] = (
    (
        "driver_too_old_for_image",
        r"nvidia-container-cli: requirement error: unsatisfied condition: (?P<condition>cuda>=[\d.]+)|requirement error.*cuda>=",
        {
            "en": "the driver is older than the image's CUDA ({condition})",
            "zh": "驱动版本低于镜像要求的 CUDA（{condition}）",
        },
        {
            "en": "install a newer driver branch (for a V100 at most R580), or use an image of an older vLLM release",
            "zh": "升级驱动分支（V100 最高为 R580），或改用较旧 vLLM 版本的镜像",
        },
    ),
    (
        "no_kernel_image",
        r"no kernel image is available for execution on the device|CUDA error: no kernel image|is not compatible with the current PyTorch",
        {"en": "the image holds no CUDA code for this GPU", "zh": "镜像中没有适用于该 GPU 的 CUDA 代码"},
        {
            "en": "use a release whose image was built for the GPU (V100: 0.8.5.post1), or build one for its compute capability",
            "zh": "改用为该 GPU 构建的版本（V100：0.8.5.post1），或按其计算能力自行构建镜像",
        },
    ),
    (
        "gpu_too_old",
        r"(?P<gpu>[\w .-]+) which is too old to be supported by the triton|Triton only supports devices of CUDA Capability >= (?P<least>[\d.]+)",
        {"en": "the GPU is older than Triton supports", "zh": "GPU 过旧，Triton 不支持"},
        {"en": "use a GPU of compute capability 7.0 or higher", "zh": "改用计算能力 7.0 及以上的 GPU"},
    ),
    (
        "ptx_toolchain",
        r"PTX was compiled with an unsupported toolchain",
        {
            "en": "the driver is older than the CUDA that the image was built with",
            "zh": "驱动版本低于构建镜像所用的 CUDA",
        },
        {
            "en": "install a newer driver, or set VLLM_ENABLE_CUDA_COMPATIBILITY=1 (0.17 and later)",
            "zh": "升级驱动，或设置 VLLM_ENABLE_CUDA_COMPATIBILITY=1（0.17 起）",
        },
    ),
    (
        "driver_mismatch",
        r"Failed to initialize NVML: Driver/library version mismatch|NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        {
            "en": "the loaded kernel module and the driver's libraries differ",
            "zh": "已加载的内核模块与驱动库版本不一致",
        },
        {"en": "reboot the host or reload the nvidia modules", "zh": "重启主机或重新加载 nvidia 内核模块"},
    ),
    (
        "no_gpu_in_container",
        r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver on your system|could not select device driver",
        {"en": "the container sees no GPU", "zh": "容器内看不到 GPU"},
        {
            "en": "check nvidia-smi on the host, the NVIDIA container toolkit and the container's GPU options",
            "zh": "检查主机上的 nvidia-smi、NVIDIA 容器工具包以及容器的 GPU 选项",
        },
    ),
    (
        "bf16_unsupported",
        r"Bfloat16 is only supported on GPUs with compute capability of at least (?P<least>[\d.]+)",
        {"en": "the model's dtype is bfloat16, and the GPU has none", "zh": "模型 dtype 为 bfloat16，而该 GPU 不支持"},
        {"en": "set dtype to half", "zh": "将 dtype 设为 half"},
    ),
    (
        "float16_refused",
        r"does not support (?:torch\.)?float16|numerical instability.*float16|float16.*numerical instability",
        {
            "en": "vLLM refuses float16 for this model: it is numerically unstable",
            "zh": "vLLM 拒绝以 float16 运行该模型：数值不稳定",
        },
        {
            "en": "set dtype to bfloat16, or to float32 on GPUs older than compute capability 8.0",
            "zh": "将 dtype 设为 bfloat16；计算能力低于 8.0 的 GPU 设为 float32",
        },
    ),
    (
        "quantization_unsupported",
        r"quantization method (?P<method>[\w-]+) is not supported for the current GPU.*?(?P<least>\d+)?|Unknown quantization method: (?P<unknown>[\w-]+)",
        {
            "en": "the GPU or the release cannot run this quantisation ({method})",
            "zh": "GPU 或该版本不支持此量化方式（{method}）",
        },
        {
            "en": "use a GPTQ checkpoint on a V100, or an unquantised one",
            "zh": "V100 请使用 GPTQ 权重，或使用未量化的权重",
        },
    ),
    (
        "architecture_unsupported",
        (
            r"Model architectures \[(?P<name>[^\]]+)\] (?:are not supported|failed)"
            r"|Transformers does not recognize this architecture|model type `(?P<type>[\w-]+)` but Transformers"
        ),
        {
            "en": "this release does not know the model's architecture ({name})",
            "zh": "该版本不认识此模型架构（{name}）",
        },
        {"en": "use a newer vLLM release that still serves the GPU", "zh": "改用仍支持该 GPU 的更新 vLLM 版本"},
    ),
    (
        "unknown_option",
        r"(?:api_server\.py|vllm|serve): error: unrecognized arguments: (?P<options>.+)|error: unrecognized arguments: (?P<others>.+)",
        {"en": "this release does not know an option: {options}", "zh": "该版本不认识选项：{options}"},
        {
            "en": "remove it, or let the filter vllm_arguments write the command line",
            "zh": "删除该选项，或用 vllm_arguments 过滤器生成命令行",
        },
    ),
    (
        "heads_not_divisible",
        r"Total number of attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size \((?P<tp>\d+)\)",
        {
            "en": "{heads} attention heads are not divisible by tensor_parallel_size {tp}",
            "zh": "{heads} 个注意力头不能被 tensor_parallel_size {tp} 整除",
        },
        {
            "en": "use a tensor_parallel_size that divides {heads}, and pipeline_parallel_size for the rest",
            "zh": "选择能整除 {heads} 的 tensor_parallel_size，其余用 pipeline_parallel_size",
        },
    ),
    (
        "not_divisible",
        r"AssertionError: (?P<size>\d+) is not divisible by (?P<tp>\d+)",
        {
            "en": "a size of the model ({size}) is not divisible by tensor_parallel_size {tp}",
            "zh": "模型的某一维度（{size}）不能被 tensor_parallel_size {tp} 整除",
        },
        {
            "en": "use a power of two, or see the filter valid_tp_sizes",
            "zh": "使用 2 的幂，或参考 valid_tp_sizes 过滤器",
        },
    ),
    (
        "quant_group_not_divisible",
        (
            r"input size is not aligned with the quantized weight shape"
            r"|size_k must divisible by BLOCK_SIZE_K|not divisible by weight quantization block|min_thread_[kn]"
        ),
        {
            "en": "tensor_parallel_size cuts through the groups of the quantised weights",
            "zh": "tensor_parallel_size 切断了量化权重的分组",
        },
        {
            "en": "lower tensor_parallel_size and use pipeline_parallel_size",
            "zh": "降低 tensor_parallel_size，改用 pipeline_parallel_size",
        },
    ),
    (
        "pp_unsupported",
        r"Pipeline parallelism is (?:only )?(?:not )?supported.*|NotImplementedError: Pipeline parallelism",
        {"en": "this release cannot run the model as a pipeline", "zh": "该版本不支持此模型的流水线并行"},
        {
            "en": "set pipeline_parallel_size to 1, or use a newer release",
            "zh": "将 pipeline_parallel_size 设为 1，或升级版本",
        },
    ),
    (
        "max_model_len_too_long",
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len",
        {
            "en": "max_model_len {asked} is more than the model was made for",
            "zh": "max_model_len {asked} 超过模型支持的长度",
        },
        {"en": "lower max_model_len", "zh": "降低 max_model_len"},
    ),
    (
        "free_memory",
        r"Free memory on device .*?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than desired",
        {
            "en": "only {free} of {total} GiB are free: another process holds the rest",
            "zh": "仅有 {free}/{total} GiB 空闲：其余被其他进程占用",
        },
        {
            "en": "stop the other process, or lower gpu_memory_utilization",
            "zh": "停止其他进程，或降低 gpu_memory_utilization",
        },
    ),
    (
        "no_cache_blocks",
        r"No available memory for the cache blocks",
        {
            "en": "after the weights and the profile run no memory is left for the KV cache",
            "zh": "加载权重并完成预热后，没有剩余显存用于 KV 缓存",
        },
        {
            "en": (
                "lower max_num_seqs and max_num_batched_tokens, raise gpu_memory_utilization, use "
                "more GPUs or a quantised checkpoint; predict_start says which helps"
            ),
            "zh": "降低 max_num_seqs 和 max_num_batched_tokens，提高 gpu_memory_utilization，增加 GPU 或使用量化权重；predict_start 会指出哪一项有效",
        },
    ),
    (
        "max_model_len_exceeds_kv_cache",
        r"max seq len \((?P<asked>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((?P<fits>\d+)\)"
        r"|max seq len \((?P<asked1>\d+)\).*?GiB KV cache is needed(?:.*estimated maximum model length is (?P<fits1>\d+))?",
        {
            "en": "max_model_len needs more KV cache than there is (fits: {fits})",
            "zh": "max_model_len 所需 KV 缓存超过可用量（可容纳：{fits}）",
        },
        {
            "en": "lower max_model_len to what fits, or free memory for the KV cache",
            "zh": "将 max_model_len 降到可容纳的长度，或腾出更多显存",
        },
    ),
    (
        "memory_profiling",
        r"Error in memory profiling",
        {"en": "another process gave memory back while vLLM measured", "zh": "vLLM 测量期间有其他进程释放了显存"},
        {"en": "start one engine at a time on a GPU", "zh": "同一 GPU 上逐个启动引擎"},
    ),
    (
        "out_of_memory",
        r"CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ [GM]iB)|torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory",
        {"en": "the GPU ran out of memory (an allocation of {size})", "zh": "GPU 显存不足（申请 {size}）"},
        {
            "en": (
                "while loading: more GPUs or a quantised checkpoint; in the sampler: lower "
                "max_num_seqs; after KV sizing: enforce_eager or a lower gpu_memory_utilization"
            ),
            "zh": "加载时：增加 GPU 或使用量化权重；采样时：降低 max_num_seqs；KV 分配之后：enforce_eager 或降低 gpu_memory_utilization",
        },
    ),
    (
        "ray_no_resources",
        (
            r"No available node types can fulfill resource request"
            r"|Cannot provide a placement group|placement group.*timed? ?out|The number of required GPUs exceeds"
        ),
        {"en": "Ray does not have the GPUs that the plan counts", "zh": "Ray 集群中没有计划所需的 GPU"},
        {
            "en": "check that every worker joined (ray status), and that VLLM_HOST_IP is set to each host's own address",
            "zh": "检查各工作节点是否已加入（ray status），并为每台主机设置各自的 VLLM_HOST_IP",
        },
    ),
    (
        "ray_version_mismatch",
        r"Version mismatch: The cluster was started with|Ray: (?P<one>[\d.]+).*?Python: .*?Ray: (?P<two>[\d.]+)",
        {"en": "the hosts run different Ray or Python versions", "zh": "各主机的 Ray 或 Python 版本不一致"},
        {"en": "run the same image on every host", "zh": "所有主机使用同一镜像"},
    ),
    (
        "ray_missing",
        r"No module named 'ray'|Ray is not installed|ray is not importable",
        {
            "en": "the image holds no Ray (vLLM 0.18 and later leave it out)",
            "zh": "镜像中没有 Ray（vLLM 0.18 起不再包含）",
        },
        {"en": "add Ray to the image, or use the mp executor", "zh": "在镜像中加入 Ray，或使用 mp 执行器"},
    ),
    (
        "nccl",
        (
            r"ncclUnhandledCudaError|NCCL error|ncclSystemError|ncclInternalError|unhandled system error"
            r"|Connection closed by (?:remote )?peer.*NCCL|ProcessGroupNCCL.*timed? ?out"
        ),
        {"en": "NCCL could not set up or keep the connection between GPUs", "zh": "NCCL 无法建立或维持 GPU 间通信"},
        {
            "en": (
                "set NCCL_SOCKET_IFNAME to the cluster network's interface, open the hosts' ports to each "
                "other, give the container IPC_LOCK and a large /dev/shm; NCCL_DEBUG=INFO says more"
            ),
            "zh": "将 NCCL_SOCKET_IFNAME 设为集群网络接口，放通主机间端口，为容器提供 IPC_LOCK 和足够的 /dev/shm；NCCL_DEBUG=INFO 可查看详情",
        },
    ),
    (
        "gloo",
        r"Gloo connectFullMesh failed|gloo.*(?:Connection refused|timed? ?out)|RuntimeError: .*gloo",
        {"en": "gloo could not connect the hosts", "zh": "gloo 无法连接各主机"},
        {
            "en": "set GLOO_SOCKET_IFNAME on every host before Ray starts",
            "zh": "在启动 Ray 之前为每台主机设置 GLOO_SOCKET_IFNAME",
        },
    ),
    (
        "shared_memory",
        r"bus error|No space left on device.*/dev/shm|unable to (?:open|mmap) shared memory|insufficient shared memory",
        {"en": "/dev/shm is too small", "zh": "/dev/shm 空间不足"},
        {"en": "run the container with ipc host or a larger shm_size", "zh": "容器使用 ipc host 或增大 shm_size"},
    ),
    (
        "peer_access",
        r"peer access is not supported|CUDA error: OS call failed|custom_all_reduce.*(?:error|failed)",
        {"en": "GPUs of this machine cannot reach each other's memory", "zh": "本机 GPU 之间无法直接访问显存"},
        {
            "en": "set disable_custom_all_reduce; if it stays, NCCL_P2P_DISABLE=1",
            "zh": "设置 disable_custom_all_reduce；仍失败则设置 NCCL_P2P_DISABLE=1",
        },
    ),
    (
        "port_in_use",
        r"\[Errno 98\]|[Aa]ddress already in use",
        {"en": "a port is taken by another process", "zh": "端口已被其他进程占用"},
        {"en": "stop the other process or choose another port", "zh": "停止占用端口的进程或更换端口"},
    ),
    (
        "vllm_port_is_uri",
        r"VLLM_PORT '?(?P<value>tcp://\S+?)'? appears to be a URI|invalid literal for int\(\) with base 10: 'tcp://",
        {
            "en": "VLLM_PORT holds a URI (a Kubernetes service named vllm sets it)",
            "zh": "VLLM_PORT 是 URI（由名为 vllm 的 Kubernetes 服务注入）",
        },
        {"en": "rename the service or unset VLLM_PORT", "zh": "重命名该服务或取消 VLLM_PORT"},
    ),
    (
        "model_missing",
        (
            r"Can't load the configuration of|does not appear to have a file named config\.json"
            r"|Cannot find any model weights|LocalEntryNotFoundError|OfflineModeIsEnabled"
        ),
        {
            "en": "the model's files are not where the engine looks, or are incomplete",
            "zh": "模型文件不在引擎查找的位置，或不完整",
        },
        {
            "en": "run the models playbook again; every host needs them under the same path",
            "zh": "重新运行 models 剧本；各主机路径需一致",
        },
    ),
    (
        "corrupt_weights",
        r"SafetensorError|HeaderTooLarge|InvalidHeaderDeserialization|MetadataIncompleteBuffer|PytorchStreamReader failed",
        {"en": "a weight file is damaged or incomplete", "zh": "权重文件损坏或不完整"},
        {
            "en": "verify the model against the bundle's checksums and copy it again",
            "zh": "按离线包校验和核对模型并重新复制",
        },
    ),
    (
        "remote_code",
        r"trust_remote_code=True|requires you to execute the configuration file",
        {"en": "the model brings its own code", "zh": "模型自带代码"},
        {"en": "set trust_remote_code only if you trust its author", "zh": "仅在信任作者时设置 trust_remote_code"},
    ),
    (
        "ready_timeout",
        r"Timed out waiting for engine core|VLLM_ENGINE_READY_TIMEOUT_S|Engine core.*did not (?:respond|start)|RPCServer process died before",
        {"en": "the engine did not become ready in time", "zh": "引擎未在限时内就绪"},
        {
            "en": "raise VLLM_ENGINE_READY_TIMEOUT_S for large models on slow storage",
            "zh": "慢速存储上的大模型请增大 VLLM_ENGINE_READY_TIMEOUT_S",
        },
    ),
    (
        "xid",
        r"NVRM: Xid \([^)]*\): (?P<xid>\d+)",
        {"en": "the driver reported a GPU fault (Xid {xid})", "zh": "驱动报告 GPU 故障（Xid {xid}）"},
        {
            "en": "see the runbook for the Xid; 48, 63, 64, 79 and 94 call for a reset or a replacement",
            "zh": "查看运维手册中对应的 Xid；48、63、64、79、94 需要重置或更换",
        },
    ),
    (
        "host_out_of_memory",
        r"Out of memory: Killed process|oom-kill|Killed\s+python|exit(?:ed with)? code 137",
        {"en": "the host ran out of memory and killed the process", "zh": "主机内存不足，进程被终止"},
        {
            "en": "lower swap_space and cpu_offload_gb, or add memory",
            "zh": "降低 swap_space 与 cpu_offload_gb，或增加内存",
        },
    ),
)
