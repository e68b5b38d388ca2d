"""The reader of GPU code: on real files of a compiler, on made ones, and on damaged ones."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._cuda_binaries import (
    CHUNK_BYTES,
    BinaryError,
    Code,
    merge,
    read_code,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support import binaries as make
from tests.support.examples import examples
from tests.support.messages import refused

DATA = Path(__file__).parents[3] / "data" / "cuda"
NAMES = ["sm_70", "sm_75", "sm_80", "sm_90", "sm_90a", "sm_100f", "compute_52", "compute_90", "compute_100f"]


def read(content: bytes) -> Code:
    return read_code(io.BytesIO(content), len(content))


def test_real_files() -> None:
    many = read((DATA / "many.o").read_bytes())
    assert many == Code(1, dict.fromkeys(["sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120", "compute_120"], 1))
    assert list(many.architectures)[-1] == "compute_120", "cubins first, by number"
    assert read((DATA / "volta.o").read_bytes()) == Code(1, {"sm_70": 1})


CUOBJDUMP = shutil.which("cuobjdump")


@pytest.mark.skipif(not CUOBJDUMP, reason="needs cuobjdump of the CUDA toolkit")
@pytest.mark.parametrize("name", ["many.o", "volta.o"])
def test_cuobjdump_says_the_same(name: str) -> None:
    text = subprocess.run([str(CUOBJDUMP), str(DATA / name)], capture_output=True, text=True, check=True).stdout
    said = re.findall(r"Fatbin (elf|ptx) code:\n=*\narch = sm_(\w+)", text)
    names = {("sm_" if kind == "elf" else "compute_") + number for kind, number in said}
    assert names == set(read((DATA / name).read_bytes()).architectures)


def test_containers_are_counted() -> None:
    content = make.library(["sm_70", "sm_80"], ["sm_80"], ["sm_80", "compute_80"], times=2)
    assert read(content) == Code(6, {"sm_70": 2, "sm_80": 6, "compute_80": 2})


def test_code_that_is_still_to_be_linked_is_none() -> None:
    assert read(make.elf(make.container(make.entry("lto_90", b"payload.")))) == Code(0, {})


def test_a_file_without_gpu_code() -> None:
    assert read(make.elf(b"x" * 3 * CHUNK_BYTES)) == Code(0, {})


@pytest.mark.parametrize(
    "before", [0, 1, CHUNK_BYTES - 64 - 4, CHUNK_BYTES - 64 - 16, CHUNK_BYTES - 64 - 20, CHUNK_BYTES * 2 - 64 - 7]
)
def test_a_container_may_lie_across_the_border_of_two_reads(before: int) -> None:
    content = make.elf(
        b"\0" * before + make.container(make.entry("sm_70", b"p" * 3 * CHUNK_BYTES), make.entry("sm_80")) + b"tail"
    )
    assert read(content).architectures == {"sm_70": 1, "sm_80": 1}


def test_what_looks_like_a_container_inside_of_one_is_not_looked_at() -> None:
    inner = make.container(make.entry("sm_50", b"payload."))
    assert read(make.elf(make.container(make.entry("sm_70", inner)))).architectures == {"sm_70": 1}


def test_the_magic_in_a_program_is_no_container() -> None:
    magic = make.container()[:8]
    real = make.container(make.entry("sm_70", b"payload."))
    assert read(make.elf(magic + b"\xff" * 100 + real + magic)).architectures == {"sm_70": 1}


@pytest.mark.parametrize("abi", [7, 8])
def test_the_flags_of_a_cubin_are_compared(abi: int) -> None:
    right = make.entry("sm_90a", make.cubin(90, abi), compressed=False)
    assert read(make.elf(make.container(right))).architectures == {"sm_90a": 1}
    wrong = make.entry("sm_70", make.cubin(80, abi), compressed=False, header=72)
    with refused(BinaryError, "is for sm_70, the code in it for sm_80"):
        read(make.elf(make.container(wrong)))


def test_a_cubin_alone() -> None:
    assert read(make.cubin(100, abi=8)) == Code(1, {"sm_100": 1})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no ELF file"),
        (b"INPUT(libtorch_cuda.so.2)", "is no ELF file"),
        (b"\x7fELF\x02\x01", "ends within its header"),
        (b"\x7fELF\x01\x01" + bytes(60), "64-bit"),
        (make.elf(sections=1 << 40), "is cut off"),
        (make.elf(make.container(make.entry("sm_70", b"p" * 8), b"x" * 40)), "40 bytes are left over"),
        (
            make.elf(make.container(make.entry("sm_70", b"p" * 8), make.entry("sm_80", b"", header=0xFFFF) + b"x")),
            "bad entry",
        ),
        (make.elf(make.container(make.entry("sm_70"), make.entry("sm_9999"))), "its architecture is 9999"),
        (make.elf(make.container(make.entry("sm_70", b"p" * 64, compressed=False))), "is no cubin"),
    ],
)
def test_damaged_files_are_refused(content: bytes, said: str) -> None:
    with refused(BinaryError, said):
        read(content)


def test_a_stream_that_ends_too_early_is_refused() -> None:
    content = make.library(["sm_70"], times=50)
    with refused(BinaryError, f"ends after {len(content)} of {len(content) + 1} bytes"):
        read_code(io.BytesIO(content), len(content) + 1)


@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, unique=True), max_size=12), st.integers(0, 200))
def test_what_was_put_in_is_found(sets: list[list[str]], gap: int) -> None:
    parts = [make.container(*(make.entry(name, b"payload.") for name in names)) + b"\0" * gap for names in sets]
    code = read(make.elf(b"".join(parts)))
    assert code.containers == len(sets)
    assert code.architectures == {name: sum(name in names for names in sets) for names in sets for name in names}


@given(st.data())
def test_damage_never_ends_in_anything_but_an_answer_or_a_refusal(data: st.DataObject) -> None:
    content = bytearray(make.library(["sm_70", "compute_70"], ["sm_90a"]))
    for _time in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for piece in (bytes(content), bytes(content[:cut])):
        try:
            code = read(piece)
        except BinaryError:
            continue
        assert code.containers <= len(piece) // 80


@examples(20)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_sizes_that_lie_cost_no_memory(size: int, header: int, payload: int) -> None:
    content = bytearray(make.library(["sm_70"], times=3) + bytes(2 * CHUNK_BYTES))
    content[64 + 8 : 64 + 16] = size.to_bytes(8, "little")
    content[64 + 16 + 4 : 64 + 16 + 8] = header.to_bytes(4, "little")
    content[64 + 16 + 8 : 64 + 16 + 16] = payload.to_bytes(8, "little")
    stream = io.BytesIO(bytes(content))
    with make.at_most(5 * CHUNK_BYTES), suppress(BinaryError):
        read_code(stream, len(content))


def test_many_sets_of_architectures_are_refused() -> None:
    names = [f"sm_{number}" for number in range(10, 1000)]
    sets = [[one, other] for one in names[:80] for other in names[80:140]]
    with refused(BinaryError, "different sets"):
        read(make.library(*sets))


def test_several_files_of_a_library_add_up() -> None:
    assert merge([Code(2, {"sm_90": 2}), Code(3, {"sm_70": 1, "sm_90": 3})]) == Code(5, {"sm_70": 1, "sm_90": 5})
