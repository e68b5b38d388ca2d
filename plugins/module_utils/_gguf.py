# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The header of a GGUF file: what the weights are, where each lies, and how long the file has to be. The weights themselves are not read.

A file may be cut off, foreign or made to do harm. So memory is bounded by a piece of a mebibyte and what is kept, and time by the size of the largest header;
lists of texts (a vocabulary has some 100,000) are counted and passed over. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; what
llama.cpp refuses (versions, a name twice, places that do not follow each other): ggml/src/gguf.cpp of https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Iterable, Mapping, NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._coded import Coded, CodedError, coded

# Type of a tensor by its number: name, weights of a block, bytes of a block. Source: enum ggml_type and the table of traits in ggml
# (ggml/include/ggml.h, ggml/src/ggml.c), equal to GGML_QUANT_SIZES of the Python package gguf 0.19.0. Numbers that are missing were taken back.
TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
VERSIONS = (2, 3)
# The header of Gemma 3, with 262,144 words, has 15 MB.
LARGEST_HEADER = 64 << 20
_PIECE = 1 << 20
_MOST_ENTRIES = 1 << 16
_LONGEST_NAME = (1 << 16) - 1
_LONGEST_TENSOR = 63
_LONGEST_TEXT = 1 << 12
_LONGEST_LIST = 1 << 12
_DIMENSIONS = 4
_NUMBERS = ("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")
_STRING, _ARRAY = 8, 9


class Tensor(NamedTuple):
    name: str
    shape: tuple[int, ...]
    type: int
    offset: int  # from the start of the weights

    @property
    def size(self) -> int | None:
        """Bytes; None where the type is not known here."""
        if self.type not in TYPES:
            return None
        _name, weights, size = TYPES[self.type]
        return self.elements // weights * size

    @property
    def elements(self) -> int:
        count = 1
        for number in self.shape:
            count *= number
        return count


class Header(NamedTuple):
    """``values`` holds numbers, texts of up to 4 KiB and lists of up to 4,096 numbers; ``counts`` the length of every list."""

    version: int
    values: Mapping[str, object]
    counts: Mapping[str, int]
    tensors: tuple[Tensor, ...]
    start: int  # of the weights, from the start of the file
    end: int  # how long the file has to be at least

    @property
    def part(self) -> tuple[int, int]:
        """Which file of how many this is, counted from one; (1, 1) of a model in one file."""
        number, count = self.values.get("split.no"), self.values.get("split.count")
        return (number + 1, count) if isinstance(number, int) and isinstance(count, int) and count else (1, 1)


class GgufError(CodedError):
    """A file that is no whole GGUF file, as a code of the catalogue with the values path, and what the text needs."""


class _Damaged(Exception):
    """A header that no program writes: what is wrong in it, and the value."""


class _Ends(Exception):
    """The file ends within its header."""


class _Reader:
    """Reads forward, a piece at a time."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self.stream = stream
        self.size = size
        self.data = bytearray()
        self.at = 0
        self.passed = 0

    @property
    def position(self) -> int:
        return self.passed + self.at

    def need(self, count: int) -> None:
        """Have so many bytes before the place that is read next."""
        if count > self.size - self.position:
            raise _Ends
        if self.position + count > LARGEST_HEADER:
            raise _Damaged("length", self.position + count)
        while len(self.data) - self.at < count:
            piece = self.stream.read(_PIECE)
            if not piece:
                raise _Ends
            del self.data[: self.at]
            self.passed += self.at
            self.at = 0
            self.data += piece

    def take(self, form: str) -> float:
        length = struct.calcsize("<" + form)
        self.need(length)
        value: float = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += length
        return value

    def whole(self, form: str) -> int:
        return int(self.take(form))

    def skip(self, count: int) -> None:
        while count > 0:
            step = min(count, _PIECE)
            self.need(step)
            self.at += step
            count -= step

    def text(self, longest: int, what: str) -> str:
        length = self.whole("Q")
        if length > longest:
            raise _Damaged(what, length)
        self.need(length)
        value = bytes(self.data[self.at : self.at + length])
        self.at += length
        return value.decode("utf-8", "replace")

    def value(self, kind: int, key: str) -> tuple[object, int | None]:
        """A value that is kept, else None, and the length of a list."""
        if kind == _STRING:
            length = self.whole("Q")
            self.at -= 8
            if length <= _LONGEST_TEXT:
                return self.text(_LONGEST_TEXT, key), None
            self.at += 8
            self.room(length, key)
            self.skip(length)
            return None, None
        if kind != _ARRAY:
            return self.take(self.form(kind, key)), None
        inner, count = self.whole("I"), self.whole("Q")
        if inner == _STRING:
            self.room(count * 8, key)
            for _dummy in range(count):
                self.skip(self.whole("Q"))
            return None, count
        form = self.form(inner, key)
        self.room(count * struct.calcsize("<" + form), key)
        if count > _LONGEST_LIST:
            self.skip(count * struct.calcsize("<" + form))
            return None, count
        return [self.take(form) for _dummy in range(count)], count

    def form(self, kind: int, key: str) -> str:
        if kind >= len(_NUMBERS) or not _NUMBERS[kind]:
            raise _Damaged(key, kind)
        return _NUMBERS[kind]

    def room(self, count: int, key: str) -> None:
        """Refuse a length that the file, or any header, cannot have before a byte of it is looked at."""
        if count > self.size - self.position:
            raise _Ends
        if self.position + count > LARGEST_HEADER:
            raise _Damaged(key, count)


def read_header(stream: BinaryIO, size: int, path: str) -> Header:
    """The header of a file that is ``size`` bytes long and open at its start. GgufError, with ``path`` for its text, where it has none that llama.cpp takes.

    Whether the file is as long as its header says is the caller's question: ``Header.end``.
    """
    reader = _Reader(stream, size)
    try:
        reader.need(min(4, size))
        if bytes(reader.data[:4]) != b"GGUF":
            raise GgufError("model_no_gguf", path=path)
        reader.at = 4
        version = reader.whole("I")
        if version not in VERSIONS:
            raise GgufError("gguf_version", path=path, found=_said_version(version))
        return _read(reader, version)
    except _Ends as error:
        raise GgufError("model_no_end", path=path, found=size) from error
    except _Damaged as error:
        place, found = error.args
        raise GgufError("gguf_damaged", path=path, place=place, found=found, offset=reader.position) from error


def _said_version(version: int) -> str:
    """A file for processors of the other byte order has its version backwards."""
    turned = int.from_bytes(version.to_bytes(4, "little"), "big")
    return "{0} (big-endian)".format(turned) if turned in VERSIONS else str(version)


def _read(reader: _Reader, version: int) -> Header:
    tensors, entries = reader.whole("Q"), reader.whole("Q")
    for place, count in (("tensors", tensors), ("values", entries)):
        if count > _MOST_ENTRIES:
            raise _Damaged(place, count)
    values: dict[str, object] = {}
    counts: dict[str, int] = {}
    seen: set[str] = set()
    for _dummy in range(entries):
        key = reader.text(_LONGEST_NAME, "key")
        if key in seen:
            raise _Damaged(key, "2 x")
        seen.add(key)
        found, length = reader.value(reader.whole("I"), key)
        if found is not None:
            values[key] = found
        if length is not None:
            counts[key] = length
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1) or alignment > _PIECE:
        raise _Damaged("general.alignment", alignment)
    found_tensors = _tensors(reader, tensors, alignment)
    start = -(-reader.position // alignment) * alignment
    end = max((one.offset + (one.size or 0) for one in found_tensors), default=0)
    return Header(version, values, counts, found_tensors, start, start + end)


def _tensors(reader: _Reader, count: int, alignment: int) -> tuple[Tensor, ...]:
    """The list of weights: each follows the one before it, with room to the next multiple of the alignment."""
    found = []
    names: set[str] = set()
    expected: int | None = 0
    for _dummy in range(count):
        name = reader.text(_LONGEST_TENSOR, "tensor")
        if name in names:
            raise _Damaged(name, "2 x")
        names.add(name)
        dimensions = reader.whole("I")
        if dimensions > _DIMENSIONS:
            raise _Damaged(name, dimensions)
        shape = tuple(reader.whole("Q") for _again in range(dimensions))
        tensor = Tensor(name, shape, reader.whole("I"), reader.whole("Q"))
        block = TYPES.get(tensor.type, ("", 1, 1))[1]
        if tensor.elements >= 1 << 62 or (shape and shape[0] % block):
            raise _Damaged(name, list(shape))
        if tensor.offset % alignment or tensor.offset >= 1 << 62 or expected not in (None, tensor.offset):
            raise _Damaged(name, tensor.offset)
        expected = None if tensor.size is None else tensor.offset + -(-tensor.size // alignment) * alignment
        found.append(tensor)
    return tuple(found)


def file_problem(stream: BinaryIO, name: str, size: int) -> Coded | None:
    """What is wrong with one file, as a coded message; None for nothing."""
    try:
        end = read_header(stream, size, name).end
    except GgufError as error:
        return coded(error.code, **error.values)
    return None if size >= end else coded("model_cut_off", path=name, found=size, wanted=end)


def set_problems(headers: Mapping[str, Header], numbers: Mapping[str, tuple[int, int]]) -> list[Coded]:
    """What is wrong between the files of one model that lies in several, as coded messages.

    ``numbers`` is what the names say: number and count, from model-00001-of-00003.gguf. llama.cpp opens the files by their names, and refuses those
    whose header says another number; the weights of all together are as many as each header says.
    """
    found = []
    for name in sorted(headers):
        if headers[name].part != numbers[name]:
            said = "{0}/{1}".format(*headers[name].part)
            found.append(coded("gguf_part", path=name, found=said, wanted="{0}/{1}".format(*numbers[name])))
    if found or len(headers) != max(count for _number, count in numbers.values()):
        return found
    first = min(headers, key=lambda name: numbers[name])
    wanted = headers[first].values.get("split.tensors.count")
    total = sum(len(header.tensors) for header in headers.values())
    if wanted != total:
        found.append(coded("gguf_parts_differ", path=first, found=total, wanted=wanted))
    found += [coded("gguf_twice", path=first, tensor=name) for name in _twice(headers.values())[:1]]
    return found


def _twice(headers: Iterable[Header]) -> list[str]:
    seen: set[str] = set()
    found = []
    for header in headers:
        for tensor in header.tensors:
            if tensor.name in seen:
                found.append(tensor.name)
            seen.add(tensor.name)
    return found
