# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the ranks of a deployment may lie: tensor and pipeline parallel sizes, and which GPUs of which hosts take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.network import ALL_REDUCE_SECONDS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu, read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model, read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.observations import Experience, experience
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import Memo
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import recommended_release
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import normalise
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import divides_heads, spread
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.validity import pipelines
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import Release, required_release

OBJECTIVES = ("throughput", "latency", "context")
INTERCONNECTS = tuple(ALL_REDUCE_SECONDS)
MAX_SHAPES, MAX_SPANNING = 8, 4
MIB, GIB = 1024**2, 1024**3


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


# -- what is asked -------------------------------------------------------------------------------------------------------
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
    weakest = weakest_of(hosts)
    reasons: list[Text] = []
    if wishes.get("vllm_version") is None:
        advice = recommended_release({"compute_capability": weakest.capability_text}, language)
        wishes["vllm_version"] = advice["vllm_version"]
        reasons.append(Text("reason_release", version=advice["vllm_version"], why=advice["reason"]))
    accepted = fields.truth(wishes.get("accept_unknown_release"), "request.accept_unknown_release")
    release = required_release(wishes["vllm_version"], "request.vllm_version", accepted)
    past = experience(wishes.pop("observations", None), facts, weakest, release)
    return Task(facts, hosts, wishes, release, objective, weakest, {}, past), reasons


def weakest_of(nodes: Sequence[Node]) -> Gpu:
    return min((gpu for node in nodes for gpu in node.gpus), key=lambda gpu: (gpu.capability, gpu.total))


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


def placements(task: Task) -> list[Placement]:
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
