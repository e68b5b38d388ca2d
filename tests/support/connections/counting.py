"""The connection to this machine, with a list of what was sent over it. It can break off in the middle of a file, as a loss of power does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ansible.plugins.connection.local import Connection as Local

DOCUMENTATION = """
name: counting
short_description: The local connection, counted
description: For tests.
author: tests
version_added: 0.1.0
options:
  pipelining:
    default: false
    type: bool
    ini: [{section: defaults, key: pipelining}]
"""


class Connection(Local):
    """COUNTING_LOG names the list of bytes and source of each file; COUNTING_LAST the number of files after which all ends."""

    transport = "counting"

    def put_file(self, in_path: str, out_path: str) -> None:
        if "/.incoming/" in out_path:
            self._count(in_path, out_path)
        super().put_file(in_path, out_path)

    @staticmethod
    def _count(in_path: str, out_path: str) -> None:
        log, last = Path(os.environ["COUNTING_LOG"]), int(os.environ["COUNTING_LAST"])
        done = log.read_text().splitlines() if log.exists() else []
        if len(done) == last:
            content = Path(in_path).read_bytes()
            Path(out_path).write_bytes(content[: len(content) // 2])
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        log.write_text("".join(f"{line}\n" for line in [*done, f"{os.path.getsize(in_path)} {in_path}"]))
