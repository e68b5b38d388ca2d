# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs a file holds code for: reads the fat binaries of an ELF file, forward only, in little memory, without any CUDA tool.

A compiler leaves one container per object file in the section .nv_fatbin (or __nv_relfatbin): a header of 16 bytes (magic, version,
size of the header, size of the rest), then entries of a header and a payload each. An entry says what it is (PTX or a cubin), for
which architecture, and whether it is compressed; so nothing has to be unpacked. Containers are found by the 8 bytes that they begin
with rather than by the section table, which comes at the end of a file: this is what allows to read a layer of an image as it flows by.

NVIDIA does not document the format. Sources: the fields as nvcc 12.4 to 13.0 writes them, compared with what cuobjdump prints
(tests/unit/plugins/module_utils/test_cuda_binaries.py does so again); the flags of a cubin's ELF header as LLVM names them
(EF_CUDA_SM and ELFABIVERSION_CUDA in llvm/include/llvm/BinaryFormat/ELF.h, https://github.com/llvm/llvm-project).
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import Counter as Counts
from typing import NamedTuple, Protocol

from ansible_collections.baremetal.llm.plugins.module_utils._coded import Coded, CodedError, coded

CHUNK_BYTES = 1 << 20
# Limits on what a file may make us keep: a name's length, and how many different sets of architectures its containers have.
_LONGEST_HEADER = 1 << 16
_MOST_SETS = 4096

_MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
_CONTAINER = struct.Struct("<8xQ")  # size of all entries
# kind, header size, payload size, compressed size, architecture, flags
_ENTRY = struct.Struct("<H2xIQI8xI8xQ16x")
_PTX, _CUBIN = 1, 2
_COMPRESSED = 0x2000 | 0x8000  # LZ4, zstd
# What a suffix promises is in cuda_compatibility.py.
_SUFFIXES = ((1 << 20, "a"), (1 << 21, "f"))

_ELF = struct.Struct(
    "<4s4B8x2xH20xQI6xHH2x"
)  # magic, class, data, version, OS ABI; machine, sections, flags, their size and number
_EM_CUDA = 190


class Stream(Protocol):
    """What is read: a file, or a part of an archive."""

    def read(self, size: int, /) -> bytes: ...


class BinaryError(CodedError):
    """A file that cannot be read as what it claims to be."""


class Code(NamedTuple):
    """The GPU code of a file: how many containers it has, and in how many of them each architecture is."""

    containers: int
    architectures: dict[str, int]  # sm_70, sm_90a (cubins); compute_90 (PTX)


class _Window:
    """A stream that is only read forward, and the piece of it that is looked at."""

    def __init__(self, stream: Stream, size: int) -> None:
        self.stream, self.size = stream, size
        self.buffer, self.at, self.read = b"", 0, 0

    @property
    def position(self) -> int:
        return self.read - len(self.buffer) + self.at

    def peek(self, count: int) -> bytes:
        """The next bytes; fewer only where the file ends."""
        while len(self.buffer) - self.at < count and self._fill():
            pass
        return self.buffer[self.at : self.at + count]

    def skip(self, count: int) -> None:
        while count > len(self.buffer) - self.at:
            count -= len(self.buffer) - self.at
            self.at = len(self.buffer)
            if not self._fill():
                return
        self.at += count

    def find(self, wanted: bytes) -> bool:
        """Go to the next place where these bytes are."""
        while True:
            found = self.buffer.find(wanted, self.at)
            if found >= 0:
                self.at = found
                return True
            # They may lie across the border.
            self.at = max(self.at, len(self.buffer) - len(wanted) + 1)
            if not self._fill():
                return False

    def _fill(self) -> bool:
        if self.read >= self.size:
            return False
        piece = self.stream.read(min(CHUNK_BYTES, self.size - self.read))
        if not piece:
            raise BinaryError("binary_short", read=self.read, size=self.size)
        self.buffer, self.at = self.buffer[self.at :] + piece, 0
        self.read += len(piece)
        return True


def read_code(stream: Stream, size: int) -> Code:
    """The GPU code in an ELF file of this size: a shared object with fat binaries, or a cubin. Raise BinaryError if it is damaged."""
    window = _Window(stream, size)
    header = window.peek(_ELF.size)
    if header[:4] != b"\x7fELF":
        raise BinaryError("binary_no_elf")
    if len(header) < _ELF.size:
        raise BinaryError("binary_no_header")
    _magic, wide, order, _version, _abi, machine, sections, _flags, each, count = _ELF.unpack(header)
    if (wide, order) != (2, 1):
        raise BinaryError("binary_other_elf")
    if sections + each * count > size:
        raise BinaryError("binary_cut_off", table=sections + each * count, size=size)
    if machine == _EM_CUDA:
        return Code(1, {"sm_{0}".format(_cubin_architecture(header)): 1})
    return _count(_containers(window))


def _containers(window: _Window) -> Counts[frozenset[str]]:
    """How often each set of architectures occurs."""
    found: Counts[frozenset[str]] = Counter()
    while window.find(_MAGIC):
        architectures = _container(window)
        if architectures:
            found[frozenset(architectures)] += 1
            if len(found) > _MOST_SETS:
                raise BinaryError("binary_many_sets", most=_MOST_SETS)
    return found


def _count(sets: Counts[frozenset[str]]) -> Code:
    total: Counts[str] = Counter()
    for names, count in sets.items():
        for name in names:
            total[name] += count
    return Code(sum(sets.values()), {name: total[name] for name in sorted(total, key=order)})


def merge(codes: list[Code]) -> Code:
    """The code of several files of one library."""
    total: Counts[str] = Counter()
    for code in codes:
        total.update(code.architectures)
    return Code(sum(code.containers for code in codes), {name: total[name] for name in sorted(total, key=order)})


def order(name: str) -> tuple[bool, int, str]:
    """Sorts architectures: cubins before PTX, 90 before 100."""
    kind, _bar, number = name.partition("_")
    return kind != "sm", int(number.rstrip("af")), number


def _container(window: _Window) -> set[str] | None:
    """The architectures in the container here, leaving the window behind it; None if this is something else."""
    start = window.position
    head = window.peek(_CONTAINER.size + _ENTRY.size)
    if len(head) < _CONTAINER.size + _ENTRY.size:
        window.skip(len(_MAGIC))
        return None
    left = _CONTAINER.unpack_from(head)[0]
    first = _ENTRY.unpack_from(head, _CONTAINER.size)
    # The same 8 bytes stand in programs that write containers.
    if start + _CONTAINER.size + left > window.size or _fault(first, left):
        window.skip(len(_MAGIC))
        return None
    window.skip(_CONTAINER.size)
    names: set[str] = set()
    while left:
        here = window.position
        head = window.peek(_ENTRY.size) if left >= _ENTRY.size else b""
        entry = _ENTRY.unpack(head) if head else None
        fault = _fault(entry, left) if entry else coded("binary_left_over", count=left)
        if not entry or fault:
            raise BinaryError("binary_bad_entry", start=start, here=here, fault=fault)
        kind, header, payload, compressed, architecture, flags = entry
        name = "{0}{1}".format(architecture, "".join(text for bit, text in _SUFFIXES if flags & bit))
        if kind == _PTX:
            names.add("compute_" + name)
        elif kind == _CUBIN:
            names.add("sm_" + name)
            if not compressed and not flags & _COMPRESSED and payload >= _ELF.size:
                _check_cubin(window.peek(header + _ELF.size)[header:], architecture, here)
        window.skip(header + payload)
        left -= header + payload
    return names


def _fault(entry: tuple[int, ...], left: int) -> Coded | None:
    """What is wrong with an entry, as a message."""
    _kind, header, payload, _compressed, architecture, _flags = entry
    if not _ENTRY.size <= header <= _LONGEST_HEADER:
        return coded("binary_entry_header", count=header)
    if header + payload > left:
        return coded("binary_entry_size", count=header + payload, left=left)
    if not 10 <= architecture < 1000:
        return coded("binary_entry_architecture", found=architecture)
    return None


def _check_cubin(head: bytes, architecture: int, where: int) -> None:
    """What the entry says and what the code in it says have to agree."""
    if head[:4] != b"\x7fELF" or len(head) < _ELF.size:
        raise BinaryError("binary_no_cubin", where=where)
    inside = _cubin_architecture(head)
    if inside != architecture:
        raise BinaryError("binary_other_cubin", where=where, said=architecture, found=inside)


def _cubin_architecture(head: bytes) -> int:
    """From the flags of its ELF header: the lowest byte, from version 8 of the ABI on the second."""
    flags: int = _ELF.unpack(head)[7]
    return flags >> 8 & 0xFF if head[8] >= 8 else flags & 0xFF
