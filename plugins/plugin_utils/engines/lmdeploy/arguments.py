# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What releases of LMDeploy are known, and the command line of its API server. The facts and their sources are in data.yml."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NotRequired, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.counterparts import counterpart
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key

NAME = "lmdeploy"
RELEASE_FORM = r"\d+\.\d+\.\d+(\.post\d+)?"
# Options that are variables of their own, or that the collection sets for every server.
OWN = {
    **{name: f"lmdeploy_{name}" for name in ("tp", "session_len", "max_batch_size", "cache_max_entry_count")},
    "quant_policy": "lmdeploy_quant_policy",
    "model_name": "lmdeploy_served_model_name",
    "server_name": "lmdeploy_api_key_enabled",
    "server_port": "lmdeploy_port",
    "api_keys": "lmdeploy_api_key",
    "backend": "llm_engine",
    "disable_metrics": "lmdeploy_port",
}
# What stands first on a command line, after the model; all others follow in alphabetical order.
FIRST = ("model_name", "server_name", "server_port", "backend", "tp", "session_len", "max_batch_size")
# TurboMind runs on one host here; who reaches a server may not end it, and none of them tells another program where it is.
ALONE = frozenset(("nnodes", "node_rank", "dist_init_addr", "dp", "cp", "ep", "proxy_url", "allow_terminate_by_client"))
FETCHES = frozenset(("download_dir", "revision"))


class Options(TypedDict):
    """Options by kind, each with the release that brought it; ``until`` has the last one with it."""

    values: dict[str, str]
    lists: dict[str, str]
    switches: dict[str, str]
    until: dict[str, str]
    of_pytorch: list[str]


class Heads(TypedDict):
    """The sizes of attention heads that are served, to a release."""

    until: str
    sizes: list[int]


class Architectures(TypedDict):
    """First and last releases of each architecture, in pairs; those with a memory model, and of these the ones with sliding windows."""

    names: dict[str, list[str]]
    planned: list[str]
    windows: list[str]
    heads: Heads


class Format(TypedDict):
    """Since when a format is read, and the sizes of its groups."""

    since: str
    groups: NotRequired[list[int]]


class Caches(TypedDict):
    """The only size of heads with a quantised cache, and bits of a value by quant_policy."""

    head: int
    bits: dict[int, int]


class MemoryFacts(TypedDict):
    """The share of free memory that the cache takes, from 0 to 1, and bytes of the scales of a token and head."""

    share: float
    scales: int


class Batch(TypedDict):
    """The requests at once, by words in the names of GPUs and of others."""

    by_name: dict[str, int]
    others: int


class Facts(TypedDict):
    """What is read of data.yml."""

    releases: dict[str, str]
    images: dict[str, list[dict[str, str]]]
    options: Options
    architectures: Architectures
    formats: dict[str, Format | str]
    caches: Caches
    memory: MemoryFacts
    batch: Batch


@cache
def facts() -> Facts:
    """The content of data.yml."""
    found: Facts = read_yaml(Path(__file__).with_name("data.yml").read_bytes())
    return found


def known_release(release: str) -> None:
    """InputError for a release that is older than those whose options were examined."""
    oldest = facts()["releases"]["oldest"]
    if release_key(release) < release_key(oldest):
        raise InputError("lmdeploy_version", "lmdeploy_release", found=release, oldest=oldest)


def is_newer(release: str) -> bool:
    """Whether a release is newer than those that were examined."""
    return release_key(release) > release_key(facts()["releases"]["newest"])


def since(release: str, first: str) -> bool:
    """Whether a release has what came with ``first``; - for the oldest one that was examined."""
    return first == "-" or release_key(release) >= release_key(first)


def image_suffix(release: str) -> str:
    """Of the official image with CUDA 12, the last part of its tag."""
    rows = [row for row in facts()["images"]["suffixes"] if since(release, row["since"])]
    return str(rows[-1]["suffix"] if rows else facts()["images"]["suffixes"][0]["suffix"])


def lmdeploy_arguments(model: str, options: Mapping[str, object], release: str) -> list[str]:
    """``lmdeploy serve api_server`` with the folder of a model and options as words, in a fixed order. InputError for options that the release does not take.

    ``options`` are those of data.yml, and those that the collection sets itself (OWN).
    """
    known_release(release)
    problems = [why for name in sorted(options) if (why := refusal(name, release)) is not None]
    if problems:
        raise InputError("lmdeploy_options", "lmdeploy_options", problems=problems)
    words = ["lmdeploy", "serve", "api_server", model]
    for name in sorted(options, key=lambda one: (FIRST.index(one) if one in FIRST else len(FIRST), one)):
        words += _words(name, options[name])
    return words


def refusal(name: str, release: str) -> Text | None:
    """Why an option is not taken; None for one that is."""
    found = facts()["options"]
    if name in ("ssl", "api_keys"):
        return Text("lmdeploy_option_" + ("tls" if name == "ssl" else "secret"), name=name)
    if name in FETCHES:
        return Text("lmdeploy_option_fetches", name=name)
    if name in ALONE:
        return Text("lmdeploy_option_alone", name=name)
    if name in found["of_pytorch"]:
        return Text("lmdeploy_option_pytorch", name=name)
    known = {**found["values"], **found["lists"], **found["switches"], **dict.fromkeys(OWN, "-")}
    last = str(found["until"].get(name, ""))
    if name not in known:
        return _unknown(name, sorted(known))
    if not since(release, str(known[name])):
        return Text("lmdeploy_option_later", name=name, first=known[name], release=release)
    if last and release_key(release) > release_key(last):
        return Text("lmdeploy_option_gone", name=name, last=last, release=release)
    return None


def _unknown(name: str, known: list[str]) -> Text:
    other = counterpart(name, NAME)
    if other is not None:
        engine, instead = other
        code = "lmdeploy_option_foreign" if instead else "lmdeploy_option_nothing"
        return Text(code, name=name, engine=engine, instead=instead)
    near = difflib.get_close_matches(name, known, 1, 0.6)
    return Text("lmdeploy_option_near", name=name, near=near[0]) if near else Text("lmdeploy_option_unknown", name=name)


def _words(name: str, value: object) -> list[str]:
    option = "--" + name.replace("_", "-")
    found = facts()["options"]
    if name in found["switches"]:
        if not isinstance(value, bool):
            raise InputError(f"lmdeploy_options.{name}", "lmdeploy_switch", found=value)
        return [option] if value else []
    if value is None:
        return []
    if isinstance(value, bool):
        raise InputError(f"lmdeploy_options.{name}", "lmdeploy_value", found=value)
    if isinstance(value, Mapping):
        return [option, json.dumps(value, separators=(",", ":"))]
    if isinstance(value, (list, tuple)):
        if name not in found["lists"]:
            raise InputError(f"lmdeploy_options.{name}", "lmdeploy_value", found=value)
        return [option, *map(str, value)] if value else []
    # One word: a value may begin with a dash.
    return [f"{option}={value}"] if str(value).startswith("-") else [option, str(value)]
