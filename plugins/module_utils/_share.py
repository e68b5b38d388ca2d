# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands files of a folder on to other hosts for as long as they fetch: a small web server on one address, behind a token that holds for one run.

Who receives a file knows its SHA-256 from the controller and compares it, so nothing is said here about what the files are. The server
ends by itself when it was told to, or when nobody has asked for anything for a while.
"""

from __future__ import annotations

import errno
import hmac
import http.server
import ipaddress
import os
import re
import shutil
import socket
import socketserver
import threading
import time
import urllib.parse
from typing import BinaryIO, Iterable, Mapping

IDLE_SECONDS = 600
# A receiver that stops reading holds a connection no longer than this.
STALLED_SECONDS = 120
END = "end"
# From these the system takes ports of its own. A firewall of this collection closes them to hosts of other deployments, which want models, too.
DYNAMIC = "/proc/sys/net/ipv4/ip_local_port_range"
TRIED_PORTS = 200
_RANGE = re.compile(r"bytes=(\d+)-")


class Share(http.server.ThreadingHTTPServer):
    """Serves ``files`` (path in an address -> full path) below ``/TOKEN/``."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, address: str, token: str, files: Mapping[str, str], idle_seconds: float = IDLE_SECONDS, port: int = 0
    ) -> None:
        if ":" in address:
            self.address_family = socket.AF_INET6
        super().__init__((address, port), _Handler)
        self.token, self.files, self.idle_seconds = token, dict(files), idle_seconds
        self.busy, self.last, self.ended = 0, time.monotonic(), False
        self._lock = threading.Lock()
        host = "[{0}]".format(address) if ":" in address else address
        self.url = "http://{0}:{1}/{2}/".format(host, self.server_address[1], token)

    def server_bind(self) -> None:
        # What the standard library does as well is to ask name servers for the name of the address, which may take its time.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "", int(self.server_address[1])

    def count(self, number: int) -> None:
        """A request begins or ends."""
        with self._lock:
            self.busy += number
            self.last = time.monotonic()

    def service_actions(self) -> None:
        """Called in every round of ``serve_forever``."""
        idle = not self.busy and time.monotonic() - self.last > self.idle_seconds
        if self.ended or idle:
            # Not from this thread, which it would wait for.
            threading.Thread(target=self.shutdown, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """A receiver that went away is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = STALLED_SECONDS
    server: Share

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it, and the token is in it."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.count(1)
        try:
            self._answer()
        finally:
            self.server.count(-1)

    def _answer(self) -> None:
        _root, _slash, rest = self.path.partition("/")
        token, _slash, name = rest.partition("/")
        path = self.server.files.get(urllib.parse.unquote(name))
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            self._say(404)
        elif name == END:
            self.server.ended = True
            # Before the answer: who asked may rely on it that nobody gets in any more.
            self.server.socket.shutdown(socket.SHUT_RDWR)
            self._say(200)
        elif path is None:
            self._say(404)
        else:
            self._send(path)

    def _say(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, path: str) -> None:
        try:
            with open(path, "rb") as stream:
                self._send_from(stream, os.fstat(stream.fileno()).st_size)
        except FileNotFoundError:
            self._say(404)

    def _send_from(self, stream: BinaryIO, size: int) -> None:
        asked = _RANGE.fullmatch(self.headers.get("Range") or "")
        start = int(asked.group(1)) if asked else 0
        if start > size:
            self._say(416)
            return
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", "bytes {0}-{1}/{2}".format(start, max(size - 1, start), size))
        self.send_header("Content-Length", str(size - start))
        self.end_headers()
        if self.command == "GET":
            self.wfile.flush()
            stream.seek(start)
            self._copy(stream, size - start)

    def _copy(self, stream: BinaryIO, left: int) -> None:
        try:
            # The kernel copies it, without Python in between.
            self.connection.sendfile(stream, stream.tell(), left)
        except ValueError:
            shutil.copyfileobj(stream, self.wfile, 1 << 20)


def ports(dynamic: str = DYNAMIC) -> list[int]:
    """The ports to listen on, the next where one is in use: those below the dynamic ones, at last any."""
    try:
        with open(dynamic, encoding="ascii") as stream:
            first = int(stream.read().split()[0])
    except (OSError, ValueError, IndexError):
        return [0]
    return [*range(first - 1, max(first - 1 - TRIED_PORTS, 1023), -1), 0]


def listening(address: str, token: str, files: Mapping[str, str], idle_seconds: float = IDLE_SECONDS) -> Share:
    """A server at the first port that is free. OSError if nothing can listen at the address."""
    for port in ports():
        try:
            return Share(address, token, files, idle_seconds, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def serve_in_background(address: str, token: str, files: Mapping[str, str], idle_seconds: float = IDLE_SECONDS) -> str:
    """Start a process of its own that serves the files, and return its address. OSError if nothing can listen there."""
    share = listening(address, token, files, idle_seconds)
    if os.fork():
        share.socket.close()
        return share.url
    # Nothing of whoever started it is kept: Ansible waits for all that hold its pipes.
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.chdir("/")
        share.serve_forever(poll_interval=0.2)
    finally:
        os._exit(0)


def first_listening(addresses: Iterable[str], token: str, files: Mapping[str, str], idle_seconds: float) -> str:
    """The same at the first of the addresses that is one of this host; empty if none is."""
    for address in addresses:
        try:
            # A name may stand for an address that only this host knows.
            ipaddress.ip_address(address)
            return serve_in_background(address, token, files, idle_seconds)
        except (OSError, ValueError):
            continue
    return ""
