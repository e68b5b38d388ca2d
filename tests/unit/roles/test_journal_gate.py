"""What stands before systemd-journal-remote: who is let in, and when each host last sent something. Real connections over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import JOURNAL
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.controller_secrets import ControllerSecrets

from tests.support import programs

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def gate() -> Any:
    return programs.load("monitoring/files/llm-journal-gate.py")


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Those of the host that collects under the names that the program looks for, and those of gpu01."""
    store = ControllerSecrets(tmp_path, {}, str, lambda path, content: Path(path).write_text(content), NOW)
    for host, names in (("watch", ["watch", "127.0.0.1"]), ("gpu01", ["gpu01"])):
        made = store.signed(JOURNAL, host, names)
        for part, kept in (("certificate", "pem"), ("key", "key")):
            (tmp_path / f"{'host' if host == 'watch' else host}.{kept}").write_text(Path(made[part]).read_text())
        (tmp_path / "authority.pem").write_text(Path(made["root"]).read_text())
    return tmp_path


@contextlib.asynccontextmanager
async def gate_before(program: Any, gate: Any, certificates: Path, senders: Any) -> AsyncIterator[Any]:
    """A gate before a program that collects; what connects to the gate as the host gpu01."""
    inner = await asyncio.start_server(program, "127.0.0.1", 0)
    port = inner.sockets[0].getsockname()[1]
    outer = await asyncio.start_server(
        lambda reader, writer: gate.serve(reader, writer, port, senders),
        "127.0.0.1",
        0,
        ssl=gate.context(str(certificates)),
    )
    mine = ssl.create_default_context(cafile=str(certificates / "authority.pem"))
    mine.load_cert_chain(certificates / "gpu01.pem", certificates / "gpu01.key")
    yield lambda: asyncio.open_connection("127.0.0.1", outer.sockets[0].getsockname()[1], ssl=mine)
    outer.close()
    inner.close()


def test_what_a_host_sends_is_passed_on_and_noted(gate: Any, certificates: Path) -> None:
    state, got = certificates / "senders.json", bytearray()
    began = time.time()
    state.write_text(json.dumps({"gpu01": 1.0, "gpu02": 2.0, "gone": 3.0}))
    gate.WRITE_SECONDS = gate.SETTLED_SECONDS = 0
    senders = gate.Senders(str(state), ["gpu01", "gpu02", "new"])
    first = json.loads(state.read_text())
    assert set(first) == {"gpu01", "gpu02", "new"}, "who is no longer expected is forgotten"
    assert (first["gpu01"], first["gpu02"]) == (1.0, 2.0), "a restart of the program forgets nothing"
    assert first["new"] >= began, "waited for since now"

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.extend(await reader.read())
        writer.close()

    async def main() -> None:
        async with gate_before(collect, gate, certificates, senders) as connect:
            _reader, writer = await connect()
            writer.write(b"a line")
            await writer.drain()
            for _try in range(100):
                if json.loads(state.read_text())["gpu01"] >= began:
                    break
                await asyncio.sleep(0.05)
            writer.close()
            await asyncio.sleep(0.1)

    asyncio.run(main())
    assert bytes(got) == b"a line"
    found = json.loads(state.read_text())
    assert found["gpu01"] >= began
    assert found["gpu02"] == 2.0
    assert state.stat().st_mode & 0o777 == 0o644, "the program that writes figures is another user"


def test_what_a_program_that_ends_each_connection_gets_is_not_noted(gate: Any, certificates: Path) -> None:
    state, taken = certificates / "senders.json", 0
    state.write_text(json.dumps({"gpu01": 1.0}))
    gate.WRITE_SECONDS = 0
    senders = gate.Senders(str(state), ["gpu01"])

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        taken += len(await reader.read(1))
        writer.close()

    async def main() -> None:
        async with gate_before(refuse, gate, certificates, senders) as connect:
            for _try in range(3):
                reader, writer = await connect()
                writer.write(b"POST /upload HTTP/1.1\r\n")
                await writer.drain()
                assert await asyncio.wait_for(reader.read(), 10) == b"", "it is ended"
                writer.close()

    asyncio.run(main())
    assert taken == 3
    assert json.loads(state.read_text()) == {"gpu01": 1.0}


def test_the_file_is_written_every_few_seconds_only(gate: Any, tmp_path: Path) -> None:
    senders = gate.Senders(str(tmp_path / "senders.json"), ["gpu01"])
    before = (tmp_path / "senders.json").stat().st_ino
    senders.sent("gpu01")
    senders.sent("a name that is not expected")
    assert (tmp_path / "senders.json").stat().st_ino == before
    senders.written -= gate.WRITE_SECONDS
    senders.sent("gpu01")
    assert (tmp_path / "senders.json").stat().st_ino != before
    assert set(json.loads((tmp_path / "senders.json").read_text())) == {"gpu01"}
