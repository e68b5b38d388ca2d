# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a deployment's variables and the bundle to what Ollama's plan is asked, and the plan: an estimate by llama.cpp's model of memory, whose code it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import unplanned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Inputs
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.inputs import (
    file_inputs,
    file_refusal,
    rank,
    too_large,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.placement import (
    Placement,
    longest_context,
    place,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.plan import CONTEXT, GIB, planned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import OptionTable, Releases
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import (
    items,
    mapping,
    text,
    texts,
    whole,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

NAME, TITLE = "ollama", "Ollama"
RELEASE_FORM = r"\d+\.\d+\.\d+"
# Settings that are variables of their own (ollama_<setting>); any other environment variable of the server stands in ollama_options.
SETTINGS = ("file", "context_length", "num_parallel", "kv_cache_type", "flash_attention")
# Variables of the server that are variables of the inventory, or that the collection sets for every server.
OWN = {
    **{f"OLLAMA_{name.upper()}": f"ollama_{name}" for name in SETTINGS[1:]},
    "OLLAMA_HOST": "ollama_port",
    "OLLAMA_MODELS": "ollama_model",
    "OLLAMA_KEEP_ALIVE": "ollama_model",
    "OLLAMA_MAX_LOADED_MODELS": "ollama_model",
    "OLLAMA_NOPRUNE": "ollama_model",
    "OLLAMA_NO_CLOUD": "ollama_model",
    "OLLAMA_REMOTES": "ollama_model",
    "OLLAMA_ORIGINS": "ollama_port",
}
# How many requests are answered at once where nobody says it. Each has a context of its own.
_REQUESTS = 4
# A shorter context serves nobody.
_LEAST = 512
_PARTS = re.compile(r".*-\d{5}-of-(?!00001)\d{5}\.gguf")
# A name as Ollama has it: HOST/NAMESPACE/MODEL:TAG, all but the third may be left out (types/model/name.go). Tags that end so mean models of ollama.com.
_NAME = re.compile(
    r"(?:(?:\w[\w.:-]{0,349}/)?(?P<namespace>\w[\w-]{0,79})/)?(?P<model>\w[\w.-]{0,79})(?::(?P<tag>\w[\w.-]{0,79}))?",
    re.ASCII,
)
_ELSEWHERE = ("cloud", "-cloud", "local")


class Names(TypedDict):
    names: list[str]


class Options(TypedDict):
    """By variable what the plan says where nobody says anything else; None for nothing."""

    names: Mapping[str, object]


class Facts(TypedDict):
    releases: Releases
    options: Options
    cache_types: Names
    alone: Names


class Asked(NamedTuple):
    """What a plan is asked: settings and options of the inventory, the model's name, and the file, of those that there are, by its name, path and ``blob``."""

    own: Mapping[str, object]
    options: Mapping[str, object]
    name: str
    file: str
    files: list[str]
    path: str
    blob: Mapping[str, object]


def _asked(request: Mapping[str, object]) -> Asked:
    own, options, blob = (mapping(request[name]) for name in ("own", "options", "blob"))
    name, file, path = (text(request[name]) for name in ("name", "file", "path"))
    return Asked(own, options, name, file, texts(request["files"]), path, blob)


@cache
def facts() -> Facts:
    """The content of data.yml."""
    found: Facts = read_yaml(Path(__file__).with_name("data.yml").read_bytes())
    return found


@cache
def table() -> OptionTable:
    """The environment variables that a server reads, as options."""
    found, releases = facts()["options"]["names"], facts()["releases"]
    first = dict.fromkeys(found, "-")
    return OptionTable(NAME, TITLE, releases["oldest"], releases["newest"], {"values": first}, {}, OWN, {}, ())


def inputs(
    deployment: DeploymentHosts, hostvars: Mapping[str, Mapping[str, object]], manifest: Mapping[str, object]
) -> Inputs:
    """Besides what every engine of GGUF files is asked, the name of the model, and what the bundle says of the file."""
    head = hostvars[deployment["head"]]
    found = file_inputs(deployment, hostvars, manifest, SETTINGS)
    name = str(setting(head, "served_model_name") or setting(head, "model"))
    blob = _blob(head, mappings(manifest.get("files")), text(found["request"]["file"]))
    return {**found, "request": {**found["request"], "name": name, "blob": blob}}


def _blob(head: Mapping[str, object], records: Sequence[Mapping[str, object]], name: str) -> dict[str, object]:
    """The file as Ollama's store calls it: ``{sha256, bytes}``, without what nobody knows."""
    for record in records:
        mine = record.get("kind") == "model" and record.get("model") == setting(head, "model")
        if mine and str(record["path"]).split("/", 2)[2:] == [name]:
            return {"sha256": str(record.get("sha256") or ""), "bytes": whole(record.get("size") or 0)}
    return {}


def plan(
    config: Mapping[str, object], nodes: Sequence[Mapping[str, object]], request: Mapping[str, object], language: str
) -> dict[str, object]:
    """The plan of a deployment: refused where Ollama could not serve it, else with an estimate. ``blob`` is what is known of the file."""
    asked = _asked(request)
    said = {**asked.own, **asked.options}
    base = unplanned.plan(config, nodes, {"engine": request["engine"], **said}, language)
    try:
        release = str(base["ollama_version"])
        table().known_release(release)
        problem = table().owned(asked.options)
        if problem is None:
            table().check(asked.options, release)
            problem = _refusal(asked)
        if problem is not None:
            return unplanned.refused(base, problem, language)
        usual = {name: value for name, value in facts()["options"]["names"].items() if value is not None}
        settings = {"file": asked.file, "num_parallel": _REQUESTS, **usual, **said}
        base["settings"] = settings
        base["blob"] = dict(asked.blob)
        if asked.path:
            return _planned(base, asked, nodes, language)
    except InputError as error:
        return unplanned.refused(base, error.why, language)
    if "num_parallel" not in said:
        # Whether Ollama takes several at once for the model is in the file.
        settings["num_parallel"] = 1
    warned = [Text("ollama_no_file_here", file=asked.file).say(language)]
    base["predicted"] = {**mapping(base["predicted"]), "warnings": warned}
    return base


def store_name(name: str) -> str:
    """Where Ollama's store has the manifest of a model, below its folder of manifests; empty for a name that Ollama does not take."""
    match = _NAME.fullmatch(name)
    if match is None or str(match["tag"] or "").endswith(_ELSEWHERE):
        return ""
    host = name.partition("/")[0] if name.count("/") == 2 else "registry.ollama.ai"
    return f"{host}/{match['namespace'] or 'library'}/{match['model']}/{match['tag'] or 'latest'}"


def _refusal(asked: Asked) -> Text | None:
    """Why nothing is planned at all; None where something is."""
    why = file_refusal(f"{NAME}_file", asked.file, asked.files)
    if why is not None:
        return why
    if _PARTS.fullmatch(asked.file):
        return Text("ollama_parts", file=asked.file)
    if not store_name(asked.name):
        return Text("ollama_name", name=asked.name)
    kind, allowed = asked.own.get("kv_cache_type", "f16"), facts()["cache_types"]["names"]
    if kind not in allowed:
        return Text("ollama_cache_type", found=kind, allowed=", ".join(allowed))
    return None


def _planned(
    base: dict[str, object], request: Asked, nodes: Sequence[Mapping[str, object]], language: str
) -> dict[str, object]:
    own = request.own
    wishes: dict[str, object] = {"context": _LEAST, "requests": 1}
    if "kv_cache_type" in own:
        wishes |= dict.fromkeys(("key_type", "value_type"), own["kv_cache_type"])
    if own.get("flash_attention") is False:
        wishes["flash"] = False
    found = planned(request.path, items(nodes[0]["gpus"]), wishes)
    model, cards = found.model, found.cards
    alone = model.architecture in facts()["alone"]["names"]
    requests = 1 if alone else whole(own.get("num_parallel") or _REQUESTS)
    most = model.context or CONTEXT
    asked = min(whole(own.get("context_length") or most), most)
    settings = found.settings._replace(requests=requests)

    def placed(length: int) -> Placement:
        return place(model, cards, settings._replace(context=length * requests))

    length = asked
    if "context_length" not in own:
        length = longest_context(model, cards, settings, most)
        length = length if length >= min(_LEAST, most) else min(CONTEXT, most)
    placement = placed(length)
    more = {"file": request.file, "context": length, "requests": requests}
    why = too_large("ollama_too_large", placement, cards, nodes[0], **more)
    if why is not None:
        return unplanned.refused(base, why, language)
    texts = [Text("ollama_estimated")]
    if alone and whole(own.get("num_parallel") or 1) > 1:
        texts.append(Text("ollama_alone", architecture=model.architecture))
    if not placement.fits:
        layers = len(model.layers) + 1
        texts.append(
            Text("ollama_on_host", gpus=placement.gpu_layers, layers=layers, host=f"{placement.host / GIB:.1f}")
        )
    figures = {
        "warnings": [text.say(language) for text in texts],
        "ranks": [rank(one) for one in placement.gpus],
        "kv_cache_tokens": length * requests,
        "quantization": model.quantization,
        "architecture": model.architecture,
    }
    return {
        **base,
        "settings": {**mapping(base["settings"]), "context_length": length, "num_parallel": requests},
        "blob": {**request.blob, "architecture": model.architecture, "quantization": model.quantization},
        "predicted": {**mapping(base["predicted"]), **figures},
    }
