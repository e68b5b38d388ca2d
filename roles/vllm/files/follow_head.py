# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs vLLM on a host that is not the head, as the only task of a container or of a unit: follow_head.py HOST PORT COMMAND...

It waits until the head answers at its meeting point, however long that takes, and keeps that connection. When the head is gone
the command ends too, and Docker or systemd starts all of it anew: ranks that wait for a head that died would never notice.
"""

import contextlib
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time

# A head without power closes nothing: after this many seconds of silence the kernel asks, and gives up soon.
SILENCE_SECONDS, ASK_SECONDS, ASK_TIMES = 10, 5, 4
# Ranks that lost their head do not end by themselves; the head already waits for the next ones.
STOP_SECONDS = 3


def connect(host: str, port: int) -> socket.socket:
    """Wait for the head."""
    warned = False
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=5)
            break
        except OSError as error:
            if not warned:
                print(f"waiting for the head at {host}:{port} ({error})", flush=True)
                warned = True
            time.sleep(2)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, ASK_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, ASK_TIMES)
    return connection


def gone(connection: socket.socket) -> bool:
    """Whether the other side has closed the connection, or is silent for too long. Waits for a second."""
    readable, _writable, _broken = select.select([connection], [], [], 1)
    if not readable:
        return False
    try:
        return not connection.recv(4096)
    except OSError:
        return True


def closed_variables(path: str) -> "dict[str, str]":
    """Variables of the inventory that may be secrets, from a file as the shell reads it: neither 'docker inspect' nor the journal shows them."""
    with open(path, encoding="utf-8") as stream:
        return dict(word.split("=", 1) for word in shlex.split(stream.read(), comments=True))


def main() -> int:
    """The command's exit status, or 1 if the head went first."""
    if os.environ.get("LLM_ENVIRONMENT_FILE"):
        os.environ.update(closed_variables(os.environ["LLM_ENVIRONMENT_FILE"]))
    host, port, *command = sys.argv[1:]
    signal.signal(
        signal.SIGTERM, lambda *_dummy: sys.exit(0)
    )  # while it waits; the first process of a container ignores it
    # A user without a name in the image has no home there, and caches belong into one.
    with contextlib.suppress(OSError):  # a full disk prevents no start
        os.makedirs(os.path.expanduser("~"), exist_ok=True)
    connection = connect(host, int(port))
    process = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_dummy: process.terminate())
    while process.poll() is None:
        if gone(connection):
            print(f"the head at {host}:{port} is gone", flush=True)
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            return 1
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
