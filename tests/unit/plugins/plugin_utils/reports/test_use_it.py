"""The last lines of a report: a reader can copy them, and no key stands in them."""

from __future__ import annotations

import ast
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.use_it import Address, curl, python, use_lines

KEY = "secret-of-a-test"


class Server(http.server.BaseHTTPRequestHandler):
    """Answers what it was asked."""

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        asked = {"path": self.path, "key": self.headers["Authorization"], "body": json.loads(self.rfile.read(length))}
        answer = json.dumps(asked).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize("kind", ["chat", "completions", "embeddings"])
def test_curl_asks_with_the_key_of_the_file(kind: str, url: str, tmp_path: Path) -> None:
    file = tmp_path / "the key's file"
    file.write_text(KEY + "\n")
    lines = curl(Address(url, ["it's"], key_file=str(file), kind=kind))
    assert KEY not in "\n".join(lines)
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    asked = json.loads(done.stdout)
    path = {"chat": "chat/completions"}.get(kind, kind)
    assert (asked["path"], asked["key"], asked["body"]["model"]) == (f"/v1/{path}", f"Bearer {KEY}", "it's")


@pytest.mark.parametrize("kind", ["chat", "completions", "embeddings"])
@pytest.mark.parametrize("more", [{}, {"key_file": "/s/it's"}, {"key_variable": "vllm_api_key"}, {"root": "/s/ca.crt"}])
def test_the_lines_for_python_are_a_program(kind: str, more: dict[str, str]) -> None:
    ast.parse("\n".join(python(Address("https://llm.example", ["m"], kind=kind, **more))))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_everything_that_a_client_needs_is_said(language: str) -> None:
    address = Address("https://llm.example", ["m", "n"], key_file="/s/key", root="/s/ca.crt")
    text = "\n".join(use_lines([address], ["https://llm.example:8443"], language))
    for part in (
        "https://llm.example/v1",
        "m, n",
        "/s/key",
        "/s/ca.crt",
        "https://llm.example:8443",
        "docs/guides/use-it.md",
    ):
        assert part in text
    assert use_lines([], [], language) == []
