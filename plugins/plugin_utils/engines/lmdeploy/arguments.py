# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What releases of LMDeploy are known, and the command line of its API server. The facts and their sources are in data.yml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NotRequired, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import (
    KINDS,
    Images,
    OptionTable,
    Releases,
    since,
)

NAME, TITLE = "lmdeploy", "LMDeploy"
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
# What stands first on a command line, after the model.
FIRST = ("model_name", "server_name", "server_port", "backend", "tp", "session_len", "max_batch_size")
# TurboMind runs on one host here; who reaches a server may not end it, and none of them tells another program where it is.
ALONE = ("nnodes", "node_rank", "dist_init_addr", "dp", "cp", "ep", "proxy_url", "allow_terminate_by_client")
FETCHES = ("download_dir", "revision")


# By the name of an option the first or the last release that has it.
Rows = Mapping[str, str]
NO_ROWS: Rows = {}


class Options(TypedDict):
    values: Rows
    lists: Rows
    switches: Rows
    pairs: NotRequired[Rows]
    until: Rows
    of_pytorch: list[str]


class Heads(TypedDict):
    """Up to which release only heads of these sizes are computed."""

    until: str
    sizes: list[int]


class Architectures(TypedDict):
    """By name the first and the last release of each span that serves a model, the last one empty where it still does."""

    names: Mapping[str, list[str]]
    planned: list[str]
    windows: list[str]
    heads: Heads


class Format(TypedDict):
    since: str
    groups: list[int]


class Caches(TypedDict):
    """Bits of a value by quant_policy, and the size of a head with which that works."""

    bits: Mapping[int, int]
    head: int


class Memory(TypedDict):
    share: float
    scales: int


class Batch(TypedDict):
    """How many requests are computed at once, by a word in the name of the GPU."""

    by_name: Mapping[str, int]
    others: int


class Facts(TypedDict):
    releases: Releases
    images: Images
    options: Options
    architectures: Architectures
    # Its ``source`` is a text.
    formats: Mapping[str, Format | str]
    caches: Caches
    memory: Memory
    batch: Batch


@cache
def facts() -> Facts:
    """The content of data.yml."""
    found: Facts = read_yaml(Path(__file__).with_name("data.yml").read_bytes())
    return found


@cache
def table() -> OptionTable:
    """The options of the server with TurboMind."""
    found, releases = facts()["options"], facts()["releases"]
    first = {kind: {name: str(release) for name, release in found.get(kind, NO_ROWS).items()} for kind in KINDS}
    never = {
        "ssl": "engine_option_tls",
        "api_keys": "engine_option_secret",
        **dict.fromkeys(FETCHES, "engine_option_fetches"),
        **dict.fromkeys(ALONE, "lmdeploy_option_alone"),
        **dict.fromkeys(found["of_pytorch"], "lmdeploy_option_pytorch"),
    }
    until = {name: str(release) for name, release in found["until"].items()}
    return OptionTable(NAME, TITLE, releases["oldest"], releases["newest"], first, until, OWN, never, FIRST)


def image_suffix(release: str) -> str:
    """Of the official image with CUDA 12, the last part of its tag."""
    rows = [row for row in facts()["images"]["suffixes"] if since(release, row["since"])]
    return rows[-1]["suffix"] if rows else facts()["images"]["suffixes"][0]["suffix"]


def lmdeploy_arguments(model: str, options: Mapping[str, object], release: str) -> list[str]:
    """``lmdeploy serve api_server`` with the folder of a model and options as words, in a fixed order. InputError for options that the release does not take.

    ``options`` are those of data.yml, and those that the collection sets itself (OWN).
    """
    return ["lmdeploy", "serve", "api_server", model, *table().words(options, release)]
