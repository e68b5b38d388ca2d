# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a deployment's variables and the bundle to what llama.cpp's plan is asked, and that plan as the rest of the collection reads it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import unplanned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import (
    is_open,
    setting,
    settings_of,
    variable_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Inputs
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.arguments import (
    llama_arguments,
    options_of,
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
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import STARTS

# Settings that are variables of their own (llama_cpp_<setting>); any other option of the server stands in llama_cpp_options.
SETTINGS = ("file", "ctx_size", "parallel", "cache_type_k", "cache_type_v")
# What these are called where memory is planned, and other options that it asks for.
_WISHES = {"ctx_size": "context", "parallel": "requests", "cache_type_k": "key_type", "cache_type_v": "value_type"}
_WISHES |= {"ubatch_size": "batch", "kv_unified": "unified", "swa_full": "whole_window"}
# Options that are variables of their own, or that the collection sets for every server.
OWN = {
    **{name: f"llama_cpp_{name}" for name in SETTINGS},
    "model": "llama_cpp_model",
    "alias": "llama_cpp_served_model_name",
    "port": "llama_cpp_port",
    "host": "llama_cpp_api_key_enabled",
    "api_key_file": "llama_cpp_api_key",
    "metrics": "llama_cpp_port",
}
# With one of these somebody has said where the layers lie, or brings weights of which the plan knows nothing.
_PLACED = ("gpu_layers", "tensor_split", "split_mode", "device", "override_tensor", "cpu_moe", "n_cpu_moe", "n_cpu_ffn")
_UNPLANNED = (*_PLACED, "lora", "lora_scaled", "mmproj", "fit", "fit_target", "fit_ctx")
# How many requests are answered at once where nobody says it; they share the context (kv_unified).
_REQUESTS = 4
# A shorter context serves nobody.
_LEAST = 512
_LATER_PART = re.compile(r".*-(?!00001)\d{5}-of-\d{5}\.gguf")


def inputs(
    deployment: DeploymentHosts, hostvars: Mapping[str, Mapping[str, object]], manifest: Mapping[str, object]
) -> Inputs:
    """The head first; the request names the file below the model's folder, and where it lies on the controller."""
    head = hostvars[deployment["head"]]
    found = unplanned.inputs(deployment, hostvars, manifest)
    own = settings_of(head, SETTINGS)
    files = model_files(head, mappings(manifest.get("files")))
    name = str(own.pop("file", "")) or (next(iter(files)) if len(files) == 1 else "")
    path = posixpath.expanduser(f"{manifest_folder(head)}/{files[name]}") if files.get(name) else ""
    request = {"engine": found["request"]["engine"], "options": dict(mapping(setting(head, "options"))), "own": own}
    return {
        "nodes": found["nodes"],
        "config": found["config"],
        "request": {**request, "file": name, "files": list(files), "path": path},
    }


def model_files(variables: Mapping[str, object], records: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """The GGUF files of a deployment's model by their names below its folder, of several parts the first, each with its path in the bundle."""
    found = {}
    for record in records:
        parts = str(record["path"]).split("/", 2)
        mine = record.get("kind") == "model" and record.get("model") == setting(variables, "model")
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
    problem = _refusal(request)
    if problem is not None:
        return unplanned.refused(base, problem, language)
    base["settings"] = {"file": request["file"], **said}
    placed = sorted(set(options) & set(_UNPLANNED))
    try:
        # Says what is wrong with an option before anything is read.
        llama_arguments(said, str(base["llama_cpp_version"]))
        if request["path"] and not placed:
            return _planned(base, request, nodes, language)
    except InputError as error:
        return unplanned.refused(base, error.why, language)
    why = Text("llama_no_file_here", file=request["file"])
    if request["path"]:
        why = Text("llama_placed", options=", ".join(placed))
    return {**base, "predicted": {**mapping(base["predicted"]), "warnings": [why.say(language)]}}


def warnings(
    plan: Mapping[str, object], head: Mapping[str, object], records: Sequence[Mapping[str, object]], language: str
) -> list[str]:
    """What a plan says of a server without a key."""
    if is_open(head):
        return [message("engine_without_key", language, variable=variable_of(head, "api_key_enabled"))]
    return []


def _refusal(request: Mapping[str, object]) -> Text | None:
    """Why nothing is planned at all; None where something is."""
    file, files = text(request["file"]), texts(request["files"])
    owned = [name for name in mapping(request["options"]) if name in OWN]
    if owned:
        return Text("llama_option_own", name=owned[0], variable=OWN[owned[0]])
    if not file:
        return Text("llama_which_file", files=", ".join(files) or "-")
    if posixpath.isabs(file) or ".." in file.split("/"):
        return Text("llama_file_outside", file=file)
    if files and file not in files:
        return Text("llama_other_file", file=file, files=", ".join(files))
    return None


def _planned(
    base: dict[str, object], request: Mapping[str, object], nodes: Sequence[Mapping[str, object]], language: str
) -> dict[str, object]:
    asked = {**mapping(request["own"]), **mapping(request["options"])}
    said: dict[str, object] = {"parallel": _REQUESTS, "kv_unified": True, **asked}
    wishes: dict[str, object] = {wish: said[name] for name, wish in _WISHES.items() if name in said}
    if said.get("flash_attn") == "off":
        wishes["flash"] = False
    # One host serves: the first.
    found = planned(text(request["path"]), mappings(nodes[0]["gpus"]), wishes, str(base["llama_cpp_version"]))
    if "ctx_size" not in said:
        found = _longest(found)
    placement = found.placement
    memory = nodes[0].get("memory_mib")
    if not placement.gpu_layers or (memory and placement.host > number(memory) * 1024**2):
        needed = sum(one.total for one in placement.gpus) + placement.host
        cards = sum(card.total for card in found.cards)
        sizes = {"needed": f"{needed / GIB:.1f}", "cards": f"{cards / GIB:.1f}", "context": found.settings.context}
        return unplanned.refused(base, Text("llama_too_large", file=request["file"], **sizes), language)
    texts = [] if found.is_measured else [Text("llama_estimated", architecture=found.model.architecture)]
    if not placement.fits:
        layers = len(found.model.layers) + 1
        texts.append(
            Text("llama_on_host", gpus=placement.gpu_layers, layers=layers, host=f"{placement.host / GIB:.1f}")
        )
    settings = {**options_of(placement, found.settings), **asked}
    figures = {
        "ok": True,
        "verdict": STARTS,
        "warnings": [text.say(language) for text in texts],
        "ranks": [_rank(one) for one in placement.gpus],
        "kv_cache_tokens": found.settings.context,
        "quantization": found.model.quantization,
        "architecture": found.model.architecture,
    }
    return {
        **base,
        "verdict": STARTS,
        "settings": {"file": request["file"], **settings},
        "predicted": {**mapping(base["predicted"]), **figures},
    }


def _longest(found: Planned) -> Planned:
    """With the longest context that all GPUs hold, up to the model's own; where not even all weights fit, a short one."""
    model, cards, settings, _placement = found
    most = model.context or CONTEXT
    context = longest_context(model, cards, settings._replace(requests=1), most)
    while context > _LEAST and not _placed(found, context).fits:
        context = context * 7 // 8 // 256 * 256
    context = context if context >= min(_LEAST, most) else min(CONTEXT, most)
    return found._replace(settings=settings._replace(context=context), placement=_placed(found, context))


def _placed(found: Planned, context: int) -> Placement:
    return place(found.model, found.cards, found.settings._replace(context=context))


def _rank(memory: Memory) -> dict[str, float]:
    """Of a GPU, with the names that plans of every engine have."""
    return {
        "weights_gib": round(memory.weights / GIB, 3),
        "activation_gib": round(memory.compute / GIB, 3),
        "non_torch_gib": 0.0,
        "cudagraph_gib": 0.0,
        "kv_cache_gib": round((memory.cache + memory.state) / GIB, 3),
    }
