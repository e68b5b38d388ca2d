# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of llama-server."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.counterparts import counterpart
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.data.options import (
    CLOSED,
    FETCHES,
    OLDEST,
    SECRET,
    SPANS,
    SWITCHES,
    TURNED,
    VALUES,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.memory import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.placement import Placement
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

NAME = "llama_cpp"
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


def llama_arguments(options: Mapping[str, object], release: str) -> list[str]:
    """Options as a list of words, in a fixed order. InputError for a release that was not examined, and for options that llama-server does not take."""
    build_of(release)
    problems = [why for name in sorted(options) if (why := _refusal(name)) is not None]
    if problems:
        raise InputError("llama_cpp_options", "llama_options", problems=problems)
    words: list[str] = []
    for name in sorted(options, key=lambda one: (FIRST.index(one) if one in FIRST else len(FIRST), one)):
        words += _words(name, options[name])
    return words


def _refusal(name: str) -> Text | None:
    """Why an option is not taken; None for one that is."""
    if name in SECRET:
        return Text("llama_option_secret", name=name, instead=SECRET[name] or "llama_cpp_model")
    if name in CLOSED:
        return Text("llama_option_closed", name=name)
    if name in FETCHES:
        return Text("llama_option_fetches", name=name)
    if name in SPANS:
        return Text("llama_option_spans", name=name)
    known = VALUES | SWITCHES | TURNED
    if name in known:
        return None
    other = counterpart(name, NAME)
    if other is not None:
        engine, instead = other
        code = "llama_option_foreign" if instead else "llama_option_nothing"
        return Text(code, name=name, engine=engine, instead=instead)
    near = difflib.get_close_matches(name, sorted(known), 1, 0.6)
    return Text("llama_option_near", name=name, near=near[0]) if near else Text("llama_option_unknown", name=name)


def _words(name: str, value: object) -> list[str]:
    option = "--" + name.replace("_", "-")
    if name in SWITCHES or name in TURNED:
        if not isinstance(value, bool):
            raise InputError(f"llama_cpp_options.{name}", "llama_switch", found=value)
        if value:
            return [option]
        return ["--no-" + name.replace("_", "-")] if name in TURNED else []
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [option, ",".join(str(one) for one in value)]
    if isinstance(value, bool):
        raise InputError(f"llama_cpp_options.{name}", "llama_value", found=value)
    return [option, str(value)]
