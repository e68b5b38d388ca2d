# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a deployment's variables and the bundle to what Ollama's plan is asked, and the plan: an estimate by llama.cpp's model of memory, whose code it is."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import unplanned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.counterparts import counterpart
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import (
    is_open,
    setting,
    settings_of,
    variable_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Inputs
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.inputs import model_files
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.placement import (
    Placement,
    longest_context,
    place,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.plan import CONTEXT, GIB, planned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import Releases
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import manifest_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import (
    items,
    mapping,
    number,
    text,
    texts,
    whole,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key

NAME = "ollama"
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


def inputs(
    deployment: DeploymentHosts, hostvars: Mapping[str, Mapping[str, object]], manifest: Mapping[str, object]
) -> Inputs:
    """``{nodes, request, config}``: the head first; the request names the file below the model's folder, with what the bundle says of it."""
    head = hostvars[str(deployment["head"])]
    found = unplanned.inputs(deployment, hostvars, manifest)
    own = settings_of(head, SETTINGS)
    records = mappings(manifest.get("files"))
    files = model_files(head, records)
    name = str(own.pop("file", "")) or (next(iter(files)) if len(files) == 1 else "")
    path = posixpath.expanduser(f"{manifest_folder(head)}/{files[name]}") if files.get(name) else ""
    return {
        **found,
        "request": {
            "engine": found["request"]["engine"],
            "options": dict(mapping(setting(head, "options"))),
            "own": own,
            "name": str(setting(head, "served_model_name") or setting(head, "model")),
            "file": name,
            "files": list(files),
            "path": path,
            "blob": _blob(head, records, name),
        },
    }


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
        problem = _refusal(asked, str(base["ollama_version"]))
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


def warnings(
    plan: Mapping[str, object], head: Mapping[str, object], records: Sequence[Mapping[str, object]], language: str
) -> list[str]:
    """What a plan says of a server without a key, and of a release that nobody here has read."""
    found = []
    if is_open(head):
        found.append(message("ollama_without_key", language, variable=variable_of(head, "api_key_enabled")))
    newest = facts()["releases"]["newest"]
    if release_key(str(plan["ollama_version"])) > release_key(newest):
        found.append(message("ollama_newer", language, release=plan["ollama_version"], newest=newest))
    return found


def store_name(name: str) -> str:
    """Where Ollama's store has the manifest of a model, below its folder of manifests; empty for a name that Ollama does not take."""
    match = _NAME.fullmatch(name)
    if match is None or str(match["tag"] or "").endswith(_ELSEWHERE):
        return ""
    host = name.partition("/")[0] if name.count("/") == 2 else "registry.ollama.ai"
    return f"{host}/{match['namespace'] or 'library'}/{match['model']}/{match['tag'] or 'latest'}"


def _refusal(asked: Asked, release: str) -> Text | None:
    """Why nothing is planned at all; None where something is."""
    oldest = facts()["releases"]["oldest"]
    if release_key(release) < release_key(oldest):
        return Text("ollama_release", found=release, oldest=oldest)
    problems = [why for name in sorted(asked.options) if (why := _option_refusal(name)) is not None]
    if problems:
        return Text("ollama_options", problems=problems)
    file, files = asked.file, asked.files
    if not file:
        return Text("ollama_which_file", files=", ".join(files) or "-")
    if posixpath.isabs(file) or ".." in file.split("/"):
        return Text("ollama_file_outside", file=file)
    if files and file not in files:
        return Text("ollama_other_file", file=file, files=", ".join(files))
    if _PARTS.fullmatch(file):
        return Text("ollama_parts", file=file)
    if not store_name(asked.name):
        return Text("ollama_name", name=asked.name)
    kind, allowed = asked.own.get("kv_cache_type", "f16"), facts()["cache_types"]["names"]
    if kind not in allowed:
        return Text("ollama_cache_type", found=kind, allowed=", ".join(allowed))
    return None


def _option_refusal(name: str) -> Text | None:
    """Why an option is not taken; None for one that is."""
    known = sorted(facts()["options"]["names"])
    if name in known:
        return None
    if name in OWN:
        return Text("ollama_option_own", name=name, variable=OWN[name])
    other = counterpart(name, NAME)
    if other is not None:
        engine, instead = other
        instead = OWN.get(instead, instead)
        return Text(
            "ollama_option_foreign" if instead else "ollama_option_nothing", name=name, engine=engine, instead=instead
        )
    near = difflib.get_close_matches(name.upper(), known, 1, 0.6)
    return Text("ollama_option_near", name=name, near=near[0]) if near else Text("ollama_option_unknown", name=name)


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
    memory = nodes[0].get("memory_mib")
    if not placement.gpu_layers or (memory and placement.host > number(memory) * 1024**2):
        needed = sum(one.total for one in placement.gpus) + placement.host
        cards_gib = sum(card.total for card in cards) / GIB
        sizes = {"needed": f"{needed / GIB:.1f}", "cards": f"{cards_gib:.1f}", "context": length, "requests": requests}
        return unplanned.refused(base, Text("ollama_too_large", file=request.file, **sizes), language)
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
        "ranks": [
            {
                "weights_gib": round(one.weights / GIB, 3),
                "activation_gib": round(one.compute / GIB, 3),
                "non_torch_gib": 0.0,
                "cudagraph_gib": 0.0,
                "kv_cache_gib": round((one.cache + one.state) / GIB, 3),
            }
            for one in placement.gpus
        ],
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
