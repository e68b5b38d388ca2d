"""venv on this machine: real wheels, installed by the real uv on the system's Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _environment as environment

from tests.support.modules import answer_of
from tests.support.wheels import lock, uv_wheel, wheel

BASE = "/usr/bin/python3"


def programs() -> str:
    """A PATH with all that the module needs. A compiler is not on it."""
    return str(Path(str(shutil.which("timeout"))).parent)


class Place:
    """A folder of environments, with the wheels of one."""

    def __init__(self, root: Path, uv: Path) -> None:
        self.path, self.wheels = root / "venvs/1-abc", root / "venvs/1-abc.wheels"
        self.uv = self.wheels / uv.name
        self.wheels.mkdir(parents=True)
        self.uv.symlink_to(uv)
        self.packages = [wheel(self.wheels, "lab-one", "1.0"), wheel(self.wheels, "lab-two", "2.0", needs=["lab-one"])]
        lock(self.wheels, *self.packages)

    def make(self, check_mode: bool = False, **other: Any) -> dict[str, Any]:
        own = {
            "path": str(self.path),
            "python": BASE,
            "wheels": str(self.wheels),
            "uv": str(self.uv),
            "made_from": "abc",
        }
        return answer_of("venv", {**own, **other}, check_mode, programs())

    def says(self, program: str = "lab-two") -> str:
        return subprocess.run([self.path / "bin" / program], check=True, capture_output=True, text=True).stdout.strip()

    def left(self) -> list[str]:
        return sorted(os.listdir(self.path.parent))


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 MB."""
    return uv_wheel(tmp_path_factory.mktemp("uv"))


@pytest.fixture
def place(tmp_path: Path, uv: Path) -> Place:
    return Place(tmp_path, uv)


@pytest.mark.slow
def test_it_is_made_once_and_everybody_can_read_it(place: Place) -> None:
    assert place.make(check_mode=True)["changed"] is True
    assert not place.path.exists()
    assert place.make()["changed"] is True
    assert place.says() == "lab-two 2.0"
    assert place.left() == ["1-abc", "1-abc.wheels"]
    modes = {path.stat().st_mode & 0o777 for path in place.path.rglob("*") if not path.is_symlink()}
    assert modes == {0o755, 0o644}
    assert list(place.path.rglob("*.pyc"))
    assert place.make()["changed"] is False
    assert place.make(check_mode=True)["changed"] is False


def test_programs_find_it_where_it_was_moved(place: Place) -> None:
    place.make()
    text = (place.path / "bin/lab-one").read_text()
    assert ".new" not in text
    assert ".new" not in (place.path / "pyvenv.cfg").read_text()


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "a file is missing": lambda top: next(top.rglob("lab_one.py")).unlink(),
    "a file was written to": lambda top: next(top.rglob("lab_one.py")).write_text("raise SystemExit(1)\n"),
    "a file is everybody's": lambda top: next(top.rglob("lab_one.py")).chmod(0o666),
    "a file was added": lambda top: (top / "bin/evil").touch(),
    "the interpreter is another": lambda top: (
        (top / "bin/python").unlink(),
        (top / "bin/python").symlink_to(sys.executable),
    ),
    "the interpreter is gone": lambda top: ((top / "bin/python").unlink(), (top / "bin/python").symlink_to("/nowhere")),
    "it says nothing of itself": lambda top: (top / environment.NOTE).unlink(),
    "what it says is cut off": lambda top: (top / environment.NOTE).write_text('{"tree": '),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, uv: Path) -> Path:
    """An environment of which each test takes a copy."""
    place = Place(tmp_path_factory.mktemp("made"), uv)
    place.make()
    return place.path


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_noticed(made: Path, tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    top = tmp_path / "copy"
    shutil.copytree(made, top, symlinks=True)
    assert environment.is_whole(str(top), "abc")
    damage(top)
    assert not environment.is_whole(str(top), "abc")


@pytest.mark.slow
def test_what_is_damaged_is_mended(place: Place, made: Path) -> None:
    shutil.copytree(made, place.path, symlinks=True)
    assert place.make()["changed"] is False
    next(place.path.rglob("lab_one.py")).write_text("raise SystemExit(1)\n")
    assert place.make(check_mode=True)["changed"] is True
    assert place.make()["changed"] is True
    assert place.says() == "lab-two 2.0"
    assert environment.is_whole(str(place.path), "abc")
    assert place.left() == ["1-abc", "1-abc.wheels"]


@pytest.mark.slow
def test_another_origin_is_another_environment(place: Place) -> None:
    place.make()
    assert place.make(made_from="def")["diff"]["before"] == "abc\n"
    assert environment.is_whole(str(place.path), "def")
    assert not environment.is_whole(str(place.path), "abc")


@pytest.mark.slow
def test_a_wheel_that_is_not_in_the_lock_is_refused_and_what_was_there_stays(place: Place) -> None:
    place.make()
    next(place.path.rglob("lab_one.py")).unlink()
    wheel(place.wheels, "lab-two", "2.0", text="def main():\n    print('another')\n")
    answer = place.make()
    assert answer["failed"]
    assert answer["code"] == "venv_not_made"
    assert "hash" in answer["values"]["said"].lower()
    assert place.says() == "lab-two 2.0"
    assert place.left() == ["1-abc", "1-abc.wheels"]


def test_a_source_is_not_built(place: Place) -> None:
    (place.wheels / "lab_one-1.0-py3-none-any.whl").rename(place.wheels / "lab_one-1.0.tar.gz")
    answer = place.make()
    assert answer["code"] == "venv_not_made"
    assert not place.path.exists()


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_what_is_no_uv_is_refused(place: Place, content: bytes) -> None:
    place.uv.unlink()
    place.uv.write_bytes(content)
    assert place.make()["code"] == "venv_no_uv"


def test_a_base_that_is_not_there_is_refused(place: Place) -> None:
    assert place.make(python="/nowhere/python3")["code"] == "venv_not_made"


def test_what_a_run_left_is_in_nobodys_way(place: Place) -> None:
    (place.path.parent / ".1-abc.new/bin").mkdir(parents=True)
    (place.path.parent / ".1-abc.old").mkdir()
    assert place.make()["changed"] is True
    assert place.left() == ["1-abc", "1-abc.wheels"]
    assert environment.environments(str(place.path.parent)) == place.left()
    assert environment.environments("/nowhere") == []
