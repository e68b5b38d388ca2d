"""A real browser without a window: what it makes of a page, and what that looks like."""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Root has no sandbox, a test has no GPU, and nothing but the page is to be fetched.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def browser() -> str:
    """The program; empty where there is none."""
    return next((found for found in map(shutil.which, NAMES) if found), "")


def opened(url: str, profile: Path, *more: str) -> str:
    """What the browser prints when it has opened a page."""
    command = [browser(), *FLAGS, f"--user-data-dir={profile}", *more, url]
    # It complains of a desktop that is not there.
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=180
    )
    return done.stdout


def drawn(url: str, profile: Path, picture: Path, width: int, height: int) -> tuple[int, int]:
    """Keep a PNG of a page. Returns its width and height."""
    opened(url, profile, f"--screenshot={picture}", f"--window-size={width},{height}")
    found: tuple[int, int] = struct.unpack(">II", picture.read_bytes()[16:24])
    return found


@contextlib.contextmanager
def forwarded(ssh_config: Path, host: str, port: int) -> Iterator[str]:
    """The address here of a port on the loopback interface of a host, as the guide of monitoring reaches it: over SSH."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        here = free.getsockname()[1]
    command = ["ssh", "-F", str(ssh_config), "-o", "ControlPath=none", "-o", "ExitOnForwardFailure=yes", "-N"]
    with subprocess.Popen([*command, "-L", f"{here}:127.0.0.1:{port}", host]) as tunnel:
        try:
            deadline = time.monotonic() + 60
            while socket.socket().connect_ex(("127.0.0.1", here)):
                if tunnel.poll() is not None or time.monotonic() > deadline:
                    raise ConnectionError(f"no way to port {port} of {host}")
                time.sleep(0.2)
            yield f"http://127.0.0.1:{here}"
        finally:
            tunnel.terminate()
