# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
r"""Failures that engines, Ray, NCCL, CUDA, the driver and the container engine print. Cause and remedy are in the catalogue of messages.

An entry is a line: code, layer, kind, the releases of vLLM that hold the text ("any" where it is not vLLM's), and the source. The lines
below it that begin with blanks are its signatures, any of which is enough. The texts ``failure_<code>`` and
``failure_<code>_remedy`` may hold {names} of groups of the signatures.

A signature is a regular expression that begins with at least four characters of plain text, which are looked for first. It is tried on a log
whose lines are joined and whose blanks are single ones, so a message is found wherever it is broken; ``.{0,100}?`` is a gap. Quantifiers are
bounded: a log is as long as somebody wants. Only what no healthy log says is a signature: names of options stand in the first line of each.

The order is the order of causes: what stops a start first stands first. A "symptom" has a cause that its own text does not tell, a
"consequence" follows from another failure, a "note" is none.

Sources: ``owner/repository#number`` is an issue or pull request on GitHub (``vllm#number`` is vllm-project/vllm), ``repository:path`` and
``vllm/path`` are the program's own source.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

ROOT, SYMPTOM, CONSEQUENCE, NOTE = "root", "symptom", "consequence", "note"


class Failure(NamedTuple):
    """A row of the table."""

    code: str
    layer: str
    kind: str
    releases: str
    source: str
    signatures: tuple[str, ...]


class Family(NamedTuple):
    """What an error is about, by its words, where no entry knows the error itself."""

    code: str
    layer: str
    signatures: tuple[str, ...]


_FAILURES = r"""
# Driver and GPU devices
driver_too_old_for_image        driver   root         any              NVIDIA:nvidia-container-cli
    nvidia-container-cli: requirement error: unsatisfied condition: (?P<condition>cuda>=[\d.]+)
    requirement error: unsatisfied condition: (?P<condition>cuda>=[\d.]+)
driver_too_old                  driver   root         any              torch/cuda/__init__.py
    The NVIDIA driver on your system is too old \(found version (?P<found>\d+)\)
    cudaErrorInsufficientDriver
    CUDA driver version is insufficient for CUDA runtime version
forward_compatibility           driver   root         any              vllm#5283
    Error 804: forward compatibility was attempted
    forward compatibility was attempted on non supported HW
cuda_init_failed                driver   root         any              pytorch:c10/cuda/CUDAFunctions.cpp
    cudaGetDeviceCount\(\).{0,160}?Error (?:3|101|999)\b
    CUDA unknown error - this may be due to an incorrectly set up environment
    0 active drivers \(\[\]\)
fabric_manager                  driver   root         any              MiniMax-AI/MiniMax-M2.5#9
    Error 802: system not yet initialized
    System not yet initialized \(error 802\)
    CUDA_ERROR_SYSTEM_NOT_READY
    cudaErrorSystemNotReady
    system not yet initialized
driver_mismatched_pair          driver   root         any              vllm#15335
    Error 803: system has unsupported display driver / cuda driver combination
    unsupported display driver / cuda driver combination
driver_mismatch                 driver   root         any              NVIDIA:nvidia-smi
    Failed to initialize NVML: Driver/library version mismatch
    NVML_ERROR_LIB_RM_VERSION_MISMATCH
    Driver/library version mismatch
nvml_lost_devices               driver   root         any              NVIDIA/nvidia-docker#1671
    Failed to initialize NVML: Unknown Error
    NVMLError_Unknown: Unknown Error
mps_unreachable                 driver   root         any              NVIDIA/nvidia-container-toolkit#714
    MPS client failed to connect to the MPS control daemon
    cudaErrorMpsConnectionFailed
    CUDA_ERROR_MPS_CONNECTION_FAILED
toolkit_timed_out               driver   root         any              NVIDIA/nvidia-docker#1648
    nvidia-container-cli: initialization error: driver (?:rpc )?error: timed out
driver_not_loaded               driver   root         any              NVIDIA/nvidia-docker#1393
    NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver
    nvidia-container-cli: initialization error: nvml error: driver not loaded
    nvml error: driver not loaded
    NVMLError_DriverNotLoaded
libcuda_missing                 driver   root         any              MeetKai/functionary#182
    libcuda\.so\.1: cannot open shared object file
    libcuda\.so cannot found
    libnvidia-ml\.so\.1: cannot open shared object file
    NVMLError_LibraryNotFound
    NVML Shared Library Not Found
ptx_toolchain                   driver   root         any              vllm#31700
    PTX was compiled with an unsupported toolchain
gpu_memory_broken               driver   root         any              vllm#5222
    uncorrectable ECC error encountered
    CUDA_ERROR_ECC_UNCORRECTABLE
driver_older_than_kernel        driver   root         any              NVIDIA/open-gpu-kernel-modules#642
    error: implicit declaration of function .(?P<name>\w{1,60}).{0,200}?Wimplicit-function-declaration
    incompatible pointer type \[-Wincompatible-pointer-types\]
driver_kernel_gcc               driver   root         any              pop-os/pop#3117
    unrecognized command-line option .-f(?:trivial-auto-var-init|min-function-alignment|strict-flex-arrays)
driver_kernel_clang             driver   root         any              uk0/lotspeed#6
    unrecognized command-line option .-(?:mretpoline-external-thunk|mstack-alignment|fsplit-lto-unit)
driver_bound_elsewhere          driver   root         any              beclab/Olares#3963
    is already bound to NovaCore
    was loaded and obtained ownership of the NVIDIA device
gsp_silent                      driver   root         any              NVIDIA/open-gpu-kernel-modules#446
    Timeout (?:after \d{1,4}s of )?waiting for RPC (?:response )?from (?:GPU\d{1,3} )?GSP
xid_restart                     driver   root         any              NVIDIA:deploy/xid-errors
    NVRM: Xid \([^)]{1,60}\): (?P<xid>8|13|31|32|68|69|94)\b
xid_reset                       driver   root         any              NVIDIA:deploy/xid-errors
    NVRM: Xid \([^)]{1,60}\): (?P<xid>46|48|62|74|95|109|110|119|120|140)\b
xid_reboot                      driver   root         any              NVIDIA:deploy/xid-errors
    NVRM: Xid \([^)]{1,60}\): (?P<xid>79)\b
xid_replace                     driver   root         any              NVIDIA:deploy/xid-errors
    NVRM: Xid \([^)]{1,60}\): (?P<xid>64)\b
xid                             driver   root         any              NVIDIA:deploy/xid-errors
    NVRM: Xid \([^)]{1,60}\): (?P<xid>\d+)
gpu_lost                        driver   root         any              NVIDIA:nvidia-smi
    Unable to determine the device handle for GPU ?(?P<gpu>[\w:.]+)
    GPU is lost. Reboot the system to recover this GPU
    NVMLError_GpuIsLost
    GPU has fallen off the bus
gpu_busy                        driver   root         any              hiyouga/LlamaFactory#10240
    CUDA-capable device\(s\) is/are busy or unavailable
    cudaErrorDevicesUnavailable
mig_by_uuid                     driver   root         any              vllm#41848
    invalid literal for int\(\) with base 10: '(?P<device>(?:MIG|GPU)-[\w/-]+)'
    Error: Invalid MIG device
    No MIG devices found
# Containers and the host
driver_files_in_image           host     root         any              NVIDIA:libnvidia-container
    nvidia-container-cli: mount error: file creation failed: \S{1,200}: file exists
    file creation failed: \S{1,160}lib(?:nvidia-ml|cuda)\.so\S{0,20}: file exists
container_devices               host     root         any              NVIDIA:libnvidia-container
    nvidia-container-cli: device error: (?P<device>.{1,60}?): unknown device
    nvidia-container-cli: container error: cgroup subsystem devices not found
    nvidia-container-cli: ldcache error
    nvidia-container-cli: initialization error: (?!nvml error: driver not loaded)
    nvml error: insufficient permissions
image_of_other_machine          host     root         any              linux:fs/exec.c
    exec format error
    executable file not found in \$PATH
    no matching manifest for (?P<platform>\S+)
image_not_pulled                host     root         any              docker:distribution
    manifest unknown
    pull access denied for (?P<image>\S+?),
    toomanyrequests:
    x509: certificate signed by unknown authority
    no basic auth credentials
no_gpu_in_container             host     root         0.6.2-           vllm/config.py
    Failed to infer device type
    No CUDA GPUs are available
    Found no NVIDIA driver on your system
    could not select device driver
    unknown or invalid runtime name: nvidia
    unresolvable CDI devices
    cudaErrorNoDevice
    no CUDA-capable device is detected
too_few_gpus                    host     root         0.13.0-          vllm#16456
    CUDA error: invalid device ordinal
    World size \((?P<wanted>\d+)\) is larger than the number of available GPUs \((?P<there>\d+)\)
    device >= 0 && device < num_gpus INTERNAL ASSERT FAILED
    Please specify visible devices in CUDA_VISIBLE_DEVICES
glibc_too_old                   host     root         any              vllm#6462
    version `GLIBC_(?P<wanted>[\d.]+)' not found
    version `GLIBCXX_(?P<wanted>[\d.]+)' not found
    version `CXXABI_(?P<wanted>[\d.]+)' not found
illegal_instruction             host     root         any              cpython:faulthandler
    Fatal Python error: Illegal instruction
    Illegal instruction \(core dumped\)
disk_full                       host     root         any              vllm#3568
    No space left on device(?!.{0,80}(?:/dev/shm|/psm_))
    is over 95% full
    Disk quota exceeded
open_files                      host     root         any              vllm#7920
    Too many open files(?<!`OSError: \[Errno 24\] Too many open files)
permission                      host     root         any              odysseus-dev/odysseus#6157
    PermissionError: \[Errno 13\] Permission denied(?:: '(?P<path>[^']{1,200})')?
    Read-only file system(?:: '(?P<path>[^']{1,200})')?
threads                         host     root         any              cpython:Modules/_threadmodule.c
    can't start new thread
    fork: Resource temporarily unavailable
    BlockingIOError: \[Errno 11\]
    OpenBLAS blas_thread_init: pthread_create failed
    libgomp: Thread creation failed
host_out_of_memory              memory   root         0.2.7-0.17.1     torvalds/linux:mm/oom_kill.c
    Out of memory: Killed process
    oom-kill:constraint
    Memory cgroup out of memory
    oom_reaper: reaped process
    exit code 137
    exited with code 137
    Killed python
    DefaultCPUAllocator: can't allocate memory
    \[Errno 12\] Cannot allocate memory
    unable to allocate (?P<bytes>\d+) bytes
    was terminated by signal SIGKILL
    Too large swap space
uva_missing                     memory   root         0.8.0-           vllm/utils/platform_utils.py
    UVA \(Unified Virtual Addressing\) is not available
    UVA is not available
pinned_memory                   memory   root         any              CUDA:cudaErrorNotSupported
    CUDA error: OS call failed or operation not supported on this OS
    cudaHostAlloc failed
shared_memory                   host     root         any              MiniMax-AI/MiniMax-01#42
    Error while creating shared memory segment
    bus error encountered in worker
    Bus error
    bus error
    No space left on device.{0,80}/dev/shm
    unable to open shared memory
    unable to mmap
    insufficient shared memory
    No space left on device: '/psm_
    posix_fallocate failed: No space left
    /dev/shm/nccl-\S+ \(size
address_not_here                network  root         any              linux:errno
    \[Errno 99\] Cannot assign requested address
    error while attempting to bind on address .{1,80}?cannot assign
ipc_socket                      host     root         any              zmq:zmq_ipc
    zmq\.error\.ZMQError: (?:No such file or directory|ipc path|Permission denied|Read-only)
    ipc path \S{1,200} is longer than
port_in_use                     host     root         any              cpython:Lib/socket.py
    \[Errno 98\] Address already in use
    \[Errno 98\]
    Address already in use(?<!Call to bind failed: Address already in use)(?!\. Retrying)
    address already in use
    EADDRINUSE
vllm_port_is_uri                host     root         any              vllm/envs.py
    VLLM_PORT '?(?P<value>tcp://\S+?)'? appears to be a URI
    invalid literal for int\(\) with base 10: 'tcp://
compiler_headers                host     root         any              vllm#19656
    fatal error: (?P<header>[\w/.]{1,60}\.h): No such file or directory
    cannot find -lcuda\b
    cannot find crti\.o
    C\+\+ compile error
no_c_compiler                   host     root         any              vllm#15329
    Failed to find C compiler
    No working C compiler found
    InvalidCxxCompiler
    No working C\+\+ compiler found
python_headers                  host     root         any              vllm#27890
    Python\.h: No such file or directory
no_nvcc                         host     root         any              flashinfer-ai/flashinfer#1781
    No such file or directory: 'nvcc'
    nvcc: not found
    nvcc: command not found
    No such file or directory: '/usr/local/cuda/bin/nvcc'
    Could not find nvcc and default cuda_home
    CUDA_HOME environment variable is not set
    Could not find CUDA installation
    Unsupported NVCC version
flashinfer_compile              kernel   root         any              vllm#36077
    Command '\['ninja'
    /flashinfer/.{1,120}?FAILED:
    FlashInfer requires GPUs with sm(?P<least>\d+)
no_ninja                        host     root         any              sgl-project/sglang#2514
    Ninja is required to load C\+\+ extensions
    No such file or directory: 'ninja'
    Ninja build failed
# Packages of the image or environment
numpy_2                         host     root         any              vllm#5594
    A module that was compiled using NumPy 1\.x cannot be run in NumPy (?P<found>[\d.]+\d)
    numpy.dtype size changed, may indicate binary incompatibility
    numpy.core.multiarray failed to import
    Numba needs NumPy (?P<least>[\d.]+) or less
torch_mismatch                  host     root         any              vllm#5501
    undefined symbol: (?P<symbol>_Z\w+)
    operator torchvision::nms does not exist
    Failed to import from vllm\._C with ModuleNotFoundError
    No module named 'vllm\._C'
    'torch.ops._C' object has no attribute
    '_OpNamespace' '_C' object has no attribute
cuda_library                    host     root         0.4.0-           vllm#1738
    libnvrtc\S*: cannot open shared object file
    libcudart\.so\.(?P<cuda>\d+)\S*: cannot open shared object file
    libtorch_cuda\.so: cannot open shared object file
    libcudnn\S+: cannot open shared object file
    libnccl\.so\S*: cannot open shared object file
    libcublas\S*: cannot open shared object file
    Failed to load NCCL library from
triton_broken                   kernel   root         any              pytorch:torch/_inductor/exc.py
    Cannot find a working triton installation
    module 'triton(?:\.\w+)?' has no attribute
    triton\.compiler\.errors\.CompilationError
cuda_too_old_for_kernel         kernel   root         any              vllm#55651
    requires CUDA (?P<wanted>[\d.]+) or (?:later|newer|above)
    requires CUDA (?P<wanted>[\d.]+)\+
ray_missing                     ray      root         0.2.7-           vllm/executor/ray_utils.py
    ModuleNotFoundError: No module named 'ray'
    Ray is not installed
    ray is not importable
    Unable to load Ray which is required
    Failed to import Ray
package_missing                 host     root         0.2.7-           cpython:ModuleNotFoundError
    ModuleNotFoundError: No module named '(?P<package>[\w.]+)'
    requires the (?P<package>\w+) library but it was not found
    This modeling file requires the following packages that were not found in your environment: (?P<package>\w+)
    Please install (?P<package>[\w-]+)(?:[><=]+[\d.]+)? (?:via|to use|with)
    Please install vllm\[(?P<package>\w+)\]
    The package `(?P<package>[\w-]+)` is required
    Please install (?P<package>bitsandbytes|fastsafetensors|flashinfer|auto-gptq|tensorizer|gguf|helion|torchao)
compiled_cache                  kernel   root         any              pytorch:torch/_inductor
    Bytes object is corrupted, checksum does not match
# GPU and compiled code
ptxas_too_old                   kernel   root         any              NVIDIA:ptxas
    ptxas fatal\s*: Value 'sm_(?P<arch>\w+)' is not defined
    Unsupported gpu architecture 'compute_(?P<arch>\w+)'
    ptxas-blackwell
    is not a recognized processor for this target
gpu_too_old_for_torch           kernel   root         any              vllm#19185
    inimum cuda capability supported by this library is (?P<least>[\d.]+\d)
    inimum CUDA capability supported by this library is (?P<least>[\d.]+\d)
    inimum and Maximum cuda capability supported by this version of PyTorch is \((?P<least>[\d.]+)\)
sglang_gpu_too_old              kernel   root         any              opendatalab/MinerU#3416
    SGLang only supports sm ?(?P<least>\d+) and above
no_kernel_image                 kernel   root         any              vllm#21633
    no kernel image is available for execution on the device
    device kernel image is invalid
    CUDA error: no kernel image
    is not compatible with the current PyTorch
    cudaErrorNoKernelImageForDevice
gpu_too_old                     kernel   root         any              vllm#14547
    which is too old to be supported by the triton
    Triton only supports devices of CUDA Capability >= (?P<least>[\d.]+\d)
volta_triton                    kernel   root         any              vllm#17449
    LLVM ERROR: Failed to compute parent layout for slice layout
    Assertion `!\(srcMmaLayout && dstMmaLayout
    Assertion `false && "fp16 matmul not supported on Volta
    mma layout conversion is only supported on Ampere
    Failed to compute parent layout for slice layout
triton_gpu_too_old              kernel   root         any              triton:lib/Conversion
    LLVM ERROR: Cannot select: intrinsic %llvm\.nvvm
    cp\.async only supported on sm_80
    PassManager::run failed
    IndexError: map::at
flash_attention_version         kernel   root         any              vllm/vllm_flash_attn/flash_attn_interface.py
    Unsupported FA version: (?P<found>\w+)
    is only supported on devices with compute capability >=
    Cannot use FA version (?P<found>\d) is not supported due to
flash_attention_ampere          kernel   root         any              vllm#8189
    FlashAttention only supports? Ampere GPUs or newer
    FlashAttention only supported on CUDA devices with compute capability
fp8_cache_unsupported           kernel   root         0.4.3-           vllm#47549
    FP8 KV cache is not supported by the
    type fp8e4nv not supported in this architecture
    FlashAttention does not support fp8 kv-cache on this device
    fp8_e5m2 kv-cache is not supported with fp8 checkpoints
    fp8e4nv data type is not supported on CUDA arch
xformers_no_operator            kernel   root         any              vllm#11653
    No operator found for `memory_efficient_attention_forward`(?:.{0,160}?\(torch\.(?P<dtype>\w+)\))?
attention_sinks                 kernel   root         0.10.1-          vllm#22331
    Sinks are only supported in FlashAttention 3
    currently does not support attention sinks
    unexpected keyword argument 'sinks'
    sink setting not supported
    ttention sinks not supported
head_size                       kernel   root         0.2.7-           vllm/attention/ops/paged_attn.py
    Head size (?P<size>\d+) is not supported by
    Head dimension (?P<size>\d+) is not supported by
    Unsupported head size: (?P<size>\d+)
attention_backend               kernel   root         0.4.0-           vllm#31936
    No valid attention backend found for
    Selected backend (?P<backend>[\w.]+) is not valid for this configuration
    Invalid attention backend for
    Unknown attention backend: '(?P<backend>\w+)'
    Attention backend '(?P<backend>\w+)' has been removed
    is not supported for vit attention
    VLLM_ATTENTION_BACKEND is set to FLASHINFER, but flashinfer module was not found
shared_memory_of_kernel         kernel   root         any              vllm#36802
    out of resource: shared memory, Required: (?P<needed>\d+), Hardware limit: (?P<there>\d+)
    OutOfResources: out of resource: shared memory
    vLLM cannot currently support max_model_len=(?P<length>\d+) with block_size
bf16_unsupported                kernel   root         0.2.7-           vllm/worker/worker.py
    Bfloat16 is only supported on GPUs with compute capability of at least (?P<least>[\d.]+\d)
    Feature '\.bf16' requires \.target sm_80 or higher
kernel_not_built                kernel   root         0.7.0-           vllm#24921
    No compiled (?P<kernel>\w+)
    no cutlass_scaled_mm kernel for CUDA device capability: (?P<capability>\d+)
    is not available, likely was not compiled due to insufficient nvcc
    Failed to initialize cutlass TMA WS grouped gemm
    CUDA error: an illegal instruction was encountered
    cudaErrorIllegalInstruction
experts_not_served              kernel   root         0.3.0-           vllm/model_executor/layers/fused_moe/layer.py
    self\.quant_method is not None
    does not support MoE
    is not supported for FusedMoE
    Unsupported FusedMoe scheme
quantization_kernel             kernel   root         0.4.2-           vllm#29732
    Failed to find a kernel that can implement the (?P<kind>\w+) linear layer
    Marlin does not support weight_bits
    No kernel implements the
    The quantization method moe_wna16 \+ awq is not supported
quantization_unsupported        kernel   root         0.2.7-           vllm/config/vllm.py
    The quantization method (?P<method>[\w-]+) is not supported for the current GPU
    uantization method (?P<method>[\w-]+) is not supported
    Unknown quantization method: (?P<method>[\w-]+)
    Invalid quantization method: (?P<method>[\w-]+)
    FP8 computation is not supported on
    does not support fp8, which requires
    Unsupported quantization method
cutlass_failed                  kernel   root         any              CUDA:cublasStatus_t
    cutlass_gemm_caller
    RuntimeError: Error Internal
    CUBLAS_STATUS_ARCH_MISMATCH
cublas_failed                   kernel   symptom      any              CUDA:cublasStatus_t
    CUBLAS_STATUS_NOT_SUPPORTED
    CUBLAS_STATUS_EXECUTION_FAILED
    CUBLAS_STATUS_INVALID_VALUE
    CUBLAS_STATUS_ARCH_MISMATCH
crash                           kernel   symptom      any              cpython:faulthandler
    Fatal Python error: Segmentation fault
    Segmentation fault \(core dumped\)
    Segfault encountered
    terminate called after throwing an instance of '(?P<type>[\w:]+)'
cublas_init                     memory   symptom      any              CUDA:cublasStatus_t
    CUBLAS_STATUS_ALLOC_FAILED
    CUBLAS_STATUS_NOT_INITIALIZED
illegal_access                  kernel   symptom      any              vllm#6976
    an illegal memory access was encountered
    CUDA error: unspecified launch failure
    CUDA error: misaligned address
    cudaErrorIllegalAddress
device_assert                   kernel   symptom      any              CUDA:cudaErrorAssert
    CUDA error: device-side assert triggered
    cudaErrorAssert
forked_cuda                     host     root         0.6.3.post1-     vllm#12189
    Cannot re-initialize CUDA in forked subprocess
not_in_main                     host     root         any              vllm#5637
    An attempt has been made to start a new process before the current process has finished its bootstrapping phase
# The model and its files
gated_repository                model    root         any              vllm#3963
    You are trying to access a gated repo
    Cannot access gated repo for url
    GatedRepoError
    Access to model (?P<model>\S+) is restricted
hub_unauthorized                model    root         any              vllm#8331
    401 Client Error
    RepositoryNotFoundError
    is not a local folder and is not a valid model identifier
    HFValidationError: Repo id must be
    Repo id must be in the form
hub_unreachable                 model    root         any              vllm#1986
    We couldn't connect to 'https://huggingface\.co' to load
    Max retries exceeded with url: (?P<url>\S+)
    HTTPSConnectionPool\(host='(?P<url>[\w.-]+)'
    outgoing traffic has been disabled
    OfflineModeIsEnabled
    LocalEntryNotFoundError
    Temporary failure in name resolution
    Name or service not known
harmony_vocabulary              model    root         any              vllm#22525
    error downloading or loading vocab file
    failed to download or load vocab file
    Failed to load Harmony encoding
tiktoken_download               model    root         any              sgl-project/sglang#18074
    openaipublic\.blob\.core\.windows\.net
chat_template                   client   root         0.4.1-           vllm#39279
    As of transformers v4\.44, default chat template is no longer allowed
    Cannot use chat template functions because tokenizer\.chat_template is not set
    The supplied chat template .{0,200}?(?:could not be|is not)
    looks like a file path, but it failed to be opened
model_missing                   model    root         0.2.7-           vllm/model_executor/model_loader/default_loader.py
    Can't load the configuration of
    No model weights found in
    Cannot find any safetensors model weights
    does not appear to have a file named (?P<file>(?!preprocessor)[\w.-]+)
    Cannot find any model weights
    No files matching .{0,100} found
    Invalid repository ID or local directory specified
    Error no file named (?P<file>[\w.-]+)
    Could not detect config format for no config file found
    No supported config format found
    Cannot find the config file
    Incorrect path_or_model_id
    is not the path to a directory containing a file named
corrupt_weights                 model    root         any              huggingface/safetensors:safetensors/src/tensor.rs
    SafetensorError
    HeaderTooLarge
    InvalidHeaderDeserialization
    MetadataIncompleteBuffer
    PytorchStreamReader failed
    UnpicklingError: invalid load key
    invalid load key, '
mistral_format                  model    root         0.4.2-           vllm#4989
    layers\.\d{1,3}\.attention\.w[kqvo]\.weight
    No such file or directory: '\S{1,200}params\.json'
load_format                     model    root         0.2.7-           vllm/model_executor/model_loader/__init__.py
    Unknown load_format: (?P<format>\S+)
    Load format `(?P<format>\w+)` is not supported
    Model loader extra config is not supported for load format (?P<format>\S+)
    Unexpected extra config keys for load format (?P<format>\S+):
    only pre-sharded checkpoints are currently supported
bitsandbytes_loading            model    root         0.4.3-           vllm#11010
    \.weight\.(?:absmax|quant_map|quant_state\S{0,40}|nested_absmax)'
    \.weight\.SCB'
    \.SCB'
gguf_unsupported                model    root         0.5.5-           vllm#7357
    GGUF model with architecture (?P<name>\S+) is not supported
    ValueError: Architecture (?P<name>[\w-]+) not supported
    Unknown gguf model_type: (?P<name>\S+)
weights_missing                 model    root         0.4.3-           vllm#15536
    Following weights were not initialized from checkpoint
    Missing keys .{1,160}? in loaded state
    There is no module or parameter named '(?P<name>[\w.]+)'
    KeyError: '(?P<name>(?:model\.)?(?:layers|blocks|h)\.\d+[\w.]*)'
    Some layers are not correctly initialized
bitsandbytes_state              model    root         0.5.0-0.8.1      vllm/model_executor/layers/quantization/bitsandbytes.py
    has no attribute 'bnb_quant_state
    Only bitsandbytes quantization .{0,80}?load format
    BitsAndBytes quantization and QLoRA adapter only support 'bitsandbytes' load format
bitsandbytes_limits             model    root         0.5.0-0.27.1     vllm/model_executor/model_loader/bitsandbytes_loader.py
    Prequant BitsAndBytes models with tensor parallelism
    does not support BitsAndBytes quantization yet
    BitsAndBytes loader does not support
    Loading 4-bit and 8-bit prequantized
weight_shapes                   model    root         0.5.5-           unslothai/unsloth#3366
    param_data\.shape == loaded_weight\.shape
    param\.size\(\) == loaded_weight\.size\(\)
    Attempted to load weight \((?P<loaded>[^)]{1,60}\)?)\) into parameter
    loaded_weight\.shape\[output_dim\] == self\.org_vocab_size
    self\.data\.shape == loaded_weight\.shape
    Tried to load weights of size
tokenizer_class                 model    root         0.2.7-           gpustack/gpustack#5096
    Tokenizer class (?P<name>\w+) does not exist or is not currently imported
    data did not match any variant of untagged enum
    Couldn't instantiate the backend tokenizer
    Unable to load tokenizer
    Can't load tokenizer for
    Failed to load the tokenizer
processor_missing               model    root         any              vllm#6934
    Can't load image processor for
    Failed to apply .{0,60}Processor on data
    does not appear to have a file named preprocessor_config\.json
    Unrecognized (?:image processor|video processor|processing class) in
remote_code                     model    root         0.2.7-           transformers/dynamic_module_utils.py
    argument `trust_remote_code=True`
    option `trust_remote_code=True`
    consider setting `trust_remote_code=True`
    requires you to execute the configuration file
    contains custom code which must be executed
architecture_removed            model    root         0.10.1.1-        vllm/model_executor/models/registry.py
    was supported in vLLM until v(?P<last>\S+?),? and is not supported anymore
architecture_unsupported        model    root         0.2.7-           vllm/model_executor/models/registry.py
    Model architectures (?P<name>\[[^\]]{1,200}\]|\S+) (?:are not supported|failed)
    unknown model architecture: '(?P<name>[\w-]+)'
    Cannot find model module\. '(?P<name>\w+)'
    has no vLLM implementation and the Transformers implementation is not compatible
    TransformersForCausalLM is not compatible
transformers_too_new            model    root         0.2.7-           huggingface/transformers:MIGRATION_GUIDE_V5
    has no attribute '?all_special_tokens_extended
    Config' object has no attribute '(?P<name>rope_theta|rope_scaling|pad_token_id)'
    aimv2' is already used by a Transformers config
transformers_too_old            model    root         any              transformers/models/auto/configuration_auto.py
    model type `(?P<type>[\w-]+)` but Transformers
    Transformers does not recognize this architecture
    cannot import name '(?P<type>\w+)' from 'transformers
    Unrecognized configuration class
    Unrecognized model in
rope_scaling                    model    root         0.2.7-           runpod-workers/worker-vllm#88
    `rope_scaling` must be a dictionary
    rope_scaling should have a 'rope_type' key
    rope_parameters should have a 'rope_type' key
    "factor" in rope_scaling
    Unknown RoPE scaling type (?P<type>\w+)
    `rope_parameters`'s factor field
    `rope_scaling`'s
    KeyError: 'rope_type'
    Found conflicts between 'rope_type=
max_model_len_too_long          model    root         0.2.7-           vllm/config.py
    User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len
    To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN
runner_kind                     model    root         0.6.4.post1-     vllm/config/model.py
    This model does not support `--(?P<option>runner|task)
    does not support any pooling tasks
    This model does not support the '(?P<option>\w+)' task
    Unsupported task:
float16_refused                 model    root         0.9.1-           vllm/config/__init__.py
    does not support (?:torch\.)?float16
    does not support float16
    numerical instability.{0,80}float16
    float16.{0,80}numerical instability
quantization_mismatch           model    root         0.2.7-           vllm#5842
    Quantization method specified in the model config \((?P<model>[\w-]+)\) does not match
    Cannot find the config file for (?P<asked>[\w-]+)
    Cannot find any of \[.{1,80}?\] in the model's quantization config
    torch\.bfloat16 is not supported for quantization method (?P<asked>[\w-]+)
    is not supported for quantization method (?P<asked>[\w-]+)
heads_not_divisible             model    root         0.2.7-           vllm/config.py
    otal number of attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size(?: \((?P<tp>\d+)\))?
    attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size(?: \((?P<tp>\d+)\))?
    self\.total_num_(?:kv_)?heads % (?:attn_)?tp_size == 0
not_divisible                   model    root         any              vllm/distributed/utils.py
    AssertionError: (?P<size>\d+) is not divisible by (?P<tp>\d+)
quant_group_not_divisible       model    root         0.2.7-           vllm#21695
    input size is not aligned with the quantized weight shape
    output size is not aligned with the quantized weight shape
    size_k must divisible by BLOCK_SIZE_K
    not divisible by weight quantization block
    is not divisible by min_thread_
    divisible by min_thread_
    divisible by group_size
    divisible by pack_factor
    min_k_threads
    min_n_threads
partition                       model    root         0.5.4-           vllm/distributed/utils.py
    Invalid partition string
    partitions\)=(?P<sum>\d+) does not match num_hidden_layers=(?P<layers>\d+)
    partitions\)=\S+ does not match pp_size
tp_unsupported                  model    root         0.7.0-           vllm/model_executor/models/transformers.py
    does not currently support tensor parallelism
    does not support tensor parallel
    ensor parallelism is not supported
pp_unsupported                  model    root         0.2.7-           vllm/config.py
    ipeline parallelism is not supported
    Pipeline parallelism is only supported
    NotImplementedError: Pipeline parallelism
    does not support pipeline parallel
expert_parallel                 model    root         0.8.0-           vllm/config/model.py
    Number of experts in the model must be greater than 0 when expert parallelism is enabled
    enable_expert_parallel must be True to use EPLB
    num_redundant_experts is set to
    EPLB requires tensor_parallel_size or data_parallel_size
    DeepEP kernels not found
    pplx_kernels not found
    Unknown all2all backend
data_parallel                   model    root         0.9.0.1-         vllm/config/parallel.py
    data_parallel_size_local \((?P<local>\d+)\) must be
    data_parallel_rank \((?P<local>\d+)\) must be in the range
    data_parallel_external_lb can only be set
    Not enough resources to allocate (?P<local>\d+) DP ranks
    Not enough resources to allocate DP ranks
lora_vocabulary                 model    root         0.3.0-           vllm#6605
    When using LoRA, vocab size must be
lora_modules                    model    root         0.7.0-           hiyouga/LlamaFactory#9545
    modules_to_save being None
    only supports modules_to_save
lora_rank                       model    root         0.3.0-           gpustack/gpustack#5438
    LoRA rank (?P<rank>\d+) is greater than max_lora_rank (?P<limit>\d+)
    max_lora_rank \((?P<rank>\d+)\) must be one of
    Input should be 1, 8, 16, 32, 64, 128, 256, 320 or 512
lora_unsupported                model    root         0.3.0-           vllm/v1/worker/lora_model_runner_mixin.py
    does not support LoRA
    LoRA is not enabled
    is unsupported LoRA weight
    does not support LoRA yet
    Loading lora .{1,120}? failed
model_runner_v2                 model    root         0.12.0-          vllm/config/vllm.py
    Model Runner V2 does not yet support: ?(?P<what>.{1,80}?)(?: \[type=|\.|$)
    VLLM_USE_V2_MODEL_RUNNER does not yet support: ?(?P<what>.{1,80}?)(?: \[type=|\.|$)
speculative                     model    root         0.5.1-           vllm#7252
    Target and draft model should have the same vocabulary size
    Unsupported speculative method
    Unknown speculative decoding method
    Arctic Inference is required
    This speculative model supports
# Settings
v1_lacks                        model    root         0.8.0-0.10.2     vllm/engine/arg_utils.py
    VLLM_USE_V1=1 is not supported with (?P<what>.{1,80}?)\.(?: |$)
no_model_named                  model    root         0.6.0-           python:argparse
    error: the following arguments are required: (?P<names>[\w, -]{1,80})
unknown_option                  model    root         any              vllm/entrypoints/openai/cli_args.py
    error: unrecognized arguments: (?P<options>.{1,120})
    error: ambiguous option: (?P<options>\S+)
    error: argument (?P<options>\S+): expected
option_value                    model    root         any              cpython:Lib/argparse.py
    error: argument (?P<option>\S+): invalid choice: '?(?P<value>[^' ]{1,60})
    error: argument (?P<option>\S+): invalid \w+ value: '?(?P<value>[^' ]{1,60})
    error: argument (?P<option>\S+):
config_validation               model    symptom      any              pydantic:ValidationError
    validation errors? for \w+Config
    validation errors? for \w+Args
batched_tokens_below_length     model    root         0.2.7-           vllm/config/scheduler.py
    max_num_batched_tokens \((?P<tokens>\d+)\) is smaller than max_model_len \((?P<length>\d+)\)
batched_tokens_below_seqs       model    root         0.2.7-           vllm/config/scheduler.py
    max_num_batched_tokens \((?P<tokens>\d+)\) must be greater than or equal to max_num_seqs \((?P<seqs>\d+)\)
gpu_memory_share                model    root         any              vllm/config/cache.py
    GPU memory utilization must be less than 1\.0\. Got (?P<share>[\d.]+\d)
tool_parser                     client   root         0.6.0-           vllm#9986
    tool choice requires --enable-auto-tool-choice and --tool-call-parser
    tool choice requires --tool-call-parser
    --enable-auto-tool-choice requires --tool-call-parser
    invalid tool call parser: (?P<name>\S+)
reasoning_parser                client   root         0.7.1-           vllm/entrypoints/openai/api_server.py
    invalid reasoning parser: (?P<name>\S+)
    Reasoning parser .{1,60} not found
    could not locate think start/end tokens in the tokenizer
sliding_window                  model    root         0.4.3-           vllm/config/__init__.py
    Prefix caching is not supported with sliding window
    Disabling sliding window is not supported
    Window left is not the same for all layers
    Chunked prefill is not supported with sliding window
async_scheduling                model    root         0.19.0-          vllm/config/vllm.py
    does not support async scheduling
cudagraph_settings              kernel   root         0.6.5-           vllm/v1/worker/gpu_model_runner.py
    CUDAGraphMode\.\w+ is not supported with .{1,200}?please try
    only supports decode-only full CUDAGraph capture
    No compilation (?:mode|level) is set
    Invalid compilation
    CUDA Graphs enabled but no capture sizes
multimodal_limits               model    root         0.5.5-           vllm/config/model.py
    `limit_mm_per_prompt` is only supported for multimodal models
    The model is not multimodal
    At most (?P<limit>\d+) (?P<kind>\w+)\(s\) may be provided
    Attempted to assign .{1,80}? multimodal tokens to .{1,60}? placeholders
    Chunked MM input disabled but max_tokens_per_mm_item
kv_transfer                     model    root         0.6.5-           vllm/config/kv_transfer.py
    Unsupported connector type: (?P<name>\w+)
    Unsupported kv_role
api_key                         client   symptom      any              vllm/entrypoints/openai/api_server.py
    "POST /v1/\S+ HTTP/1\.1" 401 Unauthorized
    "error":"Unauthorized"
model_name                      client   symptom      0.2.7-           vllm/entrypoints/openai/serving_engine.py
    The model `(?P<name>[^`]{1,120})` does not exist
prompt_too_long                 client   symptom      0.2.7-           vllm#525
    This model's maximum context length is (?P<limit>\d+) tokens\. However, (?:you requested|your request has) (?P<asked>\d+)
    maximum context length is (?P<limit>\d+) tokens
    The decoder prompt \(length (?P<asked>\d+)\) is longer than the maximum model length of (?P<limit>\d+)
    Input prompt \((?P<asked>\d+) tokens\) is too long and exceeds limit of (?P<limit>\d+)
structured_output               client   symptom      0.6.5-0.10.0     vllm/v1/structured_output
    The provided JSON schema contains features not supported by xgrammar
    Failed to convert the grammar from
    Grammar error:
# Memory of the GPU
free_memory                     memory   root         0.9.1-           vllm/v1/worker/gpu_worker.py
    Free memory on device .{0,40}?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than desired
other_process                   memory   root         any              vllm#16127
    CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ [KMG]iB)\..{0,160}?Process \d+ has (?P<held>[\d.]+ [MG]iB) memory in use
sampler_warm_up                 memory   root         0.8.0-           vllm#19445
    CUDA out of memory occurred when warming up (?P<what>sampler|pooler)(?: \(task=\S+\))? with (?P<seqs>\d+) dummy requests
unbalanced_memory               memory   root         any              sgl-project/sglang:python/sglang/srt/model_executor/model_runner.py
    The memory capacity is unbalanced\. Some GPUs may be occupied by other processes
sglang_no_cache                 memory   root         any              sgl-project/sglang:python/sglang/srt/mem_cache/kv_cache_configurator.py
    Not enough memory\. Please try to increase --mem-fraction-static
    Loaded weights leave no GPU memory for the KV cache
no_cache_blocks                 memory   root         0.2.7-           vllm/worker/worker.py
    No available memory for the cache blocks
max_model_len_exceeds_kv_cache  memory   root         0.2.7-           vllm#34076
    max seq len \((?P<asked>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((?P<fits>\d+)\)
    max seq len \((?P<asked>\d+)\),? .{0,200}?GiB KV cache is needed(?:.{0,300}?estimated maximum model length is (?P<fits>\d+))?
no_gpu_blocks                   memory   root         any              vllm/executor/gpu_executor.py
    # GPU blocks: 0\b
    # CUDA blocks: 0\b
    # cuda blocks: 0\b
memory_profiling                memory   root         0.4.0-           vllm/v1/worker/gpu_worker.py
    Error in memory profiling
mamba_blocks                    memory   root         0.20.0-          vllm#49064
    exceeds available Mamba cache blocks
kv_cache_groups                 memory   root         0.3.0-           vllm/v1/core/kv_cache_utils.py
    Hybrid KV cache manager is disabled but failed to convert
    The page size of the layer is not divisible
    unknown kv cache spec
    Unknown kv cache dtype: (?P<dtype>\w+)
    Invalid kv_cache_dtype: (?P<dtype>\w+)
tensor_shapes                   model    symptom      any              vllm#15269
    The size of tensor a \(
    is invalid for input of size
    mat1 and mat2 shapes cannot be multiplied
    Sizes of tensors must match except in dimension
out_of_memory                   memory   symptom      any              pytorch/pytorch:c10/cuda/CUDACachingAllocator.cpp
    CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ [KMG]iB)
    cudaMalloc failed: out of memory
    CUDA_OUT_OF_MEMORY
    CUDA error: out of memory
    CUDA_ERROR_OUT_OF_MEMORY
    torch\.OutOfMemoryError
    torch\.cuda\.OutOfMemoryError
    Not enough memory\. Please try to increase --mem-fraction-static
# Ray
ray_memory_monitor              ray      root         any              vllm#2669
    which exceeds the memory usage threshold of (?P<share>[\d.]+\d)
    killed due to memory pressure \(OOM\)
    Task was killed due to the node running low on memory
    ray\.exceptions\.OutOfMemoryError
ray_version_mismatch            ray      root         any              gpustack/gpustack#1640
    Version mismatch: The cluster was started with:(?: Ray: (?P<one>[\d.]+\d).{0,120}?Ray: (?P<two>[\d.]+\d))?
unique_addresses                network  root         0.5.5-0.32.0     vllm#43095
    Every node should have a unique IP address\. Got (?P<nodes>\d+) nodes with (?:node ids .{1,200}? and )?(?P<addresses>\d+) unique IP addresses
    Every node should have a unique IP address
ray_driver_without_gpu          ray      root         0.5.0-           vllm#6956
    Ray does not allocate any GPUs on the driver node
ray_node_start                  ray      root         any              ray:python/ray/_private/node.py
    The current node timed out during startup
    Timed out waiting for file \S{1,160}ports_by_node\.json
    does not match persisted value
    Failed to start (?:GCS|the GCS)
ray_other_environment           ray      root         any              ray:python/ray/exceptions.py
    RaySystemError: System error: No module named '(?P<package>[\w.]+)'
    System error: Failed to unpickle
    ray::\S{1,80}ModuleNotFoundError
ray_not_ready                   ray      root         0.5.5-           vllm/ray/ray_utils.py
    Ray is not initialized although distributed-executor-backend is ray
    Ray version (?P<least>\S+) is required
    No nodes with resources found in Ray cluster
    There can only be one head node
    Ray Compiled Graph is not installed
ray_no_head                     ray      root         any              vllm#15385
    Failed to connect to GCS
    GCS may have been killed
    Could not find any running Ray instance
    Ray cluster at .{1,60}? not found
    Unable to connect to GCS
    Can't find a `node_ip_address\.json` file
    Failed to get cluster ID from GCS server
ray_wrong_token                 ray      root         any              ray-project/ray:authentication
    ray\.exceptions\.AuthenticationError
    oken authentication is enabled but no (?:authentication )?token was found
ray_no_resources                ray      root         0.2.7-           vllm#4655
    No available node types can fulfill resource request
    Not enough resources to allocate \d+ placement groups
    driver node id \S+ is not included in a placement group
    Current node has no \S+ available
    Cannot provide a placement group
    The number of required GPUs exceeds
    placement group.{0,40}timed? ?out
    current platform .{1,40}? does not support ray
    Current node has no GPU available
ray_ports                       ray      root         any              ray-project/ray:python/ray/_private/parameter.py
    Failed to register worker .{0,120}?to Raylet
    is trying to use a port number (?P<port>\d+) that is used by other components
    No available ports
ray_node_dead                   ray      symptom      any              ray-project/ray#45179
    has been marked dead because the detector has missed too many heartbeats
    The node with node id: (?P<node>\w+) and address: (?P<address>[\d.]+)
    Raylet is terminated
    Health check failed due to missing too many heartbeats
    NodeDiedError
ray_actor_died                  ray      consequence  0.5.1-0.8.4      verl-project/verl#4921
    The actor died unexpectedly before finishing this task
    The actor is dead because its worker process has died
    RayActorError
    ActorDiedError
    A worker died or was killed while executing a task
    WorkerCrashedError
placement_group_waiting         ray      symptom      0.5.5-           vllm/executor/ray_utils.py
    Waiting for creating a placement group of specs for (?P<seconds>\d+) seconds
# The network between hosts
nccl_shm                        network  root         any              NVIDIA/nccl:src/transport/net_ib.cc
    ibv_reg_mr_iova2 failed with error Cannot allocate memory
    ibv_create_cq failed
    Call to ibv_reg_mr failed with error Cannot allocate memory
nccl_loopback                   network  root         any              NVIDIA/nccl:src/misc/socket.cc
    Connect to 127\.0\.
    Bootstrap : Using \S{1,20}:127\.0\.
    connection to 127\.0\.1\.1
    connect to 127\.0\.1\.1
    connect to 127\.0\.0\.1<\d+> failed
nccl_no_interface               network  root         any              NVIDIA/nccl:src/bootstrap.cc
    Bootstrap : no socket interface found
    no socket interface found
    No interface found in the same subnet as remote address
    Unable to find interface
    Unable to find address for: (?P<interface>\S+)
    NET/Socket : No usable listening interface found
rdma                            network  root         any              NVIDIA/nccl#1405
    ibv_modify_qp failed
    Got completion from peer .{1,120}? with (?:status=|error )(?P<status>\d+)
    ibv_\w+ failed with error
nccl_firewall                   network  root         any              NVIDIA/nccl:src/misc/socket.cc
    socketStartConnect: Connect to (?P<address>[\d.]+)\S* failed
    Call to connect returned No route to host
    Call to connect returned Connection refused
    Call to connect returned Connection timed out
    socketPollConnect: Connect to (?P<address>[\d.]+)
    No route to host
    NCCL WARN Timeout waiting for connection
nccl_duplicate_gpu              network  root         any              vllm#17176
    Duplicate GPU detected : rank (?P<one>\d+) and rank (?P<two>\d+)
    NCCL WARN Duplicate GPU detected
nccl_version                    network  root         any              NVIDIA/nccl:src/init.cc
    Mismatched NCCL version detected
    Message truncated : received (?P<got>\d+) bytes instead of (?P<wanted>\d+)
nccl_topology                   network  root         any              NVIDIA/nccl:src/graph/topo.cc
    Could not find real path of
    Attribute busid of node nic not found
rendezvous                      network  root         any              vllm#19670
    The client socket has timed out after (?P<ms>\d+)ms while trying to connect to \((?P<address>[^)]{1,80})\)
    DistStoreError
    Timed out after (?P<seconds>\d+) seconds waiting for clients
    The server socket has failed to listen on any local network address
    wait timeout after (?P<ms>\d+)ms
collective_mismatch             network  root         any              sgl-project/sglang#23603
    Detected mismatch between collectives on ranks
nccl_watchdog                   network  symptom      any              pytorch/pytorch:torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
    Watchdog caught collective operation timeout(?:.{0,120}?OpType=(?P<kind>\w+))?
    Timeout at NCCL work
    Some NCCL operations have failed or timed out
    detected by watchdog at work
gloo                            network  symptom      any              vllm#7074
    Gloo connectFullMesh failed
    gloo/transport/tcp
    Application timeout caused pair closure
    ProcessGroupGloo.{0,60}(?:Connection refused|[Tt]imed? ?out)
peer_access                     network  root         0.5.1-           sgl-project/sglang#4814
    peer access is not supported
    Error happened when batch testing peer-to-peer access
    custom_all_reduce\.cuh:\d+ '(?P<what>[\w ]+)'
    cudaErrorPeerAccessUnsupported
    can't enable access between (?P<what>[\w ]+)
nccl                            network  symptom      0.4.1-           vllm#6732
    ncclUnhandledCudaError
    NCCL Error \d
    NCCL error
    ncclSystemError
    ncclInternalError
    ncclRemoteError
    ncclInvalidUsage
    unhandled system error
    unhandled cuda error
    ProcessGroupNCCL.{0,60}timed? ?out
    Connection closed by (?:remote )?peer.{0,60}NCCL
group_size                      network  root         0.2.7-           vllm/distributed/parallel_state.py
    parallel group already initialized, but of unexpected size
    world_size \((?P<world>\d+)\) is (?:not equal to|less than)
nodes_setting                   network  root         0.11.1-          vllm/config/parallel.py
    nnodes > 1 can only be set
executor_setting                ray      root         0.4.3-           vllm/config/parallel.py
    Unrecognized distributed executor backend (?P<name>\w+)
    worker-use-ray can't be used with distributed executor backend
    Unsupported torch distributed backend
    Unknown distributed executor backend
# What follows from another failure, or is none
ready_timeout                   host     consequence  0.5.5-           vllm/v1/engine/core_client.py
    Timed out waiting for engine core
    Did not receive response from front-end process
    Timed out waiting for engines to sendinitial
    Timed out waiting for engines to send
    VLLM_ENGINE_READY_TIMEOUT_S
    Engine core did not
    RPCServer process died before
    RPC call to (?P<call>\w+) timed out
    No available shared memory broadcast block found
rank_gone                       network  consequence  any              pytorch/pytorch:torch/csrc/distributed/c10d/TCPStore.cpp
    sendBytes failed on SocketImpl
    sendValue failed on SocketImpl
    recvVector failed
    recvValue failed
    Connection closed by peer \[
    HeartbeatMonitor::runLoop
    dump\" flag on TCPStore
    DistNetworkError: Connection reset by peer
terminated_while_loading        host     consequence  any              vllm#17386
    KeyboardInterrupt: terminated
    MQLLMEngine terminated
worker_died                     host     consequence  0.6.5-           vllm/v1/executor/multiproc_executor.py
    Worker proc \S+ died unexpectedly
    exit code: -9
    exitcode: -9
    ShardCannotStart
    Received sigquit from a child process
    WorkerProc failed to start
    WorkerProc initialization failed
    Worker VllmWorkerProcess pid \d+ died
    Worker failed with error '(?P<what>[^']{1,160})
    Parent process exited, terminating worker
    WorkerProc hit an exception
    Process exited unexpectedly
    Executor failed
engine_failed_to_start          host     consequence  0.4.0-           vllm#20465
    Engine process failed to start
    Engine core initialization failed
    EngineCore failed to start
    EngineCore hit an exception
    Got fatal signal from worker processes
    Engine core proc \S+ died unexpectedly
    Error executing method
    Exception in worker VllmWorkerProcess
    DP Coordinator process failed
engine_dead                     host     consequence  0.2.7-           LMCache/LMCache#411
    EngineDeadError
    MQLLMEngine is already dead
    Engine loop has died
    Engine loop is not running
    EngineCore encountered a fatal error
    EngineCore encountered an issue
    Background loop has errored already
    Background loop is stopped
    Engine process \(pid \d+\) died
    Executor has been shut down
custom_all_reduce_off           network  note         0.3.0-           vllm/distributed/device_communicators/custom_all_reduce.py
    Custom allreduce is disabled because (?P<why>.{1,160}?)(?:\.|$)
loopback_name                   network  note         any              vllm#7074
    Using the loopback address as fallback
"""

# Errors that no entry above knows, by their words: the first row that matches. Capitals do not count.
_FAMILIES = r"""
speculative                     model
    speculat|draft.?model|\bdraft\b|prompt_lookup|\beagle|synthetic_acceptance|\bngram|suffix_decoding|\bmtp\b|n_predict
lora_unsupported                model
    \blora|adapter
kv_transfer                     model
    kv_transfer|\bconnector|kv_role|\bnixl|mooncake
multimodal_limits               model
    multi-?modal|\bmm_|\bvision|\bimage|\baudio|\bvideo|\bvit\b
expert_parallel                 model
    \bexperts?\b|\beplb|\bmoe\b|all2all|fusedmoe|deepep|shard.?id
quantization_refused            kernel
    quant|\bgptq|\bawq|marlin|\bfp8|\bint8|\bint4|num_bits|weight_bits|group_?size|bitsandbytes|\bbnb_|modelopt|compressed|gguf
    exllama|machete|cutlass|mxfp|nvfp4|\bscales?\b|scaling factor|_scale|zero.?point|float8|\bhqq|aqlm|act.?order|sparsity|deepgemm
    bit-?width|\bw4a|\bw8a
rope_scaling                    model
    \brope|yarn|alibi_scaling
cudagraph_settings              kernel
    cuda ?graph|compilation|compile|inductor|splitting_ops|custom op|graph pool|piecewise
attention_refused               kernel
    attention|attn|head_?(?:dim|size)|\bmla\b|sliding.?window|alibi|soft_?cap|cascade|\bsinks?\b|\bquery|seq_?lens?\b|flashinfer
    flashmla|\bprefill|\bdecode|chunked|page.?table|\btopk\b|\bq_\w+
kv_cache_groups                 memory
    kv.?cache|page.?size|block.?size|\bmamba|\bblocks?\b|prefix.cach|hybrid
nodes_setting                   network
    nnodes|node_rank|master_addr|data.?parallel|\bdp\b|dp_|data_parallel|headless|api.server.count
group_size                      network
    world.?size|process group|parallel group|parallel size|tensor.?parallel|pipeline.?parallel|context.?parallel|nccl|communicat
    \branks?\b|all.?reduce|all.?gather|broadcast|barrier|\bdcp|\bpcp
executor_setting                ray
    executor|worker|\bray\b|placement
weights_refused                 model
    \bweights?\b|checkpoint|state.?dict|tensorizer|safetensors|load.?format|\bloader|\bload(?:ed|ing)?\b|\bshard|parameter
package_missing_family          host
    pip install|please install|not installed|not available|unavailable|not found\. please|module was not found|cannot be found
config_refused                  model
    config\.json|hf_\w+|\bmodel architecture|architectures?\b|model.?type|layer_types|vocab|num_\w*layers|tokenizer|hidden_size
    PretrainedConfig|model config|text_config
option_value                    model
    (?:^|: )[`'\"]?(?:--)?[a-z]+(?:[_-][a-z]+)+[`'\"]?(?: ?\([^)]{0,80}\)|[:=] ?\S+)? (?:must|should|cannot|can't|needs|has to
    is required|requires|expects|can only|is only|is not supported|was provided|entries
    exceeds)\b|GPU memory utilization must|CPU offload space must|swap space
"""


def _rows(table: str) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    """The fields and the signatures of each row. A row is a line, and the signatures are the lines below it that begin with blanks."""
    fields: list[str] = []
    signatures: list[str] = []
    for line in [*table.splitlines(), "end"]:
        if line.startswith("    "):
            signatures.append(line.strip())
        elif line and not line.startswith("# "):
            if fields:
                yield fields, tuple(signatures)
            fields, signatures = line.split(), []


FAILURES = tuple(
    Failure(code, layer, kind, releases, source, signatures)
    for (code, layer, kind, releases, source), signatures in _rows(_FAILURES)
)
FAMILIES = tuple(Family(code, layer, signatures) for (code, layer), signatures in _rows(_FAMILIES))
