"""Programs that pass files on, as hosts run them, each at an address of its own of this machine's loopback."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _fanout, _pieces
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import INCOMING, incoming_name
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import read_state

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[4]
PROGRAM = "ansible_collections.baremetal.llm.plugins.module_utils._fanout"
MIB = 1 << 20
NAME = "model/weights.bin"


def wait_for(question: Callable[[], Any], seconds: float = 60.0) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = question()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come to pass")


@dataclasses.dataclass
class Host:
    """A host of a fan-out: its folder, its address and its program."""

    folder: Path
    address: str
    program: subprocess.Popen[bytes] | None = None

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def dest(self) -> Path:
        return self.folder / "dest"

    def start(
        self, files: Sequence[dict[str, Any]], secret: str = "s" * 32, have: Sequence[str] = (), **more: Any
    ) -> None:
        self.run.mkdir(parents=True, exist_ok=True)
        (self.dest / INCOMING).mkdir(parents=True, exist_ok=True)
        for name in (_fanout.STATUS, _fanout.PEERS):
            (self.run / name).unlink(missing_ok=True)
        job = {
            "dest": str(self.dest),
            "address": self.address,
            "ports": list(range(20300, 20340)),
            "sessions": 1,
            "secret": secret,
            "limit_bytes": 0,
            "writers": 2,
            "idle_seconds": 120,
            "files": list(files),
            "have": list(have),
        }
        (self.run / _fanout.JOB).write_text(json.dumps({**job, **more}))
        (self.run / _fanout.LEASE).touch()
        command = [sys.executable, "-W", "ignore", "-m", PROGRAM, str(self.run)]
        self.program = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
        wait_for(lambda: self.status().get("ready"))

    def status(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.run / _fanout.STATUS).read_text()))
        except FileNotFoundError:
            return {}

    def meet(self, others: Sequence[Host]) -> None:
        (self.run / _fanout.PEERS).write_text(json.dumps([[one.address, one.status()["ports"]] for one in others]))

    def hand(self, file: dict[str, Any], content: bytes, start: int = 0) -> None:
        """What the controller does: a slice that grows until it has its size."""
        name = _fanout.slice_name(file, start, len(content))
        with open(self.dest / INCOMING / name, "wb") as stream:
            for at in range(0, len(content), MIB // 2):
                stream.write(content[at : at + MIB // 2])
                stream.flush()

    def done(self, path: str = NAME) -> bool:
        return bool(self.status()["files"][path]["done"])

    def pieces(self, path: str = NAME) -> int:
        return sum(last - first + 1 for first, last in self.status()["files"][path]["have"])

    def put(self, path: str, content: bytes) -> None:
        (self.dest / path).parent.mkdir(parents=True, exist_ok=True)
        (self.dest / path).write_bytes(content)

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.program and self.program.poll() is None:
            self.program.send_signal(number)
            self.program.wait(20)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Callable[[int], list[Host]]]:
    made: list[Host] = []

    def make(count: int) -> list[Host]:
        made.extend(Host(tmp_path / f"host{at}", f"127.1.0.{at + 1}") for at in range(count))
        return made

    yield make
    for host in made:
        host.end()


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def described(tmp_path: Path, data: bytes, path: str = NAME) -> dict[str, Any]:
    (tmp_path / "source").write_bytes(data)
    return {"path": path, "session": 0, **_pieces.describe(str(tmp_path / "source"))}


def together(hosts: Sequence[Host]) -> None:
    for host in hosts:
        host.meet([other for other in hosts if other is not host])


def test_what_one_host_is_handed_all_of_them_get(tmp_path: Path, hosts: Callable[[int], list[Host]]) -> None:
    data = content(12 * MIB + 12345)
    file = described(tmp_path, data)
    three = hosts(3)
    for host in three:
        host.start([file])
    together(three)
    half = 6 * MIB
    three[0].hand(file, data[:half])
    three[1].hand(file, data[half:], half)
    for host in three:
        wait_for(host.done)
        assert (host.dest / NAME).read_bytes() == data
        assert read_state(str(host.dest))[NAME]["sha256"] == file["sha256"]
        # What it says of others follows later, as its files do not wait for that.
        wait_for(lambda host=host: len(host.status()["reached"]) == 2)
    # Each piece was handed over once.
    assert sum(host.status()["slices"] for host in three) == len(data)
    for host in three:
        host.end()
        assert os.listdir(host.dest / INCOMING) == []
    assert (three[2].dest / NAME).stat().st_nlink == 1


def test_a_host_that_fetched_a_model_is_the_source(tmp_path: Path, hosts: Callable[[int], list[Host]]) -> None:
    """Files that no controller has, small and empty ones among them."""
    model = {NAME: content(5 * MIB), "model/config.json": b"{}", "model/__init__.py": b""}
    files = [described(tmp_path, data, path) for path, data in model.items()]
    three = hosts(3)
    for path, data in model.items():
        three[0].put(path, data)
    # What a download of its own has begun goes with what arrives.
    begun = three[2].dest / INCOMING / (incoming_name(files[0]) + ".part")
    begun.parent.mkdir(parents=True)
    begun.write_bytes(b"begun")
    for at, host in enumerate(three):
        host.start(files, have=list(model) if at == 0 else [])
    together(three)
    for host in three:
        for path, data in model.items():
            wait_for(lambda host=host, path=path: host.done(path))
            assert (host.dest / path).read_bytes() == data
    assert [host.status()["wrong"] for host in three] == [{}, {}, {}]
    for host in three:
        host.end()
        assert os.listdir(host.dest / INCOMING) == []


def test_an_interrupted_transfer_goes_on(tmp_path: Path, hosts: Callable[[int], list[Host]]) -> None:
    data = content(16 * MIB)
    file = described(tmp_path, data)
    one, other = hosts(2)
    one.start([file])
    other.start([file])
    together([one, other])
    one.hand(file, data[: 8 * MIB])
    wait_for(lambda: other.pieces() == 32)
    time.sleep(2 * _fanout.FLUSH_SECONDS)
    other.end(signal.SIGKILL)
    other.start([file])
    together([one, other])
    assert other.pieces() == 32
    one.hand(file, data[8 * MIB :], 8 * MIB)
    wait_for(other.done)
    # What was there has not come again.
    assert other.status()["received"] <= 8 * MIB + _pieces.piece_bytes(len(data))


def test_of_a_file_that_changed_only_its_pieces_travel(tmp_path: Path, hosts: Callable[[int], list[Host]]) -> None:
    data = content(16 * MIB)
    file = described(tmp_path, data)
    one, other = hosts(2)
    one.put(NAME, data)
    changed = bytearray(data)
    changed[5 * MIB] ^= 1
    other.put(NAME, bytes(changed))
    one.start([file], have=[NAME])
    other.start([file])
    together([one, other])
    wait_for(other.done)
    assert (other.dest / NAME).read_bytes() == data
    assert other.status()["received"] == _pieces.piece_bytes(len(data))


def test_a_peer_that_sends_wrong_data_is_named_and_dropped(tmp_path: Path, hosts: Callable[[int], list[Host]]) -> None:
    data = content(16 * MIB)
    file = described(tmp_path, data)
    one, liar, other = hosts(3)
    one.put(NAME, data)
    one.start([file], have=[NAME], limit_bytes=4 * MIB)
    liar.start([file])
    liar.hand(file, data)
    wait_for(liar.done)
    # Its disk has lost what was compared.
    with open(liar.dest / NAME, "r+b") as stream:
        stream.write(content(16 * MIB, seed=2))
    other.start([file])
    together([one, liar, other])
    wait_for(other.done)
    assert (other.dest / NAME).read_bytes() == data
    # The other one may have sent parts of the same pieces.
    assert liar.address in other.status()["liars"]


def test_a_stranger_gets_nothing_and_gives_nothing(tmp_path: Path, hosts: Callable[[int], list[Host]]) -> None:
    data = content(4 * MIB)
    file = described(tmp_path, data)
    one, other, stranger, guest = hosts(4)
    one.put(NAME, data)
    one.start([file], have=[NAME])
    other.start([file])
    # On the network, with the file's pieces and even the secret, but not on the list; and on the list, without the secret.
    stranger.start([file])
    guest.put(NAME, content(4 * MIB, seed=3))
    guest.start([file], secret="g" * 32, have=[NAME])
    one.meet([guest])
    other.meet([guest])
    stranger.meet([one, other])
    guest.meet([one, other])
    time.sleep(6)
    for host in (one, other, stranger, guest):
        assert (host.status()["received"], host.status()["sent"]) == (0, 0)
    # What is said in the open is answered by nobody.
    with socket.create_connection((one.address, one.status()["ports"][0]), 5) as plain:
        plain.sendall(b"\x13BitTorrent protocol" + bytes(48))
        plain.settimeout(10)
        try:
            assert plain.recv(100) == b""
        except ConnectionResetError:
            pass
    together([one, other])
    wait_for(other.done)


def test_what_is_not_as_the_manifest_says_gets_no_name(tmp_path: Path, hosts: Callable[[int], list[Host]]) -> None:
    data = content(4 * MIB)
    file = {**described(tmp_path, data), "sha256": hashlib.sha256(b"another").hexdigest()}
    (one,) = hosts(1)
    one.put(NAME, b"the old version")
    one.start([file])
    one.hand(file, data)
    wait_for(lambda: one.status()["wrong"])
    assert one.status()["wrong"] == {NAME: hashlib.sha256(data).hexdigest()}
    assert not one.done()
    assert (one.dest / NAME).read_bytes() == b"the old version"


def test_it_keeps_to_its_rate(tmp_path: Path, hosts: Callable[[int], list[Host]]) -> None:
    data = content(12 * MIB)
    file = described(tmp_path, data)
    one, other = hosts(2)
    one.put(NAME, data)
    one.start([file], have=[NAME])
    other.start([file], limit_bytes=3 * MIB)
    began = time.monotonic()
    together([one, other])
    wait_for(other.done)
    assert time.monotonic() - began >= 2.5


def test_it_ends_when_nobody_wants_it(tmp_path: Path, hosts: Callable[[int], list[Host]]) -> None:
    (one,) = hosts(1)
    one.start([described(tmp_path, content(MIB))], idle_seconds=1)
    os.utime(one.run / _fanout.LEASE, (0, 0))
    assert one.program is not None
    assert one.program.wait(20) == 0


def test_where_files_begin_has_a_name_that_stays(tmp_path: Path) -> None:
    file = described(tmp_path, content(MIB))
    found = _fanout.SLICE.fullmatch(_fanout.slice_name(file, 4096, 100))
    assert found is not None
    assert found.groups() == (incoming_name(file), "4096", "100")


def test_libtorrent_is_imported_by_the_program_alone() -> None:
    assert importlib.util.find_spec("libtorrent")
    assert "libtorrent" not in sys.modules
