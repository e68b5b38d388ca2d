"""The file of variables that may be secrets: the shell and follow_head.py read what the inventory said."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest

from tests.support import programs
from tests.support.roles import ROLES

VALUES = {
    "PLAIN": "hf_abc",
    "MY_AUTH": "a 'b' \"c\" $HOME `id` \\\\ #x",
    "LINES": "one\ntwo",
    "NUMBER": 7,
    "CJK": "\u5bc6\u7801",
    "EMPTY": "",
}
EXPECTED = {name: str(value) for name, value in VALUES.items()}
SHOW = f"import json, os; print(json.dumps({{name: os.environ[name] for name in {sorted(VALUES)}}}))"


def written(folder: Path, template: str) -> Path:
    environment = jinja2.Environment(autoescape=False, trim_blocks=True)
    environment.filters["quote"] = lambda value: shlex.quote(str(value))
    text = (ROLES / template).read_text()
    known = {"names": sorted(VALUES)}
    said = environment.from_string(text).render(
        ansible_managed="made",
        common_environment_file={"names": sorted(VALUES)},
        _common_environment=VALUES,
        _web_ui={"closed": known["names"]},
        web_ui_environment=VALUES,
    )
    path = folder / "environment"
    path.write_text(said, encoding="utf-8")
    return path


@pytest.mark.parametrize("template", ["common/templates/environment.j2", "web_ui/templates/environment.j2"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_shells_read_each_value_as_it_is(tmp_path: Path, template: str, shell: str) -> None:
    script = f'. {written(tmp_path, template)}; exec {sys.executable} -c "$SHOW"'
    done = subprocess.run(
        [shell, "-aeuc", script], env={"PATH": os.environ["PATH"], "SHOW": SHOW}, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == EXPECTED


def test_who_follows_the_head_reads_the_same(tmp_path: Path) -> None:
    program = programs.load("vllm/files/follow_head.py")
    assert program.closed_variables(str(written(tmp_path, "common/templates/environment.j2"))) == EXPECTED


@pytest.mark.parametrize("start", [["vllm/files/start-vllm.sh", "0"], ["ray/files/start-ray.sh"]])
def test_a_program_does_not_start_without_its_file(tmp_path: Path, start: list[str]) -> None:
    environment = {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "PATH": os.environ["PATH"],
        "LLM_STARTS_FILE": str(tmp_path / "starts"),
        "LLM_API_KEY_FILE": "",
        "LLM_ENVIRONMENT_FILE": str(tmp_path / "environment"),
    }
    command = ["bash", str(ROLES / start[0]), *start[1:], sys.executable, "-c", SHOW]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert str(tmp_path / "environment") in done.stderr
    if "vllm" in start[0]:
        written(tmp_path, "common/templates/environment.j2")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == EXPECTED
