# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of a release."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import (
    DESCRIPTIVE,
    NO_FORM_SINCE,
    ON_BY_DEFAULT,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import (
    normalise,
    option_type,
    unknown_option,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, resolve_release

# Order of the planned options on the command line; all others follow in alphabetical order.
FIRST = (
    "served_model_name",
    "host",
    "port",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "distributed_executor_backend",
    "dtype",
    "quantization",
    "max_model_len",
    "gpu_memory_utilization",
    "max_num_seqs",
    "max_num_batched_tokens",
)


def vllm_arguments(settings: Any, vllm_version: Any) -> list[str]:
    """Options as a list of strings, in a fixed order. An option that the release does not know is an error."""
    release = resolve_release(vllm_version)
    given = normalise(settings)
    result: list[str] = []
    model = given.pop("model", None)
    if model is not None:
        serve = RELEASES[release.examined].entrypoint == "serve"
        result += [str(model)] if serve else ["--model", str(model)]
    names = [name for name in FIRST if name in given] + sorted(name for name in given if name not in FIRST)
    for name in names:
        if name in DESCRIPTIVE:
            continue
        refused = unknown_option(name, release)
        if refused:
            advice = refused.advice or Text("start_option_remove")
            raise InputError("settings.{0}".format(name), "input_refused", message=refused.message, remedy=advice)
        result += _one(name, given[name], release.key)
    return result


def _one(name: str, value: Any, key: tuple[int, ...]) -> list[str]:
    option = "--" + name.replace("_", "-")
    kind = option_type(name)
    if kind == "bool":
        return _boolean(name, option, fields.truth(value, "settings.{0}".format(name)), key)
    if isinstance(value, bool):
        raise InputError("settings.{0}".format(name), "input_not_a_switch")
    if isinstance(value, Mapping):
        return [option, json.dumps(value, sort_keys=True, separators=(",", ":"))]
    if isinstance(value, (list, tuple)):
        if kind == "json":
            return [option, json.dumps(list(value), separators=(",", ":"))]
        return [option, *[str(entry) for entry in value]] if value else []
    if isinstance(value, float) and value == int(value):
        value = int(value)
    if kind == "int" and not isinstance(value, (int, str)):
        raise InputError("settings.{0}".format(name), "input_whole", found=value)
    return [option, str(value)]


def _boolean(name: str, option: str, value: bool, key: tuple[int, ...]) -> list[str]:
    if value:
        return [option]
    on_since = ON_BY_DEFAULT.get(name)
    if on_since is None or key < release_key(on_since):
        return []
    if key >= release_key(NO_FORM_SINCE.get(name, NO_FORM_SINCE[""])):
        return ["--no-" + option[2:]]
    return [option + "=False"]
