# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of an inventory: whether they are known yet, whether they can be read as a type, what they say."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Callable, Mapping

_TRUE = frozenset(("y", "yes", "on", "1", "true", "t"))
_FALSE = frozenset(("n", "no", "off", "0", "false", "f"))


@dataclasses.dataclass(frozen=True)
class Unresolved:
    """Stands for a value that cannot be known yet: why, and what to print in its place (never a secret)."""

    reason: str = ""
    text: str = "***"


def is_unresolved(value: object) -> bool:
    """Whether a value, or anything in it, is not known yet."""
    if isinstance(value, Unresolved):
        return True
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(is_unresolved(item) for pair in value.items() for item in pair)
    if isinstance(value, (list, tuple)):
        return any(is_unresolved(item) for item in value)
    return False


def is_true(value: object) -> bool:
    """What Ansible's ``bool`` filter makes of a value."""
    if isinstance(value, str):
        return value.strip().lower() in _TRUE
    return value is True or (not isinstance(value, bool) and value == 1)


def mappings(value: object) -> list[Mapping[str, object]]:
    """The mappings in a list; nothing if it is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, (list, tuple)) else []


def cidr_fault(value: object) -> tuple[bool, str]:
    """Whether a value is no network in CIDR form, and one that is near."""
    text = str(value).strip()
    suggestion = "10.10.0.0/24"
    try:
        near = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return True, suggestion
    if "/" not in text:
        return True, f"{text.rsplit('.', 1)[0]}.0/24" if near.version == 4 else suggestion
    if near.network_address != ipaddress.ip_address(text.split("/", 1)[0]):
        return True, str(near)
    return False, ""


def is_network(value: object) -> bool:
    """Whether a value is an address or a network, of either version of IP."""
    try:
        ipaddress.ip_network(str(value).strip(), strict=False)
    except ValueError:
        return False
    return True


def is_loopback(value: object) -> bool:
    """Whether a value is a name or an address under which a host reaches only itself."""
    text = str(value).strip().lower()
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return text in ("localhost", "localhost.localdomain")


def _is_text(value: object) -> bool:
    return not isinstance(value, (bool, Mapping, list, tuple))


def _is_whole_number(value: object) -> bool:
    if isinstance(value, str):
        return bool(re.fullmatch(r"\s*[-+]?\d{1,18}\s*", value))
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_switch(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _TRUE | _FALSE
    return isinstance(value, bool) or value in (0, 1)


_READABLE: dict[str, Callable[[object], bool]] = {
    "str": _is_text,
    "path": _is_text,
    "int": _is_whole_number,
    "float": _is_number,
    "bool": _is_switch,
    "list": lambda value: isinstance(value, (list, tuple)),
    "dict": lambda value: isinstance(value, Mapping),
}


def has_type(kind: str, value: object) -> bool:
    """Whether a value can be read as a type of the argument specs. What Ansible converts anyway is fine."""
    return kind not in _READABLE or _READABLE[kind](value)
