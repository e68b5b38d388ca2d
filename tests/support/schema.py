"""The JSON schema of what is decided, made from its types (plugins/plugin_utils/deployment/sections.py)."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import HostSection

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}


def schema_of(kind: Any) -> dict[str, Any]:
    """Of a type: a TypedDict takes no other keys than its own."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in (Any, object):
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin is typing.NotRequired:
        return schema_of(arguments[0])
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(one) for one in arguments]}
    if typing.is_typeddict(kind):
        # A module with annotations as text does not know by itself which keys are required.
        hints = typing.get_type_hints(kind, include_extras=True)
        return {
            "type": "object",
            "properties": {name: schema_of(hint) for name, hint in hints.items()},
            "required": [name for name, hint in hints.items() if typing.get_origin(hint) is not typing.NotRequired],
            "additionalProperties": False,
        }
    raise TypeError(f"no schema for {kind}")


def host_schema() -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema_of(HostSection)}


def field(kind: Any, path: list[str]) -> Any:
    """The type below a path of keys; Any where the type says no more. KeyError for a key that a type does not have."""
    if not path:
        return kind
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in (Any, object):
        return Any
    if origin is typing.NotRequired:
        return field(arguments[0], path)
    if origin in (dict, Mapping):
        return field(arguments[1], path[1:])
    if origin in (typing.Union, types.UnionType):
        for one in arguments:
            try:
                return field(one, path)
            except KeyError:
                continue
        raise KeyError(path[0])
    if not typing.is_typeddict(kind):
        raise KeyError(path[0])
    return field(typing.get_type_hints(kind)[path[0]], path[1:])
