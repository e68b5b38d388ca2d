"""The program that loads models when somebody asks for them: its decisions, and the program itself with real sockets before small servers."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import socketserver
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import programs
from tests.support.examples import examples

FILE = programs.ROLES / "common/files/llm-on-request.py"
PROGRAM = programs.load("common/files/llm-on-request.py")
Model, decide = PROGRAM.Model, PROGRAM.decide
ASLEEP, STARTING, LOADED, STOPPING = PROGRAM.ASLEEP, PROGRAM.STARTING, PROGRAM.LOADED, PROGRAM.STOPPING
KEY, OTHER_KEY = "k" * 20, "g" * 20


def model(state: str, *rivals: str, **more: Any) -> Any:
    return Model(state, frozenset(rivals), **more)


# -- what is decided --------------------------------------------------------------------------------------------------
def test_nothing_happens_without_a_request() -> None:
    models = {"a": model(LOADED, "b", loaded=1.0, used=1.0), "b": model(ASLEEP, "a")}
    assert decide(models, 100.0) == ((), (), frozenset(), None)


def test_a_model_is_started_where_its_gpus_are_free() -> None:
    models = {"a": model(ASLEEP, "b", waiting=5.0), "b": model(ASLEEP, "a"), "c": model(LOADED)}
    assert decide(models, 6.0).start == ("a",)


def test_what_is_loaded_goes_when_it_has_stayed_long_enough() -> None:
    models = {"a": model(LOADED, "b", loaded=10.0, used=11.0, stay=5.0), "b": model(ASLEEP, "a", waiting=12.0)}
    early = decide(models, 12.0)
    assert (early.start, early.stop, early.closed, early.again) == ((), (), frozenset(), 15.0)
    late = decide(models, 15.0)
    assert (late.start, late.stop, late.closed) == ((), ("a",), {"a"})


def test_what_answers_ends_first_and_gets_nothing_new() -> None:
    models = {"a": model(LOADED, "b", answering=1), "b": model(ASLEEP, "a", waiting=12.0)}
    assert decide(models, 50.0) == ((), (), {"a"}, None)


def test_who_waits_longest_comes_first() -> None:
    models = {
        "big": model(ASLEEP, "a", "b", waiting=1.0),
        "a": model(LOADED, "big", answering=1),
        "b": model(ASLEEP, "big", waiting=2.0),
    }
    assert decide(models, 3.0) == ((), (), {"a"}, None)


def test_those_that_waited_for_a_model_come_in_before_it_may_go() -> None:
    models = {"a": model(LOADED, "b", waiting=1.0), "b": model(ASLEEP, "a", waiting=2.0)}
    assert decide(models, 3.0) == ((), (), frozenset(), None)


def test_one_without_requests_goes_to_sleep_where_that_is_asked_for() -> None:
    models = {"a": model(LOADED, used=10.0, idle=60.0), "b": model(LOADED, used=10.0)}
    assert decide(models, 20.0).again == 70.0
    assert decide(models, 70.0).stop == ("a",)
    assert decide({"a": models["a"]._replace(answering=1)}, 70.0).stop == ()


def test_what_has_just_answered_stays_until_gateways_know_what_that_cost() -> None:
    models = {"a": model(LOADED, "b", used=10.0, counted=3.0), "b": model(ASLEEP, "a", waiting=9.0)}
    assert decide(models, 11.0) == ((), (), {"a"}, 13.0)
    assert decide(models, 13.0).stop == ("a",)
    idle = {"a": model(LOADED, used=10.0, counted=3.0, idle=1.0)}
    assert decide(idle, 12.0) == ((), (), frozenset(), 13.0)
    assert decide(idle, 13.0).stop == ("a",)


def test_what_did_not_start_takes_nobodys_place_until_its_pause_is_over() -> None:
    models = {"a": model(LOADED, "b"), "b": model(ASLEEP, "a", waiting=1.0, not_before=30.0)}
    assert decide(models, 5.0) == ((), (), frozenset(), 30.0)


NAMES = ("a", "b", "c", "d")


@st.composite
def histories(draw: Any) -> tuple[dict[str, set[str]], list[tuple[str, int, int]], float]:
    """Who cannot be beside whom, requests (for whom, when, how long they take), and how long a model stays."""
    pairs = draw(st.sets(st.sampled_from([(one, other) for one in NAMES for other in NAMES if one < other])))
    rivals = {name: {other for pair in pairs if name in pair for other in pair if other != name} for name in NAMES}
    request = st.tuples(st.sampled_from(NAMES), st.integers(0, 30), st.integers(1, 8))
    return rivals, draw(st.lists(request, min_size=1, max_size=25)), float(draw(st.integers(0, 6)))


@examples(150)
@given(histories())
def test_a_day_of_requests(history: tuple[dict[str, set[str]], list[tuple[str, int, int]], float]) -> None:
    """Whatever is asked for: no two rivals at once, nobody stopped while answering or too early, and each request is answered."""
    rivals, requests, stay = history
    state = dict.fromkeys(NAMES, ASLEEP)
    until, loaded, used = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0)
    waiting: dict[str, list[tuple[float, int]]] = {name: [] for name in NAMES}
    answering: dict[str, list[float]] = {name: [] for name in NAMES}
    closed: frozenset[str] = frozenset()
    open_requests, now = sorted(requests, key=lambda each: each[1]), 0.0
    while now < 2000:
        for name in NAMES:
            answering[name] = [end for end in answering[name] if end > now]
            if state[name] == STARTING and until[name] <= now:
                state[name], loaded[name] = LOADED, now
            elif state[name] == STOPPING and until[name] <= now:
                state[name] = ASLEEP
        while open_requests and open_requests[0][1] <= now:
            name, _at, length = open_requests.pop(0)
            waiting[name].append((now, length))
        seen = {
            name: Model(
                state[name],
                frozenset(rivals[name]),
                len(answering[name]),
                min((since for since, _length in waiting[name]), default=None),
                loaded[name],
                used[name],
                stay,
                0.0,
                0.0,
            )
            for name in NAMES
        }
        found = decide(seen, now)
        assert not set(found.start) & set(found.stop)
        for name in found.stop:
            assert state[name] == LOADED
            assert not answering[name]
            assert now >= loaded[name] + stay
            state[name], until[name] = STOPPING, now + 1
        for name in found.start:
            assert state[name] == ASLEEP
            state[name], until[name] = STARTING, now + 3
        there = [name for name in NAMES if state[name] != ASLEEP]
        assert not any(other in rivals[name] for name in there for other in there)
        closed = found.closed
        for name in NAMES:
            if state[name] == LOADED and name not in closed:
                answering[name] += [now + length for _since, length in waiting[name]]
                waiting[name] = []
                used[name] = now
        if not open_requests and not any(waiting.values()):
            return
        now += 1.0
    pytest.fail(f"not answered: {waiting}")


# -- what a request says ----------------------------------------------------------------------------------------------
def test_a_request_is_handed_on_for_one_answer() -> None:
    text = b"POST /v1/completions?x=1 HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: 2\r\nAuthorization: Bearer  abc\r\n\r\n"
    head = PROGRAM.read_head(text)
    assert (head.method, head.path, head.length, head.chunked, head.key) == (
        "POST",
        "/v1/completions",
        2,
        False,
        "abc",
    )
    assert head.forwarded.endswith(b"Authorization: Bearer  abc\r\nConnection: close\r\n\r\n")
    assert b"keep-alive" not in head.forwarded


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 2\r\nContent-Length: 3",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Content-Length: +2",
        b"Content-Length : 2",
        b"Host: a\r\n continued",
        b"Host: a\nContent-Length: 5",
        b"no header",
    ],
)
def test_what_two_programs_could_read_in_two_ways_is_refused(lines: bytes) -> None:
    with pytest.raises(PROGRAM.Bad) as caught:
        PROGRAM.read_head(b"POST / HTTP/1.1\r\n" + lines + b"\r\n\r\n")
    assert caught.value.status == 400


@given(st.binary(max_size=200))
def test_no_request_breaks_the_reader(text: bytes) -> None:
    refused = []
    try:
        PROGRAM.read_head(text + b"\r\n\r\n")
    except PROGRAM.Bad as bad:
        refused.append(bad.status)
    assert refused in ([], [400])


# -- the program ------------------------------------------------------------------------------------------------------
# In the place of an engine: it takes a moment to load, knows the key, and tells what it answers with.
ENGINE = """\
import http.server, os, sys, time
name, port = sys.argv[1], int(sys.argv[2])
began = time.monotonic()
LOAD = float(os.environ["LOAD_SECONDS"])
DRAINED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "state", "drained")
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *more): pass
    def do_GET(self):
        ready = time.monotonic() - began > LOAD
        if ready and os.path.exists(DRAINED) and self.path == "/health":
            return self.answer(404, b"{}")
        self.answer(200 if ready else 503, b"{}" if self.path == "/health" else name.encode())
    def do_POST(self):
        if self.headers["Transfer-Encoding"]:
            body = b""
            while True:
                size = int(self.rfile.readline(), 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if not size: break
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/slow":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for number in range(10):
                self.wfile.write(b"1\\r\\n%d\\r\\n" % number)
                self.wfile.flush()
                time.sleep(0.1)
            self.wfile.write(b"0\\r\\n\\r\\n")
            return
        self.answer(200, b"%s got %d bytes of %s" % (name.encode(), len(body), self.headers["Authorization"].encode()))
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
# In the place of Docker's client: a container is a process of the above.
DOCKER = """\
#!{python}
import json, os, pathlib, signal, subprocess, sys, time
here = pathlib.Path({here!r})
words = sys.argv[1:]
name = words[-1]
def pid():
    try:
        found = int((here / (name + ".pid")).read_text())
        os.kill(found, 0)
        return found
    except (OSError, ValueError):
        return 0
with open(here / "docker.log", "a") as log:
    log.write(" ".join(words) + "\\n")
if words[:2] == ["container", "inspect"]:
    print("true 0" if pid() else "false 0")
elif words[0] == "start" and not pid():
    if (here / (name + ".broken")).exists():
        sys.exit("cannot start")
    port = json.loads((here / "deployments" / (name + ".json")).read_text())["inner"][1]
    done = subprocess.Popen([sys.executable, str(here / "engine.py"), name, str(port)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    (here / (name + ".pid")).write_text(str(done.pid))
elif words[0] == "stop" and pid():
    os.kill(pid(), signal.SIGKILL)
    (here / (name + ".pid")).unlink()
"""


# Each once, and below those that the system gives to connections: one of these could be taken before the program listens.
PORTS = iter(random.sample(range(20000, 32000), 12000))


def free_port() -> int:
    for port in PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("every port is taken")


class Host:
    """A host with two deployments that need the same GPU, the program, and what root does."""

    def __init__(self, folder: Path, load_seconds: float = 0.3, **more: Any) -> None:
        self.folder = folder
        self.deployments = folder / "deployments"
        self.deployments.mkdir()
        (folder / "engine.py").write_text(ENGINE)
        self.docker = folder / "docker"
        self.docker.write_text(DOCKER.format(python=sys.executable, here=str(folder)))
        self.docker.chmod(0o755)
        (folder / "key").write_text(KEY)
        (folder / "key.gateway").write_text(OTHER_KEY + "\n")
        self.ports = {name: free_port() for name in ("llm-x-a", "llm-x-b")}
        for name in self.ports:
            self.write(name, **more)
        self.environment = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "LOAD_SECONDS": str(load_seconds),
        }
        self.socket = folder / "switch.sock"
        self.path = os.environ["PATH"]
        os.environ.update(self.environment)
        self.switch = self._switch()
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(FILE), "serve", str(self.deployments), str(self.socket)],
            env=self.environment,
            stdout=(folder / "log").open("w"),
            stderr=subprocess.STDOUT,
        )
        self.wait(lambda: all(f"{name}: listens" in self.log() for name in self.ports))

    def write(self, name: str, **more: Any) -> None:
        settings = {
            "model": name[-1],
            "listen": ["127.0.0.1", self.ports[name]],
            "inner": ["127.0.0.1", free_port()],
            "ready": "/health",
            "keys": [str(self.folder / "key"), str(self.folder / "key.gateway"), str(self.folder / "missing")],
            "rivals": [other for other in self.ports if other != name],
            "start_seconds": 120,
            "stay_seconds": 0,
            "idle_seconds": 0,
            "queue": 8,
            "wait_seconds": 120,
            "state": str(self.folder / "state"),
            "look_seconds": 0,
            "counted_seconds": 0,
            **more,
        }
        path = self.deployments / f"{name}.json"
        path.write_text(json.dumps(settings))
        path.chmod(0o644)

    def _switch(self) -> socketserver.ThreadingUnixStreamServer:
        folder = self.deployments

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                # The line of the program as the socket's unit starts it; here without a Python for each.
                found = PROGRAM.switch(str(folder), json.loads(self.rfile.readline()))
                self.wfile.write(json.dumps(found).encode() + b"\n")

        server = socketserver.ThreadingUnixStreamServer(str(self.socket), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        self.switch.shutdown()
        self.switch.server_close()
        os.environ["PATH"] = self.path
        os.environ.pop("LOAD_SECONDS")
        for path in self.folder.glob("*.pid"):
            os.kill(int(path.read_text()), signal.SIGKILL)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def commands(self, word: str) -> list[str]:
        path = self.folder / "docker.log"
        return [line for line in path.read_text().splitlines() if line.startswith(word)] if path.exists() else []

    def runs(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.pid"))

    def ask(
        self, name: str, method: str = "POST", path: str = "/v1/completions", key: str = KEY, body: Any = b"hello"
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=120)
        try:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            chunked = not isinstance(body, bytes)
            connection.request(method, path, body if method == "POST" else None, headers, encode_chunked=chunked)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    @staticmethod
    def wait(what: Any, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end
            time.sleep(0.02)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.close()


def test_a_request_loads_its_model_and_the_other_one_goes(host: Host) -> None:
    assert host.ask("llm-x-a") == (200, b"llm-x-a got 5 bytes of Bearer " + KEY.encode())
    assert host.ask("llm-x-b", key=OTHER_KEY)[0] == 200
    assert host.runs() == ["llm-x-b"]
    assert host.ask("llm-x-a", body=iter([b"a" * 70000, b"b" * 70000]))[1].startswith(b"llm-x-a got 140000 bytes")
    assert host.commands("st") == ["start llm-x-a", "stop llm-x-a", "start llm-x-b", "stop llm-x-b", "start llm-x-a"]


def test_nobody_without_a_key_wakes_a_model_or_waits(host: Host) -> None:
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        wrong = list(pool.map(lambda _number: host.ask("llm-x-a", key="w" * 20, body=b"x" * 100000)[0], range(100)))
    assert set(wrong) == {401}
    status, body = host.ask("llm-x-a", key="")
    assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")
    assert not host.runs()
    assert not host.commands("start")


def test_questions_about_a_sleeping_model_do_not_wake_it(host: Host) -> None:
    assert host.ask("llm-x-a", "GET", "/health", key="")[0] == 200
    assert host.ask("llm-x-a", "GET", "/metrics", key="") == (200, b"")
    assert host.ask("llm-x-a", "GET", "/v1/models", key="")[0] == 401
    assert json.loads(host.ask("llm-x-a", "GET", "/v1/models")[1])["data"][0]["id"] == "a"
    assert host.ask("llm-x-a", "GET", "/version", key="")[0] == host.ask("llm-x-a", "GET", "/props")[0] == 503
    assert not host.runs()
    host.ask("llm-x-a")
    assert host.ask("llm-x-a", "GET", "/v1/models") == (200, b"llm-x-a")


def test_a_gateway_that_counts_keeps_no_model_loaded_and_wakes_none(tmp_path: Path) -> None:
    made = Host(tmp_path, idle_seconds=2)
    try:
        assert made.ask("llm-x-a", "GET", "/usage", key=OTHER_KEY)[0] == 503
        made.ask("llm-x-a")
        said = []
        while made.runs():
            said.append(made.ask("llm-x-a", "GET", "/usage", key=OTHER_KEY))
            assert len(said) < 200
            time.sleep(0.1)
        assert (200, b"llm-x-a") in said
    finally:
        made.close()


def test_a_gateway_asks_the_program_until_the_probe_has_looked(tmp_path: Path) -> None:
    made = Host(tmp_path, look_seconds=2)
    try:
        made.ask("llm-x-a")
        assert json.loads(made.ask("llm-x-a", "GET", "/ready", key="")[1]) == {"status": LOADED}
        made.wait(lambda: made.ask("llm-x-a", "GET", "/ready", key="") == (200, b"llm-x-a"))
    finally:
        made.close()


def test_one_that_is_drained_or_about_to_be_another_one_tells_gateways_also_while_it_sleeps(host: Host) -> None:
    state = host.folder / "state"
    state.mkdir()

    def said() -> set[int]:
        return {host.ask("llm-x-a", "GET", path, key="")[0] for path in ("/ready", "/health")}

    (state / "drained").touch()
    assert said() == {404}
    assert host.ask("llm-x-a")[0] == 200, "who asks without a gateway"
    assert said() == {404}
    (state / "drained").unlink()
    assert said() == {200}
    (state / "restarting").write_text("60")
    assert said() == {503}
    assert host.ask("llm-x-b")[0] == 200
    assert host.ask("llm-x-a")[0] == 200
    assert said() == {200}, "it was started after the mark was made"
    assert host.ask("llm-x-a", "GET", "/version", key="") == (200, b"llm-x-a")
    (state / "restarting").write_text("none")
    assert said() == {200}


def test_an_answer_that_streams_is_ended_before_its_model_goes(host: Host) -> None:
    host.ask("llm-x-a")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        slow = pool.submit(host.ask, "llm-x-a", "POST", "/slow")
        time.sleep(0.2)
        other = pool.submit(host.ask, "llm-x-b")
        assert slow.result() == (200, b"0123456789")
        assert other.result()[0] == 200


def test_pieces_come_as_they_are_made(host: Host) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", host.ports["llm-x-a"], timeout=120)
    host.ask("llm-x-a")
    began = time.monotonic()
    connection.request("POST", "/slow", b"", {"Authorization": f"Bearer {KEY}"})
    answer = connection.getresponse()
    assert answer.read(1) == b"0"
    assert time.monotonic() - began < 0.7
    answer.read()
    connection.close()


def test_two_clients_swap_without_a_lost_request(host: Host) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [one.result()[0] for _round in range(5) for one in [pool.submit(host.ask, name) for name in host.ports]]
    assert found == [200] * 10


def test_a_full_queue_and_a_late_start_are_said(tmp_path: Path) -> None:
    host = Host(tmp_path, load_seconds=300, queue=2, wait_seconds=15, start_seconds=300)
    try:
        host.ask("llm-x-a", "GET", "/v1/models")  # its keys are known then
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = [one.result() for one in [pool.submit(host.ask, "llm-x-a") for _number in range(4)]]
    finally:
        host.close()
    assert sorted(json.loads(body)["error"]["code"] for _status, body in found) == [
        *["model_loading_timeout"] * 2,
        *["queue_full"] * 2,
    ]
    assert {status for status, _body in found} == {503, 504}


def test_a_model_that_does_not_start_leaves_the_gpu_to_others(tmp_path: Path) -> None:
    host = Host(tmp_path)
    try:
        (tmp_path / "llm-x-a.broken").touch()
        status, body = host.ask("llm-x-a")
        assert (status, json.loads(body)["error"]["code"]) == (503, "model_not_started")
        assert "cannot start" in json.loads(body)["error"]["message"]
        assert host.ask("llm-x-b")[0] == 200
        began = time.monotonic()
        assert host.ask("llm-x-a")[0] == 503
        assert time.monotonic() - began < PROGRAM.PAUSE_SECONDS, "its pause"
        assert host.runs() == ["llm-x-b"]
    finally:
        host.close()


def test_one_that_somebody_stopped_is_started_again(host: Host) -> None:
    host.ask("llm-x-a")
    subprocess.run([str(host.docker), "stop", "llm-x-a"], check=True)
    assert host.ask("llm-x-a")[0] == 200


def test_one_that_somebody_started_is_found(host: Host) -> None:
    subprocess.run([str(host.docker), "start", "llm-x-b"], env=host.environment, check=True)
    assert host.ask("llm-x-a")[0] == 200
    assert host.runs() == ["llm-x-a"]


def test_what_runs_is_kept_when_the_program_starts_anew(host: Host) -> None:
    host.ask("llm-x-a")
    host.process.terminate()
    host.process.wait(10)
    again = subprocess.Popen(host.process.args, env=host.environment, stdout=(host.folder / "log").open("w"))
    host.process = again
    host.wait(lambda: "llm-x-a: runs already" in host.log() and "llm-x-b: listens" in host.log())
    assert host.ask("llm-x-a")[0] == 200
    assert host.commands("st") == ["start llm-x-a"]


def test_a_deployment_without_its_file_is_neither_served_nor_started(host: Host) -> None:
    (host.deployments / "llm-x-a.json").unlink()
    host.wait(lambda: "llm-x-a: listens no more" in host.log())
    with pytest.raises(ConnectionRefusedError):
        host.ask("llm-x-a")
    assert not PROGRAM.switch(str(host.deployments), {"do": "start", "name": "llm-x-a"})["ok"]


def test_one_without_requests_sleeps(tmp_path: Path) -> None:
    host = Host(tmp_path, idle_seconds=1)
    try:
        host.ask("llm-x-a")
        host.wait(lambda: not host.runs())
        assert host.ask("llm-x-a")[0] == 200
    finally:
        host.close()


def test_a_client_that_leaves_waits_no_more(tmp_path: Path) -> None:
    host = Host(tmp_path, load_seconds=2, queue=1)
    try:
        with socket.create_connection(("127.0.0.1", host.ports["llm-x-a"])) as gone:
            gone.sendall(f"POST / HTTP/1.1\r\nAuthorization: Bearer {KEY}\r\nContent-Length: 0\r\n\r\n".encode())
            host.wait(lambda: host.runs())
        time.sleep(0.2)
        assert host.ask("llm-x-a")[0] == 200, "the queue has room again"
    finally:
        host.close()


# -- what root does ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["../x", "", "ssh", "llm-x;reboot", "llm-none"])
def test_only_deployments_with_a_file_are_switched(tmp_path: Path, name: str) -> None:
    for do in ("start", "stop", "look", "keys"):
        assert not PROGRAM.switch(str(tmp_path), {"do": do, "name": name})["ok"]


def test_a_file_that_others_can_write_is_none(tmp_path: Path) -> None:
    path = tmp_path / "llm-x.json"
    path.write_text("{}")
    path.chmod(0o666)
    assert PROGRAM.read_settings(str(tmp_path), "llm-x") is None
    path.chmod(0o644)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert PROGRAM.read_settings(str(tmp_path), "llm-x") == {}


def test_keys_leave_root_as_digests(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n\nno key\n")
    (tmp_path / "llm-x.json").write_text(json.dumps({"keys": [str(tmp_path / "key")], "rivals": []}))
    found = PROGRAM.switch(str(tmp_path), {"do": "keys", "name": "llm-x"})
    assert found == {"ok": True, "keys": PROGRAM.key_digests([KEY])}
    assert KEY not in json.dumps(found)
