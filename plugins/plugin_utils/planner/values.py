# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a release takes the value of an option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory import readers
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.domains import BOUNDS, WITH_UNIT, choices
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import OPTIONS, sampled
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import Fix, StartError, start_error
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import option_type
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import Release, at, release_key

CODE = "value_not_allowed"
# Types of options, as they are called in a message.
KINDS = {"int": "start_kind_int", "float": "start_kind_float", "json": "start_kind_json"}
WITH_LORA = ("max_lora_rank", "max_loras", "max_cpu_loras", "lora_extra_vocab_size")
# Its parser has the ranks as choices (MaxLoRARanks in vllm/config/lora.py).
RANK, RANK_PARSED_SINCE = "max_lora_rank", "0.11.1"


def domain(name: str, release: Release) -> tuple[str, ...] | None:
    """The values that an option takes in a release; null when any value of its type will do."""
    rows = choices().get(name)
    return None if rows is None else at(rows, release.key)


def _wrong(name: str, value: object, release: Release, text: str, *fixes: Fix, **said: object) -> StartError:
    """The error about an option's value."""
    return start_error(CODE, text, *fixes, name=name, value=value, version=release.asked, **said)


def check(raw: Mapping[str, object], release: Release) -> Iterator[StartError]:
    """Refuse values outside their domains. Options that the release lacks are somebody else's to name."""
    adapters = fields.truth(raw.get("enable_lora"), "settings.enable_lora")
    for name, value in raw.items():
        if name in WITH_LORA and not adapters and not (name == RANK and release.key >= release_key(RANK_PARSED_SINCE)):
            continue  # the release does not look at them
        allowed = domain(name, release)
        if allowed is not None and _written(value) not in allowed:
            yield _wrong(name, value, release, "start_value", {name: None}, allowed=", ".join(allowed))
            continue
        kind = option_type(name) if name in OPTIONS or name in sampled() else ""
        if name not in WITH_UNIT and kind in KINDS and not _is_of(kind, value):
            yield _wrong(name, value, release, "start_value_kind", {name: None}, kind=Text(KINDS[kind]))
            continue
        since = WITH_UNIT.get(name)
        if since is not None and release.key < release_key(since) and not _is_whole(value):
            fixes = [{name: meant}] if (meant := _meant(value)) else []
            yield _wrong(name, value, release, "start_value_unit", *fixes, {name: None}, since=since)
            continue
        number = _number(value)
        if name in BOUNDS and number is not None:
            least, most = BOUNDS[name]
            if number < least or (most is not None and number > most):
                text = "start_value_least" if most is None else "start_value_between"
                yield start_error(
                    CODE, text, {name: None}, {name: least}, name=name, value=value, least=least, most=most
                )


def _is_of(kind: str, value: object) -> bool:
    """Whether a value is of an option's type. What is no text is read by whoever reads the option."""
    if not isinstance(value, str) or value.strip() in ("None", "auto"):
        return True
    if kind == "json":  # a mapping was read when the settings were, so what begins like one is none
        return not value.lstrip().startswith("{")
    return _is_whole(value) if kind == "int" else _number(value) is not None


def _written(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


def _is_whole(value: object) -> bool:
    number = _number(value)
    return number is not None and number == int(number) and "." not in str(value).removesuffix(".0")


def _meant(value: object) -> int | None:
    """The number that a text such as 4k stands for in releases that read it."""
    text = str(value).strip()
    scale = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}.get(text[-1:], 1)
    number = _number(text.rstrip("kKmM"))
    return int(number * scale) if number and number * scale >= 1 else None


def _number(value: object) -> float | None:
    try:
        return None if isinstance(value, bool) else readers.number(value)
    except (TypeError, ValueError):
        return None
