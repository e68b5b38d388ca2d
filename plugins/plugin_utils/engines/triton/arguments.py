# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The known releases of Triton's container with vLLM, the command line of its OpenAI-compatible frontend, and vLLM's settings in model.json.

The facts and their sources are in data.yml.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import Kind, OptionTable, Releases
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import DESCRIPTIVE, OPTIONS, sampled
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import normalise, option_type
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import resolve_release

NAME, TITLE = "triton", "Triton"
RELEASE_FORM = r"\d\d\.(0[1-9]|1[0-2])"
# Settings of vLLM that are variables of their own; any other option, of vLLM or of the frontend, stands in triton_options.
SETTINGS = ("tensor_parallel_size", "max_model_len", "gpu_memory_utilization", "max_num_seqs", "kv_cache_dtype")
# The frontend in the image: build.py of triton-inference-server/server copies python/openai there.
FRONTEND = "/opt/tritonserver/python/openai/openai_frontend/main.py"
# Options that are variables of their own, or that the collection sets for every server.
OWN = {
    **{name: f"triton_{name}" for name in SETTINGS},
    "model": "triton_model",
    "served_model_name": "triton_served_model_name",
    "host": "triton_api_key_enabled",
    "port": "triton_port",
    "openai_port": "triton_port",
    "backend": "llm_engine",
    **dict.fromkeys(("model_repository", "tokenizer", "disable_log_stats"), ""),
}
# What stands first on the command line.
FIRST = ("model_repository", "tokenizer", "host", "openai_port")
_KINDS: Mapping[str, Kind] = {"bool": "switches", "list": "lists", "json": "lists"}
_NEVER = {
    "kserve": "triton_option_kserve",
    "one": "triton_option_one",
    "alone": "triton_option_alone",
    "fetches": "engine_option_fetches",
    "secret": "engine_option_secret",
    "server": "triton_option_server",
}


class Vllm(TypedDict):
    """The release of vLLM in the image, by that of Triton."""

    releases: Mapping[str, str]


class Capabilities(TypedDict):
    names: list[str]


class Frontend(TypedDict):
    values: Mapping[str, str]
    # By option the values that it takes.
    choices: Mapping[str, list[str]]


class Paths(TypedDict):
    since: Mapping[str, str]


class Facts(TypedDict):
    releases: Releases
    vllm: Vllm
    capabilities: Capabilities
    frontend: Frontend
    paths: Paths
    # Options by the reason for which they are not taken; a source is a text.
    never: Mapping[str, list[str] | str]


@cache
def facts() -> Facts:
    """The content of data.yml."""
    found: Facts = read_yaml(Path(__file__).with_name("data.yml").read_bytes())
    return found


@cache
def table() -> OptionTable:
    """The options of the frontend by release of Triton, and those of vLLM's engine, which the planner judges by release of vLLM."""
    never = {name: code for why, code in _NEVER.items() for name in texts(facts()["never"][why])}
    first: dict[Kind, dict[str, str]] = {"values": dict(facts()["frontend"]["values"]), "lists": {}, "switches": {}}
    for name in sorted({*OPTIONS, *sampled()} - set(never) - set(first["values"]) - {"port"}):
        first[_KINDS.get(option_type(name), "values")][name] = "-"
    releases = facts()["releases"]
    return OptionTable(NAME, TITLE, releases["oldest"], releases["newest"], first, {}, OWN, never, FIRST)


def is_of_frontend(name: str) -> bool:
    """Whether an option stands on the frontend's command line; all others are vLLM's, in model.json."""
    return name in facts()["frontend"]["values"]


def check_choices(options: Mapping[str, object]) -> None:
    """InputError for a value that the frontend does not take."""
    for name, allowed in facts()["frontend"]["choices"].items():
        if options.get(name) is not None and options[name] not in allowed:
            said = {"name": name, "found": options[name], "allowed": ", ".join(allowed)}
            raise InputError(f"{NAME}_options.{name}", "triton_option_choice", **said)


def vllm_of(release: str, in_image: str) -> str:
    """The release of vLLM in an image: as the bundle's record of the image says it, else by the release of Triton; empty where nobody knows it, or where
    it is newer than all that the planner knows."""
    found = in_image or facts()["vllm"]["releases"].get(release, "")
    try:
        return found if found and not resolve_release(found).is_newer else ""
    except InputError:
        return ""


def frontend_arguments(options: Mapping[str, object], release: str) -> list[str]:
    """The command of the frontend. InputError for options that the release does not take."""
    return [
        "python3",
        FRONTEND,
        *table().words({name: options[name] for name in options if is_of_frontend(name)}, release),
    ]


def engine_arguments(model: str, settings: Mapping[str, object]) -> dict[str, object]:
    """model.json: the fields of vLLM's AsyncEngineArgs, which takes values as they are. InputError for a value that is not of its option's kind."""
    given = normalise({name: value for name, value in settings.items() if not is_of_frontend(name)})
    mine = {name: _typed(name, given[name]) for name in sorted(given) if name not in DESCRIPTIVE}
    # Triton tells vLLM's metrics only where vLLM itself counts.
    return {"model": model, "disable_log_stats": False, **mine}


def _typed(name: str, value: object) -> object:
    where, kind = f"{NAME}_options", option_type(name)
    if kind == "bool":
        return fields.truth(value, f"{where}.{name}")
    if kind == "int":
        return fields.whole({name: value}, (name,), where, -fields.ABSURD)
    if kind == "float":
        return fields.number({name: value}, name, where, -fields.ABSURD, fields.ABSURD)
    return value
