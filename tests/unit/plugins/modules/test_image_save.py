"""An image of an engine into an archive; the engine answers over a unix socket as a real one does."""

from __future__ import annotations

import hashlib
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import IncompleteRead
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import read_state
from ansible_collections.baremetal.llm.plugins.modules.image_save import is_there, require_room, save

ARCHIVE = b"layer" * 500_000
IMAGE = "site/vllm:1"


@contextmanager
def engine(path: Path, unpacked: int = len(ARCHIVE), sent: int = len(ARCHIVE)) -> Iterator[str]:
    """It sends an archive in chunks, as Docker does, and breaks off after so many bytes of it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.close_connection = True
            if self.path == "/images/site%2Fvllm%3A1/json":
                answer = json.dumps({"Size": unpacked}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                return
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, sent, 1 << 16):
                piece = ARCHIVE[at : min(at + (1 << 16), sent)]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if sent == len(ARCHIVE):
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    class Server(socketserver.ThreadingUnixStreamServer):
        def get_request(self) -> tuple[object, tuple[str, int]]:  # type: ignore[override]
            return super().get_request()[0], ("engine", 0)

    with Server(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield str(path)
        finally:
            server.shutdown()


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    (tmp_path / "bundle" / INCOMING).mkdir(parents=True)
    return tmp_path / "bundle"


def test_an_image_becomes_an_archive_that_is_known(tmp_path: Path, dest: Path) -> None:
    with engine(tmp_path / "socket") as socket:
        require_room(str(dest), IMAGE, socket)
        save(IMAGE, str(dest), "image.tar", socket)
    assert (dest / "image.tar").read_bytes() == ARCHIVE
    assert read_state(str(dest))["image.tar"]["sha256"] == hashlib.sha256(ARCHIVE).hexdigest()
    assert is_there(str(dest), "image.tar")
    assert list((dest / INCOMING).iterdir()) == []
    (dest / "image.tar").write_bytes(b"changed")
    assert not is_there(str(dest), "image.tar")


def test_of_an_image_that_broke_off_nothing_is_left(tmp_path: Path, dest: Path) -> None:
    with engine(tmp_path / "socket", sent=1 << 20) as socket, pytest.raises(IncompleteRead):
        save(IMAGE, str(dest), "image.tar", socket)
    assert not is_there(str(dest), "image.tar")
    assert [path.name for path in dest.iterdir()] == [INCOMING]
    assert list((dest / INCOMING).iterdir()) == []


def test_an_image_that_the_disk_cannot_hold_is_not_saved(tmp_path: Path, dest: Path) -> None:
    with engine(tmp_path / "socket", unpacked=1 << 60) as socket, pytest.raises(CodedError) as raised:
        require_room(str(dest), IMAGE, socket)
    assert (raised.value.code, raised.value.values["variable"]) == ("no_room", "llm_host_dir")
