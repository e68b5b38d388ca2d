"""Which paths the API server answers, and for which of them it wants the key, whatever vLLM does."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[3] / "roles/vllm/files/middleware/llm_api_paths.py"
KEY = "correct-horse"


def program() -> Any:
    spec = importlib.util.spec_from_file_location("llm_api_paths", FILE)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def vllm(scope: Any, _receive: Any, send: Any) -> None:
    """What stands behind: it answers everything, and says which key it was shown."""
    headers = scope.get("headers") or []
    await send({"type": "vllm", "keys": [value for name, value in headers if name == b"authorization"]})


def asked(path: str, *, kind: str = "http", **more: Any) -> list[dict[str, Any]]:
    """What is sent back."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        raise AssertionError("nothing is read of a request that is refused")

    scope = {"type": kind, "path": path, "method": "POST", "headers": [], **more}
    asyncio.run(program().ApiPaths(vllm, os.environ["SECRETS"])(scope, receive, send))
    return sent


def status(path: str, **more: Any) -> int:
    """Of the answer; 200 where it is vLLM's own."""
    first = asked(path, **more)[0]
    return 200 if first["type"] == "vllm" else int(first["status"])


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SECRETS", str(tmp_path))
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    monkeypatch.setenv("LLM_API_PATHS", "/tokenize /v2/")


def bearer(key: str, kind: str = "Bearer") -> list[tuple[bytes, bytes]]:
    return [(b"host", b"gpu01"), (b"authorization", f"{kind} {key}".encode())]


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/models", "/v1", "/health", "/metrics", "/metrics/", "/ping", "/version", "/load"]
)
def test_what_vllm_covers_itself_and_what_tells_how_it_is(path: str) -> None:
    assert status(path) == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/invocations", "/detokenize", "/pause", "/sleep", "/wake_up", "/update_weights", "/collective_rpc", "/docs"),
        *("/", "", "/v10/completions", "//v1/completions", "/V1/completions", "/tokenizer_info", "/healthy", "v1"),
    ],
)
def test_nothing_else_is_answered(path: str) -> None:
    assert status(path) == 404
    assert status(path, headers=bearer(KEY)) == 404
    assert status(path, method="OPTIONS") == 404


@pytest.mark.parametrize("path", ["/tokenize", "/tokenize/", "/v2/rerank", "/v2"])
def test_what_is_added_needs_the_key(path: str) -> None:
    assert status(path) == 401
    for wrong in (bearer(KEY + "x"), bearer(""), bearer(KEY, "Basic"), bearer("\u00e9"), [(b"authorization", b"")]):
        assert status(path, headers=wrong) == 401
    assert status(path, headers=bearer(KEY)) == 200
    assert status(path, headers=bearer(KEY, "bearer")) == 200
    assert status(path, method="OPTIONS") == 200


def test_without_a_key_nobody_is_asked_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY")
    assert status("/tokenize") == 200
    assert status("/pause") == 404


def test_without_paths_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_API_PATHS")
    assert status("/tokenize", headers=bearer(KEY)) == 404
    assert status("/v1/models") == 200


def test_everything_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_PATHS", "/")
    assert (status("/pause"), status("/pause", headers=bearer(KEY))) == (401, 200)


def test_a_refusal_is_a_whole_answer() -> None:
    start, end = asked("/pause")
    assert (start["type"], end["type"]) == ("http.response.start", "http.response.body")
    assert dict(start["headers"])[b"content-length"] == str(len(end["body"])).encode()
    assert KEY.encode() not in end["body"]


def test_sockets_of_browsers_are_refused_before_they_are_open() -> None:
    assert asked("/realtime", kind="websocket", method=None) == [{"type": "websocket.close", "code": 1008}]
    assert asked("/v1/realtime", kind="websocket", method=None)[0]["type"] == "vllm"


def test_what_is_no_request_goes_through() -> None:
    assert asked("", kind="lifespan")[0]["type"] == "vllm"


# -- keys that change while the server runs --------------------------------------------------------------------------
OWN = [f"Bearer {KEY}".encode()]


def shown(key: str, path: str = "/v1/models") -> list[bytes]:
    """The key that vLLM sees of a request with this one; vLLM itself accepts only the one that it was started with."""
    found: list[bytes] = asked(path, headers=bearer(key))[0]["keys"]
    return found


def test_a_key_works_from_its_writing_and_the_former_one_until_it_is_ended(tmp_path: Path) -> None:
    assert (shown(KEY), shown("new")) == (OWN, []), "no file: the key of the start"
    (tmp_path / "vllm_api_key").write_text(KEY)
    assert (shown(KEY), shown("new"), shown("")) == (OWN, [], [])
    # The order of the role: first the former key counts for longer, then there is a new one.
    (tmp_path / "vllm_api_key.previous").write_text(f"older\n{KEY}\n")
    assert (shown(KEY), shown("older"), shown("new")) == (OWN, OWN, [])
    (tmp_path / "vllm_api_key").write_text("new\n")
    assert [shown(key) for key in (KEY, "older", "new")] == [OWN, OWN, OWN]
    assert status("/tokenize", headers=bearer("new")) == 200
    (tmp_path / "vllm_api_key.previous").unlink()
    assert (shown(KEY), shown("older"), shown("new")) == ([], [], OWN)
    assert (status("/tokenize", headers=bearer(KEY)), status("/tokenize", headers=bearer("new"))) == (401, 200)


def test_a_server_without_a_key_leaves_requests_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY")
    assert shown("anything") == [b"Bearer anything"]


def test_without_a_key_the_request_stays_without_one() -> None:
    assert asked("/v1/models")[0]["keys"] == []
    assert asked("/v1/models", headers=bearer(KEY, "Basic"))[0]["keys"] == []
