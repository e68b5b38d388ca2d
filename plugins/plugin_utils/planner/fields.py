# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading untrusted input: every field is checked, and an error names the field and says why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory import readers
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

# No real model, machine or request goes beyond this; a larger number is a slip (bytes for MiB, for example).
ABSURD = 2**40


def whole(
    source: Mapping[str, object], names: Sequence[str], field: str, lowest: int = 1, highest: int = ABSURD
) -> int | None:
    """The first of `names` that is there, as an integer within bounds; null when none is there."""
    for name in names:
        value = source.get(name)
        if value is None:
            continue
        label = "{0}.{1}".format(field, name) if field else name
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise InputError(label, "input_whole", found=value)
        try:
            number = int(value) if not isinstance(value, float) else int(value) if value == int(value) else None
        except (ValueError, OverflowError):
            number = None
        if number is None:
            raise InputError(label, "input_whole", found=value)
        if number < lowest:
            raise InputError(label, "input_at_least", lowest=lowest, found=number)
        if number > highest:
            raise InputError(label, "input_at_most", found=number, highest=highest)
        return number
    return None


def needed_whole(source: Mapping[str, object], names: Sequence[str], field: str, lowest: int = 1) -> int:
    """As `whole`, and an error when none of `names` is there."""
    value = whole(source, names, field, lowest)
    if value is None:
        raise InputError("{0}.{1}".format(field, names[0]) if field else names[0], "input_needed")
    return value


def number(source: Mapping[str, object], name: str, field: str, lowest: float, highest: float) -> float | None:
    """A number within bounds; null when it is not there."""
    value = source.get(name)
    if value is None:
        return None
    label = "{0}.{1}".format(field, name) if field else name
    try:
        result = readers.number(value)
    except (TypeError, ValueError):
        raise InputError(label, "input_number", found=value) from None
    if isinstance(value, bool) or math.isnan(result):
        raise InputError(label, "input_number", found=value)
    if result < lowest or result > highest:
        raise InputError(label, "input_between", lowest=lowest, highest=highest, found=value)
    return result


def truth(value: object, field: str, default: bool = False) -> bool:
    """A boolean, also as Ansible's templates write it."""
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("true", "yes", "on", "1"):
        return True
    if text in ("false", "no", "off", "0"):
        return False
    raise InputError(field, "input_bool", found=value)


def mapping(value: object, field: str) -> Mapping[str, object]:
    """A dict."""
    if not isinstance(value, Mapping):
        raise InputError(field, "input_dictionary", found=type(value).__name__)
    return value


def listing(value: object, field: str) -> Sequence[object]:
    """A list."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise InputError(field, "input_list", found=type(value).__name__)
    return value


def capability(value: object, field: str) -> tuple[int, int]:
    """A compute capability such as "7.0", also as a number or as "sm_70"."""
    text = str(value).strip().lower()
    if text.startswith(("sm_", "sm")):
        digits = text[2:].lstrip("_").rstrip("af")
        text = digits[:-1] + "." + digits[-1:]
    parts = text.split("+", maxsplit=1)[0].rstrip("af").split(".")
    try:
        major, minor = int(parts[0]), int(parts[1]) if len(parts) > 1 else 0
    except (ValueError, IndexError):
        raise InputError(field, "input_capability", found=value) from None
    if not 1 <= major <= 99 or not 0 <= minor <= 9:
        raise InputError(field, "input_no_capability", found=value)
    return major, minor
