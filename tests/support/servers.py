"""Servers of tests, each in a thread of its own."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import TypeVar

Server = TypeVar("Server", bound=http.server.HTTPServer)


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
