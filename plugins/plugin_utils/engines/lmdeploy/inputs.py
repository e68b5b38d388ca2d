# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a deployment's variables and the bundle to what LMDeploy's plan is asked, and the plan: whether TurboMind serves a model, and about what fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import config_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import unplanned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.capabilities import engines, facts, runs
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import (
    is_open,
    setting,
    settings_of,
    variable_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Inputs
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy import arguments, memory
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy.arguments import OWN, lmdeploy_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import items, mapping, number, text, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu, read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model, read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import UNKNOWN
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key

# Settings that are variables of their own (lmdeploy_<setting>); any other option of the server stands in lmdeploy_options.
SETTINGS = ("tp", "session_len", "max_batch_size", "cache_max_entry_count", "quant_policy")
# A shorter context serves nobody.
_LEAST = 512
# GPUs from here on compute bfloat16; others are given float16 in so many words.
_BFLOAT16 = (8, 0)
# With one of these another model is read than the one of config.json.
_UNPLANNED = ("hf_overrides",)


class _Asked(NamedTuple):
    """A model on the GPUs of a host."""

    config: Mapping[str, object]
    gpus: Sequence[Gpu]
    release: str
    said: Mapping[str, object]

    @property
    def architecture(self) -> str:
        named = self.config.get("architectures")
        return str(named[0]) if isinstance(named, list) and named else ""

    @property
    def form(self) -> str:
        """How the weights are kept: the quant_method of config.json, or 16-bit."""
        said = self.config.get("quantization_config")
        return text(mapping(said).get("quant_method")) or "16-bit"


def inputs(
    deployment: DeploymentHosts, hostvars: Mapping[str, Mapping[str, object]], manifest: Mapping[str, object]
) -> Inputs:
    """The head first."""
    head = hostvars[deployment["head"]]
    found = unplanned.inputs(deployment, hostvars, manifest)
    own = settings_of(head, SETTINGS)
    request = {"engine": found["request"]["engine"], "options": dict(mapping(setting(head, "options"))), **own}
    return {"nodes": found["nodes"], "request": request, "config": config_path(mappings(manifest.get("files")), head)}


def plan(
    config: Mapping[str, object], nodes: Sequence[Mapping[str, object]], request: Mapping[str, object], language: str
) -> dict[str, object]:
    """The plan of a deployment: refused where TurboMind has no code for the model or the GPUs, else with an estimate."""
    own, options = {name: request[name] for name in SETTINGS if name in request}, mapping(request["options"])
    base = unplanned.plan(config, nodes, {"engine": request["engine"], **own, **options}, language)
    release = str(base["lmdeploy_version"])
    owned = [name for name in options if name in OWN]
    try:
        if owned:
            return unplanned.refused(base, Text("lmdeploy_option_own", name=owned[0], variable=OWN[owned[0]]), language)
        # Says what is wrong with an option before anything is computed.
        lmdeploy_arguments("", {**own, **options}, release)
        asked = _Asked(config, read_gpus(nodes[0]["gpus"]), release, {**own, **options})
        problem = _refusal(asked)
        return unplanned.refused(base, problem, language) if problem is not None else _planned(base, asked, language)
    except InputError as error:
        return unplanned.refused(base, error.why, language)


def warnings(
    plan: Mapping[str, object], head: Mapping[str, object], records: Sequence[Mapping[str, object]], language: str
) -> list[str]:
    """What a plan says of a server without a key, and of a release that nobody here has seen."""
    found = []
    if is_open(head):
        found.append(message("lmdeploy_without_key", language, variable=variable_of(head, "api_key_enabled")))
    if arguments.is_newer(str(plan["lmdeploy_version"])):
        newest = arguments.facts()["releases"]["newest"]
        found.append(message("lmdeploy_newer", language, release=plan["lmdeploy_version"], newest=newest))
    return found


def _refusal(asked: _Asked) -> Text | None:
    """Why TurboMind cannot serve the model on these GPUs; None where it can, as far as is known."""
    return _no_code(asked) or _no_model(asked) or _no_format(asked) or _no_cache(asked)


def _no_code(asked: _Asked) -> Text | None:
    weakest = min(asked.gpus, key=lambda gpu: gpu.capability)
    mine = next(engine for engine in engines() if engine.name == arguments.NAME)
    if weakest.capability >= mine.no_code_below:
        return None
    forms = {str(form) for row in facts()["runs"] for form in row["formats"]}
    others = [one.title for one in engines() if any(runs(one.name, form, weakest.capability) for form in forms)]
    return Text(
        "lmdeploy_no_code",
        gpu=weakest.name,
        capability=weakest.capability_text,
        first="{}.{}".format(*mine.no_code_below),
        others=", ".join(others) or "-",
    )


def _no_model(asked: _Asked) -> Text | None:
    known = arguments.facts()["architectures"]
    spans = list(map(str, known["names"].get(asked.architecture, ())))
    key = release_key(asked.release)
    for first, last in zip(spans[::2], spans[1::2], strict=True):
        if release_key(first) <= key and (not last or key <= release_key(last)):
            return None
    code = "lmdeploy_architecture_other" if spans else "lmdeploy_architecture"
    pairs = zip(spans[::2], spans[1::2], strict=True)
    releases = ", ".join(f"{first} - {last}" if last else f"{first}+" for first, last in pairs)
    return Text(code, architecture=asked.architecture or "-", release=asked.release, releases=releases)


def _no_format(asked: _Asked) -> Text | None:
    """A checkpoint that LMDeploy refuses when it starts: get_tm_config in lmdeploy/turbomind/converter.py."""
    if asked.form == "16-bit":
        return None
    said = mapping(asked.config["quantization_config"])
    known = arguments.facts()["formats"].get(asked.form)
    if known is None or isinstance(known, str) or not arguments.since(asked.release, str(known["since"])):
        allowed = [name for name, row in arguments.facts()["formats"].items() if name != "source"]
        return Text("lmdeploy_format", form=asked.form, release=asked.release, allowed=", ".join(allowed))
    wrong = ""
    if asked.form == "awq" and said.get("version") != "gemm":
        wrong = f"version {said.get('version')}"
    if asked.form == "gptq" and said.get("desc_act", False):
        wrong = "desc_act true"
    if asked.form == "gptq" and not said.get("sym", True):
        wrong = "sym false"
    if asked.form in ("awq", "gptq") and said.get("bits", 4) != 4:
        wrong = f"bits {said.get('bits')}"
    group = said.get("group_size")
    if not wrong and group and group not in known.get("groups", ()):
        wrong = f"group_size {group}"
    return Text("lmdeploy_format_detail", form=asked.form, wrong=wrong) if wrong else None


def _no_cache(asked: _Asked) -> Text | None:
    policy, known = asked.said.get("quant_policy", 0), arguments.facts()["caches"]
    model = _model(asked)
    heads = sorted({layer.attention.head_dim for layer in model.layers}) if model else []
    before = arguments.facts()["architectures"]["heads"]
    if heads and release_key(asked.release) <= release_key(before["until"]) and set(heads) - set(before["sizes"]):
        return Text("lmdeploy_heads", heads=", ".join(map(str, heads)), release=asked.release)
    if policy and any(size != known["head"] for size in heads):
        return Text("lmdeploy_cache_heads", policy=policy, heads=", ".join(map(str, heads)))
    return None


def _model(asked: _Asked) -> Model | None:
    """The model where its memory can be estimated; None for another one, which TurboMind may serve nevertheless."""
    known = arguments.facts()["architectures"]
    if asked.architecture not in known["planned"] or set(asked.said) & set(_UNPLANNED):
        return None
    try:
        model = read_model(asked.config)
    except InputError:
        return None
    return model if not model.slides or asked.architecture in known["windows"] else None


def _planned(base: dict[str, object], asked: _Asked, language: str) -> dict[str, object]:
    model = _model(asked)
    said = dict(asked.said)
    if asked.form == "16-bit" or asked.form in ("fp8", "mxfp4"):
        # For Volta and Turing, which compute no bfloat16; 4 bits are computed in float16 on every GPU.
        said |= (
            {} if min(gpu.capability for gpu in asked.gpus) >= _BFLOAT16 else {"dtype": said.get("dtype", "float16")}
        )
    if model is None:
        spread = whole(said.get("tp") or 1)
        why = Text("lmdeploy_unplanned", architecture=asked.architecture)
        return _spread({**base, "settings": {**said, "tp": spread}}, spread, [why.say(language)])
    spread = whole(said.get("tp") or memory.spread_of(model, len(asked.gpus)))
    if spread > len(asked.gpus) or not memory.divides(model, spread):
        return unplanned.refused(base, Text("lmdeploy_tp", tp=spread, gpus=len(asked.gpus)), language)
    share = number(said.get("cache_max_entry_count") or arguments.facts()["memory"]["share"])
    if not 0 < share < 1:
        return unplanned.refused(base, Text("lmdeploy_share", found=share), language)
    found = memory.estimate(model, asked.gpus, spread, share, whole(said.get("quant_policy") or 0))
    asks = said.get("session_len")
    length = min(whole(asks or model.context), found.tokens)
    if length < whole(asks or min(_LEAST, model.context)):
        return unplanned.refused(base, _too_large(asked, found, share, whole(asks or _LEAST)), language)
    said |= {"tp": spread, "session_len": length, "cache_max_entry_count": share}
    said |= {"max_batch_size": whole(said.get("max_batch_size") or memory.most_requests(asked.gpus))}
    notes = [Text("lmdeploy_estimated", tokens=f"{found.tokens:,}")]
    if not runs(arguments.NAME, asked.form, min(gpu.capability for gpu in asked.gpus)):
        weakest = min(asked.gpus, key=lambda gpu: gpu.capability)
        notes.append(Text("lmdeploy_not_known", form=asked.form, gpu=weakest.name, capability=weakest.capability_text))
    ranks = [_rank(found)] * spread
    plan = _spread({**base, "settings": said}, spread, [text.say(language) for text in notes])
    figures = {
        "ranks": ranks,
        "kv_cache_tokens": found.tokens,
        "quantization": asked.form,
        "architecture": asked.architecture,
    }
    return {**plan, "predicted": {**mapping(plan["predicted"]), **figures}}


def _too_large(asked: _Asked, found: memory.Estimate, share: float, length: int) -> Text:
    needed = (found.weights + int(length * found.token / share) + memory.MARGIN) * found.spread
    cards = sum(gpu.total for gpu in asked.gpus[: found.spread])
    sizes = {"needed": f"{needed / memory.GIB:.1f}", "cards": f"{cards / memory.GIB:.1f}", "context": length}
    return Text("lmdeploy_too_large", **sizes)


def _spread(base: dict[str, object], spread: int, texts: list[str]) -> dict[str, object]:
    """A plan for as many of the head's GPUs as the model is spread over."""
    nodes = [{**node, "ranks": items(node["ranks"])[:spread]} for node in mappings(base["nodes"])]
    predicted = {**mapping(base["predicted"]), "warnings": texts, "verdict": UNKNOWN}
    return {**base, "nodes": nodes, "verdict": UNKNOWN, "predicted": predicted}


def _rank(found: memory.Estimate) -> dict[str, float]:
    """Of a GPU, with the names that plans of every engine have."""
    return {
        "weights_gib": round(found.weights / memory.GIB, 3),
        "activation_gib": 0.0,
        "non_torch_gib": round(memory.MARGIN / memory.GIB, 3),
        "cudagraph_gib": 0.0,
        "kv_cache_gib": round(found.cache / memory.GIB, 3),
    }
