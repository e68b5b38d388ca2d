# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is near a chosen plan, or near one that does not start: other settings, releases, checkpoints, more hosts, several copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import number
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import alternatives as other_plans
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.candidates import (
    MEMORY_CODES,
    Candidate,
    attempt,
    candidate,
    chosen,
    length_of,
    lengthened,
    predicted,
    score,
    settings_for,
    with_step,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.observations import experience
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.placement import (
    GIB,
    Node,
    Placement,
    Task,
    place,
    placements,
    weakest_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import CONTEXTS, Prediction
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
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import is_own
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.validity import pipelines
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, resolve_release

# What another release may know.
RELEASE_CODES = (
    "architecture_not_supported",
    "feature_not_supported",
    "gpu_not_supported",
    "pp_not_supported",
    "quantization_not_supported",
)
# Sizes and releases were compared before.
SHAPE = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "vllm_version")
# Of a host's memory: what the system needs.
HOST_RESERVE_GIB = 2


def remedy_for(task: Task, failed: Candidate, alternatives: Sequence[Candidate]) -> Text:
    """What would start: other settings on these GPUs, else the first of the other plans that does."""

    def ask(settings: Mapping[str, object]) -> Prediction:
        return predicted(task, failed.placement, settings)

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
        return take(other)
    if cure := setting():
        return cure
    return take(starting[0]) if starting else NONE_FOUND


def take(one: Candidate) -> Text:
    return Text("remedy_other_plan", change=one.change or one.placement.words(), outcome=outcome(one.prediction))


def _of_wishes(task: Task, placement: Placement, change: Mapping[str, object]) -> Mapping[str, object]:
    """Of a change only what alters somebody's wishes, where the planner then finds settings that start; else all of it."""
    asked = {name: value for name, value in change.items() if name in task.wishes}
    if not asked or len(asked) == len(change):
        return change
    wishes = applied(task.wishes, asked)
    return asked if candidate(task._replace(wishes=wishes), placement).prediction.ok else change


def longest_context(task: Task, best: Candidate) -> list[Candidate]:
    """The plan with the longest context that starts as safely, where it has a shorter one."""
    length, safe = length_of(best), best.prediction.safe
    if not length or length >= task.model.context or "max_model_len" in task.wishes:
        return []
    above = next((one for one in reversed(CONTEXTS) if one > length), task.model.context)
    longest = lengthened(task, best, min(above, task.model.context), safe)
    if length_of(longest) == length:
        return []
    change = f"max_model_len {length_of(longest)}"
    return [longest._replace(change=change, cost=Text("cost_longest"), gain=Text("gain_longest"))]


def nearby(task: Task, best: Candidate) -> list[Candidate]:
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
        one = attempt(task, best.placement, settings, model)
        if length_of(one) < min(task.model.context, other_plans.WANTED_CONTEXT) and "max_model_len" not in task.wishes:
            # The plan's context is what fits without this change; with it a longer one may.
            own = {name: value for name, value in settings.items() if name != "max_model_len"}
            longer = with_step(
                task._replace(model=model, wishes={**task.wishes, **nearby.settings}), best.placement, own
            )
            one = longer if length_of(longer) > length_of(one) else one
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


def open_sizes(task: Task, best: Candidate) -> list[Candidate]:
    """What the planner would choose, where a size that was asked for stops the plan."""
    names = [name for name in SHAPE if name in task.wishes and name != "vllm_version"]
    if best.prediction.ok or not names:
        return []
    wishes = {name: value for name, value in task.wishes.items() if name not in names}
    asked = task._replace(wishes=wishes)
    tried = [candidate(asked, placement) for placement in placements(asked)]
    one = max(tried, key=lambda each: score(asked, each))
    if not one.prediction.ok:
        return []
    asked_sizes = ", ".join(f"{name} {task.wishes[name]}" for name in names)
    change = Text("change_sizes", sizes=one.placement.words(), asked=asked_sizes)
    return [one._replace(change=change, gain=Text("gain_sizes"))]


def other_releases(task: Task, best: Candidate) -> list[Candidate]:
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
            tried = [candidate(asked, placement) for placement in placements(asked)]
        except InputError:  # it does not have an option that was asked for
            continue
        one = max(tried, key=lambda each: score(asked, each))
        change = Text("change_release", version=name)
        if not one.prediction.ok and (other := next((rung for rung in nearby(asked, one) if rung.prediction.ok), None)):
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
        return one.prediction.safe and (length_of(one) >= wanted or "max_model_len" in task.wishes)

    def ask(size: int) -> Candidate:
        return candidate(task._replace(wishes={**task.wishes, "cpu_offload_gb": size}), placement)

    whole = predicted(task, placement, settings_for(task, placement, {}))
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


def more_hosts(task: Task, best: Candidate) -> list[Candidate]:
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


def replicas(task: Task, best: Candidate) -> list[Candidate]:
    """The model fits a part of the hosts: the same GPUs would serve it several times. Hosts of several kinds each have a plan of their own."""
    if len(task.nodes) < 2 or "pipeline_parallel_size" in task.wishes or "data_parallel_size" in task.wishes:
        return []
    kinds: dict[tuple[Gpu, ...], list[Node]] = {}
    for node in task.nodes:
        kinds.setdefault(node.gpus, []).append(node)
    found: list[tuple[list[Node], Candidate]] = []
    for gpus, nodes in kinds.items():
        single = task._replace(nodes=(nodes[0],), weakest=weakest_of(nodes))
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
