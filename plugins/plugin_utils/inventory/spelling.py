# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of variables: which of them belong to this collection, and which were most likely meant to."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_names

# Of the engines, which people give no other meaning.
_ENGINES = tuple(f"{name}_" for name in engine_names())
# The longest first: a name belongs to the longest prefix that it has.
PREFIXES = (
    "nvidia_container_toolkit_",
    "nvidia_driver_",
    "monitoring_",
    "preflight_",
    "accept_",
    "gateway_",
    "bundle_",
    "docker_",
    "images_",
    "models_",
    "web_ui_",
    *_ENGINES,
    "ray_",
    "llm_",
)
# Prefixes that nobody else uses. Words such as docker_ are in other people's names too, so that a name which only looks
# like one of those is left alone.
_DISTINCT_PREFIXES = ("nvidia_container_toolkit_", "nvidia_driver_", *_ENGINES, "ray_", "llm_")
_LOOKS_LIKE = 0.9
_NEAR = 0.8
# A common prefix says nothing; only what follows can be near or far.
_NEAR_AFTER_PREFIX = 0.6

# What people call our variables, and no similarity finds: settings of engines, and others.
_OTHER_SETTINGS = {
    "tp": "tensor_parallel_size",
    "tp_size": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "args": "options",
    "extra_args": "options",
    "engine_args": "options",
    "env": "environment",
    "model_name": "model",
    "context_length": "max_model_len",
}
_OTHER_NAMES = {
    **{f"{engine}{other}": f"{engine}{name}" for engine in _ENGINES for other, name in _OTHER_SETTINGS.items()},
    "ray_env": "ray_environment",
    "ray_head": "ray_head_host",
}


def prefix_of(name: str) -> str:
    """The prefix of ours that a name has, or nothing."""
    return next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")


def _public_names(known: Iterable[str]) -> list[str]:
    return sorted(name for name in known if not name.startswith("_"))


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def nearest_variable(name: str, known: Iterable[str]) -> str:
    """The known variable that somebody most likely meant, or nothing."""
    candidates = _public_names(known)
    other = _OTHER_NAMES.get(name)
    if other in candidates:
        return str(other)
    prefix = prefix_of(name)
    best, best_score = "", 0.0
    for candidate in candidates:
        if prefix and candidate.startswith(prefix):
            enough, score = _NEAR_AFTER_PREFIX, _similarity(name[len(prefix) :], candidate[len(prefix) :])
        else:
            enough, score = _NEAR, _similarity(name, candidate)
        if score >= enough and score > best_score:
            best, best_score = candidate, score
    return best


def looks_like(name: str, known: Iterable[str]) -> str:
    """The variable of ours that a name without our prefix was most likely meant to be, or nothing."""
    if name.startswith("_"):
        return ""
    plain = name.lower().replace("-", "_").replace(".", "_")
    candidates = _public_names(known)
    if plain in candidates:
        return plain
    best, best_score = "", 0.0
    for candidate in candidates:
        if not candidate.startswith(_DISTINCT_PREFIXES) or plain.endswith("_" + candidate):
            continue
        if abs(len(plain) - len(candidate)) > 3:
            continue
        score = _similarity(plain, candidate)
        if score >= _LOOKS_LIKE and score > best_score:
            best, best_score = candidate, score
    return best
