"""The container engine, asked over a unix socket as a real one is."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._engine import read_engine, remove_image

# Shortened answers of Docker 24.
CONTAINERS = [
    {
        "Id": "ab" * 32,
        "Names": ["/llm-ray"],
        "Image": "vllm/vllm-openai:v0.8.5",
        "State": "running",
        "Labels": {"baremetal.llm.deployment": "pair"},
    },
    {"Id": "cd" * 32, "Names": None, "Image": "sha256:0", "State": "dead"},
]
IMAGES = [
    {"Id": "sha256:0", "RepoTags": ["vllm/vllm-openai:v0.8.5"], "RepoDigests": []},
    {"Id": "sha256:1", "RepoTags": None},
]
# What it says to who wants an image removed, without force and without what lies below.
DELETED = {
    "/images/llm-kept:0123?noprune=1": (200, "[]"),
    "/images/site/vllm:1?noprune=1": (409, "a container is using it"),
    "/images/sha256:0?noprune=1": (500, ""),
}
GOOD = {"/containers/json?all=1": json.dumps(CONTAINERS), "/images/json": json.dumps(IMAGES)}


@contextmanager
def engine(path: Path, answers: dict[str, str]) -> Iterator[str]:
    """An HTTP server on a unix socket; what it does not know it answers with 500."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = answers.get(self.path, "").encode()
            self.send_response(200 if self.path in answers else 500)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_DELETE(self) -> None:
            status, said = DELETED.get(self.path, (404, "no such image"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said.encode())

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *arguments: Any) -> None:
            pass

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield str(path)
        finally:
            server.shutdown()
            thread.join()


def test_containers_and_images(tmp_path: Path) -> None:
    with engine(tmp_path / "socket", GOOD) as path:
        assert read_engine(path) == {
            "containers": [
                {
                    "id": "ab" * 32,
                    "name": "llm-ray",
                    "image": "vllm/vllm-openai:v0.8.5",
                    "state": "running",
                    "ours": True,
                },
                {"id": "cd" * 32, "name": "", "image": "sha256:0", "state": "dead", "ours": False},
            ],
            "images": [{"id": "sha256:0", "tags": ["vllm/vllm-openai:v0.8.5"]}, {"id": "sha256:1", "tags": []}],
        }


@pytest.mark.parametrize("images", [None, "", "{", "{}x", "[1]", '[{"RepoTags": []}]', '{"message": "no"}'])
def test_an_engine_that_answers_something_else(tmp_path: Path, images: str | None) -> None:
    answers = {name: text for name, text in {**GOOD, "/images/json": images}.items() if text is not None}
    with engine(tmp_path / "socket", answers) as path:
        assert read_engine(path) is None


def test_no_engine_and_one_that_hangs(tmp_path: Path) -> None:
    assert read_engine(str(tmp_path / "none")) is None
    (tmp_path / "file").touch()
    assert read_engine(str(tmp_path / "file")) is None
    with socketserver.UnixStreamServer(str(tmp_path / "socket"), socketserver.BaseRequestHandler):
        assert read_engine(str(tmp_path / "socket"), timeout=0.1) is None


def test_an_image_is_removed_without_force(tmp_path: Path) -> None:
    with engine(tmp_path / "socket", GOOD) as path:
        assert remove_image("llm-kept:0123", path) == ""
        assert remove_image("gone:1", path) == "", "what went meanwhile is no failure"
        assert remove_image("site/vllm:1", path) == "a container is using it"
        assert remove_image("sha256:0", path) == "status 500"
    assert remove_image("site/vllm:1", path) != "", "no engine answers"
