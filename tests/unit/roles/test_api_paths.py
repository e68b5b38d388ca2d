"""Which paths the API server answers, and for which of them it wants the key, whatever vLLM does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs

FILE = Path(__file__).parents[3] / "roles/common/files/llm_api_paths.py"
KEY = "correct-horse"


def program() -> Any:
    return programs.load("common/files/llm_api_paths.py")


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
    asyncio.run(program().ApiPaths(vllm, os.environ["SECRETS"], os.environ["SECRETS"] + "/probe")(scope, receive, send))
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


@pytest.mark.parametrize("path", ["/health", "/metrics", "/metrics/", "/ping", "/version", "/load"])
def test_what_tells_how_the_server_is_needs_no_key(path: str) -> None:
    assert status(path) == 200


@pytest.mark.parametrize("host", [b"gpu01", b"x/health?", b"x/health#", b"x/health;", b""])
def test_no_host_header_makes_another_path_of_the_one_that_is_asked(host: bytes) -> None:
    """CVE-2026-48710: vLLM's own check of the key takes such a request for one of /health, and does not see it any more."""
    assert status("/v1/completions", headers=[(b"host", host)]) == 401
    assert status("/v1/completions", headers=[(b"host", host), *bearer(KEY)[1:]]) == 200
    assert status("/pause", headers=[(b"host", host)]) == 404


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


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/models", "/v1", "/tokenize", "/tokenize/", "/v2/rerank", "/v2"]
)
def test_what_computes_and_what_is_added_needs_the_key(path: str) -> None:
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
    assert status("/v1/models", headers=bearer(KEY)) == 200


def test_the_root_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for paths in ("/", "//", "/ /tokenize"):
        monkeypatch.setenv("LLM_API_PATHS", paths)
        assert (status("/pause"), status("/pause", headers=bearer(KEY))) == (404, 404)


def test_a_refusal_is_a_whole_answer() -> None:
    start, end = asked("/pause")
    assert (start["type"], end["type"]) == ("http.response.start", "http.response.body")
    assert dict(start["headers"])[b"content-length"] == str(len(end["body"])).encode()
    assert KEY.encode() not in end["body"]


def test_sockets_of_browsers_are_refused_before_they_are_open() -> None:
    assert asked("/realtime", kind="websocket", method=None) == [{"type": "websocket.close", "code": 1008}]
    assert asked("/v1/realtime", kind="websocket", method=None) == [{"type": "websocket.close", "code": 1008}]
    assert asked("/v1/realtime", kind="websocket", method=None, headers=bearer(KEY))[0]["type"] == "vllm"


def test_what_is_no_request_goes_through() -> None:
    assert asked("", kind="lifespan")[0]["type"] == "vllm"


# -- keys that change while the server runs --------------------------------------------------------------------------
OWN = [f"Bearer {KEY}".encode()]


REFUSED = None


def shown(key: str, path: str = "/v1/models") -> list[bytes] | None:
    """The key that vLLM sees of a request with this one, or REFUSED; vLLM itself accepts only the one that it was started with."""
    found: list[bytes] | None = asked(path, headers=bearer(key))[0].get("keys", REFUSED)
    return found


def test_a_key_works_from_its_writing_and_the_former_one_until_it_is_ended(tmp_path: Path) -> None:
    assert (shown(KEY), shown("new")) == (OWN, REFUSED), "no file: the key of the start"
    (tmp_path / "vllm_api_key").write_text(KEY)
    assert (shown(KEY), shown("new"), shown("")) == (OWN, REFUSED, REFUSED)
    # The order of the role: first the former key counts for longer, then there is a new one.
    (tmp_path / "vllm_api_key.previous").write_text(f"older\n{KEY}\n")
    assert (shown(KEY), shown("older"), shown("new")) == (OWN, OWN, REFUSED)
    (tmp_path / "vllm_api_key").write_text("new\n")
    assert [shown(key) for key in (KEY, "older", "new")] == [OWN, OWN, OWN]
    assert status("/tokenize", headers=bearer("new")) == 200
    (tmp_path / "vllm_api_key.previous").unlink()
    assert (shown(KEY), shown("older"), shown("new")) == (REFUSED, REFUSED, OWN)
    assert (status("/tokenize", headers=bearer(KEY)), status("/tokenize", headers=bearer("new"))) == (401, 200)


def test_a_server_without_a_key_leaves_requests_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY")
    assert shown("anything") == [b"Bearer anything"]


def test_a_request_that_is_answered_to_everybody_shows_vllm_no_key_but_its_own() -> None:
    assert asked("/health")[0]["keys"] == []
    assert shown("other", "/health") == []
    assert shown(KEY, "/health") == OWN


# -- whether a gateway may send requests ------------------------------------------------------------------------------
def ready(folder: Path, content: Any = None, *, drained: bool = False) -> int:
    """The status of /ready with this state of the probe; without content there is none."""
    if content is not None:
        (folder / "state.json").write_text(content if isinstance(content, str) else json.dumps(content))
    if drained:
        (folder / "drained").touch()
    application = program().ApiPaths(vllm, os.environ["SECRETS"], str(folder))
    return int(application.ready()[0])


def state(kind: str, age: float = 0) -> dict[str, Any]:
    return {"form": 1, "llm-vllm": {"kind": kind, "now": time.clock_gettime(time.CLOCK_BOOTTIME) - age}}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *((word, 200) for word in ("serving", "busy", "refused")),
        *((word, 503) for word in ("failed", "loading", "waiting", "crashing", "stopped", "unknown")),
    ],
)
def test_ready_is_what_the_probe_says(kind: str, expected: int, tmp_path: Path) -> None:
    assert ready(tmp_path, state(kind)) == expected
    assert ready(tmp_path, state(kind), drained=True) == 404


def test_a_deployment_that_the_probe_took_out_says_why(tmp_path: Path) -> None:
    application = program().ApiPaths(vllm, os.environ["SECRETS"], str(tmp_path))
    (tmp_path / "drained").touch()
    assert application.ready() == (404, {"status": "drained"})
    (tmp_path / "drained").write_text("GPU 0000:3b:00: Xid 79, reboot\n")
    assert application.ready() == (404, {"status": "drained", "reason": "GPU 0000:3b:00: Xid 79, reboot"})


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"llm-vllm": 1}', '{"llm-vllm": {"kind": "serving"}}'])
def test_a_state_that_says_nothing_is_none(content: str | None, tmp_path: Path) -> None:
    assert ready(tmp_path, content) == 503


# -- the probe's way in that nobody else can fill -------------------------------------------------------------------------
async def completes(scope: Any, receive: Any, send: Any) -> None:
    """vLLM, which waits for its client as well."""
    assert scope["app"] == "the whole application"
    event = await receive()
    authorization = dict(scope["headers"])[b"authorization"].decode()
    said = {"asked": json.loads(event["body"]), "path": scope["path"], "authorization": authorization}
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(said).encode()})
    assert (await receive())["type"] == "http.disconnect"


def inside(folder: Path, questions: list[Any], behind: Any = completes) -> list[Any]:
    """The answers to questions that are there one after the other; None where none comes."""
    os.environ["LLM_INNER_DIR"] = str(folder)
    module = program()
    module.LOOK_SECONDS = 0.01
    server = module.ApiPaths(behind, str(folder), str(folder))
    server.outer = "the whole application"
    answers = []

    async def ask() -> None:
        task = asyncio.get_running_loop().create_task(server.answer_the_probe())
        for question in questions:
            (folder / "llm-probe.answer").unlink(missing_ok=True)
            (folder / "question.json").write_text(question if isinstance(question, str) else json.dumps(question))
            for _dummy in range(30):
                await asyncio.sleep(0.01)
                if (folder / "llm-probe.answer").exists():
                    break
            answers.append(json.loads(path.read_text()) if (path := folder / "llm-probe.answer").exists() else None)
        task.cancel()

    asyncio.run(ask())
    return answers


def question(number: str, age: float = 0) -> dict[str, Any]:
    now = time.clock_gettime(time.CLOCK_BOOTTIME) - age
    return {"id": number, "now": now, "path": "/v1/completions", "question": {"prompt": "Hello"}}


def test_the_probe_gets_its_answer_without_a_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_INNER_DIR", "")
    first, same, second, old, broken = inside(
        tmp_path, [question("1"), question("1"), question("2"), question("3", 99), "{"]
    )
    said = json.loads(first["body"])
    assert (first["id"], first["status"], said["path"]) == ("1", 200, "/v1/completions")
    assert (said["asked"], said["authorization"]) == ({"prompt": "Hello"}, f"Bearer {KEY}")
    assert second["id"] == "2"
    assert (same, old, broken) == (None, None, None)


def test_a_server_that_breaks_says_so_and_answers_the_next_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_INNER_DIR", "")
    found = inside(tmp_path, [question("1"), question("2")], breaks)
    assert [(each["id"], each["status"]) for each in found] == [("1", 500), ("2", 500)]


# -- a server that a run is about to restart ----------------------------------------------------------------------------
def restarting(folder: Path, mark: str = "900") -> Any:
    """A server that began a minute before a run wrote the mark."""
    server = program().ApiPaths(vllm, os.environ["SECRETS"], str(folder))
    server.began -= 60
    (folder / "restarting").write_text(mark)
    return server


def test_who_is_to_be_restarted_gets_nothing_new_and_who_was_restarted_does(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps(state("serving")))
    server = restarting(tmp_path)
    assert server.ready() == (503, {"status": "restarting"})
    server.began = time.time() + 1
    assert server.ready()[0] == 200, "the next server is none that is to be restarted"


@pytest.mark.parametrize("mark", ["", "soon", "nan", "0", "-1"])
def test_a_mark_that_says_nothing_or_too_little_keeps_nobody_away(mark: str, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps(state("serving")))
    assert restarting(tmp_path, mark).ready()[0] == 200


def test_a_mark_of_a_run_that_was_ended_counts_no_longer_than_it_says(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps(state("serving")))
    server = restarting(tmp_path, "100")
    old = time.time() - 101
    os.utime(tmp_path / "restarting", (old, old))
    server.began = old - 60
    assert server.ready()[0] == 200


def answer_of(server: Any, path: str) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "path": path, "method": "GET", "headers": bearer(KEY)}
    with contextlib.suppress(asyncio.CancelledError, RuntimeError):
        asyncio.run(server(scope, None, send))
    return sent


def test_gateways_that_ask_for_health_learn_it_too(tmp_path: Path) -> None:
    assert answer_of(restarting(tmp_path), "/health")[0]["status"] == 503
    (tmp_path / "restarting").unlink()
    (tmp_path / "drained").touch()
    assert answer_of(program().ApiPaths(vllm, str(tmp_path), str(tmp_path)), "/health")[0]["status"] == 404


async def says_500(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 500, "headers": []})
    await send({"type": "http.response.body", "body": b"EngineDeadError"})


async def is_cancelled(_scope: Any, _receive: Any, _send: Any) -> None:
    raise asyncio.CancelledError


async def breaks(_scope: Any, _receive: Any, _send: Any) -> None:
    raise RuntimeError("the engine is dead")


async def breaks_off(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise RuntimeError("the engine is dead")


@pytest.mark.parametrize(
    ("behind", "while_restarting", "else_"),
    [(says_500, [503], [500]), (is_cancelled, [503], []), (breaks, [503], []), (breaks_off, [200], [200])],
)
def test_an_error_of_a_server_that_ends_says_that_another_one_answers(
    behind: Any, while_restarting: list[int], else_: list[int], tmp_path: Path
) -> None:
    server = restarting(tmp_path)
    server.app = behind
    sent = answer_of(server, "/v1/models")
    assert [each["status"] for each in sent if "status" in each] == while_restarting
    if while_restarting == [503]:
        assert json.loads(sent[-1]["body"])["error"]["code"] == "restarting"
    (tmp_path / "restarting").unlink()
    assert [each["status"] for each in answer_of(server, "/v1/models") if "status" in each] == else_


def test_an_old_word_counts_for_nothing(tmp_path: Path) -> None:
    assert ready(tmp_path, state("serving", age=170)) == 200
    assert ready(tmp_path, state("serving", age=190)) == 503


def test_ready_needs_no_key_and_is_no_path_of_vllm() -> None:
    sent = asked("/ready")
    assert sent[0]["status"] == 503, "there is no probe here"
    assert b"unknown" in sent[1]["body"]
    assert status("/ready/more") == 404


def test_the_words_of_the_probe_are_those_that_it_says() -> None:
    text = (FILE.parent / "llm-probe.py").read_text()
    for word in program().WELL:
        assert re.search(rf'"{word}[":]', text), word


def test_the_key_of_the_gateway_counts_like_any_other() -> None:
    Path(os.environ["SECRETS"], "vllm_api_key.gateway").write_text("of-the-gateway\n")
    gateway: Any = {"headers": bearer("of-the-gateway"), "method": "GET"}
    assert status("/tokenize", **gateway) == 200
    assert asked("/v1/models", **gateway)[0]["keys"] == [f"Bearer {KEY}".encode()]
    assert status("/tokenize", headers=bearer("of-nobody")) == 401


# -- what the gateway's keys cost -------------------------------------------------------------------------------------
STREAM = [("content-type", "text/event-stream; charset=utf-8")]
PLAIN = [("content-type", "application/json")]


ASKED = {"model": "m", "prompt": "hello", "max_tokens": 50}


def through(
    body: bytes, answering: Any, *, path: str = "/v1/completions", asking: Any = None, release: tuple[int, ...] = ()
) -> tuple[list[dict[str, Any]], dict[str, int] | None]:
    """What is sent back to a request of the gateway for alice and m, and what /usage says of it then."""
    Path(os.environ["SECRETS"], "vllm_api_key.gateway").write_text("of-the-gateway\n")
    gateway = bearer("of-the-gateway")
    sent: list[dict[str, Any]] = []
    parts = [
        {"type": "http.request", "body": part, "more_body": more}
        for part, more in ((body[:9], True), (body[9:], False))
    ]

    async def receive() -> dict[str, Any]:
        return parts.pop(0)

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    app = program().ApiPaths(answering, os.environ["SECRETS"], os.environ["SECRETS"] + "/probe")
    app.release = release
    named = [(b"x-llm-key", b"alice"), (b"x-llm-model", b"m"), (b"content-length", b"1"), *gateway]
    scope = {"type": "http", "path": path, "method": "POST", "headers": named if asking is None else asking}
    with contextlib.suppress(ConnectionResetError):
        asyncio.run(app(scope, receive, send))
    answer = list(sent)
    sent.clear()
    asyncio.run(app({"type": "http", "path": "/usage", "method": "GET", "headers": gateway}, None, send))
    said = json.loads(sent[1]["body"])
    assert said["process"] == app.process
    found: dict[str, int] | None = said["keys"].get("alice")
    return answer, found


def counted(
    parts: list[bytes], headers: Any = PLAIN, *, status: int = 200, gone: bool = False, asking: Any = None, **more: Any
) -> dict[str, int] | None:
    """What /usage says after one request whose answer came in these parts, of which the client was sent all."""

    async def answering(_scope: Any, _receive: Any, send: Any) -> None:
        encoded = [(name.encode(), value.encode()) for name, value in headers]
        await send({"type": "http.response.start", "status": status, "headers": encoded})
        for number, part in enumerate(parts, 1):
            await send({"type": "http.response.body", "body": part, "more_body": number < len(parts) or gone})
        if gone:
            raise ConnectionResetError

    answer, found = through(json.dumps({**ASKED, **more}).encode(), answering, asking=asking)
    if answer[0]["status"] == status:
        assert b"".join(event.get("body", b"") for event in answer) == b"".join(parts), "the client gets all of it"
    return found


def cost(prompt: int, completion: int, estimated: int = 0) -> dict[str, int]:
    return {"requests": 1, "prompt_tokens": prompt, "completion_tokens": completion, "estimated": estimated}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"choices": [], "usage": {"prompt_tokens": 7, "total_tokens": 10, "completion_tokens": 3}}, cost(7, 3)),
        (
            {"usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}},
            cost(7, 3),
        ),
        ({"data": [{"embedding": [0.5] * 9999}], "usage": {"prompt_tokens": 9, "total_tokens": 9}}, cost(9, 0)),
        ({"object": "response", "usage": {"input_tokens": 4, "output_tokens": 6}}, cost(4, 6)),
        # What a model says of its own cost is a text.
        (
            {"text": 'the "usage": {"completion_tokens": 999}', "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
            cost(1, 2),
        ),
        (
            {"usage": {"prompt_tokens": 1, "completion_tokens": 2}, "text": '"usage":{"completion_tokens":999}'},
            cost(1, 2),
        ),
        # Whatever comes after it, however long, and however little of it has a name of its own.
        ({"usage": {"prompt_tokens": 7, "completion_tokens": 3}, "prompt_logprobs": ["x" * 99] * 999}, cost(7, 3)),
        ({"usage": {"total_tokens": 20000}}, cost(20000, 0)),
        ({"usage": {"total_tokens": 20, "completion_tokens": 3, "prompt_tokens": True}}, cost(17, 3)),
        ({"usage": {"prompt_tokens": -7, "completion_tokens": -3}}, cost(0, 0)),
        # Unsure: as many as the prompt has bytes, and as the request allows.
        ({"choices": []}, cost(5, 50, 1)),
        ({"usage": None}, cost(5, 50, 1)),
        ({"usage": {}}, cost(5, 50, 1)),
    ],
)
def test_an_answer_s_tokens_are_counted_for_the_key(said: dict[str, Any], expected: dict[str, int]) -> None:
    for text in (json.dumps(said), json.dumps(said, separators=(",", ":"))):
        assert counted([text.encode()]) == expected
        assert counted([text[:20].encode(), text[20:].encode()]) == expected


def chunk(**more: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"text": "x"}], **more}).encode() + b"\n\n"


def test_a_stream_s_tokens_are_what_it_says_else_its_events() -> None:
    last = chunk(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 3})
    done = b"data: [DONE]\n\n"
    assert counted([chunk(), chunk(), last, done], STREAM) == cost(5, 3)
    assert counted([chunk(), chunk() + chunk(), done], STREAM) == cost(5, 3, 1)
    several = chunk(choices=[{"text": "twelve bytes"}])
    assert counted([several[:30], several[30:], done], STREAM) == cost(5, 12, 1), "many tokens may come in one event"
    running = [chunk(usage={"prompt_tokens": 5, "completion_tokens": number}) for number in (1, 2)]
    assert counted(running, STREAM, gone=True) == cost(5, 2), "its client is gone"
    assert counted([chunk(), chunk()], STREAM, gone=True) == cost(5, 2, 1)


def test_a_client_that_leaves_before_the_answer_pays_what_it_asked_for() -> None:
    async def gone(_scope: Any, _receive: Any, _send: Any) -> None:
        raise ConnectionResetError

    assert through(json.dumps(ASKED).encode(), gone)[1] == cost(5, 50, 1)
    several = {"model": "m", "messages": [{"content": "ab"}], "n": 3}
    assert through(json.dumps(several).encode(), gone)[1] == cost(2, 3 * 1024, 1)


@pytest.mark.parametrize("asks", [{"max_tokens": 10**30}, {"max_tokens": 10**4000, "n": 10**400}, {"n": 10**18}])
def test_no_request_costs_more_than_can_be_added_up(asks: dict[str, int]) -> None:
    """The client leaves before vLLM refuses the number. A count that nobody can read would end the counting, for every key."""

    async def gone(_scope: Any, _receive: Any, _send: Any) -> None:
        raise ConnectionResetError

    most = program().MOST_TOKENS
    assert through(json.dumps({**ASKED, **asks}).encode(), gone)[1] == cost(5, most, 1)
    said = {"usage": {"prompt_tokens": 10**30, "completion_tokens": 10**30}}
    assert counted([json.dumps(said).encode()]) == cost(most, most)


@pytest.mark.parametrize("levels", [50, 200, 400, 800, 900, 950, 5000])
def test_no_request_is_nested_so_deep_that_it_costs_nothing(levels: int) -> None:
    """It is counted, or no vLLM gets it."""
    asking = b'{"model": "m", "max_tokens": 50, "tools": ' + b"[" * levels + b'"abcde"' + b"]" * levels + b"}"

    async def gone(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ConnectionResetError

    answer, found = through(asking, gone)
    assert found == cost(5, 50, 1) if answer[0]["status"] == 200 else (answer[0]["status"], found) == (400, None)


@pytest.mark.parametrize(("options", "added"), [(None, True), ({}, True), ({"include_usage": True}, False)])
@pytest.mark.parametrize(("release", "can"), [((0, 4, 2), False), ((0, 4, 3), True), ((0, 11, 0), True)])
def test_a_stream_is_always_asked_for_its_usage(options: Any, added: bool, release: tuple[int, ...], can: bool) -> None:
    """The client gets that event only if it asked for it itself."""
    got = {}
    last = chunk(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 3})

    async def answering(_scope: Any, receive: Any, send: Any) -> None:
        got.update(json.loads((await receive())["body"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for part in (chunk(), last[:20], last[20:] + b"data: [DO", b"NE]\n\n", b""):
            await send({"type": "http.response.body", "body": part, "more_body": bool(part)})

    body = {**ASKED, "stream": True, **({} if options is None else {"stream_options": options})}
    answer, found = through(json.dumps(body).encode(), answering, release=release)
    assert (got.get("stream_options") or {}).get("include_usage", False) is (can or not added)
    sent = b"".join(event.get("body", b"") for event in answer)
    assert sent == chunk() + (b"" if can and added else last) + b"data: [DONE]\n\n"
    assert found == cost(5, 3)


# -- what the gateway compared ------------------------------------------------------------------------------------------
DECEIVING = [
    '{"model": "m", "model": "other"}',
    '{"model": "other", "model": "m"}',
    r'{"model": "m", "mod\u0065l": "other"}',
    r'{"mod\u0065l": "other", "model": "m"}',
    '{"model": "other"}',
    '{"model": ["m"]}',
    '{"model": "m", "max_tokens": 1, "max_tokens": 9}',
    '{"x": {"a": 1, "a": 2}, "model": "m"}',
    *("{}", "[]", '["model", "m"]', "", "null", '{"model": "m"', '{"model": "m"} {"model": "other"}', '{"model": "M"}'),
    '{"model": "m\\u0000"}',
    '{"model": "m", "x": ' + "[" * 100000 + "]" * 100000 + "}",
    '{"model": "m", "x": ' + "9" * 5000 + "}",
]


def test_what_two_readers_would_read_otherwise_goes_no_further() -> None:
    """Whatever the gateway made of it: vLLM gets nothing but what was compared."""

    async def vllm(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError("it came to vLLM")

    for body in DECEIVING:
        for encoding in ("utf-8", "utf-16"):
            answer, found = through(body.encode(encoding), vllm)
            assert (answer[0]["status"], found) == (400, None), body[:60]
    good = json.dumps(ASKED).encode()
    gateway = bearer("of-the-gateway")
    key, model = (b"x-llm-key", b"alice"), (b"x-llm-model", b"m")
    for asking in ([key], [model], [key, model, model], [key, key, model], [key, (b"x-llm-model", b"other")]):
        assert through(good, vllm, asking=[*asking, *gateway])[0][0]["status"] == 400, asking


def test_vllm_gets_what_was_compared() -> None:
    got = []

    async def vllm(scope: Any, receive: Any, send: Any) -> None:
        event = await receive()
        got.append((event["body"], dict(scope["headers"])))
        await respond(send)

    async def respond(send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    text = '{"model": "m", "x": [1.5, "\u6a21", "\\ud800", null, NaN, {"y": 1e400}]}'
    for encoding in ("utf-8", "utf-16", "utf-32"):
        through(text.encode(encoding), vllm)
    for body, headers in got:
        assert json.dumps(json.loads(body)) == json.dumps(json.loads(text))
        assert headers[b"content-length"] == str(len(body)).encode()
        assert headers[b"content-type"] == b"application/json"
    assert len(got) == 3


# -- keys of Anthropic's clients, messages, ranks and forms ---------------------------------------------------------------
def test_a_key_in_x_api_key_counts_like_any_other_and_vllm_sees_only_its_own() -> None:
    own = (b"x-api-key", KEY.encode())
    assert asked("/v1/messages", headers=[own])[0]["keys"] == OWN
    assert asked("/v1/messages", headers=[own, *bearer(KEY)])[0]["keys"] == OWN
    for wrong in (b"x", b"", b"Bearer " + KEY.encode()):
        assert status("/v1/messages", headers=[(b"x-api-key", wrong)]) == 401
        assert status("/v1/messages", headers=[(b"x-api-key", wrong), *bearer(KEY)]) == 401
        assert status("/v1/messages", headers=[own, (b"x-api-key", wrong)]) == 401
    assert status("/v1/messages", headers=[own, *bearer("x")]) == 401
    assert status("/v1/messages", headers=[own, *bearer(KEY, "Basic")]) == 401


def message(kind: str, **more: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + json.dumps({"type": kind, **more}).encode() + b"\n\n"


def test_messages_are_counted_by_their_first_and_last_word() -> None:
    """vLLM repeats the tokens of the prompt at the end, with what it had of them already; LMDeploy does not."""
    start = message("message_start", message={"usage": {"input_tokens": 7, "output_tokens": 0}})
    delta = message("content_block_delta", delta={"type": "text_delta", "text": "twelve bytes"})
    ends: list[tuple[dict[str, int], tuple[int, int]]] = [
        ({"output_tokens": 3}, (7, 3)),
        ({"input_tokens": 2, "cache_read_input_tokens": 5, "output_tokens": 3}, (7, 3)),
        ({"input_tokens": 9, "output_tokens": 3}, (9, 3)),
    ]
    for usage, expected in ends:
        end = message("message_delta", delta={"stop_reason": "end_turn"}, usage=usage)
        assert counted([start, delta, end, message("message_stop")], STREAM) == cost(*expected), usage
    assert counted([start + delta], STREAM, gone=True, max_tokens=20) == cost(7, len("text_delta") + 10, 1)
    assert counted([delta], STREAM, gone=True, max_tokens=20) == cost(5, 20, 1)
    whole = {"type": "message", "usage": {"input_tokens": 2, "cache_creation_input_tokens": 4, "output_tokens": 3}}
    assert counted([json.dumps(whole).encode()]) == cost(6, 3)


def forms(*parts: tuple[str, bytes], file: bytes = b"s" * 150) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """A form as clients write it, and its header."""
    said = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + text for name, text in parts]
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a \xe6\xa8\xa1.wav"'
    if file:
        said.append(head + b"\r\nContent-Type: audio/wav\r\n\r\n" + file)
    return b"\r\n".join([*said, b"--b--\r\n"]), [(b"content-type", b"multipart/form-data; boundary=b")]


def heard(
    body: bytes, kind: list[tuple[bytes, bytes]], answer: bytes = b"", headers: Any = PLAIN
) -> tuple[int, Any, bytes]:
    """The status, what the key pays, and what vLLM got of a form."""
    got: list[bytes] = []

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        event = await receive()
        got.extend([dict(scope["headers"])[b"content-type"], event["body"]])
        assert dict(scope["headers"])[b"content-length"] == str(len(event["body"])).encode()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(n.encode(), v.encode()) for n, v in headers]}
        )
        await send({"type": "http.response.body", "body": answer})

    gateway = [(b"x-llm-key", b"alice"), (b"x-llm-model", b"m"), *bearer("of-the-gateway")]
    sent, found = through(
        body, answering, path="/v1/audio/transcriptions", asking=[*gateway, *kind], release=(0, 11, 0)
    )
    return sent[0]["status"], found, b"\n".join(got)


def test_vllm_gets_a_form_that_was_put_together_anew() -> None:
    body, kind = forms(
        ("model", b"m"),
        ("language", b"de"),
        ("timestamp_granularities[]", b"word"),
        ("timestamp_granularities[]", b"segment"),
    )
    status, _found, got = heard(body, kind, b"{}")
    assert status == 200
    head, _line, form = got.partition(b"\n")
    boundary = head.split(b"boundary=")[1]
    assert boundary != b"b"
    *parts, end = form.split(b"--" + boundary)
    assert (len(parts), end) == (6, b"--\r\n")
    assert parts[1] == b'\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n'
    assert parts[5].startswith(
        b'\r\nContent-Disposition: form-data; name="file"; filename="a____.wav"\r\nContent-Type: audio/wav\r\n\r\nsss'
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'{"text": "hello", "usage": {"type": "duration", "seconds": 2}}', cost(100, 5, 1)),
        (b'{"text": "hello", "usage": {"type": "duration", "seconds": 1e400}}', cost(11, 5, 1)),
        (b'{"text": "hello", "usage": {"type": "duration", "seconds": -1}}', cost(11, 5, 1)),
        (
            b'{"text": "hello", "usage": {"type": "tokens", "input_tokens": 9, "output_tokens": 2, "total_tokens": 11}}',
            cost(9, 2),
        ),
        (b'{"text": "hello"}', cost(11, 5, 1)),
        (b"hello", cost(11, 5, 1)),
        (b"1\n00:00:00,000 --> 00:00:01,000\nhello\n", cost(11, 38, 1)),
    ],
)
def test_sound_costs_what_is_said_of_it_or_what_it_can_be(answer: bytes, expected: dict[str, int]) -> None:
    assert heard(*forms(("model", b"m")), answer)[1] == expected


def test_a_stream_of_sound_is_asked_for_its_usage() -> None:
    for said in (
        ((("model", b"m"), ("stream", b"True"))),
        (("model", b"m"), ("stream", b"1"), ("stream_include_usage", b"false")),
    ):
        last = chunk(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 3})
        status, found, got = heard(*forms(*said), chunk() + last, STREAM)
        assert (status, found) == (200, cost(5, 3))
        assert got.count(b'name="stream_include_usage"\r\n\r\ntrue\r\n') == 1
        assert got.count(b"stream_include_usage") == 1
    assert b"stream_include_usage" not in heard(*forms(("model", b"m"), ("stream", b"false")), b"{}")[2]


def test_a_form_that_is_none_or_two_goes_no_further() -> None:
    good, kind = forms(("model", b"m"))
    assert heard(good, kind, b"{}")[0] == 200
    wrong = [
        *(b"", b"--b--", b"x" + good, good[2:], good[:-4], good + good, good + b"x", good.replace(b"--b", b"--c")),
        *(
            good.replace(b'"model"', name)
            for name in (b'"mod\\el"', b'"model', b'"', b'""', b'"model"; name="x"', b"x; model")
        ),
        *(good.replace(b"name=", each) for each in (b"name =", b"x=", b"Name*=")),
        good.replace(b"form-data", b"attachment"),
        good.replace(b"\r\n\r\nm", b"\r\nContent-Disposition: form-data; name=x\r\n\r\nm"),
        good.replace(b"\r\n", b"\n"),
        forms(("model", b"other"))[0],
        forms(("model", b"m"), ("model", b"other"))[0],
        forms(("model", b"m"), ("stream", b"true"), ("stream", b"false"))[0],
        forms(("model", b"m"), ("prompt", b"\xff"))[0],
        forms(("model[]", b"m"))[0],
        forms()[0],
    ]
    for body in wrong:
        assert heard(body, kind, b"{}")[:2] == (400, None), body[:200]
    headers = (
        b"",
        b"application/json",
        b"multipart/form-data",
        b"multipart/form-data; boundary=b; boundary=c",
        b'multipart/form-data; boundary="b',
    )
    for header in headers:
        assert heard(good, [(b"content-type", header)], b"{}")[0] == 400, header
    assert heard(good, kind * 2, b"{}")[0] == 400
    assert heard(good, [], b"{}")[0] == 400


def test_what_counts_tokens_costs_none_and_what_ranks_costs_no_answer() -> None:
    async def gone(_scope: Any, _receive: Any, _send: Any) -> None:
        raise ConnectionResetError

    asking = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    assert through(json.dumps(asking).encode(), gone, path="/v1/messages/count_tokens")[1] == cost(0, 0)
    # Each document is read with the query.
    rank = {"model": "m", "query": "four", "documents": ["one", "two", "three"]}
    assert through(json.dumps(rank).encode(), gone, path="/v1/rerank")[1] == cost(3 * 4 + 11, 0, 1)
    assert through(json.dumps({"model": "m", "input": "hello"}).encode(), gone, path="/v1/embeddings")[1] == cost(
        5, 0, 1
    )


def test_what_was_refused_or_came_from_elsewhere_costs_nobody_anything() -> None:
    body = [json.dumps({"usage": {"prompt_tokens": 7, "completion_tokens": 3}}).encode()]
    assert counted(body) == cost(7, 3)
    assert counted(body, status=400) is None
    name = (b"x-llm-key", b"alice")
    assert counted(body, asking=[name, *bearer(KEY)]) is None, (
        "who has the deployment's own key can name no key of the gateway"
    )
    assert counted(body, asking=[name]) is None
    assert counted(body, asking=bearer("of-the-gateway")) is None


@pytest.mark.parametrize("key", ["", KEY, "of-the-gateway-x"])
def test_only_the_gateway_reads_what_keys_cost(key: str, tmp_path: Path) -> None:
    (tmp_path / "vllm_api_key.gateway").write_text("of-the-gateway\n")
    assert status("/usage", headers=bearer(key)) == 404
    assert status("/usage", headers=bearer("of-the-gateway")) == 200
