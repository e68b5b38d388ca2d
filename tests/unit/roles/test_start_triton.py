"""start_triton.py: the frontend runs as Python would run it, and the filter of paths is around its application."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs
from tests.support.asgi import answered, stand_in

KEY = "k" * 40
OPTIONS = ["--model-repository", "/var/lib/triton", "--openai-port", "8000"]
# openai_frontend/main.py without Triton: it has modules of its own beside it, and gives uvicorn its application by name.
MAIN = """
import sys
import uvicorn
from frontend.fastapi_frontend import app
import stand_in
stand_in.argv, stand_in.name = list(sys.argv), __name__
uvicorn.Config(app=app, host="0.0.0.0")
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> types.ModuleType:
    """What the frontend and uvicorn were given. The application says which key it was shown."""
    found = stand_in(monkeypatch, tmp_path, "triton", "frontend", KEY)
    found.main = tmp_path / "openai_frontend/main.py"
    package = tmp_path / "openai_frontend/frontend"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "fastapi_frontend.py").write_text("import stand_in\napp = stand_in.app\n")
    found.main.write_text(MAIN)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return found  # type: ignore[no-any-return]


def start(found: Any, how: str = "keyed") -> None:
    programs.load("triton/files/start_triton.py").main([how, "python3", str(found.main), *OPTIONS])


def test_it_runs_as_python_would_run_it_and_asks_for_the_key(
    started: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    start(started)
    assert (started.name, started.host) == ("__main__", "0.0.0.0")
    assert started.argv == [str(started.main), *OPTIONS]
    assert answered(started.served, "/v1/models", KEY)[0] == 200
    assert [answered(started.served, "/v1/models", key)[0] for key in ("", "wrong")] == [401] * 2
    assert capsys.readouterr().out == "start_triton.py: starts --model-repository --openai-port\n"
    # Another key counts at once.
    (tmp_path / "triton_api_key").write_text("n" * 40)
    assert [answered(started.served, "/v1/models", key)[0] for key in ("n" * 40, KEY)] == [200, 401]


def test_what_is_no_api_is_not_answered_and_what_tells_how_it_is_needs_no_key(started: Any) -> None:
    start(started)
    paths = ("/docs", "/openapi.json", "/redoc", "/v2/health/ready", "/v2/repository/models/large/unload")
    assert {answered(started.served, path, KEY)[0] for path in paths} == {404}
    assert [answered(started.served, path)[0] for path in ("/metrics", "/health/ready")] == [200, 200]
    assert answered(started.served, "/v1/models/large/unload")[0] == 401
    # The word of the probe, which nobody has given yet.
    assert answered(started.served, "/ready")[0] == 503


def test_without_a_key_where_none_is_asked_for_it_is_open(started: Any) -> None:
    start(started, "open")
    assert answered(started.served, "/v1/models")[0] == 200
    assert answered(started.served, "/docs")[0] == 404


def test_without_the_file_of_the_key_it_does_not_start(started: Any, tmp_path: Path) -> None:
    (tmp_path / "triton_api_key").unlink()
    with pytest.raises(SystemExit, match="holds no key"):
        start(started)
    assert not hasattr(started, "argv")
