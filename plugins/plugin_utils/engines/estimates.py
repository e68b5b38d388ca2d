# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What plans of engines share whose memory is only estimated: how a model is spread over the GPUs of a host, and the plan that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import unplanned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.capabilities import engines, facts, runs
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Inputs
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import OptionTable
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import items, mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu, read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import image_serves
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import Shard
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import UNKNOWN
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import NEWEST, release_key, releases
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.weights import Loading, rank_weights

GIB = 1024**3
# Of each GPU, for CUDA's context, the libraries and the collectives: not measured.
MARGIN = GIB
# Over how many GPUs a layer is spread where nobody says it.
SPREADS = (1, 2, 4, 8)
# A shorter context serves nobody.
LEAST = 512


class Estimate(NamedTuple):
    """Bytes on each GPU, and for how many tokens of all requests together its cache has room."""

    spread: int
    weights: int
    # What nothing but the cache and what is computed can have; below nothing where the weights do not fit.
    left: int
    # The part of it that the cache takes.
    cache: int
    tokens: int
    token: int
    # The share of memory that the command line of the server has, from 0 to 1.
    share: float


class Asked(NamedTuple):
    """A model on the GPUs of a host."""

    config: Mapping[str, object]
    gpus: Sequence[Gpu]
    release: str
    # Settings and options.
    said: Mapping[str, object]

    @property
    def architecture(self) -> str:
        named = self.config.get("architectures")
        return str(named[0]) if isinstance(named, list) and named else ""

    @property
    def form(self) -> str:
        """How the weights are kept: the quant_method of config.json, or 16-bit."""
        return str(self.quantization.get("quant_method") or "16-bit")

    @property
    def quantization(self) -> Mapping[str, object]:
        """What config.json says of it; empty for 16-bit weights."""
        return mapping(self.config.get("quantization_config"))

    @property
    def weakest(self) -> Gpu:
        return min(self.gpus, key=lambda gpu: gpu.capability)


def spread_of(model: Model, count: int) -> int:
    """Over how many of a host's GPUs a layer is spread: as many as divide its heads of keys and values."""
    return max(size for size in SPREADS if size <= max(1, count) and divides(model, size))


def divides(model: Model, spread: int) -> bool:
    """Whether the heads of every layer can be spread: heads of keys and values are repeated where there are more GPUs than heads."""
    attentions = [layer.attention for layer in model.layers if layer.attention.kind != "linear"]
    return all(
        one.heads % spread == 0 and (one.kv_heads % spread == 0 or spread % max(1, one.kv_heads) == 0)
        for one in attentions
    )


def weights_of(model: Model, spread: int) -> int:
    """Bytes of the weights on each GPU."""
    whole = Shard(1, 1, 0, 0, len(model.layers))
    return rank_weights(model, whole, "float16", release_key(NEWEST), Loading(capability=(9, 0))) // spread


def no_code(name: str, asked: Asked) -> Text | None:
    """Why an engine computes nothing on these GPUs, with those that would; None where it does, as far as is known."""
    mine = next(engine for engine in engines() if engine.name == name)
    if asked.weakest.capability >= mine.no_code_below:
        return None
    forms = {str(form) for row in facts()["runs"] for form in row["formats"]}
    capability = asked.weakest.capability
    others = ["vLLM"] if any(image_serves(release, capability) for release in releases()) else []
    others += [one.title for one in engines() if any(runs(one.name, form, capability) for form in forms)]
    return Text(
        "engine_no_code_plan",
        title=mine.title,
        gpu=asked.weakest.name,
        capability=asked.weakest.capability_text,
        first="{}.{}".format(*mine.no_code_below),
        others=", ".join(others) or "-",
    )


def unknown_code(name: str, title: str, asked: Asked) -> list[Text]:
    """What a plan says where nobody knows whether the engine computes the format on these GPUs."""
    if runs(name, asked.form, asked.weakest.capability):
        return []
    gpu = asked.weakest
    said = {"title": title, "form": asked.form, "gpu": gpu.name, "capability": gpu.capability_text}
    return [Text("engine_code_unknown", **said)]


def spread_plan(base: dict[str, object], spread: int, texts: Sequence[Text], language: str) -> dict[str, object]:
    """A plan for as many of the head's GPUs as the model is spread over."""
    nodes = [{**node, "ranks": items(node["ranks"])[:spread]} for node in mappings(base["nodes"])]
    predicted = {**mapping(base["predicted"]), "warnings": [text.say(language) for text in texts], "verdict": UNKNOWN}
    return {**base, "nodes": nodes, "verdict": UNKNOWN, "predicted": predicted}


def figures(found: Estimate, asked: Asked, computed: int = 0) -> dict[str, object]:
    """What is predicted, with the names that plans of every engine have. ``computed`` are the bytes that are kept free for what is computed."""
    rank = {
        "weights_gib": round(found.weights / GIB, 3),
        "activation_gib": round(computed / GIB, 3),
        "non_torch_gib": round(MARGIN / GIB, 3),
        "cudagraph_gib": 0.0,
        "kv_cache_gib": round(found.cache / GIB, 3),
    }
    said = {"quantization": asked.form, "architecture": asked.architecture}
    return {"ranks": [rank] * found.spread, "kv_cache_tokens": found.tokens, **said}


def too_large(code: str, asked: Asked, found: Estimate, needed: int, length: int) -> Text:
    """Why a model is refused that does not fit. ``needed`` are the bytes of each GPU, without the margin, for a context of ``length`` tokens."""
    cards = sum(gpu.total for gpu in asked.gpus[: found.spread]) / GIB
    sizes = {"needed": f"{(needed + MARGIN) * found.spread / GIB:.1f}", "cards": f"{cards:.1f}"}
    return Text(code, **sizes, context=length)


@dataclass(frozen=True)
class Planner:
    """What an engine's ``inputs`` and ``plan`` are whose memory is only estimated (interface.py)."""

    table: Callable[[], OptionTable]
    # Settings that are variables of their own.
    settings: tuple[str, ...]
    # Why the engine cannot serve a model on these GPUs; None where it can, as far as is known.
    refusal: Callable[[Asked], Text | None]
    # The plan, of one in which nothing is computed, and the language.
    planned: Callable[[dict[str, object], Asked, str], dict[str, object]]

    def inputs(
        self,
        deployment: DeploymentHosts,
        hostvars: Mapping[str, Mapping[str, object]],
        manifest: Mapping[str, object],
    ) -> Inputs:
        return unplanned.inputs_with_config(deployment, hostvars, manifest, self.settings)

    def plan(
        self,
        config: Mapping[str, object],
        nodes: Sequence[Mapping[str, object]],
        request: Mapping[str, object],
        language: str,
    ) -> dict[str, object]:
        """Options that the engine does not take are refused, then what it cannot serve."""
        table = self.table()
        own = {name: request[name] for name in self.settings if name in request}
        said = mapping(request["options"])
        options = {**own, **said}
        base = unplanned.plan(config, nodes, {"engine": request["engine"], **options}, language)
        release = str(base[f"{table.name}_version"])
        try:
            why = table.owned(said)
            if why is None:
                # Says what is wrong with an option before anything is computed.
                table.words(options, release)
                asked = Asked(config, read_gpus(items(nodes[0]["gpus"])), release, options)
                why = self.refusal(asked)
            return unplanned.refused(base, why, language) if why is not None else self.planned(base, asked, language)
        except InputError as error:
            return unplanned.refused(base, error.why, language)
