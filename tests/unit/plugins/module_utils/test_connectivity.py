"""The connectivity check, its two ends on this machine: every address of 127.0.0.0/8 is a host here."""

from __future__ import annotations

import http.server
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _connectivity as connectivity
from hypothesis import given
from hypothesis import strategies as st

NETWORK = "127.0.0.0/8"
ME, OTHER = {NETWORK: "127.0.0.2"}, {NETWORK: "127.0.0.3"}
CONTROL = f"\0baremetal.llm.test.{os.getpid()}".encode()
numbers = itertools.count()


@pytest.fixture
def free_port() -> int:
    with socket.socket() as channel:
        channel.bind(("127.0.0.3", 0))
        port: int = channel.getsockname()[1]
        return port


@pytest.fixture
def control() -> Iterator[bytes]:
    name = CONTROL + str(next(numbers)).encode()
    yield name
    connectivity.stop_listener(name)


def start(control: bytes, *ports: tuple[int, int], host: str = "gpu02", token: str = "t") -> dict[str, Any]:
    wanted = [{"variable": f"port_{first}", "first": first, "last": last} for first, last in ports]
    found = connectivity.start_listener(host, token, OTHER, wanted, 20, control)
    return {**found, "host": host, "addresses": OTHER, "mtus": {NETWORK: 65536}}


def probe(
    peer: dict[str, Any], token: str = "t", timeout: float = 20, streams: dict[str, float] | None = None
) -> dict[str, Any]:
    """What is reached, however slowly this machine runs."""
    reached = connectivity.probe("gpu01", token, ME, [peer], {NETWORK: 65536}, timeout, streams or {})
    found: dict[str, Any] = reached[NETWORK][peer["host"]]
    return found


def test_a_host_is_reached_heard_and_measured(control: bytes, free_port: int) -> None:
    peer = start(control, (free_port, free_port))
    found = probe(peer, streams={"gpu02": 0.2})
    assert found["failed"] == {}
    assert found["stream"] == ""
    assert found["mbps"] > 100
    assert 0 < found["milliseconds"] < 1000
    stopped = connectivity.stop_listener(control)
    assert stopped == {"host": "gpu02", "heard": {NETWORK: {"gpu01": 9000}}}
    assert connectivity.stop_listener(control) is None


def test_nothing_is_left_behind(control: bytes, free_port: int) -> None:
    peer = start(control, (free_port, free_port))
    connectivity.stop_listener(control)
    for port in (free_port, peer["port"]):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.3", port), 1)


def test_it_ends_by_itself() -> None:
    name = CONTROL + b"short"
    peer = connectivity.start_listener("gpu02", "t", OTHER, [], 0.3, name)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.3", peer["port"]), 1).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.05)
    pytest.fail("it still listens")


def test_another_start_replaces_what_an_interrupted_run_left(control: bytes, free_port: int) -> None:
    start(control, (free_port, free_port), token="old")
    peer = start(control, (free_port, free_port), token="new")
    assert peer["taken"] == []
    assert probe(peer, token="new")["failed"] == {}


def test_another_run_s_token_is_a_stranger_s(control: bytes, free_port: int) -> None:
    failed = probe(start(control, (free_port, free_port)), token="another")["failed"]
    assert {entry["reason"] for entry in failed.values()} == {"other_service"}
    assert len(failed) == 2


def test_a_second_host_with_the_same_address_is_named(control: bytes) -> None:
    peer = {**start(control, host="gpu03"), "host": "gpu02"}
    assert probe(peer)["failed"]["dynamic"]["reason"] == "other:gpu03"


def test_a_port_that_nobody_answers_on(control: bytes, free_port: int) -> None:
    peer = start(control)
    peer["held"] = {"ray_port": {NETWORK: {"port": free_port, "answers": True}}}
    assert probe(peer)["failed"] == {"ray_port": {"port": free_port, "reason": "refused"}}


def test_a_taken_port_is_told_with_its_holder(control: bytes) -> None:
    with socket.create_server(("127.0.0.3", 0)) as server:
        port = server.getsockname()[1]
        peer = start(control, (port, port))
    (taken,) = peer["taken"]
    assert (taken["port"], taken["pid"], taken["variable"]) == (port, os.getpid(), f"port_{port}")
    assert taken["program"]
    assert peer["held"] == {f"port_{port}": {}}


def test_a_port_whose_program_ends_meanwhile_is_free(control: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray node that has lost its head ends while the port is looked at: its process is gone, and whose it was nobody can tell."""
    looks = []
    with socket.create_server(("127.0.0.3", 0)) as server:
        port = server.getsockname()[1]

        def ending(*_where: object) -> connectivity.Holder:
            looks.append(port)
            server.close()
            return connectivity.Holder(0, "", "")

        monkeypatch.setattr(connectivity, "holder", ending)
        peer = start(control, (port, port))
    assert peer["taken"] == []
    assert peer["held"] == {f"port_{port}": {NETWORK: {"port": port, "answers": True}}}
    assert looks == [port]


def test_a_service_that_ends_before_it_is_connected_to(control: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between listening and connecting the Ray node of a lost head may end. That says nothing about the network."""
    monkeypatch.setattr(connectivity, "holder", lambda *_where: connectivity.Holder(1, "raylet", "tiny"))
    program = "import socket, time; s = socket.create_server(('127.0.0.3', 0)); print(s.getsockname()[1], flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as service:
        assert service.stdout
        port = int(service.stdout.readline())
        peer = start(control, (port, port))
        assert peer["held"] == {f"port_{port}": {NETWORK: {"port": port, "answers": False}}}
        assert probe(peer)["failed"] == {}
        service.kill()
    assert probe(peer)["failed"] == {}
    connectivity.stop_listener(control)
    assert probe(peer, timeout=1)["failed"][f"port_{port}"]["reason"] == "refused"


def test_in_a_range_the_next_free_port_does(control: bytes) -> None:
    with socket.create_server(("127.0.0.3", 0)) as server:
        first = server.getsockname()[1]
        peer = start(control, (first, first + 50))
    assert peer["taken"] == []
    assert first < peer["held"][f"port_{first}"][NETWORK]["port"] <= first + 50


def test_a_port_of_another_address_is_free(control: bytes) -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]
        assert start(control, (port, port))["taken"] == []


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[str]:
    """An engine that knows one container, of a deployment."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == f"/containers/{'a' * 64}/json"
            self.send_response(200 if known else 404)
            self.end_headers()
            labels = {connectivity.LABEL: "tiny"} if known else {}
            self.wfile.write(json.dumps({"Config": {"Labels": labels}}).encode())

        def address_string(self) -> str:
            return "engine"

        def log_message(self, *_args: Any) -> None:
            pass

    class Server(http.server.HTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self) -> None:
            self.socket.bind(str(tmp_path / "engine"))

    server = Server(("", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield str(tmp_path / "engine")
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("container", "deployment"), [("a" * 64, "tiny"), ("b" * 64, ""), ("", "")])
def test_whose_container_holds_a_port(tmp_path: Path, engine: str, container: str, deployment: str) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 00000000:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 x 100 0 0 10 0\n"
    )
    (tmp_path / "42/fd").mkdir(parents=True)
    (tmp_path / "42/fd/7").symlink_to("socket:[4711]")
    (tmp_path / "42/comm").write_text("gcs_server\n")
    (tmp_path / "42/cgroup").write_text(f"0::/system.slice/docker-{container}.scope\n")
    assert connectivity.holder("10.0.0.1", 6379, str(tmp_path), engine) == connectivity.Holder(
        42, "gcs_server", deployment
    )
    assert connectivity.holder("10.0.0.1", 6380, str(tmp_path), engine) is None


@given(st.integers(2, 300), st.data())
def test_streams_are_few_and_fair(count: int, data: st.DataObject) -> None:
    hosts = [f"gpu{number}" for number in range(count)]
    partners = {host: connectivity.stream_partners(hosts, host) for host in hosts}
    for host, others in partners.items():
        assert len(others) == len(set(others)) == min(8, count - 1)
        assert host not in others
    step = data.draw(st.integers(0, min(8, count - 1) - 1))
    # At each step everybody sends to one and receives from one.
    assert sorted(others[step] for others in partners.values()) == sorted(hosts)


def test_what_a_stranger_sends_does_not_end_it(control: bytes, free_port: int) -> None:
    peer = start(control, (free_port, free_port))
    for junk in (b"\n", b"[]\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 3000, b'{"do": 1}\n'):
        with socket.create_connection(("127.0.0.3", peer["port"]), 1) as channel:
            channel.sendall(junk)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.sendto(junk, ("127.0.0.3", peer["port"]))
    assert probe(peer)["failed"] == {}
