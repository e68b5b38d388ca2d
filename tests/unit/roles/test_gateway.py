"""The program that asks a gateway: what it makes of HAProxy's own words."""

from __future__ import annotations

import datetime
import json
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.tls import make_authority, make_certificate

from tests.support import programs

# `show stat` of HAProxy 2.6, cut to the columns that are read and some that are not.
STAT = """# pxname,svname,qcur,qmax,scur,smax,status,check_status,addr,
plain,FRONTEND,,,0,1,OPEN,,,
model2,first,0,0,{first},3,{status},L7OKC,172.31.243.11:8000,
model2,second,1,4,2,3,UP,L7OK,172.31.243.12:8000,
model2,BACKEND,0,0,2,3,UP,,,
web_ui,web_ui,0,0,0,1,no check,,127.0.0.1:8480,
"""


def program() -> Any:
    return programs.load("gateway/files/llm-gateway.py")


def found(status: str = "UP", first: int = 0) -> list[dict[str, Any]]:
    replicas: list[dict[str, Any]] = program().replicas(STAT.format(status=status, first=first))
    return replicas


def test_replicas_are_the_servers_and_nothing_else() -> None:
    assert [each["replica"] for each in found()] == ["first", "second"]
    assert found()[1] == {
        "model": "model2",
        "replica": "second",
        "status": "UP",
        "requests": 2,
        "waiting": 1,
        "address": "172.31.243.12:8000",
        "check": "L7OK",
    }


@pytest.mark.parametrize(
    ("status", "requests", "own", "expected"),
    [
        ("NOLB", 0, 0, True),
        ("NOLB", 0, None, True),
        ("DOWN", 0, None, True),
        ("DOWN 1/2", 0, None, True),
        ("NOLB", 1, 0, False),
        ("NOLB", 0, 1, False),
        ("UP", 0, 0, False),
        ("UP 1/2", 0, 0, False),
    ],
)
def test_drained_means_that_nothing_is_left(status: str, requests: int, own: Any, expected: bool) -> None:
    assert program().is_drained("first", found(status, requests), lambda address: own) is expected
    assert program().is_back("first", found(status)) is (status.split()[0] == "UP")


def test_a_replica_that_is_not_there_is_neither() -> None:
    assert not program().is_drained("nosuch", found(), lambda address: 0)
    assert not program().is_back("nosuch", found())


@pytest.mark.parametrize(
    ("name", "status", "expected"),
    [("first", "UP", ["second"]), ("second", "UP", ["first"]), ("second", "DOWN", []), ("second", "NOLB", [])],
)
def test_others_are_those_that_answer_for_the_same_model(name: str, status: str, expected: list[str]) -> None:
    assert program().others(name, found(status)) == expected
    assert program().others("nosuch", found()) == []


def test_a_server_that_gateways_do_not_know_yet_waits_for_nothing() -> None:
    mine = next(each["address"] for each in found() if each["replica"] == "first")
    assert program().is_back("first", found("UP"), mine)
    assert not program().is_back("first", found("DOWN"), mine)
    assert program().is_back("first", found("DOWN"), "192.0.2.9:8000")
    assert not program().is_back(
        "first", [{**each, "address": "fd00::1:8000"} for each in found("DOWN")], "[fd00::1]:8000"
    )


@pytest.mark.parametrize(("status", "expected"), [(200, True), (503, False), (None, False)])
def test_alive_is_what_answers_through_tls(tmp_path: Path, status: int | None, expected: bool) -> None:
    now = datetime.datetime.now(datetime.UTC)
    authority, signer = make_authority(now)
    certificate, key = make_certificate(authority, signer, ["elsewhere"], now)
    (tmp_path / "pem").write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pem")
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            raw, _address = server.accept()
            if status is None:
                raw.close()
                return
            with context.wrap_socket(raw, server_side=True) as connection:
                asked.append(connection.recv(4096).split(b"\r\n")[0])
                connection.sendall(b"HTTP/1.1 %d -\r\ncontent-length: 0\r\n\r\n" % status)

        thread = threading.Thread(target=serve)
        thread.start()
        assert program().alive(server.getsockname()[1]) is expected
        thread.join()
    assert asked == ([b"GET /health HTTP/1.1"] if status else [])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_waiting{engine="0"} 1.0\n', 3),
        (b"vllm:num_requests_running 0\n", 0),
        (b"llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n", 3),
        (b'sglang:num_running_reqs{tp_rank="0"} 2.0\nsglang:num_queue_reqs{tp_rank="0"} 1.0\n', 3),
        (b"nothing of it\n", None),
    ],
)
def test_a_replica_counts_its_own_requests(said: bytes, expected: float | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _address = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + said)

        thread = threading.Thread(target=serve)
        thread.start()
        assert program().outstanding("127.0.0.1:{}".format(server.getsockname()[1])) == expected
        thread.join()


def test_the_socket_of_haproxy_is_read_to_its_end(tmp_path: Path) -> None:
    path = str(tmp_path / "admin.sock")
    text = json.dumps(["x" * 1000] * 200)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen()

        def serve() -> None:
            connection, _address = server.accept()
            with connection:
                assert connection.recv(100) == b"show stat\n"
                connection.sendall(text.encode())

        thread = threading.Thread(target=serve)
        thread.start()
        assert program().command("show stat", path) == text
        thread.join()
