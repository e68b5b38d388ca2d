# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing a plan for the hosts of a deployment, and its alternatives."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import number
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text, spoken
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import alternatives as other_plans
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.network import (
    ALL_REDUCE_SECONDS,
    ALL_REDUCES_PER_LAYER,
    MEMORY_BANDWIDTH,
    PIPELINE_EFFICIENCY,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import DESCRIPTIVE
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import Fix, InputError, StartError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu, read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model, read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.observations import Experience, experience
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.parallel import divides_heads, spread
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import CONTEXTS, Memo, Prediction, predict
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.quantization import NONE
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import recommended_release
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import (
    NONE_FOUND,
    applied,
    find,
    outcome,
    sentence,
    smallest,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import executor_of, is_own, normalise
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.validity import pipelines
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import (
    Release,
    at,
    release_key,
    required_release,
    resolve_release,
)

MEMORY_CODES = ("max_model_len_exceeds_kv_cache", "no_cache_blocks", "out_of_memory_cudagraph")
# What another release may know.
RELEASE_CODES = (
    "architecture_not_supported",
    "feature_not_supported",
    "gpu_not_supported",
    "pp_not_supported",
    "quantization_not_supported",
)
# What the planner sets where its own choice would not start otherwise.
MENDED = (
    "dtype",
    "quantization",
    "load_format",
    "enforce_eager",
    "enable_chunked_prefill",
    "max_num_batched_tokens",
    "max_num_seqs",
    "swap_space",
)
# Of a wish, what says how a start is predicted and is no option of it.
PREDICTED_BY = (
    *("vllm_version", "compute_capabilities", "cuda_code", "environment", "free_memory_mib", "engine"),
    *("accept_unknown_release", "flavour"),
)
# Sizes and releases were compared before.
SHAPE = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "vllm_version")
OBJECTIVES = ("throughput", "latency", "context")
INTERCONNECTS = tuple(ALL_REDUCE_SECONDS)
# Where no context starts safely, the one that is chosen leaves at least the rest of the predicted cache.
CONTEXT_MARGIN = 0.97
# It is a multiple of this, and the next longer one that was tried is within one such part of it.
CONTEXT_STEP, CONTEXT_PARTS = 256, 16
MAX_SHAPES, MAX_SPANNING = 8, 4
MAX_ALTERNATIVES = 14
MIB, GIB = 1024**2, 1024**3
# Of a host's memory: what the system needs.
HOST_RESERVE_GIB = 2
# More context and more requests at once than this no longer decide between shapes.
VALUED_CONTEXT, VALUED_REQUESTS = 32768, 32


class Node(NamedTuple):
    host: str
    gpus: tuple[Gpu, ...]
    memory: int | None = None  # of the host, bytes; None if it is not known
    places: tuple[int, ...] | None = None  # which of the host's GPUs these are; None for all of them


class Placement(NamedTuple):
    """Which ranks lie on which node, in rank order."""

    tp: int
    pp: int
    nodes: tuple[tuple[str, tuple[int, ...]], ...]
    gpus: tuple[Gpu, ...]
    copies: int = 1  # of the model behind one server (data_parallel_size)

    def words(self) -> str:
        return f"tensor_parallel_size {self.tp}, pipeline_parallel_size {self.pp}"

    @property
    def world(self) -> int:
        return self.of_copy * self.copies

    @property
    def of_copy(self) -> int:
        return self.tp * self.pp

    @property
    def spans_nodes(self) -> bool:
        return len(self.nodes) > 1

    def as_dicts(self) -> list[dict[str, object]]:
        return [{"host": host, "ranks": list(ranks)} for host, ranks in self.nodes]

    @property
    def splits_tensors(self) -> bool:
        """Whether a tensor-parallel group lies on more than one node."""
        place = {rank: host for host, ranks in self.nodes for rank in ranks}
        return any(len({place.get(stage * self.tp + rank) for rank in range(self.tp)}) > 1 for stage in range(self.pp))


class Candidate(NamedTuple):
    placement: Placement
    settings: dict[str, object]
    prediction: Prediction
    change: str | Text = ""
    cost: str | Text = ""
    gain: str | Text = ""
    causes: tuple[tuple[Fix, StartError], ...] = ()  # what the planner had to set for it to start


class Task(NamedTuple):
    """What stays the same while plans are compared."""

    model: Model
    nodes: tuple[Node, ...]
    wishes: Mapping[str, object]
    release: Release
    objective: str
    weakest: Gpu
    memo: Memo
    experience: Experience


def read_nodes(value: object) -> list[Node]:
    entries = fields.listing(value, "nodes")
    if not entries:
        raise InputError("nodes", "input_no_host")
    nodes = []
    for index, entry in enumerate(entries):
        field = f"nodes[{index}]"
        row = fields.mapping(entry, field)
        if not row.get("host"):
            raise InputError(f"{field}.host", "input_missing")
        memory = fields.number(row, "memory_mib", field, 1, 1 << 30)
        gpus = tuple(read_gpus(row.get("gpus") or [], f"{field}.gpus"))
        nodes.append(Node(str(row["host"]), gpus, int(memory * MIB) if memory else None))
    if len({node.host for node in nodes}) != len(nodes):
        raise InputError("nodes", "input_host_twice")
    return nodes


# -- where ranks go ------------------------------------------------------------------------------------------------------
def place(nodes: Sequence[Node], tp: int, pp: int) -> Placement | None:
    """Stages on nodes in order, each stage inside one node when sizes allow; null when the GPUs do not suffice."""
    counts = spread([len(node.gpus) for node in nodes], tp, pp)
    if counts is None:
        return None
    taken: list[tuple[str, tuple[int, ...]]] = []
    gpus: list[Gpu] = []
    rank = 0
    for node, count in zip(nodes, counts, strict=False):
        if count > 0:
            taken.append((node.host, tuple(range(rank, rank + count))))
            gpus += node.gpus[:count]
            rank += count
    return Placement(tp, pp, tuple(taken), tuple(gpus))


def shapes(task: Task) -> list[tuple[int, int]]:
    """(tp, pp) worth a look, the most promising first: tensors split inside a host, then over several."""
    fixed_tp = fields.whole(task.wishes, ("tensor_parallel_size",), "request")
    fixed_pp = fields.whole(task.wishes, ("pipeline_parallel_size",), "request")
    total = sum(len(node.gpus) for node in task.nodes)
    inside = max(len(node.gpus) for node in task.nodes)
    sizes = [fixed_tp] if fixed_tp else [tp for tp in range(total, 0, -1) if divides_heads(task.model, tp)] or [1]
    layers = len(task.model.layers) if pipelines(task.model, task.release.key) else 1
    found: list[tuple[int, int]] = []
    for tp in sizes:
        most = max(1, min(sum(len(node.gpus) // tp for node in task.nodes), layers))
        if tp > inside:
            most = max(1, min(total // tp, layers))
        stages = [fixed_pp] if fixed_pp else sorted({most, max(1, most // 2), 1}, reverse=True)
        found += [(tp, pp) for pp in stages]
    found.sort(key=lambda shape: (-min(shape[0] * shape[1], total), -shape[0]))
    if task.objective == "latency":
        found.sort(key=lambda shape: (-shape[0], shape[1]))
    kept = [shape for shape in found if shape[0] <= inside][:MAX_SHAPES]
    return kept + [shape for shape in found if shape[0] > inside][:MAX_SPANNING]


# -- one candidate -------------------------------------------------------------------------------------------------------
def _executor(task: Task, placement: Placement) -> str | None:
    asked = executor_of(task.wishes.get("distributed_executor_backend"))
    key = task.release.key
    if fields.truth(task.wishes.get("worker_use_ray"), "request.worker_use_ray"):
        return asked
    without_option = key < release_key(changes.EXECUTOR_OPTION_SINCE)
    if asked:
        # Before there was an option, several ranks had Ray and one had nothing, which needs no word.
        implied = "ray" if placement.of_copy > 1 else "uni"
        return None if without_option and asked == implied else asked
    if without_option or placement.of_copy == 1:
        return None
    without_ray = not fields.truth(task.wishes.get("image_has_ray"), "request.image_has_ray", True)
    return "ray" if placement.spans_nodes and not without_ray else "mp"


def _settings(task: Task, placement: Placement, extra: Mapping[str, object]) -> dict[str, object]:
    """Options of the release for a placement: the user's, then the planner's."""
    settings = {name: value for name, value in task.wishes.items() if name not in DESCRIPTIVE}
    settings["tensor_parallel_size"] = placement.tp
    settings["pipeline_parallel_size"] = placement.pp
    settings["distributed_executor_backend"] = _executor(task, placement)
    if "dtype" not in settings and task.weakest.capability < (8, 0) and task.model.checkpoint_dtype != "float16":
        refused = task.model.model_type in at(changes.FLOAT16_REFUSED, task.release.key)
        settings["dtype"] = "float32" if refused else "half"
    for name, value in extra.items():
        if name not in task.wishes:
            settings[name] = value
    settings.setdefault("gpu_memory_utilization", at(changes.UTILIZATION, task.release.key))
    return settings


def _predict(
    task: Task, placement: Placement, settings: Mapping[str, object], model: Model | None = None
) -> Prediction:
    raw = dict(settings)
    for name in PREDICTED_BY:
        if task.wishes.get(name) is not None and name not in settings:  # a remedy may set another environment
            raw[name] = task.wishes[name]
    raw["nodes"] = [len(ranks) for _dummy, ranks in placement.nodes] or None
    memory = [node.memory for node in task.nodes if node.memory and node.host in dict(placement.nodes)]
    if memory and "host_memory_mib" not in raw:
        raw["host_memory_mib"] = min(memory) // MIB
    past = task.experience
    found = predict(model or task.model, list(placement.gpus), raw, task.memo, past.correction, past.proven)
    return found._replace(ranks=found.ranks * placement.copies)


def _try(task: Task, placement: Placement, settings: dict[str, object], model: Model | None = None) -> Candidate:
    """Predict, and mend what the release would refuse of the planner's own choice: options that the user left open."""
    prediction = _predict(task, placement, settings, model)
    causes: list[tuple[Fix, StartError]] = []
    tried = [settings]
    while prediction.error is not None and len(causes) < len(MENDED):
        error = prediction.error
        open_fixes = [fix for fix in error.fixes if all(name in MENDED and name not in task.wishes for name in fix)]
        fix = next((fix for fix in open_fixes if applied(settings, fix) not in tried), None)
        if fix is None or error.code in MEMORY_CODES:
            break
        settings = applied(settings, fix)
        tried.append(settings)
        causes.append((fix, error))
        prediction = _predict(task, placement, settings, model)
    return Candidate(placement, settings, prediction, causes=tuple(causes))


def _with_step(task: Task, placement: Placement, memory_step: Mapping[str, object]) -> Candidate:
    """The placement with a step that saves memory, and the longest context that fits safely when the user left it open; else the longest that fits."""
    settings = _settings(task, placement, memory_step)
    first = _try(task, placement, settings)
    if "max_model_len" in task.wishes:
        return first
    safest = _fitted(task, settings, first, safe=True)
    if safest.prediction.safe:
        return safest
    # Without room for the cache at the least context there is none at a longer one.
    return _fitted(task, settings, first, safe=False) if safest.prediction.longest else safest


def _fitted(task: Task, settings: Mapping[str, object], first: Candidate, safe: bool) -> Candidate:
    """The settings with the longest context that starts, or starts safely; the last one tried if there is none."""
    if _fits(first, safe):
        return _with_length(first)
    best = first
    whole = too_long = first.prediction.settings.max_model_len
    for context in [whole, *[length for length in CONTEXTS if length < whole]]:
        one = first if context == whole else _try(task, first.placement, dict(settings, max_model_len=context))
        if _fits(one, safe):  # beyond what is valued, more requests at once are worth more than a longer context
            return one if context >= VALUED_CONTEXT else _lengthened(task, one, too_long, safe)
        too_long = context
        prediction = one.prediction
        longest = (prediction.longest_safe if safe else int((prediction.longest or 0) * CONTEXT_MARGIN)) or 0
        code = prediction.error.code if prediction.error else ""
        if code in ("", "max_model_len_exceeds_kv_cache") and context > longest > context // 2:
            fitted = _try(task, first.placement, dict(settings, max_model_len=_whole_steps(longest)))
            if _fits(fitted, safe):
                return _lengthened(task, fitted, context, safe)
        if code and code not in MEMORY_CODES:
            return one
        best = one
    return best


def _whole_steps(length: int) -> int:
    return length // CONTEXT_STEP * CONTEXT_STEP or length


def _lengthened(task: Task, fitted: Candidate, too_long: int, safe: bool) -> Candidate:
    """A longer context, below one that is too long. Where a whole prompt is one batch, a shorter context leaves more to the cache."""
    while not fitted.prediction.settings.chunked_prefill and too_long - _length(fitted) > too_long // CONTEXT_PARTS:
        length = _whole_steps((_length(fitted) + too_long) // 2)
        if length <= _length(fitted):
            break
        one = _try(task, fitted.placement, dict(fitted.settings, max_model_len=length))
        if _fits(one, safe):
            fitted = one
        else:
            too_long = length
    return fitted


def _fits(one: Candidate, safe: bool) -> bool:
    return one.prediction.safe if safe else one.prediction.ok


def _with_length(one: Candidate) -> Candidate:
    """The plan says its context also where it is the model's."""
    return one._replace(settings={**one.settings, "max_model_len": one.prediction.settings.max_model_len})


def candidate(task: Task, placement: Placement) -> Candidate:
    """The best that this placement can do: steps that save memory are tried until a useful context fits."""
    best: Candidate | None = None
    wanted = min(task.model.context, other_plans.WANTED_CONTEXT)
    tried: set[tuple[tuple[str, object], ...]] = set()
    for memory_step in other_plans.MEMORY_STEPS:
        open_step = {name: value for name, value in memory_step.items() if name not in task.wishes}
        if tuple(open_step.items()) in tried:
            continue
        tried.add(tuple(open_step.items()))
        one = _with_step(task, placement, open_step)
        if one.prediction.safe and one.prediction.settings.max_model_len >= wanted:
            return one
        if best is None or (one.prediction.safe, _length(one)) > (best.prediction.safe, _length(best)):
            best = one
        if one.prediction.error and one.prediction.error.code not in MEMORY_CODES:
            break
        if "max_model_len" in task.wishes and one.prediction.safe:
            return one
    if best is None:
        raise ValueError("no settings were tried")
    return best


def _length(one: Candidate) -> int:
    return one.prediction.settings.max_model_len if one.prediction.ok else 0


def network_seconds(task: Task, placement: Placement) -> float:
    """How long each token waits for the network between hosts where tensors are split over them: a round figure."""
    if not placement.splits_tensors:
        return 0.0
    reduces = len(task.model.layers) / placement.pp * ALL_REDUCES_PER_LAYER
    return reduces * ALL_REDUCE_SECONDS[str(task.wishes.get("interconnect") or "slow")]


def _speed(task: Task, one: Candidate) -> float:
    """Steps a second, good for comparing: a stage reads its weights once and waits for the network."""
    bandwidth = next(rate for least, rate in reversed(MEMORY_BANDWIDTH) if task.weakest.capability >= least)
    reading = max((rank.weights for rank in one.prediction.ranks), default=1) / bandwidth
    step = max(reading, 1e-6) + network_seconds(task, one.placement)
    if task.objective == "latency":
        return 1 / (step * one.placement.pp)
    return 1 / step * PIPELINE_EFFICIENCY ** (one.placement.pp - 1)


# The first reason is the decisive one: what is left when all else is right comes before what another shape avoids.
DECISIVE = (*MEMORY_CODES, "out_of_memory_loading")


def _score(task: Task, one: Candidate) -> tuple[float, ...]:
    """Whether it starts safely, then the predicted value in doublings: of the context (up to what is worth more), of requests at once
    and of speed."""
    prediction = one.prediction
    if prediction.error is not None:
        code = prediction.error.code
        near = len(DECISIVE) - DECISIVE.index(code) if code in DECISIVE else 0
        return (0.0, near, -max((rank.weights for rank in prediction.ranks), default=0))
    starts = 2.0 if prediction.safe else 1.0
    length, tokens = _length(one), prediction.tokens or 0
    speed = math.log2(_speed(task, one))
    if task.objective == "context":
        return (starts, length, speed, tokens)
    most = other_plans.WANTED_CONTEXT if task.objective == "latency" else VALUED_CONTEXT
    valued = max(min(length, most), 1)
    at_once = min(max(tokens / valued, 1.0), VALUED_REQUESTS)
    value = math.log2(valued) + math.log2(at_once) / 2 + speed
    return (starts, value, tokens)


# -- the plan ------------------------------------------------------------------------------------------------------------
def read_task(model: object, nodes: object, request: object = None, language: str = "en") -> tuple[Task, list[Text]]:
    """What is asked, checked, and the reasons for what the planner had to choose first: the release, where none is named."""
    facts = read_model(model)
    hosts = tuple(read_nodes(nodes))
    wishes = normalise(request or {}, "request")
    objective = str(wishes.pop("objective", "throughput"))
    if objective not in OBJECTIVES:
        raise InputError("request.objective", "input_one_of", allowed=", ".join(OBJECTIVES), found=objective)
    if str(wishes.get("interconnect") or "slow") not in INTERCONNECTS:
        raise InputError(
            "request.interconnect", "input_one_of", allowed=", ".join(INTERCONNECTS), found=wishes["interconnect"]
        )
    weakest = _weakest(hosts)
    reasons: list[Text] = []
    if wishes.get("vllm_version") is None:
        advice = recommended_release({"compute_capability": weakest.capability_text}, language)
        wishes["vllm_version"] = advice["vllm_version"]
        reasons.append(Text("reason_release", version=advice["vllm_version"], why=advice["reason"]))
    accepted = fields.truth(wishes.get("accept_unknown_release"), "request.accept_unknown_release")
    release = required_release(wishes["vllm_version"], "request.vllm_version", accepted)
    past = experience(wishes.pop("observations", None), facts, weakest, release)
    return Task(facts, hosts, wishes, release, objective, weakest, {}, past), reasons


def ranked(task: Task) -> list[Candidate]:
    """The best that each placement can do, the best of them first. The release is the task's."""
    candidates = [candidate(task, placement) for placement in _placements(task)]
    return sorted(candidates, key=lambda one: _score(task, one), reverse=True)


def chosen(task: Task) -> list[tuple[Task, list[Candidate]]]:
    """What each choice of GPUs can do, the best of them first: all of them, and where they differ each kind alone and all but the weakest ones."""
    tried = [(one, ranked(one)) for one in [task, *_parts(task)]]
    return sorted(tried, key=lambda each: _score(each[0], each[1][0]), reverse=True)


def plan_deployment(model: object, nodes: object, request: object = None, language: str = "en") -> dict[str, object]:
    """The public function: the chosen plan, the nearest plans, and the reasons. Questions that differ in the names of hosts only have one answer."""
    read_nodes(nodes)
    rows = [fields.mapping(node, "nodes") for node in fields.listing(nodes, "nodes")]
    hosts = [str(node["host"]) for node in rows]
    unnamed = [{**node, "host": f"{_MARK}{index}{_MARK}"} for index, node in enumerate(rows)]
    question = json.dumps([model, unnamed, request, language], sort_keys=True, default=repr)
    if question not in _ANSWERS:
        if len(_ANSWERS) >= MAX_ANSWERS:
            _ANSWERS.clear()
        _ANSWERS[question] = _plan(model, unnamed, request, language)
    return dict(fields.mapping(_with_hosts(_ANSWERS[question], hosts), "plan"))


# The place of a host's name in what was answered before, and the answers.
_MARK, MAX_ANSWERS = "\x00", 256
_ANSWERS: dict[str, dict[str, object]] = {}


def _with_hosts(said: object, hosts: Sequence[str]) -> object:
    """An answer with the names of hosts in their places; nothing of it is shared with the one that is kept."""
    if isinstance(said, str):
        parts = said.split(_MARK)
        return "".join(hosts[int(part)] if index % 2 else part for index, part in enumerate(parts))
    if isinstance(said, Mapping):
        return {_with_hosts(name, hosts): _with_hosts(value, hosts) for name, value in said.items()}
    if isinstance(said, (list, tuple)):
        return type(said)([_with_hosts(each, hosts) for each in said])
    return said


def _plan(model: object, nodes: object, request: object, language: str) -> dict[str, object]:
    whole, reasons = read_task(model, nodes, request, language)
    release, past = whole.release, whole.experience
    tried = chosen(whole)
    task, candidates = tried[0]
    best = candidates[0]
    alternatives = [
        *_replicas(whole, best),
        *_longest_context(task, best),
        *[
            cards[0]._replace(
                change=Text("change_whole" if one is whole else "change_part", cards=_cards(one.nodes)),
                cost="" if one is whole else Text("cost_part"),
                gain=Text("gain_whole" if one is whole else "gain_part"),
            )
            for one, cards in tried[1:]
            if cards[0].prediction.ok
        ],
        *_nearby(task, best),
        *_more_hosts(task, best),
        *candidates[1:],
        *_open_sizes(task, best),
        *_other_releases(task, best),
    ]
    executor = best.settings.get("distributed_executor_backend") or ("ray" if best.placement.of_copy > 1 else "uni")
    remedy = None if best.prediction.ok else _remedy(task, best, alternatives)
    instead = Text("remedy_this_plan") if remedy is None else remedy
    reasons += _reasons(best, task, whole, remedy)
    places = {node.host: list(node.places) for node in task.nodes if node.places is not None}
    return {
        "ok": best.prediction.ok,
        "verdict": best.prediction.verdict,
        "vllm_version": release.asked,
        "executor": executor,
        "settings": best.settings,
        # What starts it is the engine's.
        "launch": {},
        "nodes": best.placement.as_dicts(),
        "gpu_places": {
            host: places[host][: len(ranks)] for host, ranks in best.placement.nodes if host in places and ranks
        },
        "gpus": [
            {"name": gpu.name, "memory_gib": round(gpu.total / 2**30, 2)}
            for gpu in best.placement.gpus[: best.placement.world]
        ],
        "predicted": best.prediction.as_dict(language, remedy),
        "alternatives": [_as_alternative(one, language, instead) for one in alternatives[:MAX_ALTERNATIVES]],
        "reasons": [reason.say(language) for reason in reasons],
        "past": past.as_dict(language),
    }


def _parts(task: Task) -> list[Task]:
    """The same without some of the kinds of GPUs that differ: each kind alone, and all but the weakest ones. The head keeps GPUs in each."""
    kinds = sorted({(gpu.capability, gpu.total, gpu.name) for node in task.nodes for gpu in node.gpus})
    if len(kinds) < 2:
        return []
    found = []
    for chosen in dict.fromkeys([tuple(kinds[index:]) for index in range(1, len(kinds))] + [(kind,) for kind in kinds]):
        nodes = []
        for node in task.nodes:
            places = tuple(
                place for place, gpu in enumerate(node.gpus) if (gpu.capability, gpu.total, gpu.name) in chosen
            )
            if places:
                gpus = tuple(node.gpus[place] for place in places)
                nodes.append(node._replace(gpus=gpus, places=places if len(places) < len(node.gpus) else None))
        if nodes[0].host == task.nodes[0].host:
            found.append(task._replace(nodes=tuple(nodes), weakest=_weakest(nodes)))
    return found


def _weakest(nodes: Sequence[Node]) -> Gpu:
    return min((gpu for node in nodes for gpu in node.gpus), key=lambda gpu: (gpu.capability, gpu.total))


def _cards(nodes: Sequence[Node]) -> Text:
    """The GPUs of some hosts, in words: 2 x NVIDIA GeForce RTX 4090 on gpu01, gpu02."""
    counts = Counter(gpu.name for node in nodes for gpu in node.gpus)
    gpus = " + ".join(f"{count} x {name}" for name, count in counts.items())
    return Text("cards_on", gpus=gpus, hosts=", ".join(node.host for node in nodes))


def _copies(task: Task) -> list[Placement]:
    """Copies of the model behind one server: as many as are asked for, on the GPUs of the head."""
    copies = fields.whole(task.wishes, ("data_parallel_size",), "request") or 1
    head = task.nodes[0]
    each = len(head.gpus) // copies
    if copies == 1 or not each:
        return []
    one = task._replace(
        nodes=(head._replace(gpus=head.gpus[:each]),), wishes={**task.wishes, "data_parallel_size": None}
    )
    return [
        Placement(tp, pp, ((head.host, tuple(range(tp * pp * copies))),), head.gpus, copies)
        for tp, pp in shapes(one)
        if tp * pp <= each
    ]


def _placements(task: Task) -> list[Placement]:
    if copies := _copies(task):
        return copies
    found = []
    for tp, pp in shapes(task):
        placement = place(task.nodes, tp, pp)
        if placement is not None and placement not in found:
            found.append(placement)
    # The first node is the head, whose vLLM answers the API: a plan that gives it ranks comes before all others.
    found = [one for one in found if one.nodes[0][0] == task.nodes[0].host] or found
    if not found:  # the user asks for more GPUs than there are: predicted to say so
        tp, pp = shapes(task)[0]
        found.append(Placement(tp, pp, (), tuple(gpu for node in task.nodes for gpu in node.gpus)))
    return found


def _remedy(task: Task, failed: Candidate, alternatives: Sequence[Candidate]) -> Text:
    """What would start: other settings on these GPUs, else the first of the other plans that does."""

    def ask(settings: Mapping[str, object]) -> Prediction:
        return _predict(task, failed.placement, settings)

    def setting(*kept: str) -> Text | None:
        cure = find(ask, failed.settings, failed.prediction, lambda name: name not in (*SHAPE, *kept))
        if cure is None:
            return None
        change = smallest(ask, failed.settings, cure.settings)
        room = _host_room(task, failed.placement, cure.prediction.settings.engine)
        if room is not None and number(change.get("cpu_offload_gb") or 0) > room:
            return None
        return sentence(_of_wishes(task, failed.placement, change), ask(applied(failed.settings, change)))

    # Weights that each token reads from the host's memory are the slowest cure: any other comes first, and what starts narrowly after what does not.
    if cure := setting("cpu_offload_gb"):
        return cure
    starting = [one for one in alternatives if one.prediction.ok]
    other = next((one for one in starting if one.prediction.safe), None)
    if other is not None:
        return _take(other)
    if cure := setting():
        return cure
    return _take(starting[0]) if starting else NONE_FOUND


def _take(one: Candidate) -> Text:
    return Text("remedy_other_plan", change=one.change or one.placement.words(), outcome=outcome(one.prediction))


def _of_wishes(task: Task, placement: Placement, change: Mapping[str, object]) -> Mapping[str, object]:
    """Of a change only what alters somebody's wishes, where the planner then finds settings that start; else all of it."""
    asked = {name: value for name, value in change.items() if name in task.wishes}
    if not asked or len(asked) == len(change):
        return change
    wishes = applied(task.wishes, asked)
    return asked if candidate(task._replace(wishes=wishes), placement).prediction.ok else change


def _longest_context(task: Task, best: Candidate) -> list[Candidate]:
    """The plan with the longest context that starts as safely, where it has a shorter one."""
    length, safe = _length(best), best.prediction.safe
    if not length or length >= task.model.context or "max_model_len" in task.wishes:
        return []
    above = next((one for one in reversed(CONTEXTS) if one > length), task.model.context)
    longest = _lengthened(task, best, min(above, task.model.context), safe)
    if _length(longest) == length:
        return []
    change = f"max_model_len {_length(longest)}"
    return [longest._replace(change=change, cost=Text("cost_longest"), gain=Text("gain_longest"))]


def _nearby(task: Task, best: Candidate) -> list[Candidate]:
    found: list[Candidate] = []
    error = best.prediction.error
    if error is not None and error.code == "quantization_not_supported" and "quantization" not in task.wishes:
        return _checkpoints(task, best)
    if error is not None and error.code not in (*MEMORY_CODES, "out_of_memory_loading"):
        return found  # memory is not what stops it
    for nearby in other_plans.nearby(task.model, best.prediction, task.release.key, task.weakest.capability):
        settings = {
            name: value
            for name, value in dict(best.settings, **nearby.settings).items()
            if value is not None or name in best.settings
        }
        model = task.model
        if nearby.quantization is not None:
            model = task.model._replace(quantization=nearby.quantization)
        if nearby.quantization is not None and not best.prediction.ok:
            other = candidate(task._replace(model=model), best.placement)
            found.append(other._replace(change=nearby.change, cost=nearby.cost, gain=nearby.gain))
            continue
        if "cpu_offload_gb" in nearby.settings and not best.prediction.ok:
            found += [*_bitsandbytes(task, best.placement), *_offloaded(task, best.placement)]
            if not any(one.prediction.ok for one in found):
                found += _quantised_and_offloaded(task, best.placement)
            continue
        one = _try(task, best.placement, settings, model)
        if _length(one) < min(task.model.context, other_plans.WANTED_CONTEXT) and "max_model_len" not in task.wishes:
            # The plan's context is what fits without this change; with it a longer one may.
            own = {name: value for name, value in settings.items() if name != "max_model_len"}
            longer = _with_step(
                task._replace(model=model, wishes={**task.wishes, **nearby.settings}), best.placement, own
            )
            one = longer if _length(longer) > _length(one) else one
        found.append(one._replace(change=nearby.change, cost=nearby.cost, gain=nearby.gain))
    return found


def _checkpoints(task: Task, best: Candidate) -> list[Candidate]:
    """The same model in another format, where the GPUs cannot run the one of the checkpoint: those that start."""
    plain = task.model._replace(quantization=NONE)
    formats = [(Text("change_plain"), Text("cost_plain"), NONE)]
    if task.model.quantization.method != "mxfp4":  # nobody publishes such a model in a third format
        others = other_plans.checkpoints(plain, task.release.key, task.weakest.capability)
        formats = [*((name, Text("cost_checkpoint_other"), scheme) for name, scheme in others), *formats]
    found = []
    for change, cost, scheme in formats:
        one = candidate(task._replace(model=plain._replace(quantization=scheme), memo={}), best.placement)
        if one.prediction.ok:
            found.append(one._replace(change=change, cost=cost, gain=Text("gain_format")))
    return found


def _open_sizes(task: Task, best: Candidate) -> list[Candidate]:
    """What the planner would choose, where a size that was asked for stops the plan."""
    names = [name for name in SHAPE if name in task.wishes and name != "vllm_version"]
    if best.prediction.ok or not names:
        return []
    wishes = {name: value for name, value in task.wishes.items() if name not in names}
    asked = task._replace(wishes=wishes)
    tried = [candidate(asked, placement) for placement in _placements(asked)]
    one = max(tried, key=lambda each: _score(asked, each))
    if not one.prediction.ok:
        return []
    asked_sizes = ", ".join(f"{name} {task.wishes[name]}" for name in names)
    change = Text("change_sizes", sizes=one.placement.words(), asked=asked_sizes)
    return [one._replace(change=change, gain=Text("gain_sizes"))]


def _other_releases(task: Task, best: Candidate) -> list[Candidate]:
    """The releases for such a GPU, where the one that was asked for is what stops the plan: those that start, the recommended one first."""
    error = best.prediction.error
    if error is None or error.code not in RELEASE_CODES or is_own(task.wishes):
        return []
    try:
        advice = recommended_release({"compute_capability": task.weakest.capability_text})
    except InputError:  # no release serves such a GPU
        return []
    names = dict.fromkeys([advice["vllm_version"], advice["last_official_image"]])
    found = []
    for name in names:
        release = resolve_release(name) if name else task.release
        if release.key == task.release.key:
            continue
        asked = task._replace(
            wishes={**task.wishes, "vllm_version": name},
            release=release,
            memo={},
            experience=experience(None, task.model, task.weakest, release),
        )
        try:
            tried = [candidate(asked, placement) for placement in _placements(asked)]
        except InputError:  # it does not have an option that was asked for
            continue
        one = max(tried, key=lambda each: _score(asked, each))
        change = Text("change_release", version=name)
        if not one.prediction.ok and (
            other := next((rung for rung in _nearby(asked, one) if rung.prediction.ok), None)
        ):
            change, one = Text("change_release_and", version=name, change=other.change), other
        if one.prediction.ok:
            found.append(one._replace(change=change, cost=Text("cost_release"), gain=Text("gain_release")))
    return found


def _bitsandbytes(task: Task, placement: Placement) -> list[Candidate]:
    """A 16-bit checkpoint that is quantised while it is loaded, where the release can and that starts."""
    if task.model.quantization.method != "none" or {"quantization", "load_format"} & set(task.wishes):
        return []
    wishes = {**task.wishes, "quantization": "bitsandbytes", "load_format": "bitsandbytes"}
    one = candidate(task._replace(wishes=wishes), placement)
    if not one.prediction.ok:
        return []
    change, cost = Text("change_bitsandbytes"), Text("cost_bitsandbytes")
    return [one._replace(change=change, cost=cost, gain=Text("gain_checkpoint"))]


def _quantised_and_offloaded(task: Task, placement: Placement) -> list[Candidate]:
    """What serves a model that is far too large: four bits, and the rest of the weights in the host's memory."""
    if task.model.quantization.method != "none":
        return []
    found = []
    for name, scheme in other_plans.checkpoints(task.model, task.release.key, task.weakest.capability):
        if scheme.bits == 4:
            smaller = task._replace(model=task.model._replace(quantization=scheme), memo={})
            found += [
                one._replace(change=Text("change_both", one=name, other=one.change))
                for one in _offloaded(smaller, placement)
            ]
    if not {"quantization", "load_format"} & set(task.wishes):
        wishes = {**task.wishes, "quantization": "bitsandbytes", "load_format": "bitsandbytes"}
        name = Text("change_bitsandbytes")
        loading = _offloaded(task._replace(wishes=wishes, memo={}), placement)
        found += [one._replace(change=Text("change_both", one=name, other=one.change)) for one in loading]
    return found


def _host_room(task: Task, placement: Placement, engine: str) -> int | None:
    """GiB of the host's memory that each rank may take for weights, on the fullest host; None where no host's memory is known.

    Offloaded weights are pinned, and so is the swap space of the V0 engine; the checkpoint's pages are read through the rest.
    """
    memory = {node.host: node.memory for node in task.nodes}
    asked = fields.number(task.wishes, "swap_space", "request", 0, 1e6)
    swap = (asked if asked is not None else changes.SWAP_SPACE_GIB) if engine == "V0" else 0
    rooms = [
        (found / GIB - HOST_RESERVE_GIB) / len(ranks) - swap
        for host, ranks in placement.nodes
        if (found := memory.get(host)) and ranks
    ]
    return int(min(rooms)) if rooms else None


def _offloaded(task: Task, placement: Placement) -> list[Candidate]:
    """The least weights in the host's memory with which a useful context starts safely, with what else that takes; nothing if none does."""
    if "cpu_offload_gb" in task.wishes:
        return []
    wanted = min(task.model.context, other_plans.WANTED_CONTEXT)

    def serves(one: Candidate) -> bool:
        return one.prediction.safe and (_length(one) >= wanted or "max_model_len" in task.wishes)

    def ask(size: int) -> Candidate:
        return candidate(task._replace(wishes={**task.wishes, "cpu_offload_gb": size}), placement)

    whole = _predict(task, placement, _settings(task, placement, {}))
    held = max((rank.weights for rank in whole.ranks), default=0)
    room = _host_room(task, placement, whole.settings.engine)
    low, high = 0, -(-held // GIB) if room is None else min(-(-held // GIB), room)
    best = ask(high) if high > 0 else None
    if best is None or not serves(best):
        return []
    while high - low > 1:  # one that serves lies in (low, high]
        middle = (low + high) // 2
        one = ask(middle)
        low, high, best = (low, middle, one) if serves(one) else (middle, high, best)
    named = (
        "cpu_offload_gb",
        "max_model_len",
        "max_num_seqs",
        "max_num_batched_tokens",
        "gpu_memory_utilization",
        "enforce_eager",
    )
    usual = at(changes.UTILIZATION, task.release.key)
    words = [
        f"{name} {str(best.settings[name]).lower()}"
        for name in named
        if best.settings.get(name) is not None
        and name not in task.wishes
        and (name != "gpu_memory_utilization" or best.settings[name] != usual)
    ]
    return [best._replace(change=", ".join(words), cost=Text("cost_offload", size=high), gain=Text("gain_offload"))]


def _more_hosts(task: Task, best: Candidate) -> list[Candidate]:
    """As many hosts again, like the first one, when the plan does not fit."""
    error = best.prediction.error
    if (
        error is None
        or error.code not in (*MEMORY_CODES, "out_of_memory_loading")
        or "pipeline_parallel_size" in task.wishes
    ):
        return []
    count = len(task.nodes)
    more = [Node(f"another host {index + 1}", task.nodes[0].gpus) for index in range(count)]
    grown = task._replace(nodes=(*task.nodes, *more))
    tp, pp = best.placement.tp, best.placement.pp
    staged = pp > 1 or pipelines(task.model, task.release.key)
    placement = place(grown.nodes, tp if staged else tp * 2, pp * 2 if staged else pp)
    if placement is None:
        return []
    one = candidate(grown, placement)
    return [
        one._replace(
            change=Text("change_hosts" if count > 1 else "change_host", count=count),
            cost=Text("cost_hosts"),
            gain=Text("gain_hosts"),
        )
    ]


def _replicas(task: Task, best: Candidate) -> list[Candidate]:
    """The model fits a part of the hosts: the same GPUs would serve it several times. Hosts of several kinds each have a plan of their own."""
    if len(task.nodes) < 2 or "pipeline_parallel_size" in task.wishes or "data_parallel_size" in task.wishes:
        return []
    kinds: dict[tuple[Gpu, ...], list[Node]] = {}
    for node in task.nodes:
        kinds.setdefault(node.gpus, []).append(node)
    found: list[tuple[list[Node], Candidate]] = []
    for gpus, nodes in kinds.items():
        single = task._replace(nodes=(nodes[0],), weakest=_weakest(nodes))
        one = chosen(single)[0][1][0]
        if gpus and one.prediction.ok:
            found.append((nodes, one))
    if not found:
        return []
    count = sum(len(nodes) for nodes, _one in found)
    if count < 2 and best.prediction.ok:
        return []
    if len(kinds) == 1:
        change = Text("change_replicas", count=count)
        gain = Text("gain_replicas", count=count, tokens=found[0][1].prediction.tokens or 0)
    else:
        change = Text(
            "change_replicas_kinds", count=count, hosts=", ".join(node.host for nodes, _one in found for node in nodes)
        )
        each = "; ".join(
            f"{len(nodes)} x {one.prediction.tokens or 0} ({nodes[0].gpus[0].name})" for nodes, one in found
        )
        gain = Text("gain_replicas_kinds", each=each)
    return [found[0][1]._replace(change=change, cost=Text("cost_replicas"), gain=gain)]


def _reasons(best: Candidate, task: Task, whole: Task, remedy: Text | None) -> list[Text]:
    placement, prediction = best.placement, best.prediction
    lines = []
    if placement.tp > 1:
        where = "reason_tensor_across" if placement.splits_tensors else "reason_tensor_inside"
        lines.append(Text(where, count=placement.tp))
    if placement.splits_tensors:
        kind = str(task.wishes.get("interconnect") or "slow")
        lines.append(Text("reason_network", milliseconds=network_seconds(task, placement) * 1000, network=kind))
    if placement.pp > 1:
        code = "reason_pipeline" if placement.spans_nodes else "reason_pipeline_one"
        lines.append(Text(code, stages=placement.pp, hosts=len(placement.nodes)))
    left = list((Counter(_names(whole)) - Counter(_names(task))).elements())
    unused = sum(len(node.gpus) for node in task.nodes) - placement.world
    if unused > 0:
        lines.append(Text("reason_idle" if unused > 1 else "reason_idle_one", count=unused))
    kinds = {(gpu.name, gpu.total) for node in task.nodes for gpu in node.gpus}
    if left:
        idle = " + ".join(f"{count} x {name}" for name, count in Counter(left).items())
        lines.append(Text("reason_part", cards=_cards(task.nodes), left=idle))
    if len(kinds) > 1:
        lines.append(Text("reason_weakest", gpu=task.weakest.name))
    if best.settings.get("dtype") == "half" and task.weakest.capability < (8, 0):
        lines.append(Text("reason_half", gpu=task.weakest.name))
    for name in ("max_num_seqs", "max_num_batched_tokens", "enforce_eager"):
        if name in best.settings and name not in task.wishes:
            lines.append(Text("reason_" + name, value=best.settings[name]))
    if "gpu_memory_utilization" not in task.wishes and prediction.settings.utilization > at(
        changes.UTILIZATION, task.release.key
    ):
        lines.append(Text("reason_gpu_memory_utilization", value=prediction.settings.utilization))
    if prediction.settings.max_model_len < task.model.context:
        lines.append(Text("reason_max_model_len", value=prediction.settings.max_model_len, context=task.model.context))
    if task.experience.starts:
        lines.append(task.experience.sentence)
    for fix, refused in best.causes:
        settings = ", ".join(f"{name} {str(value).lower()}" for name, value in fix.items() if value is not None)
        if settings:
            lines.append(Text("reason_mended", settings=settings, message=refused.message))
    if prediction.error and remedy:
        lines.append(Text("reason_error", message=prediction.error.message, remedy=remedy))
    return lines


def _names(task: Task) -> list[str]:
    return [gpu.name for node in task.nodes for gpu in node.gpus]


def _as_alternative(one: Candidate, lang: str, remedy: Text) -> dict[str, object]:
    prediction = one.prediction
    return {
        "change": spoken(one.change, lang) or one.placement.words(),
        "cost": spoken(one.cost, lang),
        "gain": spoken(one.gain, lang),
        "ok": prediction.ok,
        "verdict": prediction.verdict,
        "error": prediction.error.as_dict(lang, remedy) if prediction.error else None,
        "settings": one.settings,
        "max_model_len": prediction.settings.max_model_len,
        "kv_cache_tokens": prediction.tokens,
        "max_concurrency": prediction.concurrency,
    }
