# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of Docker's daemon.json when options are merged into it. Pure: text and dicts in, dicts and text out."""

from __future__ import annotations

import json
from typing import Mapping

from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, coded
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json

_KINDS = {list: "list", str: "str", int: "number", float: "number", bool: "bool", type(None): "null"}


class DaemonJsonError(CodedError):
    """The file cannot be merged with anything."""


def parse(text: str, path: str) -> dict[str, object]:
    """The content of a daemon.json. An empty file is an empty object, as it is for the engine."""
    if not text.strip():
        return {}
    try:
        content = read_json(text)
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1] if error.lineno <= len(text.splitlines()) else ""
        raise DaemonJsonError(
            "daemon_json_not_json",
            path=path,
            line=error.lineno,
            column=error.colno,
            reason=error.msg,
            shown=f"{error.lineno:6} | {line}",
        ) from error
    except ValueError as error:  # JSON, of which nothing can be made
        values = {"path": path, "line": 1, "column": 1, "reason": error, "shown": ""}
        raise DaemonJsonError("daemon_json_not_json", **values) from error
    if not isinstance(content, dict):
        start = text[: len(text) - len(text.lstrip())].count("\n") + 1
        found = coded("daemon_json_" + _KINDS[type(content)])
        raise DaemonJsonError("daemon_json_not_an_object", path=path, line=start, found=found)
    return content


def merge(current: Mapping[str, object], options: Mapping[str, object]) -> dict[str, object]:
    """The file's content with the options in it: mappings are merged, other values replaced, null removes a key."""
    merged = _merge(current, options)
    if _log_driver(merged) != _log_driver(current):
        # The engine refuses options of one logging driver that another one left behind.
        merged = _merge({key: value for key, value in current.items() if key != "log-opts"}, options)
    return merged


def _log_driver(content: Mapping[str, object]) -> object:
    return content.get("log-driver") or "json-file"


def _merge(current: Mapping[str, object], options: Mapping[str, object]) -> dict[str, object]:
    merged = dict(current)
    for key, value in options.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            below = merged.get(key)
            merged[key] = _merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def render(content: Mapping[str, object]) -> str:
    """The text of a file with that content."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
