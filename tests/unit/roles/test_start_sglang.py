"""start_sglang.py: no key stands in a command line, and the filter of paths is around the server, however a release gives it to uvicorn."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs
from tests.support.asgi import answered, stand_in

KEY = "k" * 40
COMMAND = ["python3", "-m", "sglang.launch_server", "--model-path", "/models/m", "--tp-size", "2"]
# sglang/launch_server.py without an engine: what it was started with, and how it gives uvicorn an application.
SERVER = """
import sys
import stand_in
stand_in.argv = list(sys.argv)
stand_in.name = __name__
stand_in.start(stand_in.app)
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> types.ModuleType:
    """What SGLang and uvicorn were given. The application says which key it was shown."""
    found = stand_in(monkeypatch, tmp_path, "sglang", "sglang", KEY)
    found.start = lambda app: found.Config(app, host="0.0.0.0")
    package = tmp_path / "sglang"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text(SERVER)
    monkeypatch.syspath_prepend(str(tmp_path))
    return found  # type: ignore[no-any-return]


def start(how: str = "keyed") -> None:
    programs.load("sglang/files/start_sglang.py").main([how, *COMMAND])


def test_it_runs_as_the_module_would_and_the_key_of_clients_reaches_no_command_line(
    started: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    start()
    assert started.name == "__main__"
    assert started.argv[1:-1] == COMMAND[3:]
    own = started.argv[-1].removeprefix("--api-key=")
    assert len(own) > 30
    assert KEY not in " ".join(started.argv)
    assert started.host == "0.0.0.0"
    assert answered(started.served, "/v1/models", KEY) == (200, [f"Bearer {own}".encode()])
    # Its own key opens nothing from outside.
    assert [answered(started.served, "/v1/models", key)[0] for key in ("", "wrong", own)] == [401] * 3
    assert capsys.readouterr().out == "start_sglang.py: starts --model-path --tp-size\n"


def test_what_changes_the_server_is_not_answered_and_what_tells_how_it_is_needs_no_key(started: Any) -> None:
    start()
    paths = (
        "/update_weights_from_disk",
        "/release_memory_occupation",
        "/pause_generation",
        "/flush_cache",
        "/generate",
    )
    assert {answered(started.served, path, KEY)[0] for path in (*paths, "/server_info", "/load_lora_adapter")} == {404}
    assert [answered(started.served, path)[0] for path in ("/metrics", "/health")] == [200, 200]


def test_processes_of_their_own_without_the_filter_are_not_started(started: Any) -> None:
    started.app = "sglang.srt.entrypoints.http_server:app"
    with pytest.raises(SystemExit, match="nobody asks for keys"):
        start()


def test_without_a_key_where_none_is_asked_for_it_is_open(started: Any) -> None:
    start("open")
    assert started.argv[1:] == COMMAND[3:]
    assert answered(started.served, "/v1/models") == (200, [])
    assert answered(started.served, "/flush_cache")[0] == 404


def test_without_the_file_of_the_key_it_does_not_start(started: Any, tmp_path: Path) -> None:
    (tmp_path / "sglang_api_key").unlink()
    with pytest.raises(SystemExit, match="holds no key"):
        start()
    assert not hasattr(started, "argv")
