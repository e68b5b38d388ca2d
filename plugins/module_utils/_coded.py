# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What went wrong, as a code and values. The texts are on the controller: plugin_utils/messages."""

from __future__ import annotations

from typing import Mapping, TypedDict


class Coded(TypedDict):
    """A message without its text."""

    code: str
    # A value may be a message itself, or a list of messages.
    values: dict[str, object]


class Failure(Coded):
    """The arguments of fail_json."""

    msg: str


def coded(code: str, **values: object) -> Coded:
    """The message with this code."""
    return {"code": code, "values": {name: _plain(value) for name, value in values.items()}}


def _plain(value: object) -> object:
    """What a module can return: errors of others become the text that they came with."""
    if isinstance(value, CodedError):
        return coded(value.code, **value.values)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def failure(code: str, **values: object) -> Failure:
    """The arguments of fail_json. The action plugin of the module's name replaces msg by the text."""
    return {"msg": code, **coded(code, **values)}


class CodedError(Exception):
    """An error that people will read in their language."""

    def __init__(self, code: str, **values: object) -> None:
        super().__init__(code, values)
        self.code = code
        self.values = values
