"""Files that rot are found by reading them, as the program that a timer runs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _rehash
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import stamp
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import write_state
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import STATE_NAME, read_state

CONTENT = {"m/a.safetensors": os.urandom(3 << 20), "m/b.safetensors": b"b" * 5000, "m/empty": b""}


def flip(path: Path) -> None:
    """One byte, as a failing disk does it: size and modification time stay."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    for name, content in CONTENT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    state = {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "stamp": stamp(str(folder / name))}
        for name, content in CONTENT.items()
    }
    write_state(str(folder), state)
    return folder


def run(models: Path) -> tuple[int, dict[str, Any]]:
    """As the timer's service does: by the system's Python, without the collection."""
    result = models.parent / "models-verify.json"
    program = models.parent / "verify_models.py"
    program.write_bytes(Path(_rehash.__file__).read_bytes())
    done = subprocess.run(
        [sys.executable, "-I", str(program), str(models), str(result)], capture_output=True, text=True, timeout=60
    )
    found = json.loads(result.read_text())
    assert json.loads(done.stdout) == found
    return done.returncode, found


def test_the_module_and_the_program_know_the_same_file() -> None:
    assert _rehash.STATE_NAME == STATE_NAME


def test_what_is_as_it_was(models: Path) -> None:
    before = (models / STATE_NAME).read_bytes()
    status, found = run(models)
    assert status == 0
    assert (found["files"], found["bytes"]) == (3, sum(map(len, CONTENT.values())))
    assert (found["bad"], found["missing"]) == ([], [])
    assert (models / STATE_NAME).read_bytes() == before


def test_a_flipped_byte_is_found_and_no_longer_trusted(models: Path) -> None:
    flip(models / "m/a.safetensors")
    (models / "m/b.safetensors").unlink()
    status, found = run(models)
    assert status == 1
    assert (found["bad"], found["missing"], found["files"]) == (["m/a.safetensors"], ["m/b.safetensors"], 2)
    assert read_state(str(models))["m/a.safetensors"]["stamp"] is None
    assert read_state(str(models))["m/empty"]["stamp"] == stamp(str(models / "m/empty"))


def test_a_folder_of_which_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    assert run(tmp_path / "models")[1]["files"] == 0


def test_it_reads_when_nobody_else_wants_to() -> None:
    code = (
        "import os, subprocess\n"
        "from ansible_collections.baremetal.llm.plugins.module_utils import _rehash\n"
        "_rehash.yield_to_others()\n"
        "print(os.nice(0), subprocess.run(['ionice', '-p', str(os.getpid())], capture_output=True, text=True).stdout)\n"
    )
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["19", "idle"], done.stderr
