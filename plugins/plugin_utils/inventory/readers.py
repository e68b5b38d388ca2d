# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables and facts of hosts as the types that their readers need. Nobody has said of what type they are: a host's variables are a
``Mapping[str, object]``.

None is an empty text, list or mapping, as is whatever cannot be read as one. What is no number is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def whole(value: object) -> int:
    """A whole number: 8, "8" or 8.0."""
    if isinstance(value, (int, float, str)):
        return int(value)
    raise TypeError(f"no number: {value!r}")


def number(value: object) -> float:
    """A number: 0.9, "0.9" or 1."""
    if isinstance(value, (int, float, str)):
        return float(value)
    raise TypeError(f"no number: {value!r}")


def text(value: object) -> str:
    """A text; empty for whatever counts as nothing."""
    return str(value or "")


def items(value: object) -> list[object]:
    """What a list holds."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)) else []


def texts(value: object) -> list[str]:
    """What a list holds, as texts."""
    return [str(item) for item in items(value)]


def mapping(value: object) -> Mapping[str, object]:
    """A mapping."""
    return value if isinstance(value, Mapping) else {}


def facts_of(variables: Mapping[str, object]) -> Mapping[str, object]:
    """The facts of a host: what Ansible and this collection found on it."""
    return mapping(variables.get("ansible_facts"))


def fact(variables: Mapping[str, object], name: str) -> Mapping[str, object]:
    """One of them that is a mapping."""
    return mapping(facts_of(variables).get(name))
