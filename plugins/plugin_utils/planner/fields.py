# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading untrusted input: every field is checked, and an error names the field and says why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

# No real model, machine or request goes beyond this; a larger number is a slip (bytes for MiB, for example).
ABSURD = 2**40


def whole(
    source: Mapping[str, Any], names: Sequence[str], field: str, lowest: int = 1, highest: int = ABSURD
) -> int | None:
    """The first of `names` that is there, as an integer within bounds; null when none is there."""
    for name in names:
        value = source.get(name)
        if value is None:
            continue
        label = "{0}.{1}".format(field, name) if field else name
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise InputError(label, "must be a whole number, not {0!r}".format(value))
        try:
            number = int(value) if not isinstance(value, float) else int(value) if value == int(value) else None
        except (ValueError, OverflowError):
            number = None
        if number is None:
            raise InputError(label, "must be a whole number, not {0!r}".format(value))
        if number < lowest:
            raise InputError(label, "must be at least {0}, not {1}".format(lowest, number))
        if number > highest:
            raise InputError(label, "{0} is absurd: more than {1}".format(number, highest))
        return number
    return None


def needed_whole(source: Mapping[str, Any], names: Sequence[str], field: str, lowest: int = 1) -> int:
    """As `whole`, and an error when none of `names` is there."""
    value = whole(source, names, field, lowest)
    if value is None:
        raise InputError("{0}.{1}".format(field, names[0]) if field else names[0], "is missing, and a plan needs it")
    return value


def number(source: Mapping[str, Any], name: str, field: str, lowest: float, highest: float) -> float | None:
    """A number within bounds; null when it is not there."""
    value = source.get(name)
    if value is None:
        return None
    label = "{0}.{1}".format(field, name) if field else name
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise InputError(label, "must be a number, not {0!r}".format(value)) from None
    if isinstance(value, bool) or math.isnan(result):
        raise InputError(label, "must be a number, not {0!r}".format(value))
    if result < lowest or result > highest:
        raise InputError(label, "must lie between {0} and {1}, not {2}".format(lowest, highest, value))
    return result


def truth(value: Any, field: str, default: bool = False) -> bool:
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
    raise InputError(field, "must be true or false, not {0!r}".format(value))


def mapping(value: Any, field: str) -> Mapping[str, Any]:
    """A dict."""
    if not isinstance(value, Mapping):
        raise InputError(field, "must be a dictionary, not {0}".format(type(value).__name__))
    return value


def listing(value: Any, field: str) -> Sequence[Any]:
    """A list."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise InputError(field, "must be a list, not {0}".format(type(value).__name__))
    return value


def capability(value: Any, field: str) -> tuple[int, int]:
    """A compute capability such as "7.0", also as a number or as "sm_70"."""
    text = str(value).strip().lower()
    if text.startswith(("sm_", "sm")):
        digits = text[2:].lstrip("_").rstrip("af")
        text = digits[:-1] + "." + digits[-1:]
    parts = text.split("+", maxsplit=1)[0].rstrip("af").split(".")
    try:
        major, minor = int(parts[0]), int(parts[1]) if len(parts) > 1 else 0
    except (ValueError, IndexError):
        raise InputError(field, "must be a compute capability such as 7.0, not {0!r}".format(value)) from None
    if not 1 <= major <= 99 or not 0 <= minor <= 9:
        raise InputError(field, "{0!r} is no compute capability".format(value))
    return major, minor
