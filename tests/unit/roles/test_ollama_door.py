"""HAProxy in front of Ollama, as the role starts it: who gets through, and that another key counts without a restart."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.ollama.door import PATHS, door_text

from benchmarks import gateway as bench
from tests.support import programs

DOOR = programs.load("ollama/files/llm_ollama_door.py")
KEY, GATEWAYS, NEW = "k" * 40, "g" * 40, "n" * 40


def test_the_digests_are_those_of_all_keys_that_count(tmp_path: Path) -> None:
    path = tmp_path / "ollama_api_key"
    assert DOOR.digests(str(path)) == ""
    path.write_text(f"{KEY}\n")
    (tmp_path / "ollama_api_key.gateway").write_text(GATEWAYS)
    (tmp_path / "ollama_api_key.previous").write_text(f"{NEW}\n{KEY}\n\nno key\n")
    found = DOOR.digests(str(path)).splitlines()
    assert len(found) == len(set(found)) == 3
    assert all(len(one) == 64 and one == one.upper() for one in found)


def test_it_does_not_start_where_there_is_no_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert DOOR.main(["/bin/false", "door.cfg", "1", "tiny", str(tmp_path / "keys"), str(tmp_path / "key")]) == 1
    assert "holds no key" in capsys.readouterr().err


class Ollama(http.server.BaseHTTPRequestHandler):
    """Loads a model for five seconds when it is asked for one, and says of all else what it was asked, as far as it concerns who asks."""

    loaded: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        if self.path == "/api/ps":
            self.say({"models": [{"name": name} for name in self.loaded]})
        else:
            self.answer()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/api/generate":
            time.sleep(5)
            self.loaded.append(json.loads(body)["model"])
            self.say({"done": True})
        else:
            self.answer()

    def say(self, said: dict[str, Any]) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(said, separators=(",", ":")).encode())

    def answer(self) -> None:
        said = {name: self.headers.get(name) for name in ("Host", "Origin", "Authorization", "X-Api-Key")}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode() + b"\n")
        if self.path == "/v1/completions":
            self.wfile.flush()
            time.sleep(4)
            self.wfile.write(b"the rest\n")

    def log_message(self, *_words: Any) -> None:
        pass


class Site:
    def __init__(self, folder: Path) -> None:
        self.key = folder / "ollama_api_key"
        self.key.write_text(KEY)
        self.port, self.inner = bench.free_ports(2)
        (folder / "door.cfg").write_text(door_text(self.port, self.inner, f"{folder}/keys", ""))

    def ask(self, path: str, key: str = KEY, method: str = "POST", **headers: str) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        said = {"Authorization": f"Bearer {key}"} if key else {}
        connection.request(method, path, b"{}" if method == "POST" else None, {**said, **headers})
        answer = connection.getresponse()
        body = answer.read().partition(b"\n")[0]
        connection.close()
        return answer.status, json.loads(body) if body.startswith(b"{") else {}

    def wait(self, path: str, wanted: int, key: str) -> None:
        for _look in range(150):
            try:
                if self.ask(path, key, "GET")[0] == wanted:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"{path} did not say {wanted} within 15 s")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, haproxy: tuple[str, dict[str, str]]) -> Iterator[Site]:
    program, environment = haproxy
    made = Site(tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", made.inner), Ollama)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [sys.executable, DOOR.__file__, program, f"{tmp_path}/door.cfg", str(made.inner), "tiny"]
    command += [f"{tmp_path}/keys", str(made.key)]
    monkeypatch.setattr(Ollama, "loaded", [])
    process = subprocess.Popen(command, env={**os.environ, **environment})
    try:
        made.wait("/health", 503, "")
        assert made.ask("/v1/completions")[0] == 503, "nobody is let through before the model is there"
        made.wait("/health", 200, "")
        assert Ollama.loaded == ["tiny"]
        yield made
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_only_what_computes_gets_through_and_only_with_a_key(site: Site) -> None:
    wanted = {path: 200 for path in PATHS if path != "/v1/completions"}
    assert {path: site.ask(path)[0] for path in wanted} == wanted
    assert site.ask("/v1/models", method="GET")[0] == 200
    # Ollama's own API, with which models are fetched, changed and removed, for nobody.
    closed = ("/api/pull", "/api/delete", "/api/create", "/api/generate", "/api/ps", "/", "/debug/pprof/", "/v1/files")
    assert {site.ask(path)[0] for path in closed} == {404}
    assert site.ask("/v1/models", method="DELETE")[0] == 405
    assert {site.ask(path, key)[0] for path in (*PATHS, "/api/pull") for key in ("", "wrong", KEY + "x")} == {401}
    # Ollama sees neither the key nor from where somebody comes: for other hosts' names and origins it has an error.
    status, seen = site.ask("/v1/chat/completions", Origin="https://elsewhere.example.org", Host="llm.example.org")
    assert (status, seen) == (200, {"Host": "localhost", "Origin": None, "Authorization": None, "X-Api-Key": None})
    # Anthropic's clients say their key in a header of its own. Of two, both have to count.
    for key, other, expected in (
        ("", KEY, 200),
        (KEY, KEY, 200),
        ("", "x", 401),
        (KEY, "x", 401),
        ("x", KEY, 401),
        (KEY, "", 401),
    ):
        status, seen = site.ask("/v1/messages", key, **{"X-Api-Key": other})
        assert (status, seen.get("X-Api-Key")) == (expected, None), (key, other)


@pytest.mark.slow
def test_another_key_counts_without_a_restart_and_cuts_no_answer_off(site: Site) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    connection.request("POST", "/v1/completions", b"{}", {"Authorization": f"Bearer {KEY}"})
    answer = connection.getresponse()
    answer.readline()
    site.key.write_text(NEW)
    site.wait("/v1/models", 200, NEW)
    assert site.ask("/v1/models", KEY, "GET")[0] == 401
    assert answer.read() == b"the rest\n", "it had begun with the former key"
    connection.close()
    Path(f"{site.key}.gateway").write_text(GATEWAYS)
    site.wait("/v1/models", 200, GATEWAYS)
    site.key.write_text("")
    time.sleep(2)
    assert site.ask("/v1/models", NEW, "GET")[0] == 200, "what cannot be read changes nothing"
