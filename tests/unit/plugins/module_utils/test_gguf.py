"""The header of GGUF files, whole, cut off, foreign and hostile."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _gguf as gguf
from ansible_collections.baremetal.llm.plugins.module_utils import _model_check as model_check
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import check_each
from tests.support.gguf_files import header_bytes, value_bytes, write_gguf

VALUES = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.rope.freq_base": 10000.0,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.tokens": ["a", "bc", ""],
    "llama.attention.head_count_kv": [8, 4],
}
TENSORS = [
    ("token_embd.weight", (64, 3), "Q8_0"),
    ("blk.0.attn_q.weight", (256, 64), "Q4_K"),
    ("output_norm.weight", (3,), "F32"),
]
WEIGHTS = 64 * 3 // 32 * 34, 256 * 64 // 256 * 144, 12


def read(content: bytes, size: int | None = None) -> gguf.Header:
    return gguf.read_header(io.BytesIO(content), len(content) if size is None else size, "m.gguf")


def problem(content: bytes, size: int | None = None) -> str:
    found = gguf.file_problem(io.BytesIO(content), "m.gguf", len(content) if size is None else size)
    return found["code"] if found else ""


def whole() -> bytes:
    head, weights = header_bytes(VALUES, TENSORS)
    return head + bytes(weights)


def test_a_header_says_what_is_in_a_file() -> None:
    header = read(whole())
    kept = {key: value for key, value in VALUES.items() if key != "tokenizer.ggml.tokens"}
    assert dict(header.values) == kept
    assert header.counts == {"tokenizer.ggml.tokens": 3, "llama.attention.head_count_kv": 2}
    assert [(one.name, one.shape, gguf.TYPES[one.type][0]) for one in header.tensors] == [
        (name, shape, kind) for name, shape, kind in TENSORS
    ]
    assert tuple(one.size for one in header.tensors) == WEIGHTS
    assert header.part == (1, 1)
    assert header.end == len(whole())
    assert problem(whole()) == ""
    assert problem(whole() + b"more") == ""


def test_each_place_to_be_cut_off_is_found() -> None:
    content = whole()
    start = read(content).start
    for length in [*range(0, len(content), 7), *range(start - 40, start + 3), len(content) - 1]:
        wanted = (
            "model_no_gguf"
            if length < 4
            else "model_cut_off"
            if length >= start - 31 and length >= read_end()
            else "model_no_end"
        )
        assert problem(content[:length]) == wanted, length


def read_end() -> int:
    """Where the list of tensors ends: what is filled up to the alignment is no part of it."""
    last = b"output_norm.weight"
    return whole().index(last) + len(last) + 4 + 8 + 4 + 8


def raw(values: bytes = b"", tensors: bytes = b"", counts: tuple[int, int] = (0, 0), version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, counts[1], counts[0]) + values + tensors + bytes(64)


def text(value: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(value) if length is None else length) + value


def tensor(name: bytes = b"t", shape: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


HUGE = 1 << 60
# What is made to do harm, or by another program: content, the size that the file says it has, and what is said.
HOSTILE: dict[str, tuple[bytes, int, str]] = {
    "nothing": (b"", 0, "model_no_gguf"),
    "pickle": (b"\x80\x04\x95" + bytes(60), 64, "model_no_gguf"),
    "ggml of 2023": (b"lmgg" + bytes(60), 64, "model_no_gguf"),
    "first version": (raw(version=1), 100, "gguf_version"),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + bytes(60), 68, "gguf_version"),
    "version to come": (raw(version=4), 100, "gguf_version"),
    "values without end": (raw(counts=(HUGE, 0)), HUGE, "gguf_damaged"),
    "tensors without end": (raw(counts=(0, HUGE)), HUGE, "gguf_damaged"),
    "long key": (raw(text(b"", HUGE), counts=(1, 0)), 1 << 62, "gguf_damaged"),
    "long text": (raw(text(b"k") + struct.pack("<I", 8) + text(b"", HUGE), counts=(1, 0)), 1 << 62, "gguf_damaged"),
    "long list": (raw(text(b"k") + struct.pack("<IIQ", 9, 4, HUGE), counts=(1, 0)), 1 << 63, "gguf_damaged"),
    "list of texts": (raw(text(b"k") + struct.pack("<IIQ", 9, 8, HUGE), counts=(1, 0)), 1 << 64, "gguf_damaged"),
    "more than there is": (raw(text(b"k") + struct.pack("<IIQ", 9, 8, 1000), counts=(1, 0)), 200, "model_no_end"),
    "list of lists": (raw(text(b"k") + struct.pack("<IIQ", 9, 9, 1), counts=(1, 0)), 200, "gguf_damaged"),
    "unknown type of value": (raw(text(b"k") + struct.pack("<I", 13), counts=(1, 0)), 200, "gguf_damaged"),
    "key twice": (raw((text(b"k") + value_bytes(1)) * 2, counts=(2, 0)), 200, "gguf_damaged"),
    "alignment": (raw(text(b"general.alignment") + value_bytes(3), counts=(1, 0)), 200, "gguf_damaged"),
    "alignment of nothing": (raw(text(b"general.alignment") + value_bytes(0), counts=(1, 0)), 200, "gguf_damaged"),
    "alignment in words": (raw(text(b"general.alignment") + value_bytes("x"), counts=(1, 0)), 200, "gguf_damaged"),
    "tensor twice": (raw(tensors=tensor() + tensor(offset=128), counts=(0, 2)), 1000, "gguf_damaged"),
    "long name": (raw(tensors=tensor(b"t" * 64), counts=(0, 1)), 1000, "gguf_damaged"),
    "five dimensions": (raw(tensors=tensor(shape=(1,) * 5), counts=(0, 1)), 1000, "gguf_damaged"),
    "overflow": (raw(tensors=tensor(shape=(HUGE, HUGE)), counts=(0, 1)), 1000, "gguf_damaged"),
    "part of a block": (raw(tensors=tensor(shape=(33,), kind=8), counts=(0, 1)), 1000, "gguf_damaged"),
    "not aligned": (raw(tensors=tensor(offset=5), counts=(0, 1)), 1000, "gguf_damaged"),
    "does not follow": (raw(tensors=tensor() + tensor(b"u", offset=0), counts=(0, 2)), 1000, "gguf_damaged"),
    "ends before its size": (raw(counts=(9, 0))[:30], 1000, "model_no_end"),
    "type to come": (raw(tensors=tensor(kind=99) + tensor(b"u", offset=4096), counts=(0, 2)), 10000, ""),
}


def test_hostile_files_are_named_and_cost_nothing() -> None:
    def check(case: tuple[bytes, int, str]) -> None:
        content, size, code = case
        assert problem(content, size) == code

    began = time.monotonic()
    tracemalloc.start()
    check_each(HOSTILE, check)
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20
    assert time.monotonic() - began < 5


def test_a_large_vocabulary_is_passed_over_in_bounded_memory() -> None:
    """A header of four megabytes with 20,000 long words is read a piece at a time, and nothing of the words is kept."""
    head, _weights = header_bytes({**VALUES, "tokenizer.ggml.merges": ["0123456789" * 20] * 20_000}, [])
    tracemalloc.start()
    assert read(head).counts["tokenizer.ggml.merges"] == 20_000
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3 << 20 < len(head)


@given(st.binary(max_size=400))
def test_no_content_makes_an_exception(content: bytes) -> None:
    problem(content)
    problem(b"GGUF" + struct.pack("<I", 3) + content)


@given(st.data())
def test_a_changed_byte_makes_no_exception_and_no_other_size(data: st.DataObject) -> None:
    """Whatever one wrong byte does, either it is named, or the header can still be read."""
    content = bytearray(whole())
    place = data.draw(st.integers(0, read(whole()).start - 1))
    content[place] = data.draw(st.integers(0, 255))
    assert problem(bytes(content)) in (
        "",
        "gguf_version",
        "gguf_damaged",
        "model_no_end",
        "model_no_gguf",
        "model_cut_off",
    )


SCALARS = st.one_of(st.booleans(), st.integers(0, 2**32 - 1), st.text(max_size=20))
LISTS = st.one_of(
    st.lists(st.integers(0, 2**32 - 1), max_size=5), st.lists(st.text(max_size=5), min_size=1, max_size=5)
)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=12).filter(lambda key: key != "general.alignment"),
        st.one_of(SCALARS, LISTS),
        max_size=6,
    )
)
def test_what_is_written_is_read(values: dict[str, Any]) -> None:
    header = read(header_bytes(values, TENSORS)[0])
    texts = {key for key, value in values.items() if isinstance(value, list) and value and isinstance(value[0], str)}
    assert dict(header.values) == {key: value for key, value in values.items() if key not in texts}
    assert header.counts == {key: len(value) for key, value in values.items() if isinstance(value, list)}


def part(
    number: int, count: int, total: int, name: str = "t"
) -> tuple[dict[str, Any], list[tuple[str, tuple[int], str]]]:
    values = {"split.no": number - 1, "split.count": count, "split.tensors.count": total}
    return values, [(f"{name}{number}", (32,), "F32")]


SETS: dict[str, tuple[list[tuple[Any, Any]], list[str]]] = {
    "whole": ([part(1, 2, 2), part(2, 2, 2)], []),
    "swapped": ([part(2, 2, 2), part(1, 2, 2)], ["gguf_part", "gguf_part"]),
    "of another conversion": ([part(1, 2, 2), part(2, 3, 2)], ["gguf_part"]),
    "too few tensors": ([part(1, 2, 5), part(2, 2, 5)], ["gguf_parts_differ"]),
    "no part of it": ([part(1, 2, 2), ({}, [("u", (32,), "F32")])], ["gguf_part"]),
    "one missing": ([part(1, 2, 2)], ["model_lacks"]),
    "twice": ([part(1, 2, 2), (part(2, 2, 2)[0], part(1, 2, 2)[1])], ["gguf_twice"]),
}


def test_parts_of_a_model_belong_together(tmp_path: Path) -> None:
    def check(case: tuple[list[tuple[Any, Any]], list[str]]) -> None:
        parts, expected = case
        folder = tmp_path / str(id(case))
        for number, (values, tensors) in enumerate(parts, start=1):
            write_gguf(folder / f"m-{number:05}-of-00002.gguf", values, tensors)
        names = [path.name for path in folder.iterdir()]
        assert [one["code"] for one in model_check.model_problems(str(folder), names)] == expected

    check_each(SETS, check)


def test_an_error_knows_its_values() -> None:
    with pytest.raises(gguf.GgufError) as raised:
        read(raw(text(b"k") + struct.pack("<I", 13), counts=(1, 0)))
    assert raised.value.values == {"path": "m.gguf", "place": "k", "found": 13, "offset": 37}
