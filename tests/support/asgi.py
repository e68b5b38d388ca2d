"""An application of ASGI behind the filter of paths, which says which key it was shown, uvicorn stood in for, and a request without a network."""

from __future__ import annotations

import asyncio
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs


async def application(scope: Any, receive: Any, send: Any) -> None:
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    await send({"type": "http.response.start", "status": 200, "shown": shown})


def answered(app: Any, path: str, key: str = "") -> tuple[int, list[bytes]]:
    """The status of an answer, and the keys that the application was shown."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        raise AssertionError("nothing is read")

    headers = [(b"authorization", f"Bearer {key}".encode())] if key else []
    asyncio.run(app({"type": "http", "path": path, "method": "GET", "headers": headers}, receive, send))
    return sent[0]["status"], sent[0].get("shown", [])


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, engine: str, package: str, key: str) -> Any:
    """The module ``stand_in``, which keeps what uvicorn is given (``served``, ``host``) and has its ``Config`` and the application. The program that starts the
    engine finds its filter, the key of clients in the folder, and nothing of an earlier test's ``package``."""
    found: Any = types.ModuleType("stand_in")

    class Config:
        def __init__(self, app: Any, host: str = "") -> None:
            found.served, found.host = app, host

    uvicorn: Any = types.ModuleType("uvicorn")
    uvicorn.Config = found.Config = Config
    found.app = application
    modules = {"uvicorn": uvicorn, "stand_in": found}
    for name in ("llm_api_paths", "llm_filtered"):
        modules[name] = programs.load(f"common/files/{name}.py")
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "argv", [f"start_{engine}.py"])
    monkeypatch.setenv("LLM_SECRETS_DIR", str(folder))
    for name in ("LLM_ENVIRONMENT_FILE", "LLM_API_PATHS"):
        monkeypatch.delenv(name, raising=False)
    (folder / f"{engine}_api_key").write_text(key)
    return found
