"""Downloads from a real server on this machine that breaks off, ignores ranges, lies about sizes and changes its files."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _download as network
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import download as fetch
from hypothesis import given
from hypothesis import strategies as st

CONTENT = bytes(range(256)) * 4096  # 1 MiB


class Server(http.server.ThreadingHTTPServer):
    """What it does is set by each test; what it was asked is in `asked`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.etag = CONTENT, '"one"'
        self.ranges = True
        self.break_after: list[int] = []  # bytes after which the next answers break off
        self.codes: list[int] = []  # what the next answers say instead of 200
        self.redirect = ""
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        server = self.server
        server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        if server.redirect:
            self.send_response(302)
            self.send_header("Location", server.redirect)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if server.codes:
            self.send_response(server.codes.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body, start = server.content, 0
        wanted = self.headers.get("Range")
        if wanted and server.ranges and self.headers.get("If-Range", server.etag) == server.etag:
            start = int(wanted.split("=")[1].rstrip("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        if server.etag:
            self.send_header("ETag", server.etag)
        self.end_headers()
        if self.command == "HEAD":
            return
        if server.break_after:
            self.wfile.write(body[start : start + server.break_after.pop(0)])
            self.close_connection = True
            return
        self.wfile.write(body[start:])


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "bundle" / "file.bin"


def get(server: Server, target: Path, attempts: int = 5, **file: Any) -> int:
    """Download, and return by how much the progress moved."""
    counted: list[int] = []
    wanted = {"path": "driver/file.bin", "urls": [server.url], **file}
    fetch.download(wanted, str(target), network.make_opener(), counted.append, attempts, pause=lambda seconds: None)
    return sum(counted)


GOOD = {"size": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()}


def left(target: Path) -> list[str]:
    return sorted(os.listdir(target.parent))


def ranges(server: Server) -> list[str | None]:
    return [headers.get("range") for _path, headers in server.asked]


def test_a_file_arrives_whole_and_alone(server: Server, target: Path) -> None:
    assert get(server, target, **GOOD) == len(CONTENT)
    assert target.read_bytes() == CONTENT
    assert left(target) == ["file.bin"]


def test_what_broke_off_goes_on_where_it_was(server: Server, target: Path) -> None:
    server.break_after = [300_000, 200_000]
    assert get(server, target, **GOOD) == len(CONTENT)
    assert target.read_bytes() == CONTENT
    assert ranges(server) == [None, "bytes=300000-", "bytes=500000-"]


def test_the_next_run_goes_on_too(server: Server, target: Path) -> None:
    """Nothing is known of the file but its ETag: an interrupted run and the one after it."""
    server.break_after = [400_000]
    with pytest.raises(fetch.FetchError, match=r"the connection ended after 390\.6 KiB of 1\.0 MiB"):
        get(server, target, attempts=1)
    assert left(target) == ["file.bin.part", "file.bin.part.note"]
    assert get(server, target) == len(CONTENT)
    assert target.read_bytes() == CONTENT
    assert ranges(server)[-1] == "bytes=400000-"


def test_a_file_that_changed_meanwhile_is_not_patched_together(server: Server, target: Path) -> None:
    server.break_after = [400_000]
    with pytest.raises(fetch.FetchError):
        get(server, target, attempts=1)
    server.content, server.etag = CONTENT[::-1], '"two"'
    get(server, target)
    assert target.read_bytes() == CONTENT[::-1]


def test_a_server_that_ignores_ranges_sends_all_of_it_again(server: Server, target: Path) -> None:
    server.break_after, server.ranges = [400_000], False
    assert get(server, target, **GOOD) == len(CONTENT)
    assert target.read_bytes() == CONTENT


def test_without_etag_and_checksum_nothing_is_resumed(server: Server, target: Path) -> None:
    server.break_after, server.etag = [400_000], ""
    get(server, target)
    assert target.read_bytes() == CONTENT
    assert ranges(server) == [None, None]


def test_a_wrong_checksum_leaves_nothing_and_names_both(server: Server, target: Path) -> None:
    with pytest.raises(fetch.FetchError) as caught:
        get(server, target, size=len(CONTENT), sha256="0" * 64)
    assert GOOD["sha256"] in str(caught.value)
    assert "0" * 64 in str(caught.value)
    assert "driver/file.bin" in str(caught.value)
    assert left(target) == []
    assert len(server.asked) == 2  # the second try might have been better; a third would not


def test_a_damaged_part_is_fetched_anew(server: Server, target: Path) -> None:
    target.parent.mkdir()
    (target.parent / "file.bin.part").write_bytes(b"\0" * 1000)
    assert get(server, target, **GOOD) == len(CONTENT)
    assert target.read_bytes() == CONTENT
    assert ranges(server) == ["bytes=1000-", None]


def test_a_part_that_is_complete_needs_no_server(server: Server, target: Path) -> None:
    target.parent.mkdir()
    (target.parent / "file.bin.part").write_bytes(CONTENT)
    assert get(server, target, **GOOD) == len(CONTENT)
    assert server.asked == []


def test_another_size_is_refused_before_it_is_fetched(server: Server, target: Path) -> None:
    with pytest.raises(fetch.FetchError, match=r"it has 1048576 bytes there, 7 are expected"):
        get(server, target, size=7)


def test_a_missing_file_is_asked_for_once(server: Server, target: Path) -> None:
    server.codes = [404, 404]
    with pytest.raises(fetch.FetchError, match="HTTP 404"):
        get(server, target)
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again(server: Server, target: Path) -> None:
    server.codes = [503, 429]
    assert get(server, target, **GOOD) == len(CONTENT)


def test_a_gated_model_says_what_to_do(server: Server, target: Path) -> None:
    server.codes = [403]
    with pytest.raises(fetch.FetchError, match="a token is needed"):
        get(server, target)


def test_the_next_mirror_is_tried(server: Server, target: Path) -> None:
    dead = f"http://127.0.0.1:{server.server_port}/"
    urls = ["http://127.0.0.1:9/file.bin", server.url]
    assert fetch.mirrored(server.url, {dead: ["http://127.0.0.1:9/"]}) == urls
    get(server, target, urls=urls, **GOOD)
    assert target.read_bytes() == CONTENT


def test_a_token_is_told_to_nobody_else(server: Server, target: Path) -> None:
    other = Server()
    threading.Thread(target=other.serve_forever, args=(0.01,), daemon=True).start()
    server.redirect = other.url.replace("127.0.0.1", "localhost")
    get(server, target, headers={"Authorization": "Bearer secret"}, **GOOD)
    other.shutdown()
    other.server_close()
    assert server.asked[0][1]["authorization"] == "Bearer secret"
    assert "authorization" not in other.asked[0][1]


def test_sizes_are_known_before_anything_is_fetched(server: Server) -> None:
    assert fetch.remote_size(server.url, network.make_opener()) == len(CONTENT)
    server.codes = [404]
    with pytest.raises(fetch.FetchError, match="HTTP 404"):
        fetch.remote_size(server.url, network.make_opener())


def test_a_proxy_is_used(server: Server, target: Path) -> None:
    proxy = f"http://127.0.0.1:{server.server_port}"
    wanted = {"urls": ["http://example.invalid/file.bin"], **GOOD}
    fetch.download(wanted, str(target), network.make_opener(proxy))
    assert server.asked[0][0] == "http://example.invalid/file.bin"


def test_where_plain_http_is_led_to_nothing_is_taken_without_a_checksum(server: Server, target: Path) -> None:
    opener = network.make_opener(f"http://127.0.0.1:{server.server_port}")
    with pytest.raises(fetch.FetchError, match=r"http://example\.invalid/file\.bin, which is plain http"):
        fetch.download({"urls": ["http://example.invalid/file.bin"]}, str(target), opener, pause=lambda seconds: None)
    assert not target.exists()


def test_addresses_are_printed_without_secrets() -> None:
    assert network.without_password("https://me:secret@host:8/a/b?sig=secret#x") == "https://host:8/a/b"


@given(st.binary(max_size=20), st.booleans())
def test_a_present_file_is_read_only_if_it_was_touched(content: bytes, touched: bool) -> None:
    digest = hashlib.sha256(content).hexdigest()
    file, mark = {"size": len(content), "sha256": digest}, [len(content), 1, 1, 1]
    known = {"sha256": digest, "mark": [len(content), 2, 2, 2] if touched else mark}
    if touched:
        with pytest.raises(FileNotFoundError):
            fetch.present(file, "/nowhere", known, mark)
    else:
        assert fetch.present(file, "/nowhere", known, mark)
    assert not fetch.present(file, "/nowhere", known, None)
    assert not fetch.present({**file, "size": len(content) + 1}, "/nowhere", known, mark)


def test_the_size_before_it_starts() -> None:
    text = fetch.summary([400 << 30, 12 << 30, None], 3 << 30, 12, 10)
    assert text == (
        "bundle: 412.0 GiB in 2 files and 1 of unknown size, 3.0 GiB of it to fetch; "
        "about 71 min to 12 hosts at 10 Gbit/s"
    )


def test_the_size_in_chinese() -> None:
    text = fetch.summary([400 << 30, None], 3 << 30, 1, 10, "zh")
    assert text.startswith("离线包：1 个文件，共 400.0 GiB，另有 1 个大小未知")
    assert "传到 1 台主机" in text
