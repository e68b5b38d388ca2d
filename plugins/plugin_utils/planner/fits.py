# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which models of the catalogue fit some hosts, with which context.

Hosts with equal GPUs belong together, others are kept apart. A model that fits one host has a copy on each of them; one that does not is split over
those that are alike, and so is one whose own context does not fit a host, where that holds a longer one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.candidates import chosen
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import Entry, entries
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model, read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.placement import read_task
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import recommended_release
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import Shard
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import NOT
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import NEWEST, release_key
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.weights import DTYPE_BYTES, Loading, rank_weights

Host = tuple[str, Sequence[Mapping[str, object]]]
KEYS = ("name", "memory_mib", "compute_capability")
# Why a model does not fit, by the planner's error; what is not here needs more memory.
WHY = {
    "quantization_not_supported": "fits_format",
    "dtype_not_supported": "fits_format",
    "quant_group_not_divisible": "fits_format",
    "architecture_not_supported": "fits_release",
    "feature_not_supported": "fits_release",
    "gpu_not_supported": "fits_release",
    "pp_not_supported": "fits_release",
}
TOO_LARGE = "fits_memory"
FORMATS = {"awq": "AWQ", "gptq": "GPTQ", "fp8": "FP8", "mxfp4": "MXFP4", "nvfp4": "NVFP4"}


class Fit(NamedTuple):
    """One model on hosts of one kind. A copy takes ``gpus`` GPUs on ``hosts`` hosts."""

    model: str
    precision: str  # bfloat16, float16, float32, FP8, AWQ 4-bit
    weights: int  # bytes of a whole copy
    verdict: str  # starts, starts_narrowly, not_verified, does_not_start
    hosts: int = 0
    gpus: int = 0
    copies: int = 0
    context: int = 0
    most: int = 0  # the model's own context
    conversations: int = 0  # of that length at once, in a copy
    reason: str = ""  # why it does not fit: a code of the catalogue of messages

    @property
    def ok(self) -> bool:
        return self.verdict != NOT


class Kind(NamedTuple):
    """Hosts with equal GPUs, the release for them, and what fits. A refusal, where no release serves such GPUs."""

    hosts: tuple[str, ...]
    gpus: tuple[Mapping[str, object], ...]  # of each host
    release: str
    fits: tuple[Fit, ...]
    refusal: Text | None = None

    @property
    def cards(self) -> str:
        """2 x Tesla V100-PCIE-16GB."""
        return " + ".join(f"{count} x {name}" for name, count in Counter(gpu["name"] for gpu in self.gpus).items())


def kinds(hosts: Sequence[Host]) -> list[tuple[tuple[str, ...], tuple[Mapping[str, object], ...]]]:
    """Names of hosts with equal GPUs, and the GPUs of each, in the order in which they were named. Hosts without GPUs are in none."""
    found: dict[object, tuple[list[str], tuple[Mapping[str, object], ...]]] = {}
    for name, gpus in hosts:
        if gpus:
            key = tuple(sorted(tuple(str(gpu.get(part)) for part in KEYS) for gpu in gpus))
            found.setdefault(key, ([], tuple(gpus)))[0].append(name)
    return [(tuple(names), gpus) for names, gpus in found.values()]


def what_fits(hosts: Sequence[Host], models: Sequence[str] = ()) -> list[Kind]:
    """For each kind of hosts what fits, the largest model first; then what does not, the smallest first.

    ``hosts`` are names, each with its GPUs (name, memory_mib, compute_capability). ``models`` are names of the catalogue; without them it is all of it.
    Raises InputError for GPUs that cannot be read.
    """
    asked = [entry for entry in entries() if not models or entry.model in models]
    return [_kind(names, gpus, asked) for names, gpus in kinds(hosts)]


def _kind(names: tuple[str, ...], gpus: tuple[Mapping[str, object], ...], asked: Sequence[Entry]) -> Kind:
    read = read_gpus(list(gpus))
    weakest = min(read, key=lambda gpu: gpu.capability)
    try:
        release = str(recommended_release({"compute_capability": weakest.capability_text})["vllm_version"])
    except InputError as error:
        return Kind(names, gpus, "", (), error.why)
    memory = sum(gpu.total for gpu in read)
    known: dict[str, list[Fit]] = {}  # several models have one configuration
    fits: list[Fit] = []
    for entry in asked:
        same = repr(entry.config)
        if same not in known:
            known[same] = _fits(entry, names, gpus, memory, release)
        fits += [fit._replace(model=entry.model) for fit in known[same]]
    fits.sort(key=lambda fit: (not fit.ok, -fit.weights if fit.ok else fit.weights, fit.model, fit.hosts))
    return Kind(names, gpus, release, tuple(fits))


def _fits(
    entry: Entry, names: Sequence[str], gpus: Sequence[Mapping[str, object]], memory: int, release: str
) -> list[Fit]:
    """A copy on one host, and one on all of them where that holds a longer context."""
    alone = _fit(entry, names, 1, gpus, memory, release)
    if len(names) == 1 or (alone.ok and alone.context >= alone.most):
        return [alone]
    together = _fit(entry, names, len(names), gpus, memory, release)
    if not alone.ok:
        return [together]
    return [alone, together] if together.ok and together.context > alone.context else [alone]


def _fit(
    entry: Entry, names: Sequence[str], count: int, gpus: Sequence[Mapping[str, object]], memory: int, release: str
) -> Fit:
    """A copy on the first ``count`` hosts, of ``memory`` bytes each."""
    model, weights = _read(entry.model)
    if weights > memory * count:  # no plan is needed to see that
        return Fit(entry.model, _precision(model, _usual_dtype(model, gpus)), weights, NOT, reason=TOO_LARGE)
    nodes = [{"host": name, "gpus": gpus} for name in names[:count]]
    task, _reasons = read_task(entry.config, nodes, {"vllm_version": release})
    best = chosen(task)[0][1][0]
    prediction, placement = best.prediction, best.placement
    said = Fit(entry.model, _precision(model, prediction.dtype), weights, prediction.verdict)
    if prediction.error is not None:
        return said._replace(reason=WHY.get(prediction.error.code, TOO_LARGE))
    at_once = min(int(prediction.concurrency or 1), prediction.settings.sequences)
    return said._replace(
        hosts=len(placement.nodes),
        gpus=placement.world,
        copies=len(names) // len(placement.nodes),
        context=prediction.settings.max_model_len,
        most=model.context,
        conversations=max(at_once, 1),
    )


@cache
def _read(name: str) -> tuple[Model, int]:
    """A model of the catalogue, and the bytes of its weights on one GPU."""
    model = read_model(next(entry.config for entry in entries() if entry.model == name))
    whole = Shard(1, 1, 0, 0, len(model.layers))
    dtype = model.checkpoint_dtype if model.checkpoint_dtype in DTYPE_BYTES else "bfloat16"
    return model, rank_weights(model, whole, dtype, release_key(NEWEST), Loading(capability=(9, 0)))


def _usual_dtype(model: Model, gpus: Sequence[Mapping[str, object]]) -> str:
    """What a model is computed in where no plan says it: GPUs before Ampere have no bfloat16."""
    old = min(gpu.capability for gpu in read_gpus(list(gpus))) < (8, 0)
    return "float16" if old and model.checkpoint_dtype == "bfloat16" else model.checkpoint_dtype


def _precision(model: Model, dtype: str) -> str:
    scheme = model.quantization
    if scheme.method == "none":
        return dtype
    label = FORMATS.get("nvfp4" if scheme.scheme == "nvfp4" else scheme.method, scheme.name)
    return f"{label} {scheme.bits}-bit" if scheme.method in ("awq", "gptq") else label
