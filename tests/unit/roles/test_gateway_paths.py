"""All paths that a gateway offers, before a real HAProxy and the real program that counts, with a small server as engine: messages, responses, ranks, audio."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.decide import FORMS

from benchmarks import gateway as bench
from tests.support import programs

pytestmark = pytest.mark.slow

AUDIO, MESSAGES = "/v1/audio/transcriptions", "/v1/messages"
OTHER_KEY = "D" * 40


class Engine(http.server.BaseHTTPRequestHandler):
    """A server of an engine whose answers nobody reads: it says what came."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        said = {
            "path": self.path,
            "size": len(body),
            "headers": {name.lower(): value for name, value in self.headers.items()},
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_words: Any) -> None:
        pass


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, haproxy: tuple[str, dict[str, str]]) -> Iterator[bench.Gateway]:
    patch = pytest.MonkeyPatch()
    patch.setitem(bench.KEYS, "other", OTHER_KEY)
    made = bench.Gateway(tmp_path_factory.mktemp("gateway"), *haproxy)
    made.more = {"gateway_keys": [{"name": "bench"}, {"name": "other", "models": ["g"]}], "gateway_max_body_mib": 1}
    engine = http.server.ThreadingHTTPServer((bench.HOME, 0), Engine)
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    head = {
        "llm_engine": "llama_cpp",
        "llama_cpp_model": "g",
        "llama_cpp_version": "b6327",
        "llama_cpp_probe_enabled": True,
    }
    made.heads = {"old": {**head, "llama_cpp_port": engine.server_address[1]}}
    with made.running():
        yield made
    engine.shutdown()
    patch.undo()


KEYED = {"Authorization": f"Bearer {bench.KEY}"}


def ask(gateway: bench.Gateway, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    connection = gateway.connect(through=True)
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    said = response.read()
    connection.close()
    return response.status, json.loads(said) if said.startswith(b"{") else said


def as_json(
    gateway: bench.Gateway, path: str, model: str = "m", headers: dict[str, str] | None = None, **more: Any
) -> tuple[int, Any]:
    kind = {"Content-Type": "application/json"}
    return ask(
        gateway,
        path,
        json.dumps({"model": model, **more}).encode(),
        {**kind, **(KEYED if headers is None else headers)},
    )


def part(name: str, content: bytes, more: str = "") -> bytes:
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content + b"\r\n"


SOUND = part("file", b"RIFF\0\0sound\r\n-bytes*" * 100, '; filename="a.wav"\r\nContent-Type: audio/wav')
END = b"--b--\r\n"


def as_form(gateway: bench.Gateway, body: bytes, path: str = AUDIO, **headers: str) -> tuple[int, Any]:
    return ask(gateway, path, body, {"Content-Type": "multipart/form-data; boundary=b", **KEYED, **headers})


def cost(gateway: bench.Gateway) -> dict[str, int]:
    """What the program that counts has added up for the key of all replicas, as it reads them."""
    usage = programs.load("gateway/files/llm-gateway-usage.py")
    found = usage.Usage({})
    for port in gateway.ports:
        replica = {"name": str(port), "model": "m", "address": bench.HOME, "port": port}
        found.add(str(port), "m", usage.ask(replica, bench.OPENS)[1], time.time())
    rows = found.rows(time.strftime("%Y-%m", time.gmtime()))
    return {kind: sum(row[kind] for row in rows if row["key"] == "bench") for kind in usage.KINDS}


def difference(gateway: bench.Gateway, before: dict[str, int]) -> tuple[int, ...]:
    now = cost(gateway)
    return tuple(now[kind] - before[kind] for kind in ("requests", "prompt_tokens", "completion_tokens", "estimated"))


@pytest.mark.parametrize(
    ("path", "more", "expected"),
    [
        (MESSAGES, {"max_tokens": 9, "messages": []}, (1, 3, 2, 0)),
        (MESSAGES, {"max_tokens": 9, "messages": [], "stream": True}, (1, 3, 2, 0)),
        (f"{MESSAGES}/count_tokens", {"messages": []}, (1, 0, 0, 0)),
        ("/v1/responses", {"input": "x"}, (1, 3, 2, 0)),
        ("/v1/responses", {"input": "x", "stream": True}, (1, 3, 2, 0)),
        ("/v1/rerank", {"query": "x", "documents": ["y"]}, (1, 3, 0, 0)),
    ],
)
def test_what_each_path_costs_is_counted_for_the_key(
    gateway: bench.Gateway, path: str, more: dict[str, Any], expected: tuple[int, ...]
) -> None:
    before = cost(gateway)
    status, said = as_json(gateway, path, **more)
    assert status == 200, said
    assert difference(gateway, before) == expected


def test_sound_is_counted_by_its_seconds_or_by_what_it_can_be(gateway: bench.Gateway) -> None:
    before = cost(gateway)
    assert as_form(gateway, part("model", b"m") + SOUND + END)[0] == 200
    assert difference(gateway, before) == (1, 200, 3, 1)
    before = cost(gateway)
    assert as_form(gateway, part("model", b"m") + SOUND + END, "/v1/audio/translations")[0] == 200
    assert difference(gateway, before) == (1, 2000 // 15 + 1, 3, 1)
    before = cost(gateway)
    assert as_form(gateway, part("model", b"m") + part("stream", b"true") + SOUND + END)[0] == 200
    assert difference(gateway, before) == (1, 3, 2, 0)


def test_a_form_as_curl_and_other_clients_write_it(gateway: bench.Gateway, tmp_path: Path) -> None:
    """Also without quotes, with further lines, and large enough for curl to ask first whether it may send."""
    plain = b"--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=model\r\nContent-Length: 1\r\n\r\nm\r\n"
    assert as_form(gateway, plain + SOUND + END)[0] == 200
    sound = tmp_path / "a.wav"
    sound.write_bytes(os.urandom(900_000))
    command = [
        "curl",
        "-sk",
        "-o",
        str(tmp_path / "said"),
        "-w",
        "%{http_code}",
        "-H",
        f"Authorization: Bearer {bench.KEY}",
    ]
    command += [
        "-H",
        "Expect: 100-continue",
        "-F",
        "model=m",
        "-F",
        f"file=@{sound}",
        f"https://{bench.HOME}:{gateway.port}{AUDIO}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "200", (done.stderr, (tmp_path / "said").read_bytes())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (part("model", b"m") + part("model", b"g") + SOUND + END, 400),
        (part("model", b"m") + part("model", b"m") + SOUND + END, 400),
        (part("model", b"g") + part("model", b"m") + SOUND + END, 404),
        (part("model", b"other") + SOUND + END, 404),
        (part("model", b"") + SOUND + END, 400),
        (SOUND + part("model", b"m") + END, 400),
        (SOUND + END, 400),
        (part("model", b"m") + SOUND, 400),
        (b"preamble\r\n" + part("model", b"m") + SOUND + END, 400),
        (part("model", b"m") + SOUND + END + b"behind", 400),
        (part("model", b"m") + SOUND + b"--bb\r\n" + END, 400),
        (part("model", b"m") + part("x", b"\r\n--bytes") + SOUND + END, 400),
        (part("model", b"m") + SOUND + b"--b\r\n" + END, 400),
        (part("model", b"m") + SOUND + END + part("model", b"g") + END, 400),
        (part("model", b"m") + part("x", b"y", "\r\nContent-Transfer-Encoding: base64") + SOUND + END, 400),
        (part("model", b"m", '; filename="m"') + SOUND + END, 400),
        (b'{"model": "m"}', 400),
        (b"", 400),
    ],
)
def test_a_form_that_two_programs_would_read_otherwise_goes_no_further(
    gateway: bench.Gateway, body: bytes, status: int
) -> None:
    before = cost(gateway)
    found, said = as_form(gateway, body)
    assert found == status
    assert said["error"]["message"]
    assert difference(gateway, before) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "kind",
    [
        *("application/json", "multipart/form-data", "multipart/form-data; boundary=c", "multipart/mixed; boundary=b"),
        *(
            "multipart/form-data; boundary=b; boundary=c",
            'multipart/form-data; boundary="b',
            "multipart/form-data; boundary=",
        ),
    ],
)
def test_a_form_with_another_boundary_than_its_header_says_goes_no_further(gateway: bench.Gateway, kind: str) -> None:
    body = part("model", b"m") + SOUND + END
    assert as_form(gateway, body, **{"Content-Type": kind})[0] == 400


def test_two_boundaries_in_two_headers_go_no_further(gateway: bench.Gateway) -> None:
    connection = gateway.connect(through=True)
    body = part("model", b"m") + SOUND + END
    connection.putrequest("POST", AUDIO)
    for name, value in (*KEYED.items(), ("Content-Length", str(len(body)))):
        connection.putheader(name, value)
    for boundary in ("b", "c"):
        connection.putheader("Content-Type", f"multipart/form-data; boundary={boundary}")
    connection.endheaders(body)
    assert connection.getresponse().status == 400


def test_a_form_of_heads_alone_costs_no_time(gateway: bench.Gateway) -> None:
    for line in (b'\r\nContent-Disposition: form-data; name="model"', b"\r\na:b", b"\r\n", b"\r"):
        began = time.monotonic()
        assert as_form(gateway, b"--b" + line * (900_000 // len(line)))[0] in (400, 404)
        assert time.monotonic() - began < 5, line


def test_nothing_of_a_form_is_read_before_the_key_is_known(gateway: bench.Gateway) -> None:
    """A huge form gets its answer after the headers."""
    for path in FORMS:
        connection = gateway.connect(through=True)
        connection.putrequest("POST", path)
        for name, value in (("Content-Type", "multipart/form-data; boundary=b"), ("Content-Length", str(1 << 30))):
            connection.putheader(name, value)
        connection.endheaders(part("model", b"m"))
        assert connection.getresponse().status == 401
    assert as_form(gateway, part("model", b"m") + b"x" * (1 << 20))[0] == 413


# -- keys -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Api-Key": bench.KEY}, 200),
        ({"X-Api-Key": bench.KEY, **KEYED}, 200),
        ({"X-Api-Key": OTHER_KEY, **KEYED}, 401),
        ({"X-Api-Key": bench.KEY, "Authorization": f"Bearer {OTHER_KEY}"}, 401),
        ({"X-Api-Key": "x" * 40, **KEYED}, 401),
        ({"X-Api-Key": bench.KEY, "Authorization": "Bearer x"}, 401),
        ({"X-Api-Key": bench.KEY, "Authorization": "Basic x"}, 401),
        ({"X-Api-Key": "", **KEYED}, 401),
        ({"X-Api-Key": ""}, 401),
        ({"X-Api-Key": f"Bearer {bench.KEY}"}, 401),
        ({"X-Api-Key": OTHER_KEY}, 403),
        ({}, 401),
    ],
)
def test_a_key_counts_in_either_header_and_two_have_to_be_the_same(
    gateway: bench.Gateway, headers: dict[str, str], status: int
) -> None:
    """The server behind would answer 400 to who brings X-Api-Key: the client's key stays at the gateway."""
    before = cost(gateway)
    assert as_json(gateway, MESSAGES, headers=headers, messages=[])[0] == status
    assert difference(gateway, before)[0] == (status == 200)


def test_an_engine_with_keys_of_its_own_gets_the_gateway_s(gateway: bench.Gateway) -> None:
    status, said = as_json(gateway, "/v1/rerank", "g", {"X-Api-Key": OTHER_KEY})
    assert (status, said["path"], said["headers"]["authorization"]) == (200, "/v1/rerank", f"Bearer {bench.OPENS}")
    assert "x-api-key" not in said["headers"]


# -- paths that an engine lacks -------------------------------------------------------------------------------------------
def test_a_path_that_the_model_s_engine_lacks_is_refused_with_those_that_it_has(gateway: bench.Gateway) -> None:
    for status, said in (as_json(gateway, MESSAGES, "g"), as_form(gateway, part("model", b"g") + SOUND + END)):
        assert (status, said["error"]["code"]) == (404, "unknown_url")
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank"):
            assert path in said["error"]["message"]
        assert "/v1/responses" not in said["error"]["message"]
    assert as_json(gateway, "/v1/score", "m")[0] == 404, "it is vLLM's, and this server lacks it: its own answer"
    assert as_json(gateway, "/pause", "m")[1]["error"]["code"] == "unknown_url"


def test_the_gateway_and_the_program_that_counts_know_the_same_forms() -> None:
    assert programs.load("common/files/llm_api_paths.py").FORMS == FORMS


def test_the_log_says_nothing_of_a_form(gateway: bench.Gateway) -> None:
    as_form(gateway, part("prompt", b"a secret word") + SOUND + END)
    as_form(gateway, part("prompt", b"a secret word") + part("model", b"m") + SOUND + END)
    time.sleep(0.5)
    log = (gateway.folder / "log").read_text()
    assert '"model":"m"' in log
    assert "secret" not in log
    assert bench.KEY not in log
