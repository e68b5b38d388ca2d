# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trying a placement: the settings with which it starts, the longest context that fits, and how good that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
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
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import Fix, StartError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.placement import (
    MIB,
    Placement,
    Task,
    placements,
    weakest_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import CONTEXTS, Prediction, predict
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import applied
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import executor_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, release_key

MEMORY_CODES = ("max_model_len_exceeds_kv_cache", "no_cache_blocks", "out_of_memory_cudagraph")
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
# Where no context starts safely, the one that is chosen leaves at least the rest of the predicted cache.
CONTEXT_MARGIN = 0.97
# It is a multiple of this, and the next longer one that was tried is within one such part of it.
CONTEXT_STEP, CONTEXT_PARTS = 256, 16
# More context and more requests at once than this no longer decide between shapes.
VALUED_CONTEXT, VALUED_REQUESTS = 32768, 32


class Candidate(NamedTuple):
    placement: Placement
    settings: dict[str, object]
    prediction: Prediction
    change: str | Text = ""
    cost: str | Text = ""
    gain: str | Text = ""
    causes: tuple[tuple[Fix, StartError], ...] = ()  # what the planner had to set for it to start


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


def settings_for(task: Task, placement: Placement, extra: Mapping[str, object]) -> dict[str, object]:
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


def predicted(
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


def attempt(task: Task, placement: Placement, settings: dict[str, object], model: Model | None = None) -> Candidate:
    """Predict, and mend what the release would refuse of the planner's own choice: options that the user left open."""
    prediction = predicted(task, placement, settings, model)
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
        prediction = predicted(task, placement, settings, model)
    return Candidate(placement, settings, prediction, causes=tuple(causes))


def with_step(task: Task, placement: Placement, memory_step: Mapping[str, object]) -> Candidate:
    """The placement with a step that saves memory, and the longest context that fits safely when the user left it open; else the longest that fits."""
    settings = settings_for(task, placement, memory_step)
    first = attempt(task, placement, settings)
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
        one = first if context == whole else attempt(task, first.placement, dict(settings, max_model_len=context))
        if _fits(one, safe):  # beyond what is valued, more requests at once are worth more than a longer context
            return one if context >= VALUED_CONTEXT else lengthened(task, one, too_long, safe)
        too_long = context
        prediction = one.prediction
        longest = (prediction.longest_safe if safe else int((prediction.longest or 0) * CONTEXT_MARGIN)) or 0
        code = prediction.error.code if prediction.error else ""
        if code in ("", "max_model_len_exceeds_kv_cache") and context > longest > context // 2:
            fitted = attempt(task, first.placement, dict(settings, max_model_len=_whole_steps(longest)))
            if _fits(fitted, safe):
                return lengthened(task, fitted, context, safe)
        if code and code not in MEMORY_CODES:
            return one
        best = one
    return best


def _whole_steps(length: int) -> int:
    return length // CONTEXT_STEP * CONTEXT_STEP or length


def lengthened(task: Task, fitted: Candidate, too_long: int, safe: bool) -> Candidate:
    """A longer context, below one that is too long. Where a whole prompt is one batch, a shorter context leaves more to the cache."""
    while not fitted.prediction.settings.chunked_prefill and too_long - length_of(fitted) > too_long // CONTEXT_PARTS:
        length = _whole_steps((length_of(fitted) + too_long) // 2)
        if length <= length_of(fitted):
            break
        one = attempt(task, fitted.placement, dict(fitted.settings, max_model_len=length))
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
        one = with_step(task, placement, open_step)
        if one.prediction.safe and one.prediction.settings.max_model_len >= wanted:
            return one
        if best is None or (one.prediction.safe, length_of(one)) > (best.prediction.safe, length_of(best)):
            best = one
        if one.prediction.error and one.prediction.error.code not in MEMORY_CODES:
            break
        if "max_model_len" in task.wishes and one.prediction.safe:
            return one
    if best is None:
        raise ValueError("no settings were tried")
    return best


def length_of(one: Candidate) -> int:
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


def score(task: Task, one: Candidate) -> tuple[float, ...]:
    """Whether it starts safely, then the predicted value in doublings: of the context (up to what is worth more), of requests at once
    and of speed."""
    prediction = one.prediction
    if prediction.error is not None:
        code = prediction.error.code
        near = len(DECISIVE) - DECISIVE.index(code) if code in DECISIVE else 0
        return (0.0, near, -max((rank.weights for rank in prediction.ranks), default=0))
    starts = 2.0 if prediction.safe else 1.0
    length, tokens = length_of(one), prediction.tokens or 0
    speed = math.log2(_speed(task, one))
    if task.objective == "context":
        return (starts, length, speed, tokens)
    most = other_plans.WANTED_CONTEXT if task.objective == "latency" else VALUED_CONTEXT
    valued = max(min(length, most), 1)
    at_once = min(max(tokens / valued, 1.0), VALUED_REQUESTS)
    value = math.log2(valued) + math.log2(at_once) / 2 + speed
    return (starts, value, tokens)


def ranked(task: Task) -> list[Candidate]:
    """The best that each placement can do, the best of them first. The release is the task's."""
    candidates = [candidate(task, placement) for placement in placements(task)]
    return sorted(candidates, key=lambda one: score(task, one), reverse=True)


def chosen(task: Task) -> list[tuple[Task, list[Candidate]]]:
    """What each choice of GPUs can do, the best of them first: all of them, and where they differ each kind alone and all but the weakest ones."""
    tried = [(one, ranked(one)) for one in [task, *_parts(task)]]
    return sorted(tried, key=lambda each: score(each[0], each[1][0]), reverse=True)


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
            found.append(task._replace(nodes=tuple(nodes), weakest=weakest_of(nodes)))
    return found
