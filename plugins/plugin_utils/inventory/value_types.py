# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the value of a variable, by its argument spec and its name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine, engine_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import Spec
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.forms import (
    HOST_PATHS,
    LIMIT_EXAMPLE,
    WRITTEN_ON_CONTROLLER,
    bounds_of,
    example_for,
    general,
    has_controls,
    is_host_path,
    is_limit,
    is_of_system,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import number
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import has_type, is_loopback, is_network
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.secrets import is_secret

# HOST:CONTAINER, which is mounted read-only; not where the collection's own files are.
_VOLUME = re.compile(r"/[^:\s]*:(?!/(?:llm|tmp|run/secrets)(?:/|:|$))/[^:\s]+(:ro)?")
# An index, or a UUID as nvidia-smi writes it.
_GPU = re.compile(r"\d+|GPU-[0-9a-fA-F-]+")
_ADAPTER_NAME = re.compile(r"[^\s=,{]+")


class Fault(NamedTuple):
    """What is wrong with one value, before it is known on how many hosts."""

    code: str
    text: str
    values: dict[str, object]


Faults = Iterator[Fault]


def _is_soft_above_hard(limit: str) -> bool:
    """Whether of name:soft:hard the first number is the larger one; -1 is no limit."""
    found = re.fullmatch(r"\w+:(-1|\d+):(-1|\d+)", limit)
    soft, hard = (float("inf") if number == "-1" else float(number) for number in found.groups()) if found else (0, 0)
    return soft > hard


def value_faults(inventory: Inventory, name: str, value: Any, spec: Spec) -> Faults:
    """What is wrong with the value of a known variable, or of a part of it (``name`` is then its path)."""
    kind = str(spec.get("type") or "str")
    text = inventory.text(value, name)
    if name.endswith("_version") and kind == "str" and isinstance(value, (int, float)):
        mine = _of_engine(name)[0]
        yield Fault("version_not_quoted", text, {"name": name, "example": mine.example_release if mine else "0.10.0"})
        return
    if not has_type(kind, value):
        expected = message("type_" + kind, inventory.lang)
        if spec.get("choices"):
            expected += ": " + ", ".join(str(item) for item in spec["choices"])
        # A single switch or number is none.
        shown = text if kind in ("bool", "int", "float") else inventory.odd(value, name)
        yield Fault("wrong_type", shown, {"name": name, "expected": expected})
        return
    if name.startswith("llm_firewall_api_sources[") and not is_network(value):
        yield Fault("source_malformed", text, {"name": name})
    if name.startswith("llm_gpu_indices[") and not _GPU.fullmatch(str(value)):
        yield Fault("gpu_index_malformed", text, {"name": name})
    if name.startswith("ray_ulimits[") and _is_soft_above_hard(str(value)):
        yield Fault("ulimit_soft_above_hard", text, {"name": name})
    mine, setting = _of_engine(name)
    if mine is not None:
        yield from _setting_faults(mine, setting, value, text)
    if kind in ("str", "path"):
        yield from _text_faults(inventory, name, str(value))
    if kind == "dict" and not spec.get("options"):
        yield from _mapping_faults(inventory, name, value)
    if spec.get("choices"):
        yield from _choice_faults(inventory, name, value if kind == "list" else [value], spec)
    if kind in ("int", "float"):
        yield from _range_faults(inventory, name, value)
    if kind == "list" and spec.get("elements"):
        inner: Spec = {"type": spec["elements"], "options": spec.get("options")}
        for index, item in enumerate(value):
            yield from value_faults(inventory, f"{name}[{index}]", item, inner)
    if kind == "dict" and isinstance(options := spec.get("options"), Mapping):
        yield from _key_faults(inventory, name, value, options)
    if mine is not None and setting == "options":
        yield from _engine_option_faults(inventory, mine, value)
    if mine is not None and setting == "extra_arguments":
        yield from _extra_argument_faults(inventory, mine, value)


def _of_engine(name: str) -> tuple[Engine | None, str]:
    """The engine whose setting a variable is, and the setting."""
    found = next((each for each in engine_names() if name.startswith(each + "_")), None)
    return (engine(found), name.removeprefix(found + "_")) if found else (None, "")


def _setting_faults(mine: Engine, setting: str, value: object, text: str) -> Faults:
    """Texts of an engine's settings, by their forms."""
    name = f"{mine.name}_{setting}"
    if setting == "version" and value != "" and mine.release_form and not re.fullmatch(mine.release_form, str(value)):
        yield Fault("version_malformed", text, {"name": name, "example": mine.example_release})
    if setting.startswith("extra_volumes[") and not _VOLUME.fullmatch(str(value)):
        yield Fault("volume_malformed", text, {"name": name})
    adapters = re.escape(mine.adapters)
    if adapters and re.fullmatch(rf"{adapters}\[\d+\]\.name", setting) and not _ADAPTER_NAME.fullmatch(str(value)):
        yield Fault("adapter_name_malformed", text, {"name": name})


def _text_faults(inventory: Inventory, name: str, value: str) -> Faults:
    """What would be read as something else in a unit, a configuration or a table."""
    if has_controls(name, value):
        yield Fault("text_of_one_line", inventory.text(value, name), {"name": name})
    elif general(name) in HOST_PATHS and value and not is_host_path(value):
        yield Fault("host_path_malformed", inventory.text(value, name), {"name": name})
    elif name in WRITTEN_ON_CONTROLLER and is_of_system(value):
        yield Fault("controller_folder_of_system", inventory.text(value, name), {"name": name})
    elif example := example_for(name, value):
        yield Fault("text_malformed", inventory.text(value, name), {"name": name, "example": example})


def _mapping_faults(inventory: Inventory, name: str, value: object) -> Faults:
    """A mapping of anything: its keys and texts are each on one line, too."""
    for key, item in value.items() if isinstance(value, Mapping) else ():
        if has_controls(name, str(key)) or (isinstance(item, str) and has_controls(name, item)):
            yield Fault("text_of_one_line", inventory.text(str(key)), {"name": name})
        elif name.endswith("_unit_limits") and not is_limit(str(key), item):
            said = f"{key}: {inventory.text(item)}"
            yield Fault("text_malformed", said, {"name": name, "example": LIMIT_EXAMPLE})


def _choice_faults(inventory: Inventory, name: str, items: Sequence[object], spec: Spec) -> Faults:
    choices = spec["choices"]
    texts = [str(item) for item in choices]
    for item in items:
        if item in choices or str(item) in texts or (spec.get("type") == "bool" and has_type("bool", item)):
            continue
        values: dict[str, object] = {"name": name, "choices": ", ".join(text or '""' for text in texts)}
        near = difflib.get_close_matches(str(item).lower(), texts, n=1, cutoff=0.6)
        if near:
            yield Fault("not_a_choice_near", inventory.text(item), {**values, "nearest": near[0]})
        else:
            yield Fault("not_a_choice", inventory.text(item), values)


def _range_faults(inventory: Inventory, name: str, value: object) -> Faults:
    bounds = bounds_of(name)
    if bounds is None:
        return
    said, low, high = number(value), bounds.low, bounds.high
    if low <= said <= high and not (bounds.low_is_excluded and said == low):
        return
    code = "range_above" if bounds.low_is_excluded else "range_between"
    text = message(code, inventory.lang, low=low, high=high)
    yield Fault("out_of_range", inventory.text(value), {"name": name, "range": text})


def _key_faults(inventory: Inventory, name: str, value: Mapping[str, object], options: Mapping[str, Spec]) -> Faults:
    keys = ", ".join(options)
    for key, item in value.items():
        if key not in options:
            yield Fault("unknown_key", inventory.odd(item, str(key)), {"name": name, "key": key, "keys": keys})
        elif item is not None and not options[key].get("no_log"):
            yield from value_faults(inventory, f"{name}.{key}", item, options[key])
    for key, inner in options.items():
        if inner.get("required") and value.get(key) is None:
            yield Fault("missing_key", inventory.text(value), {"name": name, "key": key, "keys": keys})


def _engine_option_faults(inventory: Inventory, mine: Engine, value: Mapping[object, object]) -> Faults:
    rules, named = mine.option_rules, {"options": f"{mine.name}_options"}
    for key in sorted(str(item) for item in value):
        plain = key.lstrip("-").replace("-", "_")
        text = f"{key}: {inventory.text(value.get(key), plain)}"
        variable = f"{mine.name}_{rules.settings.get(plain, plain)}"
        if variable in inventory.known:
            yield Fault("option_has_variable", text, {**named, "key": key, "variable": variable})
        elif plain in rules.never_ready or (plain == "host" and is_loopback(value.get(key))):
            yield Fault("option_never_ready", text, {**named, "key": key})
        elif plain in rules.of_the_plan:
            yield Fault("option_of_the_plan", text, {**named, "key": key})
        elif is_secret(plain):
            yield Fault("option_is_secret", text, {**named, "key": key, "api_key": f"{mine.name}_api_key"})
        elif plain != key:
            yield Fault("option_spelling", text, {**named, "key": key, "suggestion": plain})


def _extra_argument_faults(inventory: Inventory, mine: Engine, words: Sequence[object]) -> Faults:
    """Words for the engine's command line that the collection does not know. What it knows has its place, and what holds a secret is no argument."""
    rules = mine.option_rules
    known = rules.of_the_plan | rules.known | rules.never_ready
    for word in map(str, words):
        option = word.partition("=")[0].lstrip("-").replace("-", "_").removeprefix("no_")
        if not word.startswith("-"):
            continue
        if is_secret(option):
            yield Fault("extra_argument_is_secret", f"<{option}>", {"option": option})
        elif option in known or f"{mine.name}_{option}" in inventory.known:
            yield Fault("extra_argument_known", word, {"option": option})
