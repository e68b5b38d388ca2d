# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What releases of SGLang are known, and the command line of its server. The facts and their sources are in data.yml."""

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

NAME, TITLE = "sglang", "SGLang"
RELEASE_FORM = r"\d+\.\d+\.\d+(\.post\d+)?"
# Settings that are variables of their own (sglang_<setting>); any other option of the server stands in sglang_options.
SETTINGS = ("tp_size", "context_length", "max_running_requests", "mem_fraction_static", "kv_cache_dtype")
# Options that are variables of their own; without a variable those that the collection sets for every server.
OWN = {
    **{name: f"sglang_{name}" for name in SETTINGS},
    "model_path": "sglang_model",
    "served_model_name": "sglang_served_model_name",
    "host": "sglang_api_key_enabled",
    "port": "sglang_port",
    "api_key": "sglang_api_key",
    "enable_metrics": "",
    "skip_server_warmup": "",
}
# What stands first on a command line.
FIRST = ("model_path", "served_model_name", "host", "port", "tp_size", "context_length", "mem_fraction_static")
PROGRAM = ("python3", "-m", "sglang.launch_server")


# By the first or the last release, or the code of a message, the names of options.
Rows = Mapping[str, list[str]]


class Options(TypedDict):
    values: Rows
    lists: Rows
    switches: Rows
    pairs: Rows
    until: Rows
    never: Rows


class Format(TypedDict):
    """The first release that reads it, and the first compute capability that computes it."""

    since: str
    capability: NotRequired[str]


class Gptq(TypedDict):
    """What Marlin's kernels compute, and the last release that has no others."""

    until: str
    bits: list[int]
    groups: list[int]


class Large(TypedDict):
    above_gib: int
    least: int


class Size(TypedDict):
    """Tokens of a chunk and CUDA graphs (for fewer than four GPUs, for more) of GPUs below a size."""

    below_gib: int
    tokens: int
    graphs: list[int]


class Memory(TypedDict):
    """What is kept free of a GPU, in MiB."""

    constant: float
    each_token: float
    fewest_tokens: int
    each_gpu: float
    each_graph: float
    prompts: float
    large: Large
    sizes: list[Size]


class Facts(TypedDict):
    releases: Releases
    images: Images
    options: Options
    # By path the first release that answers it.
    paths: Mapping[str, str]
    # Its ``source`` is a text.
    formats: Mapping[str, Format | str]
    gptq: Gptq
    planned: list[str]
    unplanned: list[str]
    memory: Memory


@cache
def facts() -> Facts:
    """The content of data.yml."""
    found: Facts = read_yaml(Path(__file__).with_name("data.yml").read_bytes())
    return found


def _by_name(rows: Rows) -> dict[str, str]:
    """What stands above each name of the lists."""
    return {name: str(head) for head, names in rows.items() for name in names}


@cache
def table() -> OptionTable:
    """The options of the server."""
    found, releases = facts()["options"], facts()["releases"]
    first = {kind: _by_name(found[kind]) for kind in KINDS}
    until, never = _by_name(found["until"]), _by_name(found["never"])
    return OptionTable(NAME, TITLE, releases["oldest"], releases["newest"], first, until, OWN, never, FIRST)


def image(release: str) -> str:
    """The official image, with CUDA 12 as long as there is one, since older drivers run that, too."""
    rows = [row for row in facts()["images"]["suffixes"] if since(release, str(row["since"]))]
    return f"lmsysorg/sglang:v{release}{rows[-1]['suffix']}"


def sglang_arguments(model: str, options: Mapping[str, object], release: str) -> list[str]:
    """SGLang's server with the folder of a model and options as words, in a fixed order. InputError for options that the release does not take.

    ``options`` are those of data.yml, and those that the collection sets itself (OWN).
    """
    return [*PROGRAM, *table().words({"model_path": model, **options}, release)]
