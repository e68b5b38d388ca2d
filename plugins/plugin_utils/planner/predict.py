# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What vLLM would do if it were started like that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import (
    activation,
    environment,
    fields,
    kv,
    overhead,
    uncertainty,
    validity,
    weights,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.registry import converted_from
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import Fix, StartError, start_error
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model, read_model, rescaled
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.quantization import canonical, make
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import Settings, resolve
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import Shard, shards
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.towers import sees
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key, within
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.weights import DTYPE_BYTES

GIB = 1024**3
MAX_PARALLEL = 4096
# What CUDA itself takes on a device that a process uses, outside every budget.
CONTEXT_BYTES = int(0.3 * 1024**3)
# The least of it that engines logged: a T4 has 14.47 of 14.56 GiB free. A budget that reaches into it is refused by V1 from 0.9.1 on
# (request_memory in vllm/v1/worker), and in older releases the first kernel that CUDA loads finds no memory (vllm-project/vllm, issue 10797).
CONTEXT_LEAST_BYTES = int(0.09 * 1024**3)
# What loading needs beside the weights (context, the reader's buffers).
# The estimate of graphs is rough: within this much only a warning.
LOADING_ROOM_BYTES = int(0.35 * 1024**3)
GRAPH_DOUBT_BYTES = 1024**3 // 2
# Contexts that are tried, the batch below which nothing is gained, and the share that leaves just enough to other users of a GPU.
CONTEXTS = (131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512)
BATCH_LEAST = 2048
# A shorter context is the first cure only while it is of some use.
LENGTH_LEAST = 1024
UTILIZATION_MOST = 0.95


class Rank(NamedTuple):
    """Memory of one rank, bytes."""

    stage: int
    total: int
    weights: int
    activation: int
    non_torch: int
    graphs: int
    available: int  # for the KV cache

    def as_dict(self) -> dict[str, object]:
        return {
            "weights_gib": round(self.weights / GIB, 4),
            "activation_gib": round(self.activation / GIB, 4),
            "non_torch_gib": round(self.non_torch / GIB, 4),
            "cudagraph_gib": round(self.graphs / GIB, 4),
            "kv_cache_gib": round(self.available / GIB, 4),
        }


class Prediction(NamedTuple):
    """The outcome with everything that led to it."""

    error: StartError | None
    errors: tuple[StartError, ...]
    dtype: str
    ranks: tuple[Rank, ...]
    tokens: int | None
    concurrency: float | None
    longest: int | None
    settings: Settings
    warnings: tuple[Text, ...]
    uncertainty: uncertainty.Uncertainty
    spare: int | None = None  # bytes on the fullest rank beyond what the start needs; None where that is not known
    longest_safe: int | None = None  # the longest context that fits with the uncertainty to spare
    unverified: Text | None = None  # why nothing is known of such a start

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def verdict(self) -> str:
        """Whether it starts, and with more to spare than the prediction may be off."""
        if self.error is not None:
            return uncertainty.NOT
        if self.unverified is not None:
            return uncertainty.UNVERIFIED
        return uncertainty.STARTS if self.safe else uncertainty.NARROWLY

    @property
    def safe(self) -> bool:
        """Whether it starts by what is known, with more to spare than the prediction may be off."""
        return self.ok and (self.spare is None or self.spare >= self.uncertainty.size)

    def as_dict(self, lang: str = "en", remedy: Text | None = None) -> dict[str, object]:
        """Plain data. `remedy` says what would start instead."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "margin": {
                "spare_gib": None if self.spare is None else round(self.spare / GIB, 4),
                "uncertainty_gib": round(self.uncertainty.size / GIB, 4),
                "reason": (self.unverified or self.uncertainty.reason).say(lang),
                "longest_safe_context": self.longest_safe,
            },
            "error": self.error.as_dict(lang, remedy) if self.error else None,
            "errors": [error.as_dict(lang, remedy) for error in self.errors],
            "dtype": self.dtype,
            "ranks": [rank.as_dict() for rank in self.ranks],
            "kv_cache_tokens": self.tokens,
            "max_concurrency": self.concurrency,
            "longest_context": self.longest,
            "warnings": [warning.say(lang) for warning in self.warnings],
        }


# Bytes of weights by what they follow from.
Memo = dict[object, int]


class _Start(NamedTuple):
    """A start that is judged: what is started, and what has been found about it so far."""

    model: Model
    settings: Settings
    dtype: str
    errors: list[StartError]
    warnings: list[Text]
    doubt: uncertainty.Uncertainty

    def outcome(
        self,
        ranks: list[Rank],
        tokens: int | None = None,
        concurrency: float | None = None,
        longest: int | None = None,
        spare: int | None = None,
        longest_safe: int | None = None,
    ) -> Prediction:
        """The prediction with what has been found; what is not known is None."""
        return Prediction(
            error=self.errors[0] if self.errors else None,
            errors=tuple(self.errors),
            dtype=self.dtype,
            ranks=tuple(ranks),
            settings=self.settings,
            warnings=tuple(self.warnings),
            uncertainty=self.doubt,
            tokens=tokens,
            concurrency=concurrency,
            longest=longest,
            spare=spare,
            longest_safe=longest_safe,
        )


def predict(
    model: Model,
    gpus: list[Gpu],
    raw: Mapping[str, object],
    memo: Memo | None = None,
    correction: int = 0,
    proven: bool = False,
) -> Prediction:
    """Predict with facts already read. `memo` keeps weights between predictions of one model; `correction` is added to
    what every rank holds beside the model (learnt from past starts; `proven` if they were starts of this model)."""
    model = _overridden(model, raw)
    settings = resolve(model, gpus, raw)
    memo = {} if memo is None else memo
    used = gpus[: settings.tp * settings.pp] or gpus
    dtype, dtype_warnings, dtype_error = validity.resolve_dtype(model, settings, used)
    errors = validity.check(model, settings, gpus, used, dtype, dtype_error)
    warnings = [*settings.warnings, *model.warnings, *dtype_warnings, *validity.gpu_warnings(settings, used)]
    warnings += [*validity.route_warnings(settings), *environment.warnings(settings.environment, settings.release)]
    codes = {refused.code for refused in errors}
    doubt = uncertainty.uncertainty(settings.engine, used, proven)
    if encoding := _encoding(model, settings, dtype):
        # The estimate may be off by itself.
        reason = Text("uncertainty_vision", gib=encoding / GIB, reason=doubt.reason)
        doubt = doubt._replace(size=doubt.size + encoding, reason=reason)
    unverified = validity.unverified(model, settings, used)
    if unverified is not None:
        warnings.append(unverified)
    if codes & {"layers_fewer_than_stages"} or settings.tp * settings.pp > 4096:
        return _Start(model, settings, dtype, errors, warnings, doubt).outcome([])
    model = model._replace(quantization=validity.effective_quantization(model, settings))
    found = _memory(_Start(model, settings, dtype, errors, warnings, doubt), used, memo, correction)
    return found._replace(unverified=unverified)


def _overridden(model: Model, raw: Mapping[str, object]) -> Model:
    """The model as options change it: rope_scaling, and what hf_overrides says of positions and of the architecture."""
    overrides = raw.get("hf_overrides")
    found = dict(overrides) if isinstance(overrides, Mapping) else {}
    names = found.get("architectures")
    if isinstance(names, (list, tuple)) and names and str(names[0]) != model.architecture:
        source = converted_from(str(names[0]))
        same = source is not None and source[0] == model.architecture
        model = model._replace(
            architecture=str(names[0]), known=model.known and same
        )  # else with the traits of another
    scaling = raw.get("rope_scaling") or found.get("rope_scaling")
    positions = fields.whole(found, ("max_position_embeddings",), "settings.hf_overrides")
    if isinstance(scaling, Mapping) or positions:
        return rescaled(model, scaling if isinstance(scaling, Mapping) else None, positions)
    return model


def _memory(start: _Start, gpus: list[Gpu], memo: Memo, correction: int) -> Prediction:
    model, settings, dtype = start.model, start.settings, start.dtype
    key = settings.release.key
    stages = shards(len(model.layers), settings.tp, settings.pp, key, settings.layer_partition)
    expert_parallel = settings.tp * settings.dp if settings.expert_parallel else 1
    ranks: list[Rank] = []
    seen: dict[tuple[object, ...], Rank] = {}
    alike: dict[object, kv.Cache] = {}
    signatures = [_signature(model, shard) for shard in stages]
    for signature, shard in zip(signatures, stages, strict=True):
        if signature not in alike:
            alike[signature] = kv.cache(model, shard, settings, dtype)
    stores = [alike[signature] for signature in signatures]
    for index in range(settings.tp * settings.pp):
        gpu = gpus[index % len(gpus)]
        shard = stages[index // settings.tp]
        free = settings.free[index] if settings.free and index < len(settings.free) else None
        first = settings.engine == "V1" or index % settings.tp == 0
        kind = (signatures[shard.stage], gpu, free, first)
        if kind not in seen:
            held = _weights(model, shard, gpu, settings, dtype, expert_parallel, memo)
            if model.tower is not None and shard.first and model.tensors is None:
                held += model.tower.weights(settings.tp, DTYPE_BYTES[dtype])
            seen[kind] = _rank(start, shard, gpu, held, 0 if first else 1, correction, free)
            start.errors.extend(_loading(seen[kind], gpu, free, settings, index))
        ranks.append(seen[kind])
    if model.traits.get("encoder"):
        return _encoded(start, ranks)
    return _capacity(start, ranks, stores)


def _encoded(start: _Start, ranks: list[Rank]) -> Prediction:
    """Of a model whose requests are encoded at once and leave nothing in a cache."""
    spare, length = min(rank.available for rank in ranks), start.settings.max_model_len
    if spare < 0:
        less = _less_memory(start.settings)
        start.errors.append(start_error("no_cache_blocks", "start_no_cache", *less, left=spare / GIB))
    return start.outcome(ranks, longest=length, spare=spare, longest_safe=length)


def _blocks(ranks: list[Rank], stores: list[kv.Cache], settings: Settings, less: int = 0) -> int:
    """Blocks of the KV cache that every rank has, `less` bytes taken away."""
    if settings.blocks_override:
        return settings.blocks_override
    if settings.kv_bytes is not None:
        less = 0  # said, not predicted
    kinds = {(rank.stage, rank.available) for rank in ranks}
    return min((kv.blocks(stores[stage], max(available - less, 0)) for stage, available in kinds), default=0)


def _shared(settings: Settings) -> tuple[int, int]:
    """Into how many parts the cache is divided, of which a request gets one, and how many blocks no request gets."""
    key = settings.release.key
    parts = settings.pp if settings.engine == "V0" and at(changes.V0_PP_SPLITS_CHECK, key) else 1
    return parts, int(settings.engine == "V1" and at(changes.NULL_BLOCK_CHECKED, key))


def _whole(ranks: list[Rank], stores: list[kv.Cache], settings: Settings, less: int = 0) -> int | None:
    """Blocks that the fullest rank would hold if it had the cache of all stages; None where a release does not look at that."""
    key = settings.release.key
    if settings.engine != "V1" or settings.pp == 1 or not within(key, *changes.WHOLE_CACHE_CHECKED):
        return None
    return max(min(rank.available for rank in ranks) - less, 0) // sum(store.block_bytes for store in stores)


def _usable(ranks: list[Rank], stores: list[kv.Cache], settings: Settings, less: int = 0) -> int:
    """Blocks that one request may take, `less` bytes taken away."""
    parts, nobodys = _shared(settings)
    usable = _blocks(ranks, stores, settings, less) // parts - nobodys
    whole = _whole(ranks, stores, settings, less)
    return usable if whole is None else min(usable, whole)


def _spare(ranks: list[Rank], stores: list[kv.Cache], needed: int, settings: Settings) -> int:
    """Bytes on the fullest rank beyond what loading and one request of the full length need."""
    spare = min(rank.total - LOADING_ROOM_BYTES - rank.weights for rank in ranks)
    if settings.blocks_override or settings.kv_bytes is not None:
        return spare
    parts, nobodys = _shared(settings)
    needed = needed * parts + nobodys
    if _whole(ranks, stores, settings) is not None:
        spare = min(spare, min(rank.available for rank in ranks) - needed * sum(store.block_bytes for store in stores))
    return min(spare, *(rank.available - needed * stores[rank.stage].block_bytes for rank in set(ranks)))


def _signature(model: Model, shard: Shard) -> tuple[object, ...]:
    """Equal for stages that hold the same: most stages of a long pipeline."""
    part: object = (shard.first_layer, shard.last_layer)
    if model.uniform and not model.quantization.ignored:
        part = shard.last_layer - shard.first_layer
    return (shard.first, shard.last, part)


def _weights(
    model: Model, shard: Shard, gpu: Gpu, settings: Settings, dtype: str, expert_parallel: int, memo: Memo
) -> int:
    key = settings.release.key
    known = (
        model.quantization,
        shard.tp,
        _signature(model, shard),
        dtype,
        key,
        expert_parallel,
        settings.cpu_offload,
        gpu.capability,
        settings.lora,
    )
    if known not in memo:
        memo[known] = weights.rank_weights(
            model,
            shard,
            dtype,
            key,
            weights.Loading(
                expert_parallel,
                settings.cpu_offload,
                gpu.capability,
                settings.lora if settings.engine == "V1" else None,
            ),
        )
    return memo[known]


def _encoding(model: Model, settings: Settings, dtype: str) -> int:
    """Bytes of the encoder of images in the profile run."""
    if model.tower is None or not sees(settings.raw):
        return 0
    return model.tower.activation(
        settings.raw, settings.engine, settings.batched_tokens, settings.sequences, DTYPE_BYTES[dtype]
    )


def _rank(
    start: _Start, shard: Shard, gpu: Gpu, held: int, tensor_rank: int, correction: int, free: int | None
) -> Rank:
    model, settings, dtype = start.model, start.settings, start.dtype
    key = settings.release.key
    peak = activation.peak(model, shard, settings, dtype, gpu.capability, tensor_rank)
    if shard.first:
        peak = max(peak, _encoding(model, settings, dtype))
    outside = overhead.non_torch(shard, settings, gpu) + correction
    graphs = overhead.graphs(model, shard, settings)
    if free is not None and overhead.budget_rule(settings) in ("peak", "device"):
        outside += gpu.total - free  # what other processes hold counts as this start's
    budget = int(gpu.total * settings.utilization)
    available = budget - held - peak - outside
    counted = at(changes.CUDAGRAPH_IN_BUDGET[activation.runner(model, settings)], key)
    if settings.environment.get("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "1" if counted else "0") == "1":
        available -= graphs
    if settings.kv_bytes is not None:
        available = settings.kv_bytes
    return Rank(shard.stage, gpu.total, held, peak, outside, graphs, available)


def _loading(rank: Rank, gpu: Gpu, free: int | None, settings: Settings, index: int) -> list[StartError]:
    found = []
    usable = free if free is not None else gpu.total
    if at(changes.FREE_MEMORY_CHECK, settings.release.key) and settings.engine == "V1" and free is not None:
        if free < gpu.total * settings.utilization and settings.kv_bytes is None:
            found.append(
                start_error(
                    "free_memory_below_utilization",
                    "start_free_memory",
                    {"gpu_memory_utilization": math.floor(free / gpu.total * 100) / 100},
                    rank=index,
                    free=free / GIB,
                    total=gpu.total / GIB,
                    utilization=settings.utilization,
                    needed=gpu.total * settings.utilization / GIB,
                )
            )
    kept = 0 if overhead.budget_rule(settings) in ("peak", "device") else CONTEXT_LEAST_BYTES
    if (
        gpu.total * (1 - settings.utilization) <= kept
        and settings.kv_bytes is None
        and settings.blocks_override is None
    ):
        found.append(
            start_error(
                "free_memory_below_utilization",
                "start_utilization_whole",
                {"gpu_memory_utilization": None},
                {"gpu_memory_utilization": UTILIZATION_MOST},
                utilization=settings.utilization,
                left=gpu.total * (1 - settings.utilization) / GIB,
                gpu=gpu.name,
            )
        )
    if rank.weights > usable - LOADING_ROOM_BYTES:
        found.append(
            start_error(
                "out_of_memory_loading",
                "start_weights",
                *_offload(settings, -rank.available),
                rank=index,
                weights=rank.weights / GIB,
                gpu=gpu.name,
                usable=usable / GIB,
            )
        )
    return found


def _less_memory(settings: Settings) -> list[Fix]:
    """What frees memory for the KV cache, the least costly first."""
    found: list[Fix] = []
    if "max_num_batched_tokens" in settings.raw and settings.batched_tokens > max(settings.max_model_len, BATCH_LEAST):
        found.append({"max_num_batched_tokens": None})
    if not settings.chunked_prefill and settings.batched_tokens > BATCH_LEAST:
        # A whole prompt is one batch: the context is what its activation grows with.
        lengths = [length for length in CONTEXTS if length < settings.max_model_len]
        found += [{"max_model_len": length, "max_num_batched_tokens": None} for length in lengths]
    elif settings.batched_tokens > BATCH_LEAST:
        found.append({"max_num_batched_tokens": BATCH_LEAST})
    found += [{"max_num_seqs": size} for size in (64, 16) if size < settings.sequences]
    if settings.utilization < UTILIZATION_MOST:
        found.append({"gpu_memory_utilization": UTILIZATION_MOST})
    if not settings.eager:
        found.append({"enforce_eager": True})
    return found


def _offload(settings: Settings, lacking: int) -> list[Fix]:
    """Weights in the memory of the host, where the release can."""
    if settings.release.key < release_key(changes.CPU_OFFLOAD_SINCE):
        return []
    return [{"cpu_offload_gb": int(settings.cpu_offload) + max(lacking, 0) // GIB + 3}]


def _left_for_graphs(rank: Rank, cached: int) -> int:
    """CUDA graphs are captured after the KV cache: they live in what the budget leaves."""
    return max(rank.total - CONTEXT_BYTES - rank.weights - rank.non_torch - cached, 0)


def _graphs_refused(rank: Rank, left: int, settings: Settings) -> StartError:
    return start_error(
        "out_of_memory_cudagraph", "start_graphs", *_less_memory(settings), graphs=rank.graphs / GIB, left=left / GIB
    )


def _capacity(start: _Start, ranks: list[Rank], stores: list[kv.Cache]) -> Prediction:
    settings = start.settings
    blocks = _blocks(ranks, stores, settings)
    if blocks < 1:
        worst = min(ranks, key=lambda rank: rank.available)
        start.errors.append(
            start_error(
                "no_cache_blocks",
                "start_no_cache",
                *_less_memory(settings),
                *_offload(settings, -worst.available),
                left=worst.available / GIB,
            )
        )
        return start.outcome(ranks, tokens=0, concurrency=0.0, longest=0)
    usable = _usable(ranks, stores, settings)
    length = settings.max_model_len
    needed = max(kv.request_blocks(store, length, settings.batched_tokens) for store in stores)
    longest = _longest(stores, usable, settings)
    safe = _longest(stores, max(_usable(ranks, stores, settings, start.doubt.size), 0), settings)
    if settings.auto_max_model_len and longest:
        length = min(length, longest)
        needed = max(kv.request_blocks(store, length, settings.batched_tokens) for store in stores)
    tokens = kv.printed_tokens(stores, blocks, settings)
    concurrency = round(blocks / needed, 2)
    if settings.engine == "V0":
        concurrency = round(blocks * settings.block_size / length, 2)
    if needed > usable:
        cure = safe if safe >= LENGTH_LEAST else longest
        shorter: list[Fix] = [{"max_model_len": cure}] if cure else []
        start.errors.append(
            start_error(
                "max_model_len_exceeds_kv_cache",
                "start_length",
                *(shorter if cure >= LENGTH_LEAST else []),
                *_less_memory(settings),
                *_offload(settings, (needed - usable) * max(store.block_bytes for store in stores)),
                *shorter,
                length=length,
                longest=longest,
            )
        )
    spare = _spare(ranks, stores, needed, settings)
    for rank in {(rank.weights, rank.activation): rank for rank in ranks}.values():
        left = _left_for_graphs(rank, blocks * stores[rank.stage].block_bytes)
        if settings.engine == "V1" and rank.graphs:
            # What a forward took is still reserved when the sampler is warmed up, after the graphs (vllm-project/vllm, issue 19445).
            room = left - rank.graphs - rank.activation
            spare = min(spare, room) if room < start.doubt.size else spare
        if rank.graphs <= left:
            continue
        spare = min(spare, left - rank.graphs)
        refused = _graphs_refused(rank, left, settings)
        if rank.graphs > left + GRAPH_DOUBT_BYTES:
            start.errors.append(refused)
            break
        start.warnings.append(Text("start_graphs_doubt", said=refused.message))
    return start.outcome(ranks, tokens, concurrency, longest, spare, safe)


def _longest(stores: list[kv.Cache], usable: int, settings: Settings) -> int:
    stores = list({store.groups: store for store in stores}.values())
    if all(len(store.groups) == 1 and store.groups[0].window is None for store in stores):
        return min(usable * min(store.groups[0].block for store in stores), max(settings.max_model_len, 1))
    low, high = 0, max(settings.max_model_len, 1)
    while low < high:
        middle = (low + high + 1) // 2
        if max(kv.request_blocks(store, middle, settings.batched_tokens) for store in stores) <= usable:
            low = middle
        else:
            high = middle - 1
    return low


def valid_tp_sizes(model: object, max_gpus: object, vllm_version: object, quantization: object = None) -> list[int]:
    """The tensor-parallel sizes up to max_gpus that the divisibility rules of the release allow."""
    facts = read_model(model)
    limit = fields.needed_whole({"max_gpus": max_gpus}, ("max_gpus",), "")
    settings: dict[str, object] = {"vllm_version": vllm_version}
    if quantization and canonical(quantization) != "none" and facts.quantization.method == "none":
        facts = facts._replace(quantization=make(canonical(quantization), {}))
    gpu = Gpu("any", 80 * GIB, (9, 0))
    resolved = resolve(facts, [gpu], settings)
    return [
        size
        for size in range(1, min(limit, MAX_PARALLEL) + 1)
        if not any(validity.tensor_parallel(facts, resolved._replace(tp=size)))
    ]


def valid_pp_sizes(model: object, max_nodes: object, vllm_version: object) -> list[int]:
    """The pipeline sizes up to max_nodes that the release allows for this model."""
    facts = read_model(model)
    limit = fields.needed_whole({"max_nodes": max_nodes}, ("max_nodes",), "")
    gpu = Gpu("any", 80 * GIB, (9, 0))
    resolved = resolve(facts, [gpu], {"vllm_version": vllm_version})
    return [
        size
        for size in range(1, min(limit, MAX_PARALLEL) + 1)
        if not any(validity.pipeline(facts, resolved._replace(pp=size)))
    ]
