# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of a release."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

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
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import (
    release_key,
    required_release,
    resolve_release,
)

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


class Option(NamedTuple):
    """An option of a command line, as it is written there, with the words that are its value; none for a switch."""

    name: str
    words: tuple[str, ...] = ()


def vllm_arguments(settings: object, vllm_version: object) -> list[str]:
    """Options as a list of strings, in a fixed order. An option that the release does not know is an error."""
    given = normalise(settings)
    accepted = fields.truth(given.pop("accept_unknown_release", None), "settings.accept_unknown_release")
    release = required_release(vllm_version, accept_newer=accepted)
    model = given.pop("model", None)
    result: list[str] = []
    if model is not None:
        serve = RELEASES[release.examined].entrypoint == "serve"
        result += [str(model)] if serve else ["--model", str(model)]
    return result + in_line(vllm_options(given, vllm_version))


def in_line(options: Iterable[Option]) -> list[str]:
    """Options as the words of a command line."""
    return [word for option in options for word in (option.name, *option.words)]


def vllm_options(settings: object, vllm_version: object) -> list[Option]:
    """The same one by one, without the model, which is no option in newer releases."""
    release = resolve_release(vllm_version)
    given = normalise(settings)
    result: list[Option] = []
    names = [name for name in FIRST if name in given] + sorted(name for name in given if name not in FIRST)
    for name in names:
        if name in DESCRIPTIVE or name == "model":
            continue
        refused = unknown_option(name, release)
        if refused:
            advice = refused.advice or Text("start_option_remove")
            raise InputError("settings.{0}".format(name), "input_refused", message=refused.message, remedy=advice)
        result += _one(name, given[name], release.key)
    return result


def in_file(options: Sequence[Option]) -> tuple[dict[str, object], list[Option]]:
    """Options as vLLM's `--config` reads them from YAML, and those that cannot stand there.

    Each release makes words of the file again, `str()` of every value, and puts them before those of the command line: what is read is
    what `in_line` would have written. A false value or a mapping would not be read as it is meant by all of them (data/version_changes.py),
    so there is none: what is off is `no-x: true`, and a mapping is its JSON. A mapping has each key once, so what is given more than once
    remains on the command line.
    """
    counts = Counter(option.name for option in options)
    content: dict[str, object] = {}
    for option in options:
        if counts[option.name] == 1:
            values = [_scalar(word) for word in option.words]
            content[option.name.removeprefix("--")] = values if len(values) > 1 else values[0] if values else True
    return content, [option for option in options if counts[option.name] > 1]


def _scalar(word: str) -> int | float | str:
    """The number whose text this word is, or the word."""
    for kind in (int, float):
        try:
            number = kind(word)
        except ValueError:
            continue
        if str(number) == word and math.isfinite(number):
            return number
    return word


def _one(name: str, value: object, key: tuple[int, ...]) -> list[Option]:
    option = "--" + name.replace("_", "-")
    kind = option_type(name)
    if kind == "bool":
        return _boolean(name, option, fields.truth(value, "settings.{0}".format(name)), key)
    if isinstance(value, bool):
        raise InputError("settings.{0}".format(name), "input_not_a_switch")
    if isinstance(value, Mapping):
        return [Option(option, (json.dumps(value, sort_keys=True, separators=(",", ":")),))]
    if isinstance(value, (list, tuple)):
        if kind == "json":
            return [Option(option, (json.dumps(list(value), separators=(",", ":")),))]
        return [Option(option, tuple(str(entry) for entry in value))] if value else []
    if isinstance(value, float) and value == int(value):
        value = int(value)
    if kind == "int" and not isinstance(value, (int, str)):
        raise InputError("settings.{0}".format(name), "input_whole", found=value)
    return [Option(option, (str(value),))]


def _boolean(name: str, option: str, value: bool, key: tuple[int, ...]) -> list[Option]:
    if value:
        return [Option(option)]
    on_since = ON_BY_DEFAULT.get(name)
    if on_since is None or key < release_key(on_since):
        return []
    if key >= release_key(NO_FORM_SINCE.get(name, NO_FORM_SINCE[""])):
        return [Option("--no-" + option[2:])]
    return [Option(option + "=False")]
