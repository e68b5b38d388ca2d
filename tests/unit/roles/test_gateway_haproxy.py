"""The gateway's configuration before the program that reads it: every form of it, and what it does to those without a key."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway import decide
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.forms import bounds_of

from benchmarks import gateway as bench
from tests.support import programs

pytestmark = pytest.mark.slow


@pytest.fixture
def gateway(
    tmp_path: Path, haproxy: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[bench.Gateway]:
    monkeypatch.setattr(decide, "COUNTING_SECONDS", 2)
    monkeypatch.setattr(decide, "CLIENT_SECONDS", 3)
    made = bench.Gateway(tmp_path, *haproxy)
    made.more = {"gateway_keys": [{"name": "bench"}, {"name": "counted", "tokens_per_minute": 1000}]}
    with made.running():
        yield made


FORMS: dict[str, list[Any]] = {
    "web_ui": [True, False],
    "gateway_http_port": [0, 8080],
    "gateway_affinity_header": ["", "X-Session-Id"],
    "gateway_retry_unanswered_enabled": [True, False],
    "gateway_max_body_mib": [0.01, 16],
    "gateway_max_connections": [1, 100000],
    "gateway_memory_mib": [256, 1 << 20],
}


def test_haproxy_takes_the_least_and_the_most_of_every_number(
    tmp_path: Path, haproxy: tuple[str, dict[str, str]]
) -> None:
    """What the check of the inventory lets through, at a time."""
    names = [
        name
        for name, spec in known_variables().items()
        if name.startswith("gateway_") and spec["type"] in ("int", "float")
    ]
    wrong = []
    for most in (False, True):
        made = bench.Gateway(tmp_path, *haproxy)
        numbers = {name: bounds for name in names if not name.endswith("_port") and (bounds := bounds_of(name))}
        made.more = {name: int(bounds.high if most else bounds.low) for name, bounds in numbers.items()}
        made.more |= {"gateway_max_body_mib": 16 if most else 0.001, "gateway_max_connections": 20000 if most else 10}
        made.configure()
        command = [haproxy[0], "-c", "-f", str(tmp_path / "haproxy.cfg")]
        done = subprocess.run(command, env=made.environment, capture_output=True, text=True, check=False)
        if done.returncode or "WARNING" in done.stderr:
            wrong.append((most, done.stderr))
    assert not wrong
    assert len(names) > 10


def test_haproxy_takes_every_form_of_its_configuration(tmp_path: Path, haproxy: tuple[str, dict[str, str]]) -> None:
    wrong = []
    for number, values in enumerate(itertools.product(*FORMS.values())):
        if number % 5:  # each value with each other one, and not each of all
            continue
        form = dict(zip(FORMS, values, strict=True))
        made = bench.Gateway(tmp_path, *haproxy)
        made.web_ui = form.pop("web_ui")
        made.more = form
        made.configure()
        command = [haproxy[0], "-c", "-f", str(tmp_path / "haproxy.cfg")]
        done = subprocess.run(command, env=made.environment, capture_output=True, text=True, check=False)
        if done.returncode or "WARNING" in done.stderr:
            wrong.append((values, done.stderr))
    assert not wrong


@pytest.mark.parametrize("kind", ["idle before TLS", "idle after TLS", "half a request", "bodies", "streams"])
def test_without_a_key_nobody_costs_memory_or_the_time_of_others(gateway: bench.Gateway, kind: str) -> None:
    count = 10 if kind == "streams" else 150
    bench.with_a_key(gateway, 5)
    more, times, _most = bench.under_attack(gateway, kind, count, 2, 50)
    assert more < 100
    assert max(times) < 5000


def test_one_address_without_a_key_gets_a_part_of_the_connections(gateway: bench.Gateway) -> None:
    _more, _times, most = bench.under_attack(gateway, "half a request", 250, 1, 5)
    assert 50 < most <= 101


def test_a_key_with_a_limit_waits_for_who_counts(gateway: bench.Gateway) -> None:
    """The program that counts is not there: after its time only keys without a limit of tokens are let in."""
    command = programs.load("gateway/files/llm-gateway-usage.py")

    def status(key: str) -> int:
        connection = gateway.connect(through=True)
        headers = {**bench.HEADERS, "Authorization": f"Bearer {key}"}
        connection.request("POST", "/v1/completions", bench.body(1), headers)
        response = connection.getresponse()
        response.read()
        return response.status

    counted = bench.KEYS["counted"]
    assert (status(bench.KEY), status(counted)) == (200, 200), "there is time for the first look"
    time.sleep(3)
    assert (status(bench.KEY), status(counted)) == (200, 503)
    command.tell(set(), str(gateway.folder / "spent.map"), str(gateway.folder / "admin.sock"))
    assert status(counted) == 200
    command.tell({"counted"}, str(gateway.folder / "spent.map"), str(gateway.folder / "admin.sock"))
    assert status(counted) == 429
    time.sleep(3)
    command.tell(set(), str(gateway.folder / "spent.map"), str(gateway.folder / "admin.sock"))
    assert status(counted) == 200


def test_what_needs_no_key_is_answered_without_one(gateway: bench.Gateway) -> None:
    for host, where in (
        ("[::1]:8080", f"https://[::1]:{gateway.port}/v1/x?y=1"),
        ("llm.example.org:80", f"https://llm.example.org:{gateway.port}/v1/x?y=1"),
        ("10.0.0.1", f"https://10.0.0.1:{gateway.port}/v1/x?y=1"),
        ("", None),
        ('a"b', None),
        ("a@b", None),
    ):
        connection = http.client.HTTPConnection(bench.HOME, gateway.plain)
        connection.putrequest("GET", "/v1/x?y=1", skip_host=True)
        connection.putheader("Host", host)
        connection.endheaders()
        response = connection.getresponse()
        assert (response.status, response.headers.get("Location")) == (308 if where else 400, where), host
    for path, expected in (("/v1/models", ["m"]), ("/v1/models/m", "m")):
        connection = gateway.connect(through=True)
        connection.request("GET", path, headers=bench.HEADERS)
        said = json.loads(connection.getresponse().read())
        assert ([each["id"] for each in said["data"]] if path == "/v1/models" else said["id"]) == expected


def test_a_connection_that_says_nothing_is_ended(gateway: bench.Gateway) -> None:
    for port in (gateway.port, gateway.plain):
        with socket.create_connection((bench.HOME, port)) as connection:
            connection.settimeout(10)
            assert b"".join(iter(lambda: connection.recv(4096), b"")).split(b" ")[1:2] in ([], [b"408"])


@pytest.mark.parametrize("absence", ["missing", "folder"])
def test_without_one_of_its_files_the_gateway_does_not_start(
    tmp_path: Path, haproxy: tuple[str, dict[str, str]], absence: str
) -> None:
    """Certificate, keys, who may ask for what, what has been spent: each is named in the configuration, and none is taken for empty."""
    made = bench.Gateway(tmp_path, *haproxy)
    made.configure()
    files = [path for path in tmp_path.rglob("*") if path.suffix in (".map", ".pem")]
    assert len(files) == 11
    for path in files:
        kept = path.read_bytes()
        path.unlink()
        if absence == "folder":
            path.mkdir()
        command = [haproxy[0], "-c", "-f", str(tmp_path / "haproxy.cfg")]
        done = subprocess.run(command, env=made.environment, capture_output=True, text=True, check=False)
        assert done.returncode, path
        if absence == "folder":
            path.rmdir()
        path.write_bytes(kept)
