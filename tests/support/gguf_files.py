"""GGUF files of any architecture, as small as a header: the weights are a hole in the file, which reads as zeros."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._gguf import TYPES

NUMBERS = {name: number for number, (name, _weights, _size) in TYPES.items()}
Tensors = Sequence[tuple[str, Sequence[int], str]]  # name, shape, type


class Signed(list[int]):
    """Whole numbers that are written as signed ones."""


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def value_bytes(value: Any) -> bytes:
    """A value with its type before it: texts, truths, whole numbers of 32 bits, floats, and lists of one of these."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value.encode())
    if isinstance(value, Signed):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    items = [value_bytes(item) for item in value]
    return (
        struct.pack("<I", 9)
        + (items[0][:4] if items else struct.pack("<I", 4))
        + struct.pack("<Q", len(items))
        + b"".join(item[4:] for item in items)
    )


def header_bytes(
    values: Mapping[str, Any], tensors: Tensors, version: int = 3, alignment: int = 32
) -> tuple[bytes, int]:
    """A header, filled up to the alignment, and the bytes of weights that follow."""
    stream = io.BytesIO()
    stream.write(b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)))
    for key, value in values.items():
        stream.write(_text(key.encode()) + value_bytes(value))
    offset = end = 0
    for name, shape, kind in tensors:
        number = NUMBERS[kind]
        stream.write(
            _text(name.encode())
            + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
            + struct.pack("<IQ", number, offset)
        )
        count = 1
        for length in shape:
            count *= length
        end = offset + count // TYPES[number][1] * TYPES[number][2]
        offset = -(-end // alignment) * alignment
    stream.write(bytes(-stream.tell() % alignment))
    return stream.getvalue(), end


def write_gguf(path: Path, values: Mapping[str, Any], tensors: Tensors) -> Path:
    head, weights = header_bytes(values, tensors)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.write(head)
        stream.truncate(len(head) + -(-weights // 32) * 32)
    return path
