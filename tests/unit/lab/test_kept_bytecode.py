"""Modules in an archive are compiled once on a host of the lab, and what runs is always what the archive holds."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lab.images import IMAGES

PROGRAM = """
import sys
sys.path.insert(0, {program!r})
import kept_bytecode
kept_bytecode.FOLDER = {folder!r}
sys.path.insert(0, {archive!r})
import module
print(module.VALUE)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


def value(folder: Path, source: str) -> str:
    archive = folder.parent / "archive.zip"
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("module.py", source)
    program = PROGRAM.format(program=str(IMAGES / "host"), folder=str(folder), archive=str(archive))
    done = subprocess.run([sys.executable, "-B", "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def test_a_source_is_compiled_once(folder: Path) -> None:
    assert value(folder, "VALUE = 1") == "1"
    [file] = folder.iterdir()
    before = file.stat().st_mtime_ns
    assert value(folder, "VALUE = 1") == "1"
    assert [file] == list(folder.iterdir())
    assert file.stat().st_mtime_ns == before


def test_another_source_is_another_module(folder: Path) -> None:
    assert [value(folder, f"VALUE = {number}") for number in (1, 2, 1)] == ["1", "2", "1"]
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"what is this"])
def test_what_cannot_be_read_is_compiled_anew(folder: Path, damage: bytes) -> None:
    value(folder, "VALUE = 1")
    [file] = folder.iterdir()
    file.write_bytes(damage)
    assert value(folder, "VALUE = 1") == "1"
    assert file.stat().st_size > len(damage)


def test_one_who_may_not_write_there_compiles(folder: Path) -> None:
    folder.rmdir()
    assert value(folder, "VALUE = 1") == "1"


def test_garbage_is_collected_rarely() -> None:
    program = f"import gc, sys; sys.path.insert(0, {str(IMAGES / 'host')!r}); import kept_bytecode; print(*gc.get_threshold(), gc.isenabled())"
    done = subprocess.run([sys.executable, "-S", "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == ["50000", "20", "20", "True"]
