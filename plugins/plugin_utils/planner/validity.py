# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules that stop a start before any memory is counted, in the order in which vLLM meets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import code_for
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import text
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import (
    attention,
    combinations,
    environment,
    fields,
    values,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import registry
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.profile import (
    MIXTRAL_FUSED,
    MIXTRAL_IN_TURN_PIPELINES_SINCE,
    VOLTA_EXPERTS_BROKEN,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.quantization import (
    DTYPES,
    EXPERTS_SINCE,
    GPTQ_THREE_BITS_BROKEN,
    NAMES,
    NVFP4_EXPERTS_WITHOUT_12,
    ONLINE,
    SCHEMES,
    WIDTHS,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.remote_code import NATIVE_SINCE
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.towers import (
    ENCODER_WITHOUT_TURING,
    TOWERS_ON_TURING,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import Fix, StartError, start_error
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.quantization import Quantization, kernels
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import first_image_after, image_lacks
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import Settings, unknown_option
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import divides_heads, padded_vocabulary
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.towers import sees
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key, within

QUANTIZATION = "quantization_not_supported"
CLASSIFIES = ("ForSequenceClassification", "ForRewardModeling")
GIB = 1024**3


def _smaller(tp: int, pp: int, count: int) -> list[Fix]:
    """Sizes that the GPUs suffice for, the most ranks first."""
    stages: list[Fix] = [{"pipeline_parallel_size": size} for size in range(pp - 1, 0, -1) if tp * size <= count]
    return stages or [
        {"tensor_parallel_size": size, "pipeline_parallel_size": 1} for size in range(min(tp, count), 0, -1)
    ]


def _fewer(model: Model, settings: Settings) -> list[Fix]:
    """Tensor-parallel sizes below this one that divide the heads, the largest first."""
    return [{"tensor_parallel_size": size} for size in range(settings.tp - 1, 0, -1) if divides_heads(model, size)]


def _without(settings: Settings, name: str) -> Fix:
    """The environment without a variable."""
    return {"environment": {key: value for key, value in settings.environment.items() if key != name} or None}


def _rope_fixes(settings: Settings) -> list[Fix]:
    return [{"rope_scaling": None}] if "rope_scaling" in settings.raw else [{"vllm_version": "0.5.3.post1"}]


def _divisors(number: int) -> str:
    return ", ".join(str(x) for x in range(1, min(number, 64) + 1) if number % x == 0)


def options(settings: Settings) -> Iterator[StartError]:
    for name in settings.raw:
        refused = unknown_option(name, settings.release)
        if refused:
            yield refused


def host_memory(settings: Settings) -> Iterator[StartError]:
    """What the start takes of the memory of the host, where that is known."""
    total, key = settings.host_memory, settings.release.key
    if total is None:
        return
    asked = fields.number(settings.raw, "swap_space", "settings", 0, 1e6)
    swap = changes.SWAP_SPACE_GIB if asked is None else asked
    most = total * changes.SWAP_SPACE_SHARE / GIB
    if key <= release_key(changes.SWAP_SPACE_LAST) and swap * settings.tp > most:
        yield start_error(
            "host_memory_exceeded",
            "start_swap_space",
            {"swap_space": int(most / settings.tp)},
            swap=swap,
            tp=settings.tp,
            total=total / GIB,
            share=changes.SWAP_SPACE_SHARE,
        )
    ranks = max(settings.nodes or (settings.tp * settings.pp,))
    if settings.cpu_offload * ranks > total / GIB:
        yield start_error(
            "host_memory_exceeded",
            "start_offload_memory",
            {"cpu_offload_gb": None},
            offload=settings.cpu_offload,
            ranks=ranks,
            total=total / GIB,
        )


def world(settings: Settings, gpus: Sequence[Gpu]) -> Iterator[StartError]:
    size = settings.tp * settings.pp
    key = settings.release.key
    if size * settings.dp > len(gpus) and settings.dp > 1:
        yield start_error(
            "world_size_exceeds_gpus",
            "start_data_parallel",
            {"data_parallel_size": None},
            dp=settings.dp,
            ranks=size,
            needed=size * settings.dp,
            count=len(gpus),
        )
        return
    if size > len(gpus):
        yield start_error(
            "world_size_exceeds_gpus",
            "start_world_size",
            *_smaller(settings.tp, settings.pp, len(gpus)),
            tp=settings.tp,
            pp=settings.pp,
            needed=size,
            count=len(gpus),
        )
        return
    nodes = settings.nodes
    if nodes is None or len(nodes) < 2 or sum(nodes) < size:
        return
    rule = at(changes.AUTO_EXECUTOR, key)
    executor = settings.executor
    if executor is None and rule == "mp_only":
        yield start_error(
            "world_size_exceeds_gpus",
            "start_one_node",
            {"distributed_executor_backend": "ray"},
            version=settings.release.asked,
            ranks=size,
            count=nodes[0],
        )
    if executor == "mp":
        if key < release_key(changes.MP_NODES_SINCE):
            yield start_error(
                "world_size_exceeds_gpus",
                "start_mp_one_node",
                {"distributed_executor_backend": "ray"},
                version=settings.release.asked,
                ranks=size,
                count=nodes[0],
                since=changes.MP_NODES_SINCE,
            )
        elif size % len(nodes) or len(set(nodes)) > 1:
            yield start_error(
                "world_size_exceeds_gpus", "start_mp_uneven", {"distributed_executor_backend": "ray"}, nodes=list(nodes)
            )


def architecture(model: Model, settings: Settings) -> Iterator[StartError]:
    """An architecture that the release does not have."""
    release, name = settings.release, model.architecture
    if has(name, release.key):
        return
    rows = registry.registry().get(name, ())
    later = next((row.since for row in rows if release.key < release_key(row.since)), None)
    other = release.key >= release_key(registry.TRANSFORMERS_SINCE)
    if other and settings.raw.get("model_impl") == "transformers":
        return
    if later is not None:
        refused = start_error(
            UNKNOWN,
            "start_architecture_later",
            {"vllm_version": later},
            version=release.asked,
            architecture=name,
            since=later,
        )
    elif rows:
        refused = start_error(
            UNKNOWN,
            "start_architecture_gone",
            {"vllm_version": rows[-1].last},
            version=release.asked,
            architecture=name,
            last=rows[-1].last,
        )
    else:
        refused = start_error(UNKNOWN, "start_architecture_never", version=release.asked, architecture=name)
    yield refused._replace(advice=Text("start_architecture_transformers", version=release.asked) if other else None)


UNKNOWN = "architecture_not_supported"
# Files that a start would fetch: with these values the libraries of Hugging Face look for none.
OFFLINE = ("1", "on", "yes", "true")


def remote_code(model: Model, settings: Settings) -> Iterator[StartError]:
    """Code that a model needs and may not run, or that lies in a repository which the hosts do not reach."""
    if not model.code:
        return
    release, trusted = (
        settings.release,
        fields.truth(settings.raw.get("trust_remote_code"), "settings.trust_remote_code"),
    )
    listed = model.model_type in NATIVE_SINCE
    since = NATIVE_SINCE.get(model.model_type)
    native = since is not None and release.key >= release_key(since)
    if listed and not native and not trusted:
        said = {"version": release.asked, "model_type": model.model_type, "file": model.code[0]}
        refused = start_error("remote_code_needed", "start_remote_code_needed", {"trust_remote_code": True}, **said)
        yield refused._replace(advice=Text("start_remote_code_advice"))
    elsewhere = next((name.partition("--")[0] for name in model.code if "--" in name), None)
    if (
        elsewhere
        and (trusted or (listed and not native))
        and settings.environment.get("HF_HUB_OFFLINE", "1").lower() in OFFLINE
    ):
        fixes: list[Fix] = [{"trust_remote_code": None}] if native else []
        refused = start_error("file_not_in_bundle", "start_code_elsewhere", *fixes, repository=elsewhere)
        yield refused._replace(advice=Text("start_code_elsewhere_advice", repository=elsewhere))


def known_to(name: str, key: tuple[int, ...]) -> bool:
    """Whether a release has an architecture."""
    return any(within(key, row.since, row.last) for row in registry.registry().get(name, ()))


def has(name: str, key: tuple[int, ...]) -> bool:
    """Whether a release has an architecture, or makes one that it has into it."""
    return known_to(name, key) or _converted(name, key)


def _converted(name: str, key: tuple[int, ...]) -> bool:
    """Whether a release makes a text model that it has into one of that name."""
    found = registry.converted_from(name)
    return found is not None and key >= release_key(found[1]) and known_to(found[0], key)


def unverified(model: Model, settings: Settings, gpus: Sequence[Gpu]) -> Text | None:
    """Why the prediction for a release is a guess; None where it is not."""
    if settings.flavour is not None:
        return Text("unverified_flavour", flavour=str(settings.raw["flavour"]))
    if not has(model.architecture, settings.release.key):
        return Text("unverified_transformers", architecture=model.architecture)
    if not model.known:
        return Text("unverified_architecture", architecture=model.architecture)
    volta = next((gpu for gpu in gpus if gpu.capability == (7, 0)), None)
    if volta is not None and model.experts and within(settings.release.key, *VOLTA_EXPERTS_BROKEN):
        return Text("unverified_volta_experts", gpu=volta.name)
    if model.traits.get("vision") and model.tower is None and (model.tensors is None or sees(settings.raw)):
        return Text("unverified_vision", architecture=model.architecture)
    old = next((gpu for gpu in gpus if gpu.capability < (8, 0)), None)
    untried = model.tower is not None and sees(settings.raw) and model.traits["vision"] not in TOWERS_ON_TURING
    if (model.traits.get("encoder") or untried) and old is not None:
        return Text("unverified_encoder", gpu=old.name, version=settings.release.asked)
    return None


def encoder(model: Model, settings: Settings, gpus: Sequence[Gpu]) -> Iterator[StartError]:
    """What the encoder of images needs."""
    if model.tower is None or not sees(settings.raw):
        return
    tokens, version = model.tower.tokens(settings.raw), settings.release.asked
    if model.tower.family.whole and settings.engine == "V1" and tokens > settings.batched_tokens:
        yield start_error(
            "batched_tokens_too_few",
            "start_batch_item",
            {"max_num_batched_tokens": None},
            {"max_num_batched_tokens": tokens},
            tokens=settings.batched_tokens,
            item=tokens,
        )
    old = next((gpu for gpu in gpus if gpu.capability < (8, 0)), None)
    if old is not None and settings.engine == "V1" and within(settings.release.key, *ENCODER_WITHOUT_TURING):
        text_only: Fix = {"limit_mm_per_prompt": {"image": 0, "video": 0}}
        yield start_error("feature_not_supported", "start_encoder_attention", text_only, version=version, gpu=old.name)


def gpu_kernels(settings: Settings, gpus: Sequence[Gpu]) -> Iterator[StartError]:
    """Whether the image holds code for the GPU."""
    release = RELEASES[settings.release.examined]
    for gpu in {gpu.capability: gpu for gpu in gpus}.values():
        if gpu.capability < (7, 0) and settings.image_code is None:
            said = {"gpu": gpu.name, "capability": gpu.capability_text}
            yield start_error("gpu_not_supported", "start_gpu_too_old", **said)._replace(
                advice=Text("advice_older_gpu")
            )
        elif settings.image_code is not None:
            lacking = [name for name, names in settings.image_code.items() if code_for(names, gpu.capability) is None]
            if lacking or not settings.image_code:
                holds = "; ".join(
                    "{0}: {1}".format(name, " ".join(settings.image_code[name]) or "-") for name in lacking
                )
                yield start_error(
                    "gpu_not_supported",
                    "start_image_without_code",
                    gpu=gpu.name,
                    capability=gpu.capability_text,
                    holds=holds or Text("start_image_for_no_gpu"),
                )
        elif gpu.capability == (7, 0) and release.v100 == "fails":
            yield start_error(
                "gpu_not_supported",
                "start_image_without_volta",
                {"vllm_version": "0.8.5.post1"},
                version=settings.release.asked,
                cuda=release.cuda,
                torch=release.torch,
                gpu=gpu.name,
            )
        else:
            least = tuple(int(x) for x in release.least.split("."))
            if gpu.capability < least:
                yield start_error(
                    "gpu_not_supported",
                    "start_image_starts_at",
                    version=settings.release.asked,
                    least=release.least,
                    gpu=gpu.name,
                    capability=gpu.capability_text,
                )
            elif missing := image_lacks(settings.release.examined, gpu.capability):
                later = first_image_after(settings.release.examined, gpu.capability)
                yield start_error(
                    "gpu_not_supported",
                    "start_image_too_old",
                    *([{"vllm_version": later}] if later else []),
                    version=settings.release.asked,
                    library=missing[0],
                    holds=missing[1],
                    gpu=gpu.name,
                    capability=gpu.capability_text,
                )


def expert_kernels(model: Model, gpus: Sequence[Gpu], settings: Settings, dtype: str) -> Iterator[StartError]:
    """Triton's kernel for experts on Volta."""
    old = next((gpu for gpu in gpus if gpu.capability == (7, 0)), None)
    plain = model.experts and effective_quantization(model, settings).method == "none"
    if old is None or not plain or settings.flavour is not None or dtype == "float32":
        return
    if within(settings.release.key, *VOLTA_EXPERTS_BROKEN):
        fix: Fix = {"dtype": "float32"}
        yield start_error("gpu_not_supported", "start_volta_experts", fix, version=settings.release.asked, gpu=old.name)


VOLTA_WARNINGS = ("degraded", "works_with_override", "unverified")


def route_warnings(settings: Settings) -> list[Text]:
    """Releases that learn their own address from the route to an address of the internet, whatever is said of it."""
    if (
        settings.nodes is None
        or len(settings.nodes) < 2
        or settings.release.key >= release_key(changes.ADDRESS_BY_NAME_SINCE)
    ):
        return []
    return [Text("start_default_route", version=settings.release.asked, since=changes.ADDRESS_BY_NAME_SINCE)]


def gpu_warnings(settings: Settings, gpus: Sequence[Gpu]) -> list[Text]:
    """What a release does badly on a GPU that it serves."""
    verdict = RELEASES[settings.release.examined].v100
    if all(gpu.capability != (7, 0) for gpu in gpus) or verdict not in VOLTA_WARNINGS:
        return []
    if settings.flavour is not None or (verdict == "works_with_override" and settings.engine == "V0"):
        return []
    return [Text("start_volta_" + verdict, version=settings.release.asked)]


def effective_quantization(model: Model, settings: Settings) -> Quantization:
    """The checkpoint's method, or the one that --quantization applies while loading."""
    own = model.quantization
    asked = str(settings.quantization or "").strip().lower()
    if own.method != "none":
        return own._replace(plain=True) if asked in ("awq", "gptq") else own
    if asked not in ONLINE or settings.release.key < release_key(NAMES[asked].since):
        return own
    method = NAMES[asked].method
    return own._replace(
        method=method,
        scheme={"fp8": "fp8_tensor", "bitsandbytes": "bnb4"}.get(method, "int8_channel"),
        bits=4 if method == "bitsandbytes" else 8,
    )


def quantization_name(model: Model, settings: Settings, gpus: Sequence[Gpu]) -> str | None:
    """The name of the method that the release runs, null without one."""
    asked = str(settings.quantization).strip().lower() if settings.quantization else None
    weakest = min(gpu.capability for gpu in gpus)
    return kernels(model.quantization, asked, settings.release.key, weakest)[0]


def quantization(model: Model, settings: Settings, gpus: Sequence[Gpu], dtype: str) -> Iterator[StartError]:
    """In the order of vLLM: the name, the checkpoint, the GPU, the width, the dtype."""
    for gpu in {gpu.capability: gpu for gpu in gpus}.values():
        refused = next(_quantization_on(model, settings, gpu, dtype), None)
        if refused is not None:
            yield refused
            return


def _quantization_on(model: Model, settings: Settings, gpu: Gpu, dtype: str) -> Iterator[StartError]:
    own, key, version = model.quantization, settings.release.key, settings.release.asked
    asked = str(settings.quantization).strip().lower() if settings.quantization else None
    name, needed = kernels(own, asked, key, gpu.capability)
    if name is None:
        return
    row = NAMES.get(name)
    if row is None:
        known = ", ".join(one for one in sorted(NAMES) if within(key, NAMES[one].since, NAMES[one].last))
        yield start_error(
            QUANTIZATION,
            "start_quantization_unknown",
            {"quantization": None},
            method=name,
            version=version,
            known=known,
        )
        return
    if not within(key, row.since, row.last):
        until = Text("start_until_release", last=row.last) if row.last else Text("start_until_now")
        yield start_error(
            QUANTIZATION,
            "start_quantization_release",
            {"quantization": None},
            version=version,
            method=name,
            since=row.since,
            until=until,
        )
        return
    if name != needed:
        yield start_error(QUANTIZATION, "start_quantization_other", {"quantization": None}, own=own.name, asked=name)
        return
    if own.method == "none" and name not in ONLINE:
        yield start_error(QUANTIZATION, "start_quantization_plain", {"quantization": None}, method=name)
        return
    least, method = at(row.capability, key), name
    scheme = f"{own.scheme} asymmetric" if own.zeros else own.scheme
    if own.method in ("compressed-tensors", "modelopt") and scheme in SCHEMES:
        least = max(at(SCHEMES[scheme], key), least if own.method != "modelopt" else 0)
        method = f"{name} ({scheme})"
    lacking = model.experts and scheme == "nvfp4" and gpu.capability[0] == 12 and within(key, *NVFP4_EXPERTS_WITHOUT_12)
    if lacking:
        yield start_error(
            QUANTIZATION, "start_nvfp4_experts", version=version, gpu=gpu.name, capability=gpu.capability_text
        )
        return
    if gpu.capability[0] * 10 + gpu.capability[1] < least and not own_kernels(settings, gpu, name):
        yield start_error(
            QUANTIZATION,
            "start_quantization_gpu",
            *([{"quantization": own.name}] if own.method != "none" and name != own.name else []),
            {"quantization": None},
            method=method,
            least=f"{least // 10}.{least % 10}",
            version=version,
            gpu=gpu.name,
            capability=gpu.capability_text,
        )
        return
    if name == "gptq_bitblas":
        yield start_error(
            QUANTIZATION, "start_quantization_bitblas", {"quantization": "gptq"}, version=version, gpu=gpu.name
        )
        return
    widths = WIDTHS.get(name)
    if widths is not None and name == "gptq" and within(key, *GPTQ_THREE_BITS_BROKEN) and not model.experts:
        widths = tuple(bits for bits in widths if bits != 3)
    if widths is not None and own.method != "none" and own.bits not in widths:
        bits = ", ".join(map(str, widths))
        yield start_error(QUANTIZATION, "start_quantization_bits", method=name, bits=own.bits, allowed=bits)
        return
    if not _serves_experts(model, name, key) and not own_kernels(settings, gpu, name):
        yield start_error(
            QUANTIZATION,
            "start_quantization_experts",
            {"quantization": None},
            {"quantization": "moe_wna16"},
            method=name,
            version=version,
        )
        return
    # The head of the classes is a layer like the others (score in vllm/model_executor/models/adapters.py; issue 11671 of vllm-project/vllm).
    packed = 32 // own.bits if own.method in ("awq", "gptq") and own.bits in (4, 8) else 1
    if (
        model.architecture.endswith(CLASSIFIES)
        and model.labels % packed
        and not any("score" in name for name in own.ignored)
    ):
        yield start_error(QUANTIZATION, "start_quantization_classes", method=name, labels=model.labels, packed=packed)
        return
    allowed = [DTYPES[letter] for letter in at(row.dtypes, key)]
    if dtype not in allowed:
        yield start_error(
            "dtype_not_supported",
            "start_quantization_dtype",
            *[{"dtype": one} for one in allowed],
            method=name,
            dtype=dtype,
            version=version,
            allowed=", ".join(allowed),
        )


def own_kernels(settings: Settings, gpu: Gpu, method: str) -> bool:
    """Whether a fork has kernels of its own for a method on a GPU."""
    flavour = settings.flavour
    return flavour is not None and gpu.capability_text in flavour.gpus and method in flavour.methods


def _serves_experts(model: Model, name: str, key: tuple[int, ...]) -> bool:
    """Whether a method has kernels for the experts of the model, if it has experts."""
    in_turn = model.architecture == "MixtralForCausalLM" and at(MIXTRAL_FUSED, key) is not None
    if not model.experts or in_turn or name not in EXPERTS_SINCE:
        return True
    since = EXPERTS_SINCE[name]
    return since is not None and key >= release_key(since)


def resolve_dtype(model: Model, settings: Settings, gpus: Sequence[Gpu]) -> tuple[str, list[Text], StartError | None]:
    """The dtype that the release serves with, warnings, and why it would refuse."""
    key = settings.release.key
    no_bf16 = [gpu for gpu in gpus if gpu.capability < (8, 0)]
    refused = model.model_type in at(changes.FLOAT16_REFUSED, key)
    warnings: list[Text] = []
    wanted = settings.dtype
    if wanted == "auto":
        wanted = {"float32": "float16", "float16": "float16", "bfloat16": "bfloat16"}.get(
            model.checkpoint_dtype, "float16"
        )
        if model.checkpoint_dtype == "float32" and at(changes.AUTO_DTYPE_FALLS_BACK, key) and not no_bf16:
            wanted = "bfloat16"  # the first dtype that the platform supports (_resolve_auto_dtype in vllm/config)
        if wanted == "bfloat16" and no_bf16 and at(changes.AUTO_DTYPE_FALLS_BACK, key):
            wanted = "float32" if refused else "float16"
            warnings.append(Text("start_falls_back", gpu=no_bf16[0].name, version=settings.release.asked, dtype=wanted))
    if wanted == "bfloat16" and no_bf16:
        return (
            "float16",
            warnings,
            start_error(
                "dtype_not_supported",
                "start_bfloat16",
                {"dtype": "float32" if refused else "half"},
                gpu=no_bf16[0].name,
                capability=no_bf16[0].capability_text,
                dtype="float32" if refused else "half",
            ),
        )
    if wanted == "float16" and refused:
        return (
            wanted,
            warnings,
            start_error(
                "dtype_not_supported",
                "start_float16",
                {"dtype": "float32" if no_bf16 else "bfloat16"},
                version=settings.release.asked,
                model=model.model_type,
                dtype="float32" if no_bf16 else "bfloat16",
            ),
        )
    least, below = changes.FLASH_ATTENTION_3
    if wanted == "float16" and settings.kv_dtype.startswith("fp8") and at(changes.FP8_KV_WANTS_BFLOAT16, key):
        if any(least <= gpu.capability < below for gpu in gpus):
            return (
                wanted,
                warnings,
                start_error(
                    "dtype_not_supported",
                    "start_fp8_cache",
                    {"dtype": "bfloat16"},
                    {"kv_cache_dtype": None},
                    kv_dtype=settings.kv_dtype,
                    gpu=gpus[0].name,
                ),
            )
    return wanted, warnings, None


def tensor_parallel(model: Model, settings: Settings) -> Iterator[StartError]:
    tp = settings.tp
    heads = model.heads
    if heads % tp:
        yield start_error(
            "heads_not_divisible", "start_heads", *_fewer(model, settings), heads=heads, tp=tp, sizes=_divisors(heads)
        )
    padded = padded_vocabulary(model.vocabulary)
    if padded % tp:
        yield start_error(
            "vocab_not_divisible",
            "start_vocabulary",
            *_fewer(model, settings),
            vocabulary=model.vocabulary,
            padded=padded,
            tp=tp,
        )
    seen = set()
    for layer in model.layers:
        spec = layer.attention
        if spec.kind == "mla" or spec in seen:
            continue
        seen.add(spec)
        kv = spec.kv_heads
        if (kv >= tp and kv % tp) or (kv < tp and tp % kv):
            yield start_error("kv_heads_not_divisible", "start_kv_heads", *_fewer(model, settings), heads=kv, tp=tp)
    yield from _intermediate(model, settings)
    yield from _groups(model, settings)


def _intermediate(model: Model, settings: Settings) -> Iterator[StartError]:
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
                yield start_error(
                    "experts_not_divisible", "start_experts", *_fewer(model, settings), tp=tp, experts=spec.experts
                )
        for name, size in sizes:
            if size % tp and not (model.quantization.scheme == "mxfp4" and spec.kind == "moe"):
                yield start_error(
                    "intermediate_not_divisible",
                    "start_intermediate",
                    *_fewer(model, settings),
                    name=name,
                    size=size,
                    tp=tp,
                )


def _groups(model: Model, settings: Settings) -> Iterator[StartError]:
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
            yield _group_error(_fewer(model, settings), name, "start_group_size", part, scheme.group, tp)
        if scheme.scheme == "fp8_block" and tp > 1 and part % scheme.block[1]:
            yield _group_error(_fewer(model, settings), name, "start_group_block", part, scheme.block[1], tp)
    for name, size in outputs.items():
        if size % tp:
            continue
        part = size // tp
        if scheme.scheme == "fp8_block" and tp > 1 and part % scheme.block[0]:
            yield _group_error(_fewer(model, settings), name, "start_group_block", part, scheme.block[0], tp)


def _group_error(fixes: list[Fix], name: str, what: str, part: int, unit: int, tp: int) -> StartError:
    return start_error(
        "quant_group_not_divisible",
        "start_quantization_group",
        *fixes,
        tp=tp,
        part=part,
        name=name,
        what=Text(what),
        unit=unit,
    )


def pipelines(model: Model, key: tuple[int, ...]) -> bool:
    """Whether a release runs the model in pipeline stages at all."""
    since = pipelines_since(model, key)
    return at(changes.PP_SINCE, key) != "none" and since is not None and key >= release_key(since)


def pipelines_since(model: Model, key: tuple[int, ...]) -> str | None:
    """The first release with the model in pipeline stages; null if there is none."""
    fused = at(MIXTRAL_FUSED, key)
    method = model.quantization.name
    if model.architecture == "MixtralForCausalLM" and fused is not None and not {method, method + "_marlin"} & fused:
        return MIXTRAL_IN_TURN_PIPELINES_SINCE
    return text(model.traits["pp"]) or next(
        (row.pipelines for row in registry.registry().get(model.architecture, ())), None
    )


def pipeline(model: Model, settings: Settings) -> Iterator[StartError]:
    pp = settings.pp
    if pp == 1:
        return
    key = settings.release.key
    layers = len(model.layers)
    since = pipelines_since(model, key)
    if not pipelines(model, key):
        yield start_error(
            "pp_not_supported",
            "start_pipeline",
            {"pipeline_parallel_size": None},
            version=settings.release.asked,
            architecture=model.architecture,
            other=Text("start_pipeline_since", since=since) if since else "",
        )
    if layers < pp:
        yield start_error(
            "layers_fewer_than_stages", "start_stages", {"pipeline_parallel_size": None}, layers=layers, stages=pp
        )
    partition = settings.layer_partition
    if partition is not None and (len(partition) != pp or sum(partition) != layers):
        yield start_error(
            "layers_fewer_than_stages",
            "start_partition",
            _without(settings, "VLLM_PP_LAYER_PARTITION"),
            partition=list(partition),
            layers=layers,
            stages=pp,
        )


def lengths(model: Model, settings: Settings) -> Iterator[StartError]:
    if (
        settings.asked_max_model_len
        and settings.asked_max_model_len > model.context
        and settings.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1"
    ):
        yield start_error(
            "max_model_len_exceeds_kv_cache",
            "start_context",
            {"max_model_len": model.context},
            asked=settings.asked_max_model_len,
            context=model.context,
        )


def batches(settings: Settings) -> Iterator[StartError]:
    """What the scheduler's configuration refuses, defaults included."""
    tokens = settings.batched_tokens
    if not settings.chunked_prefill and tokens < settings.max_model_len:
        yield start_error(
            "batched_tokens_too_few",
            "start_batch_length",
            {"max_num_batched_tokens": None},
            {"max_model_len": tokens},
            tokens=tokens,
            length=settings.max_model_len,
        )
    elif tokens < settings.sequences:
        yield start_error(
            "batched_tokens_too_few",
            "start_batch_sequences",
            {"max_num_seqs": tokens},
            {"max_num_batched_tokens": None},
            tokens=tokens,
            sequences=settings.sequences,
        )


def ropes(model: Model, settings: Settings) -> Iterator[StartError]:
    """What a release makes of rope_scaling, from config.json or from the option."""
    section, key = model.scaling, settings.release.key
    if section is None or model.traits["positions"] == "none":
        return
    version = settings.release.asked
    kind = section.get("rope_type") or section.get("type")
    since, original = model.traits["scales_since"], int(model.original_context)
    if (since is None or key < release_key(str(since))) and settings.max_model_len > original:
        yield start_error(
            ROPE,
            "start_rope_ignored",
            {"max_model_len": original},
            version=version,
            architecture=model.architecture,
            original=original,
        )
    legacy = "type" in section
    option = isinstance(settings.raw.get("rope_scaling"), Mapping)
    spelling = at(changes.ROPE_SPELLING, key)
    lacks = not kind or (spelling == "type" and not legacy)
    if lacks or (option and "rope_type" not in section and within(key, *changes.ROPE_OPTION_NEEDS_ROPE_TYPE)):
        needed = "rope_type" if option and legacy else spelling
        yield start_error(
            ROPE, "start_rope_spelling", *_rope_fixes(settings), version=version, section=dict(section), needed=needed
        )
        return
    known = at(changes.ROPE_TYPES_LLAMA if model.model_type == "llama" else changes.ROPE_TYPES, key)
    if kind not in known:
        yield start_error(
            ROPE, "start_rope_type", *_rope_fixes(settings), version=version, kind=kind, known=", ".join(known)
        )
        return
    if model.model_type == "llama" and spelling == "type" and set(section) != {"type", "factor"}:
        yield start_error(
            ROPE, "start_rope_spelling", *_rope_fixes(settings), version=version, section=dict(section), needed="type"
        )
        return
    needs = [name for name in changes.ROPE_NEEDS.get(str(kind), ()) if section.get(name) is None]
    if needs and key < release_key(changes.ROPE_NEEDS_LAST):
        yield start_error(
            ROPE, "start_rope_lacks", *_rope_fixes(settings), version=version, kind=kind, names=", ".join(needs)
        )


ROPE = "architecture_not_supported"


def check(
    model: Model,
    settings: Settings,
    gpus: Sequence[Gpu],
    used: Sequence[Gpu],
    dtype: str,
    dtype_error: StartError | None,
) -> list[StartError]:
    """All reasons why vLLM would refuse, the first one that it meets first. `used` are the GPUs with ranks."""
    found: list[StartError] = []
    found.extend(options(settings))
    found.extend(values.check(settings.raw, settings.release))
    found.extend(environment.errors(settings.environment, settings.release))
    found.extend(architecture(model, settings))
    found.extend(remote_code(model, settings))
    found.extend(ropes(model, settings))
    found.extend(lengths(model, settings))
    if dtype_error:
        found.append(dtype_error)
    found.extend(quantization(model, settings, used, dtype))
    found.extend(batches(settings))
    found.extend(attention.check(model, settings, used, dtype))
    found.extend(encoder(model, settings, used))
    found.extend(expert_kernels(model, used, settings, dtype))
    found.extend(combinations.check(model, settings, quantization_name(model, settings, used), used))
    found.extend(host_memory(settings))
    found.extend(world(settings, gpus))
    found.extend(tensor_parallel(model, settings))
    found.extend(pipeline(model, settings))
    found.extend(gpu_kernels(settings, gpus))
    return found
