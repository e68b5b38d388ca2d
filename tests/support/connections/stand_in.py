"""A host that is not there: it works for some seconds, and answers every module with facts from a file."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: stand_in
short_description: Answers as a host would
description: For benchmarks.
author: tests
version_added: 0.1.0
options:
  pipelining:
    default: true
    type: bool
"""


class Connection(ConnectionBase):
    """STAND_IN_FACTS names the file, STAND_IN_SECONDS says how long a host works."""

    transport = "stand_in"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        if not in_data:
            return 0, b"", b""
        time.sleep(float(os.environ["STAND_IN_SECONDS"]))
        facts = json.loads(Path(os.environ["STAND_IN_FACTS"]).read_text())
        answer = {"changed": False, "ansible_facts": facts, "seals": {}, "worked_seconds": 0.1, "time": time.time()}
        return 0, json.dumps(answer).encode(), b""

    def put_file(self, in_path: str, out_path: str) -> None:
        raise NotImplementedError(in_path)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        raise NotImplementedError(in_path)

    def close(self) -> None:
        self._connected = False
