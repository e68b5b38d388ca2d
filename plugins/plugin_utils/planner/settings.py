# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a user sets to what a release makes of it: checked options, defaults by release and device."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import named
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import number, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.batch import v0_batch, v1_batch
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.counterparts import counterpart
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.flavours import FLAVOURS, Flavour
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import (
    DESCRIPTIVE,
    NEVER_EXISTED,
    OPTIONS,
    sampled,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError, StartError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import MIB, Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import (
    Release,
    at,
    release_key,
    required_release,
    within,
)

# Shorter or older spellings that people use for the same option.
SYNONYMS: dict[str, str] = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "util": "gpu_memory_utilization",
    "swap_space_gib": "swap_space",
    "chunked_prefill": "enable_chunked_prefill",
}


class Settings(NamedTuple):
    """One start, with everything decided."""

    release: Release
    engine: str
    tp: int
    pp: int
    dp: int
    expert_parallel: bool
    nodes: tuple[int, ...] | None  # ranks on each node
    executor: str | None
    dtype: str  # as asked: auto, float16, bfloat16, float32
    utilization: float
    max_model_len: int
    asked_max_model_len: int | None
    auto_max_model_len: bool
    batched_tokens: int
    sequences: int
    chunked_prefill: bool
    prefix_caching: bool
    eager: bool
    kv_dtype: str
    block_size: int
    blocks_override: int | None
    kv_bytes: int | None
    cpu_offload: float
    quantization: str | None
    custom_all_reduce: bool
    lora: tuple[int, int] | None  # (adapters, rank)
    layer_partition: tuple[int, ...] | None
    flavour: Flavour | None  # the fork of vLLM
    image_code: Mapping[str, tuple[str, ...]] | None  # what each library of a self-built image is built for
    free: tuple[int, ...] | None  # bytes free on each rank before the start
    host_memory: int | None  # of a host, bytes
    graph_sizes: tuple[int, ...] | None
    environment: Mapping[str, str]
    raw: Mapping[str, object]
    warnings: tuple[Text, ...]


def unknown_option(name: str, release: Release) -> StartError | None:
    """Why a release does not take an option; null when it does."""
    if name in DESCRIPTIVE or name == "model":
        return None
    row = OPTIONS.get(name)
    if row is None and name in sampled():
        return _sampled_option(name, release)
    if row is None:
        if name in NEVER_EXISTED:
            use = Text("start_option_use", instead=Text("never_existed_" + name))
            return _unknown("start_option_never", name, use, name=name)
        other = counterpart(name, "vllm")
        if other is not None:
            code = "start_option_foreign" if other[1] else "start_option_nothing"
            return _unknown("start_option_unknown", name, Text(code, other=other[0], instead=other[1]), name=name)
        import difflib  # only needed for an error

        near = difflib.get_close_matches(name, [*OPTIONS, *sampled()], 1)
        return _unknown(
            "start_option_unknown", name, Text("start_option_near", near=near[0]) if near else None, name=name
        )
    _dummy, since, last, replaced = row
    if within(release.key, since, last):
        return None
    if since is not None and release.key < release_key(since):
        return _unknown("start_option_later", name, None, version=release.asked, name=name, since=since)
    advice = Text("start_option_use", instead=replaced) if replaced else None
    return _unknown("start_option_gone", name, advice, version=release.asked, name=name, last=last)


def _unknown(text: str, option: str, advice: Text | None, **values: object) -> StartError:
    return StartError("unknown_option", Text(text, **values), ({option: None},), advice)


def _sampled_option(name: str, release: Release) -> StartError | None:
    _dummy, first, before, last, after = sampled()[name]
    if before is not None and release.key <= release_key(before):
        return _unknown("start_sampled_later", name, None, version=release.asked, name=name, first=first)
    if after is not None and release.key >= release_key(after):
        return _unknown("start_sampled_gone", name, None, version=release.asked, name=name, last=last)
    return None


def option_type(name: str) -> str:
    """The type of an option's value: bool, int, float, str, list or json."""
    return OPTIONS[name][0] if name in OPTIONS else sampled()[name][0]


def normalise(raw: object, field: str = "settings") -> dict[str, object]:
    """Option names with underscores, without leading dashes; empty values left out."""
    result: dict[str, object] = {}
    for key, value in fields.mapping(raw, field).items():
        name = str(key).strip().lstrip("-").replace("-", "_")
        name = SYNONYMS.get(name, name)
        if value is not None and value != "":
            result[name] = _parsed(name, value)
    return result


def _parsed(name: str, value: object) -> object:
    """A mapping that is written as JSON, as on a command line; what is none stays as it is."""
    if isinstance(value, str) and value.lstrip().startswith("{") and (name in OPTIONS or name in sampled()):
        try:
            return read_json(value) if option_type(name) == "json" else value
        except ValueError:
            return value
    return value


def executor_of(value: object) -> str | None:
    """The executor that is named; null when the release chooses."""
    text = str(value).strip().lower() if value is not None else ""
    return None if text in ("", "none", "null", "auto") else text


# What a release makes of a dtype's names. Others are refused (values.py); until then they count as auto.
DTYPES = {
    "half": "float16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "float32": "float32",
}


def read_length(value: object) -> int | None:
    """A length as vLLM reads it: 4096, "4k", "4K", "auto" (null)."""
    text = str(value).strip()
    if text.lower() in ("auto", "-1"):
        return None
    scale = 1
    if re.fullmatch(r"[0-9.]+[kKmM]", text):
        scale = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}[text[-1]]
        text = text[:-1]
    try:
        number = float(text) * scale
    except ValueError:
        raise InputError("settings.max_model_len", "input_tokens", found=value) from None
    if number != int(number) or number < 1 or number > 10**9:
        raise InputError("settings.max_model_len", "input_tokens_from_one", found=value)
    return int(number)


def _nodes(raw: object, world: int) -> tuple[int, ...] | None:
    if raw is None:
        return None
    if isinstance(raw, int) and not isinstance(raw, bool):
        if raw < 1:
            raise InputError("settings.nodes", "input_nodes")
        return tuple([raw] * (world // raw) + ([world % raw] if world % raw else []))
    entries = fields.listing(raw, "settings.nodes")
    counts = []
    for index, entry in enumerate(entries):
        if isinstance(entry, Mapping):
            ranks = entry.get("ranks")
            counts.append(len(ranks) if isinstance(ranks, (list, tuple)) else int(ranks or 0))
        elif isinstance(entry, (list, tuple)):
            counts.append(len(entry))
        else:
            counts.append(fields.needed_whole({"n": entry}, ("n",), "settings.nodes[{0}]".format(index), 0))
    return tuple(counts) or None


def _flavour(raw: Mapping[str, object]) -> Flavour | None:
    name = raw.get("flavour")
    if name is None:
        return None
    if str(name) not in FLAVOURS:
        raise InputError("settings.flavour", "input_one_of", allowed=", ".join(FLAVOURS), found=name)
    return FLAVOURS[str(name)]


def is_own(raw: Mapping[str, object]) -> bool:
    """Whether the vLLM that runs is somebody's own build: no other release can take its place."""
    return raw.get("flavour") is not None or raw.get("compute_capabilities") is not None


def _image_code(raw: Mapping[str, object]) -> dict[str, tuple[str, ...]] | None:
    """What each library of the image is built for: as it was found, else as it is said for all; None means the official image."""
    found, said = raw.get("cuda_code"), raw.get("compute_capabilities")
    flavour = _flavour(raw)
    if said is None and flavour is not None:
        said = list(flavour.gpus)
    if found is not None:
        libraries = fields.mapping(found, "settings.cuda_code")
        return {
            str(name): tuple(map(str, fields.listing(names, "settings.cuda_code"))) for name, names in libraries.items()
        }
    if said is None:
        return None
    names: list[str] = []
    for entry in fields.listing(said, "settings.compute_capabilities"):
        version = "{0}.{1}".format(*fields.capability(entry, "settings.compute_capabilities"))
        names += named(version + ("+PTX" if str(entry).strip().upper().endswith("+PTX") else ""))
    return {"compute_capabilities": tuple(names)}


def v1_is_demanded(release: Release, environment: Mapping[str, str]) -> bool:
    """Whether VLLM_USE_V1 forbids a release that runs V1 by default to fall back to V0."""
    default = at(changes.ENGINE, release.key) == "V1" and release.key <= release_key(changes.V0_LAST)
    return default and environment.get("VLLM_USE_V1") == "1"


def choose_engine(
    release: Release, raw: Mapping[str, object], gpus: Sequence[Gpu], environment: Mapping[str, str], model_type: str
) -> str:
    """V0 or V1."""
    asked = raw.get("engine")
    if asked:
        text = str(asked).strip().upper()
        if text not in ("V0", "V1"):
            raise InputError("settings.engine", "input_one_of", allowed="V0, V1", found=asked)
        return text
    default = at(changes.ENGINE, release.key)
    flag = environment.get("VLLM_USE_V1")
    if release.key > release_key(changes.V0_LAST):
        return "V1"
    if flag == "0":
        return "V0"
    if default == "V0":
        return "V1" if flag == "1" and release.key >= release_key("0.6.4") else "V0"
    if model_type in changes.ENCODER_DECODER_V1_SINCE:
        since = changes.ENCODER_DECODER_V1_SINCE[model_type]
        if since is None or release.key < release_key(since):
            return "V0"
    lowest = min(gpu.capability for gpu in gpus)
    if lowest < at(changes.V1_LOWEST_CAPABILITY, release.key):
        return "V0"
    executor = executor_of(raw.get("distributed_executor_backend"))
    staged = whole(raw.get("pipeline_parallel_size") or 1) > 1
    if staged and executor not in at(changes.V1_PIPELINE_EXECUTORS, release.key):
        return "V0"
    for name, (usual, last) in changes.V1_LACKS.items():
        if raw.get(name, usual) != usual and release.key <= release_key(last):
            return "V0"
    # Before V0 went, V1 left to it what FlashAttention cannot do: keys and values in fp8 but on Hopper, and until 0.9.2 float32.
    if str(raw.get("kv_cache_dtype") or "auto").startswith("fp8") and not (9, 0) <= lowest < (10, 0):
        return "V0"
    if str(raw.get("dtype")) in ("float", "float32") and release.key < release_key("0.9.2"):
        return "V0"
    return "V1"


def keeps_latent(engine: str, key: tuple[int, ...], environment: Mapping[str, str]) -> bool:
    """Whether MLA keeps one vector for each token; older releases and VLLM_MLA_DISABLE give it keys and values of each head."""
    return (engine == "V1" or at(changes.MLA_LATENT, key)) and environment.get("VLLM_MLA_DISABLE") != "1"


def _length(raw: Mapping[str, object], key: tuple[int, ...]) -> tuple[int | None, bool]:
    """The length that is asked for, and whether the engine shall find one that fits."""
    asked = raw.get("max_model_len")
    length = None if asked is None else read_length(asked)
    automatic = asked is not None and length is None
    if automatic and key < release_key(changes.AUTO_MAX_MODEL_LEN_SINCE):
        raise InputError("settings.max_model_len", "input_auto_since", since=changes.AUTO_MAX_MODEL_LEN_SINCE)
    return length, automatic


def _lora(raw: Mapping[str, object]) -> tuple[int, int] | None:
    if not fields.truth(raw.get("enable_lora"), "settings.enable_lora"):
        return None
    adapters = fields.whole(raw, ("max_loras",), "settings") or 1
    return adapters, fields.whole(raw, ("max_lora_rank",), "settings") or 16


def _layer_partition(environment: Mapping[str, str]) -> tuple[int, ...] | None:
    said = environment.get("VLLM_PP_LAYER_PARTITION")
    if not said:
        return None
    try:
        return tuple(int(count) for count in said.split(","))
    except ValueError:
        raise InputError("settings.environment.VLLM_PP_LAYER_PARTITION", "input_partition") from None


def _free(raw: Mapping[str, object], gpus: int) -> tuple[int, ...] | None:
    said = raw.get("free_memory_mib")
    if said is None:
        return None
    each = said if isinstance(said, (list, tuple)) else [said] * gpus
    return tuple(int(number(mib) * MIB) for mib in each)


def _host_memory(raw: Mapping[str, object]) -> int | None:
    memory = fields.number(raw, "host_memory_mib", "settings", 1, 1 << 30)
    return int(memory * MIB) if memory else None


def resolve(model: Model, gpus: Sequence[Gpu], raw_settings: object) -> Settings:
    """Decide everything that the release would decide."""
    raw = normalise(raw_settings)
    if raw.get("vllm_version") is None:
        raise InputError("settings.vllm_version", "input_missing")
    accepted = fields.truth(raw.get("accept_unknown_release"), "settings.accept_unknown_release")
    release = required_release(raw["vllm_version"], "settings.vllm_version", accepted)
    key = release.key
    warnings = list(release.warnings)
    if fields.truth(raw.get("trust_remote_code"), "settings.trust_remote_code"):
        warnings.append(Text("start_remote_code"))
    environment = {
        str(k): str(v) for k, v in fields.mapping(raw.get("environment") or {}, "settings.environment").items()
    }
    tp = fields.whole(raw, ("tensor_parallel_size",), "settings", 1, 65536) or 1
    pp = fields.whole(raw, ("pipeline_parallel_size",), "settings", 1, 65536) or 1
    dp = fields.whole(raw, ("data_parallel_size",), "settings", 1, 65536) or 1
    engine = choose_engine(release, raw, gpus, environment, model.model_type)
    utilization = fields.number(raw, "gpu_memory_utilization", "settings", 0, 1)
    if utilization == 0:
        raise InputError("settings.gpu_memory_utilization", "input_share")
    length, auto_length = _length(raw, key)
    max_model_len = length or model.context
    latent = keeps_latent(engine, key, environment)
    batch = (
        v1_batch(raw, gpus, key, max_model_len) if engine == "V1" else v0_batch(raw, model, key, max_model_len, latent)
    )
    block = fields.whole(raw, ("block_size",), "settings", 1, 2048) or 16
    lora, layer_partition, free = _lora(raw), _layer_partition(environment), _free(raw, len(gpus))
    graph_sizes = raw.get("cudagraph_capture_sizes")
    dtype = DTYPES.get(str(raw.get("dtype") or "auto").lower().replace("torch.", ""), "auto")
    kv_bytes = raw.get("kv_cache_memory_bytes")
    return Settings(
        release=release,
        engine=engine,
        tp=tp,
        pp=pp,
        dp=dp,
        expert_parallel=fields.truth(raw.get("enable_expert_parallel"), "settings.enable_expert_parallel"),
        nodes=_nodes(raw.get("nodes"), tp * pp),
        executor=executor_of(raw.get("distributed_executor_backend")) or ("ray" if raw.get("worker_use_ray") else None),
        dtype=dtype,
        utilization=utilization if utilization is not None else at(changes.UTILIZATION, key),
        max_model_len=max_model_len,
        asked_max_model_len=length,
        auto_max_model_len=auto_length,
        batched_tokens=batch.tokens,
        sequences=batch.sequences,
        chunked_prefill=batch.chunked_prefill,
        prefix_caching=fields.truth(
            raw.get("enable_prefix_caching"), "settings.enable_prefix_caching", changes.PREFIX_CACHING[engine]
        ),
        eager=fields.truth(raw.get("enforce_eager"), "settings.enforce_eager"),
        kv_dtype=str(raw.get("kv_cache_dtype") or "auto"),
        block_size=block,
        blocks_override=fields.whole(raw, ("num_gpu_blocks_override",), "settings"),
        kv_bytes=int(number(kv_bytes)) if kv_bytes is not None else None,
        cpu_offload=fields.number(raw, "cpu_offload_gb", "settings", 0, 1e6) or 0.0,
        quantization=str(raw["quantization"]) if raw.get("quantization") not in (None, "none") else None,
        custom_all_reduce=not fields.truth(raw.get("disable_custom_all_reduce"), "settings.disable_custom_all_reduce"),
        lora=lora,
        layer_partition=layer_partition,
        flavour=_flavour(raw),
        image_code=_image_code(raw),
        free=free,
        host_memory=_host_memory(raw),
        graph_sizes=tuple(int(x) for x in graph_sizes) if isinstance(graph_sizes, (list, tuple)) else None,
        environment=environment,
        raw=raw,
        warnings=tuple(warnings),
    )
