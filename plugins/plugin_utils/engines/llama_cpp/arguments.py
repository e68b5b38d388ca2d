# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of llama-server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.data.options import (
    CLOSED,
    DRAFTS,
    FETCHES,
    OLDEST,
    SPANS,
    SWITCHES,
    TURNED,
    VALUES,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.memory import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.placement import Placement
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import Kind, OptionTable
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

NAME, TITLE = "llama_cpp", "llama.cpp"
# Settings that are variables of their own (llama_cpp_<setting>); any other option of the server stands in llama_cpp_options.
SETTINGS = ("file", "ctx_size", "parallel", "cache_type_k", "cache_type_v", "draft_file")
# Options that are variables of their own, or that the collection sets for every server.
OWN = {
    **{name: f"llama_cpp_{name}" for name in SETTINGS},
    "model": "llama_cpp_model",
    "model_draft": "llama_cpp_draft_model",
    **dict.fromkeys(("gpu_layers_draft", "device_draft"), "llama_cpp_draft_model"),
    "alias": "llama_cpp_served_model_name",
    "port": "llama_cpp_port",
    "host": "llama_cpp_api_key_enabled",
    "api_key_file": "llama_cpp_api_key",
    "metrics": "llama_cpp_port",
}
# What stands first on a command line; all others follow in alphabetical order.
FIRST = ("model", "alias", "host", "port", "ctx_size", "parallel", "gpu_layers", "tensor_split", "flash_attn")
_RELEASE = re.compile(r"b?(\d{4,6})")


def build_of(release: str) -> int:
    """The number of a build, of b9603. InputError for one that was not examined."""
    number = _RELEASE.fullmatch(str(release))
    if number is None or int(number[1]) < OLDEST:
        raise InputError("llama_cpp_version", "llama_release", found=release, oldest=f"b{OLDEST}")
    return int(number[1])


def options_of(placement: Placement, settings: Settings) -> dict[str, object]:
    """What a plan is as options of llama-server. Nothing is left to what the server would find by itself: it is the same on each start."""
    found: dict[str, object] = {
        "ctx_size": settings.context,
        "parallel": settings.requests,
        "gpu_layers": placement.gpu_layers,
        "ubatch_size": settings.batch,
        "flash_attn": "on" if settings.flash else "off",
        "cache_type_k": settings.key_type,
        "cache_type_v": settings.value_type,
        "kv_unified": settings.unified,
        "fit": "off",
    }
    if len(placement.split) > 1:
        found["tensor_split"] = list(placement.split)
    if settings.whole_window:
        found["swa_full"] = True
    return found


def draft_options(release: str) -> dict[str, object]:
    """How a draft model is used: as a whole on the first GPU. InputError for a build with which no draft was tried."""
    if build_of(release) < DRAFTS:
        raise InputError("llama_cpp_draft_model", "llama_draft_release", found=release, oldest=f"b{DRAFTS}")
    return {"spec_type": "draft-simple", "gpu_layers_draft": "all", "device_draft": "CUDA0"}


@cache
def table() -> OptionTable:
    """The options of llama-server, which are those of every build that was examined."""
    first: Mapping[Kind, frozenset[str]] = {"values": VALUES, "switches": SWITCHES, "pairs": TURNED}
    never = {
        "api_key": "engine_option_secret",
        **dict.fromkeys(CLOSED, "llama_option_closed"),
        **dict.fromkeys(FETCHES, "engine_option_fetches"),
        **dict.fromkeys(SPANS, "llama_option_spans"),
    }
    known = {kind: dict.fromkeys(sorted(names), "-") for kind, names in first.items()}
    return OptionTable(NAME, TITLE, f"b{OLDEST}", "", known, {}, OWN, never, FIRST)


def llama_arguments(options: Mapping[str, object], release: str) -> list[str]:
    """Options as a list of words, in a fixed order. InputError for a release that was not examined, and for options that llama-server does not take."""
    build_of(release)
    table().check(options, release)
    return [word for name in table().in_order(options) for word in _words(name, options[name])]


def _words(name: str, value: object) -> list[str]:
    option = "--" + name.replace("_", "-")
    if name in SWITCHES or name in TURNED:
        if not isinstance(value, bool):
            raise InputError(f"llama_cpp_options.{name}", "engine_option_switch", found=value)
        if value:
            return [option]
        return ["--no-" + name.replace("_", "-")] if name in TURNED else []
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [option, ",".join(str(one) for one in value)]
    if isinstance(value, bool):
        raise InputError(f"llama_cpp_options.{name}", "engine_option_value", found=value)
    return [option, str(value)]
