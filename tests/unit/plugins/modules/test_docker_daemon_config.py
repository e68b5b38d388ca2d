"""The module that writes daemon.json, run as Ansible runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import explained

COLLECTIONS = Path(__file__).resolve().parents[4] / ".collections"
MODULE = "ansible_collections.baremetal.llm.plugins.modules.docker_daemon_config"
OPTIONS = {"live-restore": True}


def run(
    path: Path, options: dict[str, Any], check: bool = False, programs: Path | None = None, **more: Any
) -> dict[str, Any]:
    arguments = {"path": str(path), "options": options, **more, "_ansible_check_mode": check, "_ansible_diff": True}
    arguments["_ansible_remote_tmp"] = str(path.parent / "tmp")
    start = (
        "import runpy, sys\n"
        f"sys.path.insert(0, {str(COLLECTIONS)!r})\n"
        "from ansible.module_utils import basic\n"
        "basic._ANSIBLE_ARGS = sys.stdin.buffer.read()\n"
        "basic._ANSIBLE_PROFILE = 'legacy'\n"
        f"runpy.run_module({MODULE!r}, run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", start],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode(),
        capture_output=True,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"} if programs else None,
    )
    result: dict[str, Any] = json.loads(done.stdout or b"{}") or pytest.fail(done.stderr.decode())
    return result


def test_a_missing_file_is_made_and_then_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "docker" / "daemon.json"
    first = run(path, OPTIONS)
    assert first["changed"]
    assert "backup_file" not in first
    assert json.loads(path.read_text()) == OPTIONS
    assert path.stat().st_mode & 0o777 == 0o644
    second = run(path, OPTIONS)
    assert not second["changed"]
    assert second["config"] == OPTIONS


def test_a_file_that_says_the_same_in_another_form_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "daemon.json"
    path.write_text('{"live-restore":true}')
    assert not run(path, OPTIONS)["changed"]
    assert path.read_text() == '{"live-restore":true}'


def test_the_old_file_is_kept_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "daemon.json"
    path.write_text('{"debug": true}')
    path.chmod(0o600)
    result = run(path, OPTIONS)
    assert Path(result["backup_file"]).read_text() == '{"debug": true}'
    assert result["changed_keys"] == ["live-restore"]
    assert json.loads(path.read_text()) == {"debug": True, **OPTIONS}
    assert path.stat().st_mode & 0o777 == 0o600


def test_check_mode_shows_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "docker" / "daemon.json"
    result = run(path, OPTIONS, check=True)
    assert result["changed"]
    assert '"live-restore": true' in result["diff"]["after"]
    assert not path.parent.exists()


@pytest.mark.parametrize(("language", "words"), [("en", "line 2"), ("zh", "第 2 行")])
def test_a_broken_file_is_left_as_it_is(tmp_path: Path, language: str, words: str) -> None:
    path = tmp_path / "daemon.json"
    path.write_text('{"a": 1\n"b": 2}')
    result = run(path, OPTIONS)
    assert result["failed"]
    assert result["msg"] == result["code"] == "daemon_json_not_json", "the module knows no language"
    result = explained(result, language)
    assert words in result["msg"]
    assert str(path) in result["msg"]
    assert path.read_text() == '{"a": 1\n"b": 2}'
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "tmp"] == ["daemon.json"]


def host(folder: Path, show: str = "", dockerd: str = "exit 0") -> Path:
    """Programs of a host whose systemd shows this of the engine, and whose engine answers so."""
    for name, text in (("systemctl", f"cat {folder}/show"), ("dockerd", f'echo "$@" >>{folder}/asked; {dockerd}')):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "show").write_text(show)
    return folder


def test_what_the_command_line_says_is_not_written_a_second_time(tmp_path: Path) -> None:
    path = tmp_path / "daemon.json"
    path.write_text('{"debug": true}')
    show = "ExecStart={ path=/usr/bin/dockerd ; argv[]=/usr/bin/dockerd -H fd:// --live-restore ; ignore_errors=no }\nFragmentPath=/x\n"
    result = run(path, OPTIONS, programs=host(tmp_path / "bin", show))
    assert result["failed"]
    assert "live-restore stands on its command line as well" in explained(result, "en")["msg"]
    assert path.read_text() == '{"debug": true}'
    read = run(path, {}, programs=tmp_path / "bin")
    assert read["flags"] == {
        "hosts": {"said": "-H fd://", "path": "/x"},
        "live-restore": {"said": "--live-restore", "path": "/x"},
    }


def test_the_engine_itself_is_asked_with_the_flags_of_the_host(tmp_path: Path) -> None:
    path = tmp_path / "daemon.json"
    path.write_text("{}")
    show = "ExecStart={ path=/usr/bin/dockerd ; argv[]=/usr/bin/dockerd -H fd:// ; ignore_errors=no }\n"
    refuses = "echo 'unable to configure: invalid logging driver' >&2; exit 1"
    result = run(path, {"log-driver": "nonsense"}, programs=host(tmp_path / "bin", show, refuses))
    assert "invalid logging driver" in explained(result, "zh")["msg"]
    assert path.read_text() == "{}"
    asked = (tmp_path / "bin/asked").read_text()
    assert asked.startswith("--validate --config-file ")
    assert asked.rstrip().endswith("-H fd://")


@pytest.mark.parametrize(
    ("engine", "refused"),
    [
        ("echo configuration OK", ""),
        ('echo "unable to configure the Docker daemon with file $3: bad" >&2; exit 1', "daemon.json: bad"),
        ("echo 'Status: unknown flag: --validate' >&2; exit 125", ""),
    ],
    ids=["takes", "refuses", "old"],
)
def test_the_engine_is_asked_before_its_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, refused: str
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/dockerd"
    program.write_text(f"#!/bin/sh\n{engine}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    path = tmp_path / "daemon.json"
    path.write_text("{}")
    answer = run(path, OPTIONS)
    assert bool(answer.get("failed")) is bool(refused), answer
    assert refused in str(answer.get("values", {}).get("reason", ""))
    assert json.loads(path.read_text()) == ({} if refused else OPTIONS)
