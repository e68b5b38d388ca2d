# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a deployment's variables and the bundle to what llama.cpp's plan is asked, and that plan as the rest of the collection reads it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import unplanned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting, settings_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Inputs
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.arguments import (
    NAME,
    SETTINGS,
    draft_options,
    llama_arguments,
    options_of,
    table,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.memory import Memory
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.placement import (
    Placement,
    longest_context,
    place,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.plan import (
    CONTEXT,
    GIB,
    Planned,
    planned,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, number, text, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import STARTS

# What these are called where memory is planned, and other options that it asks for.
_WISHES = {"ctx_size": "context", "parallel": "requests", "cache_type_k": "key_type", "cache_type_v": "value_type"}
_WISHES |= {"ubatch_size": "batch", "kv_unified": "unified", "swa_full": "whole_window"}
# With one of these somebody has said where the layers lie, or brings weights of which the plan knows nothing.
_PLACED = ("gpu_layers", "tensor_split", "split_mode", "device", "override_tensor", "cpu_moe", "n_cpu_moe", "n_cpu_ffn")
_UNPLANNED = (*_PLACED, "lora", "lora_scaled", "mmproj", "fit", "fit_target", "fit_ctx")
# How many requests are answered at once where nobody says it; they share the context (kv_unified).
_REQUESTS = 4
# With more words that only one of the two knows, llama.cpp translates what is drafted by its text (common/speculative.cpp).
MOST_OTHER_WORDS = 128
# A shorter context serves nobody.
_LEAST = 512
_LATER_PART = re.compile(r".*-(?!00001)\d{5}-of-\d{5}\.gguf")


def file_inputs(
    deployment: DeploymentHosts,
    hostvars: Mapping[str, Mapping[str, object]],
    manifest: Mapping[str, object],
    settings: Sequence[str],
) -> Inputs:
    """What an engine is asked that reads GGUF files: the head first; the request names the ``file`` that is served below the model's folder, all ``files``
    that are there, and the ``path`` on the controller, with the inventory's ``options`` and its ``own`` settings."""
    head = hostvars[deployment["head"]]
    found = unplanned.inputs(deployment, hostvars, manifest)
    own = settings_of(head, settings)
    asked = _file(head, manifest, str(setting(head, "model")), str(own.pop("file", "")))
    request = {"engine": found["request"]["engine"], "options": dict(mapping(setting(head, "options"))), "own": own}
    return {**found, "request": {**request, **asked}}


def _file(head: Mapping[str, object], manifest: Mapping[str, object], model: str, said: str) -> dict[str, object]:
    """The ``file`` of a model that is meant, all ``files`` that it has, and the ``path`` on the controller."""
    files = model_files(model, mappings(manifest.get("files")))
    name = said or (next(iter(files)) if len(files) == 1 else "")
    path = posixpath.expanduser(f"{manifest_folder(head)}/{files[name]}") if files.get(name) else ""
    return {"file": name, "files": list(files), "path": path}


def draft_model(variables: Mapping[str, object]) -> str:
    """The model that drafts for the served one: that of the setting, or with a file alone the served one itself; empty where none does."""
    alone = setting(variables, "model") if setting(variables, "draft_file") else ""
    return str(setting(variables, "draft_model") or alone or "")


def inputs(
    deployment: DeploymentHosts, hostvars: Mapping[str, Mapping[str, object]], manifest: Mapping[str, object]
) -> Inputs:
    """As ``file_inputs``, and the same of the draft model as ``draft``."""
    found = file_inputs(deployment, hostvars, manifest, SETTINGS)
    head = hostvars[deployment["head"]]
    drafts = draft_model(head)
    own = dict(mapping(found["request"]["own"]))
    said = str(own.pop("draft_file", ""))
    more = {"own": own, **({"draft": _file(head, manifest, drafts, said)} if drafts else {})}
    return {**found, "request": {**found["request"], **more}}


def model_files(model: str, records: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """The GGUF files of a model by their names below its folder, of several parts the first, each with its path in the bundle."""
    found = {}
    for record in records:
        parts = str(record["path"]).split("/", 2)
        mine = record.get("kind") == "model" and record.get("model") == model
        # A file that a hub has lies on no controller.
        if mine and len(parts) == 3 and parts[2].endswith(".gguf") and not _LATER_PART.fullmatch(parts[2]):
            found[parts[2]] = "" if record.get("urls") else str(record["path"])
    return found


def plan(
    config: Mapping[str, object], nodes: Sequence[Mapping[str, object]], request: Mapping[str, object], language: str
) -> dict[str, object]:
    """The plan of a deployment. Without the file on the controller llama.cpp itself fits the model to the GPUs, and the plan says so."""
    options = mapping(request["options"])
    said = {**mapping(request["own"]), **options}
    base = unplanned.plan(config, nodes, {"engine": request["engine"], **said}, language)
    draft = mapping(request.get("draft") or {})
    problem = table().owned(options) or file_refusal(f"{NAME}_file", text(request["file"]), texts(request["files"]))
    if draft and problem is None:
        problem = file_refusal(f"{NAME}_draft_file", text(draft["file"]), texts(draft["files"]))
    if problem is not None:
        return unplanned.refused(base, problem, language)
    base["settings"] = {"file": request["file"], **said}
    placed = sorted(set(options) & set(_UNPLANNED))
    away = [text(one["file"]) for one in (request, draft) if one and not one["path"]]
    try:
        # Says what is wrong with an option before anything is read.
        llama_arguments(said, str(base["llama_cpp_version"]))
        if draft:
            drafting = {"draft_file": draft["file"], **draft_options(str(base["llama_cpp_version"]))}
            base["settings"] = {"file": request["file"], **mapping(request["own"]), **drafting, **options}
        if not away and not placed:
            return _planned(base, request, nodes, language)
    except InputError as error:
        return unplanned.refused(base, error.why, language)
    why = Text("llama_no_file_here", file=", ".join(away)) if away else Text("llama_placed", options=", ".join(placed))
    return {**base, "predicted": {**mapping(base["predicted"]), "warnings": [why.say(language)]}}


def file_refusal(variable: str, file: str, files: Sequence[str]) -> Text | None:
    """Why a file, which the variable names, cannot be the one that is loaded; None where it can. ``files`` are those of the bundle, none where nobody
    knows them."""
    if not file:
        return Text("gguf_which_file", variable=variable, files=", ".join(files) or "-")
    if posixpath.isabs(file) or ".." in file.split("/"):
        return Text("gguf_file_outside", variable=variable, file=file)
    if files and file not in files:
        return Text("gguf_other_file", file=file, files=", ".join(files))
    return None


def too_large(
    code: str, placement: Placement, cards: Sequence[Gpu], node: Mapping[str, object], **more: object
) -> Text | None:
    """Why a model is refused of which no layer fits into the GPUs, or the rest not into the memory of its host; None where it fits."""
    memory = node.get("memory_mib")
    if placement.gpu_layers and not (memory and placement.host > number(memory) * 1024**2):
        return None
    needed = sum(one.total for one in placement.gpus) + placement.host
    total = sum(card.total for card in cards)
    return Text(code, needed=f"{needed / GIB:.1f}", cards=f"{total / GIB:.1f}", **more)


def _planned(
    base: dict[str, object], request: Mapping[str, object], nodes: Sequence[Mapping[str, object]], language: str
) -> dict[str, object]:
    asked = {**mapping(request["own"]), **mapping(request["options"])}
    said: dict[str, object] = {"parallel": _REQUESTS, "kv_unified": True, **asked}
    wishes: dict[str, object] = {wish: said[name] for name, wish in _WISHES.items() if name in said}
    if said.get("flash_attn") == "off":
        wishes["flash"] = False
    release, draft = str(base["llama_cpp_version"]), mapping(request.get("draft") or {})
    # One host serves: the first.
    found = planned(
        text(request["path"]), mappings(nodes[0]["gpus"]), wishes, release, text(draft["path"]) if draft else ""
    )
    if "ctx_size" not in said:
        found = _longest(found)
    placement = found.placement
    more = {"file": request["file"], "context": found.settings.context}
    why = too_large("llama_too_large", placement, found.cards, nodes[0], **more)
    if why is not None:
        return unplanned.refused(base, why, language)
    texts = [] if found.is_measured else [Text("llama_estimated", architecture=found.model.architecture)]
    if not placement.fits:
        layers = len(found.model.layers) + 1
        texts.append(
            Text("llama_on_host", gpus=placement.gpu_layers, layers=layers, host=f"{placement.host / GIB:.1f}")
        )
    words = [found.model.vocabulary, found.draft.vocabulary if found.draft else 0]
    if all(words) and abs(words[0] - words[1]) > MOST_OTHER_WORDS:
        texts.append(Text("llama_draft_words", model=words[0], draft=words[1]))
    settings = {**options_of(placement, found.settings), **mapping(base["settings"])}
    figures = {
        "ok": True,
        "verdict": STARTS,
        "warnings": [text.say(language) for text in texts],
        "ranks": [rank(one) for one in placement.gpus],
        "kv_cache_tokens": found.settings.context,
        "quantization": found.model.quantization,
        "architecture": found.model.architecture,
    }
    return {
        **base,
        "verdict": STARTS,
        "settings": settings,
        "predicted": {**mapping(base["predicted"]), **figures},
    }


def _longest(found: Planned) -> Planned:
    """With the longest context that all GPUs hold, up to the model's own; where not even all weights fit, a short one."""
    model, cards, settings, _placement, draft = found
    most = model.context or CONTEXT
    context = longest_context(model, cards, settings._replace(requests=1), most, draft)
    while context > _LEAST and not _placed(found, context).fits:
        context = context * 7 // 8 // 256 * 256
    context = context if context >= min(_LEAST, most) else min(CONTEXT, most)
    return found._replace(settings=settings._replace(context=context), placement=_placed(found, context))


def _placed(found: Planned, context: int) -> Placement:
    return place(found.model, found.cards, found.settings._replace(context=context), found.draft)


def rank(memory: Memory) -> dict[str, float]:
    """Of a GPU, with the names that plans of every engine have."""
    return {
        "weights_gib": round(memory.weights / GIB, 3),
        "activation_gib": round(memory.compute / GIB, 3),
        "non_torch_gib": 0.0,
        "cudagraph_gib": 0.0,
        "kv_cache_gib": round((memory.cache + memory.state) / GIB, 3),
    }
