# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules that stop a start before any memory is counted, in the order in which vLLM meets them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import code_for
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as eras
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.architectures import LAST_RELEASE
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.quantization import METHODS, SCHEMES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import Refusal, refusal
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
        refused = unknown_option(name, settings.release)
        if refused:
            yield refused


def world(settings: Settings, gpus: Sequence[Gpu]) -> Iterator[Refusal]:
    size = settings.tp * settings.pp
    key = settings.release.key
    if size * settings.dp > len(gpus) and settings.dp > 1:
        yield refusal(
            "world_size_exceeds_gpus",
            "start_data_parallel",
            dp=settings.dp,
            ranks=size,
            needed=size * settings.dp,
            count=len(gpus),
        )
        return
    if size > len(gpus):
        yield refusal(
            "world_size_exceeds_gpus", "start_world_size", tp=settings.tp, pp=settings.pp, needed=size, count=len(gpus)
        )
        return
    nodes = settings.nodes
    if nodes is None or len(nodes) < 2 or sum(nodes) < size:
        return
    rule = at(eras.AUTO_EXECUTOR, key)
    executor = settings.executor
    if executor is None and rule == "mp_only":
        yield refusal(
            "world_size_exceeds_gpus", "start_one_node", version=settings.release.asked, ranks=size, count=nodes[0]
        )
    if executor == "mp":
        if key < release_key(eras.MP_NODES_SINCE):
            yield refusal(
                "world_size_exceeds_gpus",
                "start_mp_one_node",
                version=settings.release.asked,
                ranks=size,
                count=nodes[0],
                since=eras.MP_NODES_SINCE,
            )
        elif size % len(nodes) or len(set(nodes)) > 1:
            yield refusal("world_size_exceeds_gpus", "start_mp_uneven", nodes=list(nodes))


def architecture(model: Model, settings: Settings) -> Iterator[Refusal]:
    since = str(model.traits["since"])
    if model.known and settings.release.key < release_key(since):
        yield refusal(
            "architecture_not_supported",
            "start_architecture_later",
            version=settings.release.asked,
            architecture=model.architecture,
            since=since,
        )

    last = LAST_RELEASE.get(model.architecture)
    if last is not None and settings.release.key > release_key(last):
        yield refusal(
            "architecture_not_supported",
            "start_architecture_gone",
            version=settings.release.asked,
            architecture=model.architecture,
            last=last,
        )


def gpu_kernels(settings: Settings, gpus: Sequence[Gpu]) -> Iterator[Refusal]:
    """Whether the image holds code for the GPU."""
    release = RELEASES[settings.release.examined]
    for gpu in {gpu.capability: gpu for gpu in gpus}.values():
        if gpu.capability < (7, 0) and settings.image_code is None:
            yield refusal("gpu_not_supported", "start_gpu_too_old", gpu=gpu.name, capability=gpu.capability_text)
        elif settings.image_code is not None:
            lacking = [name for name, names in settings.image_code.items() if code_for(names, gpu.capability) is None]
            if lacking or not settings.image_code:
                holds = "; ".join(
                    "{0}: {1}".format(name, " ".join(settings.image_code[name]) or "-") for name in lacking
                )
                yield refusal(
                    "gpu_not_supported",
                    "start_image_without_code",
                    gpu=gpu.name,
                    capability=gpu.capability_text,
                    holds=holds or Text("start_image_for_no_gpu"),
                )
        elif gpu.capability == (7, 0) and release.v100 == "fails":
            yield refusal(
                "gpu_not_supported",
                "start_image_without_volta",
                version=settings.release.asked,
                cuda=release.cuda,
                torch=release.torch,
                gpu=gpu.name,
            )
        else:
            least = tuple(int(x) for x in release.least.split("."))
            if gpu.capability < least:
                yield refusal(
                    "gpu_not_supported",
                    "start_image_starts_at",
                    version=settings.release.asked,
                    least=release.least,
                    gpu=gpu.name,
                    capability=gpu.capability_text,
                )


VOLTA_WARNINGS = ("degraded", "works_with_override", "unverified")


def gpu_warnings(settings: Settings, gpus: Sequence[Gpu]) -> list[Text]:
    """What a release does badly on a GPU that it serves."""
    verdict = RELEASES[settings.release.examined].v100
    if all(gpu.capability != (7, 0) for gpu in gpus) or verdict not in VOLTA_WARNINGS:
        return []
    if verdict == "works_with_override" and settings.engine == "V0":
        return []
    return [Text("start_volta_" + verdict, version=settings.release.asked)]


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
            yield refusal(
                "quantization_not_supported",
                "start_quantization_unknown",
                method=method,
                known=", ".join(sorted(METHODS)),
            )
            return
        least_by_release, (since, last) = row
        if not within(key, since, last):
            yield refusal(
                "quantization_not_supported",
                "start_quantization_release",
                version=settings.release.asked,
                method=method,
                since=since,
                until=Text("start_until_release", last=last) if last else Text("start_until_now"),
            )
            return
        least = at(least_by_release, key)
        scheme = SCHEMES.get(model.quantization.scheme) if method in ("compressed-tensors", "modelopt", "fp8") else None
        if scheme:
            least = max(least, at(scheme, key)) if method != "fp8" else least
        for gpu in {gpu.capability: gpu for gpu in gpus}.values():
            if gpu.capability[0] * 10 + gpu.capability[1] < least:
                yield refusal(
                    "quantization_not_supported",
                    "start_quantization_gpu",
                    method=method,
                    least=f"{least // 10}.{least % 10}",
                    version=settings.release.asked,
                    gpu=gpu.name,
                    capability=gpu.capability_text,
                )
                return
    if (
        asked != "none"
        and own != "none"
        and asked != own
        and not {asked, own} <= {"gptq", "awq", "moe-wna16", "marlin", "fp8"}
    ):
        yield refusal("quantization_not_supported", "start_quantization_other", own=own, asked=asked)


def resolve_dtype(model: Model, settings: Settings, gpus: Sequence[Gpu]) -> tuple[str, list[Text], Refusal | None]:
    """The dtype that the release serves with, warnings, and why it would refuse."""
    key = settings.release.key
    no_bf16 = [gpu for gpu in gpus if gpu.capability < (8, 0)]
    refused = model.model_type in at(eras.FLOAT16_REFUSED, key)
    warnings: list[Text] = []
    wanted = settings.dtype
    if wanted == "auto":
        wanted = {"float32": "float16", "float16": "float16", "bfloat16": "bfloat16"}.get(
            model.checkpoint_dtype, "float16"
        )
        if model.checkpoint_dtype == "float32" and key >= release_key("0.9.1") and not no_bf16:
            wanted = "bfloat16" if model.model_type.startswith("gemma") else "float16"
        if wanted == "bfloat16" and no_bf16 and at(eras.AUTO_DTYPE_FALLS_BACK, key):
            wanted = "float32" if refused else "float16"
            warnings.append(Text("start_falls_back", gpu=no_bf16[0].name, version=settings.release.asked, dtype=wanted))
    if wanted == "bfloat16" and no_bf16:
        return (
            "float16",
            warnings,
            refusal(
                "dtype_not_supported",
                "start_bfloat16",
                gpu=no_bf16[0].name,
                capability=no_bf16[0].capability_text,
                dtype="float32" if refused else "half",
            ),
        )
    if wanted == "float16" and refused:
        return (
            wanted,
            warnings,
            refusal(
                "dtype_not_supported",
                "start_float16",
                version=settings.release.asked,
                model=model.model_type,
                dtype="float32" if no_bf16 else "bfloat16",
            ),
        )
    least, below = eras.FLASH_ATTENTION_3
    if wanted == "float16" and settings.kv_dtype.startswith("fp8") and at(eras.FP8_KV_WANTS_BFLOAT16, key):
        if any(least <= gpu.capability < below for gpu in gpus):
            return (
                wanted,
                warnings,
                refusal("dtype_not_supported", "start_fp8_cache", kv_dtype=settings.kv_dtype, gpu=gpus[0].name),
            )
    return wanted, warnings, None


def tensor_parallel(model: Model, settings: Settings) -> Iterator[Refusal]:
    tp = settings.tp
    heads = model.heads
    if heads % tp:
        yield refusal("heads_not_divisible", "start_heads", heads=heads, tp=tp, sizes=_divisors(heads))
    padded = padded_vocabulary(model.vocabulary)
    if padded % tp:
        yield refusal("vocab_not_divisible", "start_vocabulary", vocabulary=model.vocabulary, padded=padded, tp=tp)
    seen = set()
    for layer in model.layers:
        spec = layer.attention
        if spec.kind == "mla" or spec in seen:
            continue
        seen.add(spec)
        kv = spec.kv_heads
        if (kv >= tp and kv % tp) or (kv < tp and tp % kv):
            yield refusal("kv_heads_not_divisible", "start_kv_heads", heads=kv, tp=tp)
    yield from _intermediate(model, settings)
    yield from _groups(model, settings)


def _intermediate(model: Model, settings: Settings) -> Iterator[Refusal]:
    tp = settings.tp
    for spec in {layer.mlp for layer in model.layers}:
        sizes: list[tuple[str | Text, int]] = []
        if spec.kind != "moe":
            sizes.append(("intermediate_size", spec.intermediate))
        else:
            if not settings.expert_parallel:
                sizes.append(("moe_intermediate_size", spec.expert_intermediate))
            if spec.shared_intermediate:
                sizes.append((Text("start_shared_experts"), spec.shared_intermediate))
            if model.architecture in ("Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM") and tp > spec.experts:
                yield refusal("experts_not_divisible", "start_experts", tp=tp, experts=spec.experts)
        for name, size in sizes:
            if size % tp and not (model.quantization.scheme == "mxfp4" and spec.kind == "moe"):
                yield refusal("intermediate_not_divisible", "start_intermediate", name=name, size=size, tp=tp)


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
            yield _group_refusal(name, "start_group_size", part, scheme.group, tp)
        if scheme.scheme == "fp8_block" and tp > 1 and part % scheme.block[1]:
            yield _group_refusal(name, "start_group_block", part, scheme.block[1], tp)
    for name, size in outputs.items():
        if size % tp:
            continue
        part = size // tp
        if scheme.scheme == "fp8_block" and tp > 1 and part % scheme.block[0]:
            yield _group_refusal(name, "start_group_block", part, scheme.block[0], tp)


def _group_refusal(name: str, what: str, part: int, unit: int, tp: int) -> Refusal:
    return refusal(
        "quant_group_not_divisible", "start_quantization_group", tp=tp, part=part, name=name, what=Text(what), unit=unit
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
        yield refusal(
            "pp_not_supported",
            "start_pipeline",
            version=settings.release.asked,
            architecture=model.architecture,
            other=Text("start_pipeline_since", since=since) if since else "",
        )
    if layers < pp:
        yield refusal("layers_fewer_than_stages", "start_stages", layers=layers, stages=pp)
    partition = settings.layer_partition
    if partition is not None and (len(partition) != pp or sum(partition) != layers):
        yield refusal(
            "layers_fewer_than_stages", "start_partition", partition=list(partition), layers=layers, stages=pp
        )


def lengths(model: Model, settings: Settings) -> Iterator[Refusal]:
    if (
        settings.asked_max_model_len
        and settings.asked_max_model_len > model.context
        and settings.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1"
    ):
        yield refusal(
            "max_model_len_exceeds_kv_cache", "start_context", asked=settings.asked_max_model_len, context=model.context
        )


def batches(settings: Settings) -> Iterator[Refusal]:
    """What the scheduler's configuration refuses."""
    tokens = settings.batched_tokens
    if not settings.batched_tokens_asked:
        return
    if not settings.chunked_prefill and tokens < settings.max_model_len:
        yield refusal("batched_tokens_too_few", "start_batch_length", tokens=tokens, length=settings.max_model_len)
    elif settings.sequences_asked and tokens < settings.sequences:
        yield refusal("batched_tokens_too_few", "start_batch_sequences", tokens=tokens, sequences=settings.sequences)


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
