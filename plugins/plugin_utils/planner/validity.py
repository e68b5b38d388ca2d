# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules that stop a start before any memory is counted, in the order in which vLLM meets them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import code_for
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as eras
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.architectures import LAST_RELEASE
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.quantization import METHODS, SCHEMES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import Refusal
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.quantization import Quantization, canonical
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import Settings, unknown_option
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key, within
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.weights import padded_vocabulary


def _divisors(number: int, up_to: int = 64) -> str:
    return ", ".join(str(x) for x in range(1, min(number, up_to) + 1) if number % x == 0)


def options(settings: Settings) -> Iterator[Refusal]:
    for name in settings.raw:
        refusal = unknown_option(name, settings.release)
        if refusal:
            yield refusal


def world(settings: Settings, gpus: Sequence[Gpu]) -> Iterator[Refusal]:
    size = settings.tp * settings.pp
    key = settings.release.key
    if size * settings.dp > len(gpus) and settings.dp > 1:
        yield Refusal(
            "world_size_exceeds_gpus",
            f"data_parallel_size {settings.dp} x {size} ranks needs {size * settings.dp} GPUs, and there are {len(gpus)}",
            "lower data_parallel_size, or add GPUs",
        )
        return
    if size > len(gpus):
        yield Refusal(
            "world_size_exceeds_gpus",
            "tensor_parallel_size {0} x pipeline_parallel_size {1} needs {2} GPUs, and there are {3}".format(
                settings.tp, settings.pp, size, len(gpus)
            ),
            "lower tensor_parallel_size or pipeline_parallel_size, or add GPUs",
        )
        return
    nodes = settings.nodes
    if nodes is None or len(nodes) < 2 or sum(nodes) < size:
        return
    rule = at(eras.AUTO_EXECUTOR, key)
    executor = settings.executor
    if executor is None and rule == "mp_only":
        yield Refusal(
            "world_size_exceeds_gpus",
            "vLLM {0} starts {1} ranks on one node of {2} GPUs unless told otherwise".format(
                settings.release.asked, size, nodes[0]
            ),
            "set distributed_executor_backend to ray, or to mp with nnodes",
        )
    if executor == "mp":
        if key < release_key(eras.MP_NODES_SINCE):
            yield Refusal(
                "world_size_exceeds_gpus",
                "the mp executor of vLLM {0} cannot leave its node ({1} ranks, {2} GPUs)".format(
                    settings.release.asked, size, nodes[0]
                ),
                "set distributed_executor_backend to ray (mp spans nodes from {0} on)".format(eras.MP_NODES_SINCE),
            )
        elif size % len(nodes) or len(set(nodes)) > 1:
            yield Refusal(
                "world_size_exceeds_gpus",
                "the mp executor needs the same number of ranks on each node, not {0}".format(list(nodes)),
                "set distributed_executor_backend to ray",
            )


def architecture(model: Model, settings: Settings) -> Iterator[Refusal]:
    since = str(model.traits["since"])
    if model.known and settings.release.key < release_key(since):
        yield Refusal(
            "architecture_not_supported",
            "vLLM {0} does not know {1}; the first release with it is {2}".format(
                settings.release.asked, model.architecture, since
            ),
            "use vLLM {0} or later".format(since),
        )

    last = LAST_RELEASE.get(model.architecture)
    if last is not None and settings.release.key > release_key(last):
        yield Refusal(
            "architecture_not_supported",
            f"vLLM {settings.release.asked} does not have {model.architecture} any more; the last release with it is {last}",
            f"use vLLM {last} or older",
        )


def gpu_kernels(settings: Settings, gpus: Sequence[Gpu]) -> Iterator[Refusal]:
    """Whether the image holds code for the GPU."""
    release = RELEASES[settings.release.examined]
    for gpu in {gpu.capability: gpu for gpu in gpus}.values():
        if gpu.capability < (7, 0) and settings.image_code is None:
            yield Refusal(
                "gpu_not_supported",
                "{0} has compute capability {1}; vLLM and Triton need 7.0".format(gpu.name, gpu.capability_text),
                "use a GPU of compute capability 7.0 or higher",
            )
        elif settings.image_code is not None:
            lacking = [name for name, names in settings.image_code.items() if code_for(names, gpu.capability) is None]
            if lacking or not settings.image_code:
                holds = "; ".join(
                    "{0}: {1}".format(name, " ".join(settings.image_code[name]) or "-") for name in lacking
                )
                yield Refusal(
                    "gpu_not_supported",
                    "the image holds no CUDA code for {0} ({1}); it is built for {2}".format(
                        gpu.name, gpu.capability_text, holds or "no GPU"
                    ),
                    "use an image built for compute capability {0}".format(gpu.capability_text),
                )
        elif gpu.capability == (7, 0) and release.v100 == "fails":
            yield Refusal(
                "gpu_not_supported",
                "the official image of vLLM {0} (CUDA {1}, torch {2}) holds no code for compute capability 7.0 ({3})".format(
                    settings.release.asked, release.cuda, release.torch, gpu.name
                ),
                "use vLLM 0.8.5.post1, or an image built with CUDA 12.6 for 7.0 and say so with compute_capabilities",
            )
        else:
            least = tuple(int(x) for x in release.least.split("."))
            if gpu.capability < least:
                yield Refusal(
                    "gpu_not_supported",
                    "the official image of vLLM {0} starts at compute capability {1}, {2} has {3}".format(
                        settings.release.asked, release.least, gpu.name, gpu.capability_text
                    ),
                    "use an older release or a self-built image",
                )


VOLTA_WARNINGS = {
    "degraded": "runs a V100 on slow attention kernels (Triton or FlexAttention)",
    "works_with_override": "runs a V100 well only with VLLM_USE_V1=0 (the V0 engine with xFormers)",
    "unverified": "was not verified on a V100",
}


def gpu_warnings(settings: Settings, gpus: Sequence[Gpu]) -> list[str]:
    """What a release does badly on a GPU that it serves."""
    verdict = RELEASES[settings.release.examined].v100
    if all(gpu.capability != (7, 0) for gpu in gpus) or verdict not in VOLTA_WARNINGS:
        return []
    if verdict == "works_with_override" and settings.engine == "V0":
        return []
    return [f"vLLM {settings.release.asked} {VOLTA_WARNINGS[verdict]}; 0.8.5.post1 serves it well"]


def effective_quantization(model: Model, settings: Settings) -> Quantization:
    """The checkpoint's method, or the one that --quantization applies while loading."""
    own = model.quantization
    if own.method != "none" or not settings.quantization:
        return own
    method = canonical(settings.quantization)
    if method in ("fp8", "bitsandbytes", "experts-int8"):
        return own._replace(
            method=method,
            scheme={"fp8": "fp8_tensor", "bitsandbytes": "bnb4"}.get(method, "int8_channel"),
            bits=4 if method == "bitsandbytes" else 8,
        )
    return own


def quantization(model: Model, settings: Settings, gpus: Sequence[Gpu]) -> Iterator[Refusal]:
    asked = canonical(settings.quantization) if settings.quantization else "none"
    own = model.quantization.method
    key = settings.release.key
    for method in {asked, own} - {"none"}:
        row = METHODS.get(method)
        if row is None:
            yield Refusal(
                "quantization_not_supported",
                "quantization: no vLLM release knows the method {0!r}".format(method),
                "use one of {0}".format(", ".join(sorted(METHODS))),
            )
            return
        least_by_release, (since, last) = row
        if not within(key, since, last):
            yield Refusal(
                "quantization_not_supported",
                "vLLM {0} does not have the quantisation {1}; it exists from {2}{3}".format(
                    settings.release.asked, method, since, " to {0}".format(last) if last else " on"
                ),
                "use a release that has it, or another checkpoint",
            )
            return
        least = at(least_by_release, key)
        scheme = SCHEMES.get(model.quantization.scheme) if method in ("compressed-tensors", "modelopt", "fp8") else None
        if scheme:
            least = max(least, at(scheme, key)) if method != "fp8" else least
        for gpu in {gpu.capability: gpu for gpu in gpus}.values():
            if gpu.capability[0] * 10 + gpu.capability[1] < least:
                yield Refusal(
                    "quantization_not_supported",
                    "the quantisation {0} needs compute capability {1}.{2} in vLLM {3}; {4} has {5}".format(
                        method, least // 10, least % 10, settings.release.asked, gpu.name, gpu.capability_text
                    ),
                    "use a GPTQ checkpoint (compute capability 6.0 and higher) or an unquantised one",
                )
                return
    if (
        asked != "none"
        and own != "none"
        and asked != own
        and not {asked, own} <= {"gptq", "awq", "moe-wna16", "marlin", "fp8"}
    ):
        yield Refusal(
            "quantization_not_supported",
            "quantization: the checkpoint is {0}, not {1}".format(own, asked),
            "leave the option out: vLLM reads the method from the checkpoint",
        )


def resolve_dtype(model: Model, settings: Settings, gpus: Sequence[Gpu]) -> tuple[str, list[str], Refusal | None]:
    """The dtype that the release serves with, warnings, and why it would refuse."""
    key = settings.release.key
    no_bf16 = [gpu for gpu in gpus if gpu.capability < (8, 0)]
    refused = model.model_type in at(eras.FLOAT16_REFUSED, key)
    warnings: list[str] = []
    wanted = settings.dtype
    if wanted == "auto":
        wanted = {"float32": "float16", "float16": "float16", "bfloat16": "bfloat16"}.get(
            model.checkpoint_dtype, "float16"
        )
        if model.checkpoint_dtype == "float32" and key >= release_key("0.9.1") and not no_bf16:
            wanted = "bfloat16" if model.model_type.startswith("gemma") else "float16"
        if wanted == "bfloat16" and no_bf16 and at(eras.AUTO_DTYPE_FALLS_BACK, key):
            wanted = "float32" if refused else "float16"
            warnings.append(
                "{0} has no bfloat16: vLLM {1} falls back to {2}".format(
                    no_bf16[0].name, settings.release.asked, wanted
                )
            )
    if wanted == "bfloat16" and no_bf16:
        return (
            "float16",
            warnings,
            Refusal(
                "dtype_not_supported",
                "bfloat16 needs compute capability 8.0; {0} has {1}".format(
                    no_bf16[0].name, no_bf16[0].capability_text
                ),
                "set dtype to {0}".format("float32" if refused else "half"),
            ),
        )
    if wanted == "float16" and refused:
        return (
            wanted,
            warnings,
            Refusal(
                "dtype_not_supported",
                "vLLM {0} refuses float16 for {1}: it is numerically unstable".format(
                    settings.release.asked, model.model_type
                ),
                "set dtype to {0}".format("float32" if no_bf16 else "bfloat16"),
            ),
        )
    least, below = eras.FLASH_ATTENTION_3
    if wanted == "float16" and settings.kv_dtype.startswith("fp8") and at(eras.FP8_KV_WANTS_BFLOAT16, key):
        if any(least <= gpu.capability < below for gpu in gpus):
            return (
                wanted,
                warnings,
                Refusal(
                    "dtype_not_supported",
                    "kv_cache_dtype {0} with float16: FlashAttention 3, which serves {1}, wants bfloat16 beside it".format(
                        settings.kv_dtype, gpus[0].name
                    ),
                    "set dtype to bfloat16 or kv_cache_dtype to auto",
                ),
            )
    return wanted, warnings, None


def tensor_parallel(model: Model, settings: Settings) -> Iterator[Refusal]:
    tp = settings.tp
    heads = model.heads
    if heads % tp:
        yield Refusal(
            "heads_not_divisible",
            "{0} attention heads are not divisible by tensor_parallel_size {1}".format(heads, tp),
            "use a tensor_parallel_size out of {0}".format(_divisors(heads)),
        )
    padded = padded_vocabulary(model.vocabulary)
    if padded % tp:
        yield Refusal(
            "vocab_not_divisible",
            "the vocabulary of {0}, padded to {1}, is not divisible by tensor_parallel_size {2}".format(
                model.vocabulary, padded, tp
            ),
            "use a power of two up to 64",
        )
    seen = set()
    for layer in model.layers:
        spec = layer.attention
        if spec.kind == "mla" or spec in seen:
            continue
        seen.add(spec)
        kv = spec.kv_heads
        if (kv >= tp and kv % tp) or (kv < tp and tp % kv):
            yield Refusal(
                "kv_heads_not_divisible",
                "{0} KV heads cannot be shared by tensor_parallel_size {1}: one must divide the other".format(kv, tp),
                "use a tensor_parallel_size that divides {0} or is a multiple of it".format(kv),
            )
    yield from _intermediate(model, settings)
    yield from _groups(model, settings)


def _intermediate(model: Model, settings: Settings) -> Iterator[Refusal]:
    tp = settings.tp
    for spec in {layer.mlp for layer in model.layers}:
        sizes = []
        if spec.kind != "moe":
            sizes.append(("intermediate_size", spec.intermediate))
        else:
            if not settings.expert_parallel:
                sizes.append(("moe_intermediate_size", spec.expert_intermediate))
            if spec.shared_intermediate:
                sizes.append(("the shared experts' size", spec.shared_intermediate))
            if model.architecture in ("Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM") and tp > spec.experts:
                yield Refusal(
                    "experts_not_divisible",
                    "tensor_parallel_size {0} is more than the {1} experts".format(tp, spec.experts),
                    "lower tensor_parallel_size",
                )
        for name, size in sizes:
            if size % tp and not (model.quantization.scheme == "mxfp4" and spec.kind == "moe"):
                yield Refusal(
                    "intermediate_not_divisible",
                    "{0} {1} is not divisible by tensor_parallel_size {2}".format(name, size, tp),
                    "use a tensor_parallel_size that divides {0}".format(size),
                )


def _groups(model: Model, settings: Settings) -> Iterator[Refusal]:
    scheme = effective_quantization(model, settings)
    if scheme.method == "none" or scheme.experts_only:
        return
    tp = settings.tp
    inputs: dict[str, int] = {}
    outputs: dict[str, int] = {}
    for layer in model.layers:
        if layer.attention.kind == "gqa":
            inputs["o_proj"] = layer.attention.heads * layer.attention.head_dim
        if layer.mlp.kind == "moe":
            if not settings.expert_parallel:
                inputs["the experts' down_proj"] = layer.mlp.expert_intermediate
                outputs["the experts' gate_up_proj"] = layer.mlp.expert_intermediate
        else:
            inputs["down_proj"] = layer.mlp.intermediate
            outputs["gate_up_proj"] = layer.mlp.intermediate
    for name, size in inputs.items():
        if size % tp:
            continue
        part = size // tp
        if scheme.scheme in ("int4", "int8", "int3", "int2") and scheme.group > 0 and part % scheme.group:
            yield _group_refusal(name, "group size", part, scheme.group, tp)
        if scheme.scheme == "fp8_block" and tp > 1 and part % scheme.block[1]:
            yield _group_refusal(name, "block", part, scheme.block[1], tp)
    for name, size in outputs.items():
        if size % tp:
            continue
        part = size // tp
        if scheme.scheme == "fp8_block" and tp > 1 and part % scheme.block[0]:
            yield _group_refusal(name, "block", part, scheme.block[0], tp)


def _group_refusal(name: str, what: str, part: int, unit: int, tp: int) -> Refusal:
    return Refusal(
        "quant_group_not_divisible",
        "with tensor_parallel_size {0} each rank holds {1} inputs or outputs of {2}, not a multiple of the quantisation's {3} {4}".format(
            tp, part, name, what, unit
        ),
        "lower tensor_parallel_size, or use pipeline_parallel_size instead",
    )


def pipeline(model: Model, settings: Settings) -> Iterator[Refusal]:
    pp = settings.pp
    if pp == 1:
        return
    key = settings.release.key
    layers = len(model.layers)
    support = at(eras.PP_SINCE, key)
    since = model.traits.get("pp")
    if support == "none" or since is None or key < release_key(str(since)):
        yield Refusal(
            "pp_not_supported",
            "vLLM {0} cannot run {1} as a pipeline{2}".format(
                settings.release.asked, model.architecture, "; {0} can".format(since) if since else ""
            ),
            "set pipeline_parallel_size to 1 and use tensor_parallel_size across the nodes, or a newer release",
        )
    if layers < pp:
        yield Refusal(
            "layers_fewer_than_stages",
            "{0} layers cannot fill {1} pipeline stages".format(layers, pp),
            "lower pipeline_parallel_size to at most {0}".format(layers),
        )
    partition = settings.layer_partition
    if partition is not None and (len(partition) != pp or sum(partition) != layers):
        yield Refusal(
            "layers_fewer_than_stages",
            "VLLM_PP_LAYER_PARTITION {0} does not share {1} layers among {2} stages".format(
                list(partition), layers, pp
            ),
            "give one count for each stage, {0} in all".format(layers),
        )


def lengths(model: Model, settings: Settings) -> Iterator[Refusal]:
    if (
        settings.asked_max_model_len
        and settings.asked_max_model_len > model.context
        and settings.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1"
    ):
        yield Refusal(
            "max_model_len_exceeds_kv_cache",
            "max_model_len {0} is more than the {1} tokens that the model was made for".format(
                settings.asked_max_model_len, model.context
            ),
            "lower max_model_len to {0} or less".format(model.context),
        )


def batches(settings: Settings) -> Iterator[Refusal]:
    """What the scheduler's configuration refuses."""
    tokens = settings.batched_tokens
    if not settings.batched_tokens_asked:
        return
    if not settings.chunked_prefill and tokens < settings.max_model_len:
        yield Refusal(
            "batched_tokens_too_few",
            f"max_num_batched_tokens {tokens} is smaller than max_model_len {settings.max_model_len}, and prefill is not chunked",
            f"raise max_num_batched_tokens to {settings.max_model_len}, or set enable_chunked_prefill",
        )
    elif settings.sequences_asked and tokens < settings.sequences:
        yield Refusal(
            "batched_tokens_too_few",
            f"max_num_batched_tokens {tokens} is smaller than max_num_seqs {settings.sequences}",
            "lower max_num_seqs or raise max_num_batched_tokens",
        )


def check(model: Model, settings: Settings, gpus: Sequence[Gpu], dtype_refusal: Refusal | None) -> list[Refusal]:
    """All reasons why vLLM would refuse, the first one that it meets first."""
    found: list[Refusal] = []
    found.extend(options(settings))
    found.extend(architecture(model, settings))
    found.extend(lengths(model, settings))
    found.extend(batches(settings))
    if dtype_refusal:
        found.append(dtype_refusal)
    found.extend(quantization(model, settings, gpus))
    found.extend(world(settings, gpus))
    found.extend(tensor_parallel(model, settings))
    found.extend(pipeline(model, settings))
    found.extend(gpu_kernels(settings, gpus))
    return found
