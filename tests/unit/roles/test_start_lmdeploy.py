"""start_lmdeploy.py: no key stands in a command line, the filter of paths is around the server, and no other engine than TurboMind starts."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs
from tests.support.asgi import answered, application

KEY, GATEWAYS = "k" * 40, "g" * 40
COMMAND = ["lmdeploy", "serve", "api_server", "/models/m", "--tp", "2"]


class Started:
    """What LMDeploy and uvicorn were given."""

    def __init__(self) -> None:
        self.argv: list[str] = []
        self.app: Any = None
        self.settings: dict[str, Any] = {}
        self.asked: list[Any] = []


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Started:
    """LMDeploy without an engine: it hands uvicorn an application that says which key it was shown."""
    found = Started()

    uvicorn = types.ModuleType("uvicorn")

    def serve(app: Any, **settings: Any) -> None:
        found.app, found.settings = app, settings

    def run() -> None:
        found.argv = list(sys.argv)
        uvicorn.run(app=application, host="0.0.0.0", port=8000)

    def autoget_backend(model: str, **more: Any) -> str:
        found.asked.append((model, more))
        return "pytorch" if model.endswith("other") else "turbomind"

    uvicorn.run = serve  # type: ignore[attr-defined]
    archs, cli = types.ModuleType("lmdeploy.archs"), types.ModuleType("lmdeploy.cli")
    archs.autoget_backend, cli.run = autoget_backend, run  # type: ignore[attr-defined]
    modules = {
        "uvicorn": uvicorn,
        "lmdeploy": types.ModuleType("lmdeploy"),
        "lmdeploy.archs": archs,
        "lmdeploy.cli": cli,
    }
    for name in ("llm_api_paths", "llm_filtered"):
        modules[name] = programs.load(f"common/files/{name}.py")
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "argv", ["start_lmdeploy.py"])
    monkeypatch.setenv("LLM_SECRETS_DIR", str(tmp_path))
    for name in ("LLM_ENVIRONMENT_FILE", "LLM_API_PATHS", "SAID"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "lmdeploy_api_key").write_text(KEY)
    (tmp_path / "lmdeploy_api_key.gateway").write_text(f"{GATEWAYS}\n")
    return found


def start(*command: str, how: str = "keyed") -> None:
    programs.load("lmdeploy/files/start_lmdeploy.py").main([how, *(command or COMMAND)])


def test_the_key_of_clients_reaches_no_command_line(started: Started) -> None:
    start()
    assert started.argv[:-1] == COMMAND
    own = started.argv[-1].removeprefix("--api-keys=")
    assert len(own) > 30
    assert KEY not in " ".join(started.argv)
    assert started.settings == {"host": "0.0.0.0", "port": 8000}
    for key in (KEY, GATEWAYS):
        assert answered(started.app, "/v1/models", key) == (200, [f"Bearer {own}".encode()])
    # Its own key opens nothing from outside.
    assert [answered(started.app, "/v1/models", key)[0] for key in ("", "wrong", own)] == [401] * 3


def test_what_changes_the_server_is_not_answered_and_what_tells_how_it_is_needs_no_key(started: Started) -> None:
    start()
    paths = ("/sleep", "/wakeup", "/update_weights", "/terminate", "/generate", "/docs", "/", "/distserve/free_cache")
    assert {answered(started.app, path, KEY)[0] for path in paths} == {404}
    own = started.argv[-1].removeprefix("--api-keys=").encode()
    # LMDeploy itself asks for a key at /metrics.
    assert answered(started.app, "/metrics") == (200, [b"Bearer " + own])
    assert answered(started.app, "/health") == (200, [b"Bearer " + own])


def test_another_key_counts_at_once(started: Started, tmp_path: Path) -> None:
    start()
    (tmp_path / "lmdeploy_api_key").write_text("n" * 40)
    assert [answered(started.app, "/v1/models", key)[0] for key in (KEY, "n" * 40)] == [401, 200]
    (tmp_path / "lmdeploy_api_key.previous").write_text(f"{KEY}\n")
    assert answered(started.app, "/v1/models", KEY)[0] == 200


@pytest.mark.parametrize("content", [None, "", "two words"])
def test_without_a_key_that_was_asked_for_it_does_not_start(
    started: Started, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "lmdeploy_api_key"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(SystemExit, match="holds no key"):
        start()
    assert started.argv == []


def test_without_a_key_where_none_is_asked_for_it_is_open(started: Started) -> None:
    start(how="open")
    assert started.argv == COMMAND
    assert answered(started.app, "/v1/models") == (200, [])
    assert answered(started.app, "/sleep")[0] == 404


def test_a_model_that_turbomind_does_not_serve_does_not_start(started: Started) -> None:
    with pytest.raises(SystemExit, match="not served by TurboMind"):
        start(*COMMAND[:3], "/models/other")
    start(*COMMAND, "--trust-remote-code")
    assert started.asked == [("/models/other", {}), ("/models/m", {"trust_remote_code": True})]


def test_secret_variables_are_read_as_a_shell_reads_them(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "variables"
    place.write_text("# Ansible managed\nSAID='a \"secret\"\n'\"'\"'of two lines'\nOTHER=plain\n")
    monkeypatch.setenv("LLM_ENVIRONMENT_FILE", str(place))
    monkeypatch.setenv("OTHER", "")
    start()
    assert os.environ["SAID"] == 'a "secret"\n\'of two lines'
    assert os.environ["OTHER"] == "plain"
    assert capsys.readouterr().out == "start_lmdeploy.py: starts --tp\n"
