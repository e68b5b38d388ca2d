# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing a plan for the hosts of a deployment, and its alternatives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text, spoken
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.candidates import Candidate, chosen, network_seconds
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.near_plans import (
    longest_context,
    more_hosts,
    nearby,
    open_sizes,
    other_releases,
    remedy_for,
    replicas,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.placement import Node, Task, read_nodes, read_task
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at

MAX_ALTERNATIVES = 14


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
        *replicas(whole, best),
        *longest_context(task, best),
        *[
            cards[0]._replace(
                change=Text("change_whole" if one is whole else "change_part", cards=_cards(one.nodes)),
                cost="" if one is whole else Text("cost_part"),
                gain=Text("gain_whole" if one is whole else "gain_part"),
            )
            for one, cards in tried[1:]
            if cards[0].prediction.ok
        ],
        *nearby(task, best),
        *more_hosts(task, best),
        *candidates[1:],
        *open_sizes(task, best),
        *other_releases(task, best),
    ]
    executor = best.settings.get("distributed_executor_backend") or ("ray" if best.placement.of_copy > 1 else "uni")
    remedy = None if best.prediction.ok else remedy_for(task, best, alternatives)
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


def _cards(nodes: Sequence[Node]) -> Text:
    """The GPUs of some hosts, in words: 2 x NVIDIA GeForce RTX 4090 on gpu01, gpu02."""
    counts = Counter(gpu.name for node in nodes for gpu in node.gpus)
    gpus = " + ".join(f"{count} x {name}" for name, count in counts.items())
    return Text("cards_on", gpus=gpus, hosts=", ".join(node.host for node in nodes))


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
