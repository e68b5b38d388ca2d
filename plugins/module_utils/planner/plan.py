# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing a plan for the hosts of a deployment, and the ladder of its neighbours."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.module_utils.planner.data import eras
from ansible_collections.baremetal.llm.plugins.module_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.module_utils.planner.gpus import Gpu, read_gpus
from ansible_collections.baremetal.llm.plugins.module_utils.planner.model import Model, read_model
from ansible_collections.baremetal.llm.plugins.module_utils.planner.predict import Prediction, predict
from ansible_collections.baremetal.llm.plugins.module_utils.planner.release import recommended_release
from ansible_collections.baremetal.llm.plugins.module_utils.planner.settings import executor_of, normalise
from ansible_collections.baremetal.llm.plugins.module_utils.planner.versions import release_key, resolve_release, within

OBJECTIVES = ("throughput", "latency", "context")
# A context chosen by the planner leaves this share of the predicted cache, for what the prediction may be off by.
CONTEXT_MARGIN = 0.97
MAX_CANDIDATES = 24


class Node(NamedTuple):
    host: str
    gpus: tuple[Gpu, ...]


class Placement(NamedTuple):
    """Which ranks lie on which node, in rank order."""

    tp: int
    pp: int
    nodes: tuple[tuple[str, tuple[int, ...]], ...]
    gpus: tuple[Gpu, ...]

    @property
    def spans_nodes(self) -> bool:
        return len(self.nodes) > 1


class Candidate(NamedTuple):
    placement: Placement
    settings: dict[str, Any]
    prediction: Prediction
    change: str


def read_nodes(value: Any) -> list[Node]:
    entries = fields.listing(value, "nodes")
    if not entries:
        raise InputError("nodes", "holds no host")
    nodes = []
    for index, entry in enumerate(entries):
        field = "nodes[{0}]".format(index)
        row = fields.mapping(entry, field)
        if not row.get("host"):
            raise InputError("{0}.host".format(field), "is missing")
        nodes.append(Node(str(row["host"]), tuple(read_gpus(row.get("gpus") or [], "{0}.gpus".format(field)))))
    if len({node.host for node in nodes}) != len(nodes):
        raise InputError("nodes", "names a host twice")
    return nodes


def place(nodes: Sequence[Node], tp: int, pp: int) -> Placement | None:
    """Stages on nodes in order, each stage inside one node when its size allows; null when the GPUs do not suffice."""
    if sum(len(node.gpus) for node in nodes) < tp * pp:
        return None
    inside = sum(len(node.gpus) // tp for node in nodes) >= pp
    taken: list[tuple[str, list[int]]] = []
    gpus: list[Gpu] = []
    rank = 0
    for node in nodes:
        room = len(node.gpus) // tp * tp if inside else len(node.gpus)
        count = min(room, tp * pp - rank)
        if count <= 0:
            continue
        taken.append((node.host, list(range(rank, rank + count))))
        gpus += node.gpus[:count]
        rank += count
    return Placement(tp, pp, tuple((host, tuple(ranks)) for host, ranks in taken), tuple(gpus))


def shapes(nodes: Sequence[Node], fixed_tp: int | None, fixed_pp: int | None) -> list[tuple[int, int]]:
    """(tp, pp) worth a look: TP inside a host, PP over stages; biggest first."""
    largest = max(len(node.gpus) for node in nodes)
    total = sum(len(node.gpus) for node in nodes)
    tps = [fixed_tp] if fixed_tp else list(range(largest, 0, -1))
    found = []
    for tp in tps:
        stages = sum(len(node.gpus) // tp for node in nodes)
        pps = [fixed_pp] if fixed_pp else list(range(max(stages, 1), 0, -1))
        for pp in pps:
            if tp * pp <= total or fixed_tp or fixed_pp:
                found.append((tp, pp))
    return found


def _executor(placement: Placement, key: tuple[int, ...], asked: str | None) -> str | None:
    if asked:
        return asked
    world = placement.tp * placement.pp
    if key < release_key(eras.EXECUTOR_OPTION_SINCE) or world == 1:
        return None
    return "ray" if placement.spans_nodes else "mp"


def _score(candidate: Candidate, objective: str) -> tuple[float, ...]:
    prediction, placement = candidate.prediction, candidate.placement
    world = placement.tp * placement.pp
    tokens = prediction.tokens or 0
    ok = 1.0 if prediction.ok else 0.0
    split = 0 if not placement.spans_nodes or placement.tp <= max(len(ranks) for _, ranks in placement.nodes) else -1
    whole = prediction.settings.max_model_len
    if objective == "context":
        return (ok, min(prediction.longest or 0, whole), split, tokens, placement.tp)
    if objective == "latency":
        return (ok, split, min(whole, prediction.longest or 0), placement.tp, -placement.pp)
    return (ok, split, world, placement.tp, tokens)


def plan_deployment(model: Any, nodes: Any, request: Any = None) -> dict[str, Any]:
    """The public function: the chosen plan, the ladder of nearest plans, and the reasons."""
    facts = read_model(model)
    hosts = read_nodes(nodes)
    wishes = normalise(request or {}, "request")
    objective = str(wishes.pop("objective", "throughput"))
    if objective not in OBJECTIVES:
        raise InputError("request.objective", "must be one of {0}, not {1!r}".format(", ".join(OBJECTIVES), objective))
    wishes.pop("observations", None)
    weakest = min((gpu for node in hosts for gpu in node.gpus), key=lambda gpu: (gpu.capability, gpu.total))
    reasons: list[str] = []
    if wishes.get("vllm_version") is None:
        advice = recommended_release({"compute_capability": weakest.capability_text})
        wishes["vllm_version"] = advice["vllm_version"]
        reasons.append("vLLM {0}: {1}".format(advice["vllm_version"], advice["reason"]))
    release = resolve_release(wishes["vllm_version"], "request.vllm_version")
    tp = fields.whole(wishes, ("tensor_parallel_size",), "request")
    pp = fields.whole(wishes, ("pipeline_parallel_size",), "request")
    candidates: list[Candidate] = []
    for shape in shapes(hosts, tp, pp)[: MAX_CANDIDATES * 8]:
        placement = place(hosts, *shape)
        if placement is None:
            if tp and pp:
                placement = Placement(tp, pp, (), tuple(gpu for node in hosts for gpu in node.gpus))
            else:
                continue
        candidate = _candidate(facts, placement, wishes, release.key, weakest)
        candidates.append(candidate)
    if not candidates:
        raise InputError(
            "request", "tensor_parallel_size {0} x pipeline_parallel_size {1} fits no placement".format(tp, pp)
        )
    candidates.sort(key=lambda one: _score(one, objective), reverse=True)
    best = candidates[0]
    reasons += _reasons(best, facts, weakest, hosts)
    return {
        "ok": best.prediction.ok,
        "vllm_version": release.asked,
        "executor": best.settings.get("distributed_executor_backend")
        or ("uni" if len(best.placement.gpus) == 1 else "ray"),
        "settings": best.settings,
        "nodes": [{"host": host, "ranks": list(ranks)} for host, ranks in best.placement.nodes],
        "predicted": best.prediction.as_dict(),
        "alternatives": [_as_alternative(one) for one in candidates[1:8]],
        "reasons": reasons,
    }


def _candidate(
    model: Model, placement: Placement, wishes: Mapping[str, Any], key: tuple[int, ...], weakest: Gpu
) -> Candidate:
    settings = {
        name: value for name, value in wishes.items() if name not in ("vllm_version", "compute_capabilities", "nodes")
    }
    settings["tensor_parallel_size"] = placement.tp
    settings["pipeline_parallel_size"] = placement.pp
    settings["distributed_executor_backend"] = _executor(
        placement, key, executor_of(wishes.get("distributed_executor_backend"))
    )
    if "dtype" not in settings and weakest.capability < (8, 0) and model.checkpoint_dtype != "float16":
        settings["dtype"] = "half"
    settings.setdefault("gpu_memory_utilization", _utilization(key))
    extra: dict[str, Any] = {
        "vllm_version": wishes["vllm_version"],
        "nodes": [len(ranks) for _, ranks in placement.nodes] or None,
    }
    if wishes.get("compute_capabilities") is not None:
        extra["compute_capabilities"] = wishes["compute_capabilities"]
    prediction = predict(model, list(placement.gpus), dict(settings, **extra))
    if "max_model_len" not in settings:
        longest = prediction.longest or 0
        error = prediction.error
        if error is not None and error.code == "max_model_len_exceeds_kv_cache" and longest >= 256:
            rounded = int(longest * CONTEXT_MARGIN)
            settings["max_model_len"] = rounded // 256 * 256 if rounded >= 512 else rounded
            prediction = predict(model, list(placement.gpus), dict(settings, **extra))
        else:
            settings["max_model_len"] = prediction.settings.max_model_len
    return Candidate(placement, settings, prediction, "")


def _utilization(key: tuple[int, ...]) -> float:
    value = eras.UTILIZATION[0][1]
    for since, candidate in eras.UTILIZATION:
        if within(key, since, None):
            value = candidate
    return value


def _reasons(best: Candidate, model: Model, weakest: Gpu, hosts: Sequence[Node]) -> list[str]:
    placement, prediction = best.placement, best.prediction
    lines = []
    if placement.tp > 1:
        lines.append("tensor parallel over {0} GPUs inside a host".format(placement.tp))
    if placement.pp > 1:
        lines.append(
            "pipeline parallel over {0} stages on {1} host{2}".format(
                placement.pp, len(placement.nodes), "s" if len(placement.nodes) > 1 else ""
            )
        )
    unused = sum(len(node.gpus) for node in hosts) - placement.tp * placement.pp
    if unused > 0:
        lines.append("{0} GPU{1} stay idle: no valid shape uses them".format(unused, "s" if unused > 1 else ""))
    if best.settings.get("dtype") == "half" and weakest.capability < (8, 0):
        lines.append("dtype half: {0} has no bfloat16".format(weakest.name))
    if prediction.settings.max_model_len < model.context:
        lines.append(
            "max_model_len {0} of the model's {1}: what the KV cache holds".format(
                prediction.settings.max_model_len, model.context
            )
        )
    if prediction.error:
        lines.append("{0}: {1}".format(prediction.error.message, prediction.error.remedy))
    return lines


def _as_alternative(candidate: Candidate) -> dict[str, Any]:
    prediction = candidate.prediction
    return {
        "change": candidate.change
        or "tensor_parallel_size {0}, pipeline_parallel_size {1}".format(
            candidate.placement.tp, candidate.placement.pp
        ),
        "ok": prediction.ok,
        "error": prediction.error.as_dict() if prediction.error else None,
        "settings": candidate.settings,
        "kv_cache_tokens": prediction.tokens,
        "max_concurrency": prediction.concurrency,
    }
