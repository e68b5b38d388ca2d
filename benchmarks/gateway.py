# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gateway costs, on this machine's loopback: the role's own configuration in a real HAProxy, before replicas without a model.

Questions, each with its figures, and no verdict: how much later the first byte comes, asked in turn with and without the gateway on
connections that stay open; how many of 2,000 requests fail while a replica is drained, restarted and taken back; how much memory 500
streams take that are idle; and what clients without a key cost, in HAProxy's memory and in the time of a client with one. HAProxy is the one
on PATH, or `--haproxy`, or Debian's package, unpacked into build/haproxy.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import http.client
import json
import os
import shutil
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / ".collections")]

from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway import tls  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.decide import (  # noqa: E402
    Gateways,
    Secrets,
    decide_gateways,
)

from tests.support.debian import unpacked  # noqa: E402

ROLE = ROOT / "roles/gateway"
MIDDLEWARE = ROOT / "roles/common/files/llm_api_paths.py"
REPLICA = ROOT / "molecule/gateway/files/replica.py"
KEY, OPENS, HOME = "A" * 40, "R" * 40, "127.0.0.1"
KEYS = {"bench": KEY, "counted": "C" * 40}
PACKAGES = ("haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1")
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}


def haproxy(named: str) -> tuple[str, dict[str, str]]:
    """The program, and what its environment has to have besides."""
    found = named or shutil.which("haproxy") or shutil.which("/usr/sbin/haproxy")
    if found:
        return found, {}
    folder = unpacked("haproxy", PACKAGES)
    (libraries,) = {str(path.parent) for path in folder.glob("usr/lib/*/liblua5.3.so.0")}
    return str(folder / "usr/sbin/haproxy"), {"LD_LIBRARY_PATH": libraries}


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_sockets:
        return [open_sockets.enter_context(socket.create_server((HOME, 0))).getsockname()[1] for _ in range(count)]


class Gateway:
    """Two replicas and the gateway before them, in a folder that goes with it."""

    def __init__(self, folder: Path, program: str, environment: dict[str, str]) -> None:
        self.folder, self.program, self.environment = folder, program, {**os.environ, **environment}
        self.port, self.plain, self.page, *self.ports = free_ports(5)
        self.replicas: dict[int, subprocess.Popen[bytes]] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.trusted = ssl.create_default_context()
        # Further variables of the role, and whether there is a page for people.
        self.more: dict[str, Any] = {}
        self.web_ui = False
        # Deployments with other engines, by name: the variables of the head.
        self.heads: dict[str, dict[str, Any]] = {}

    def configure(self) -> None:
        """The files that the role would write."""
        defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
        head = {"vllm_model": "m", "vllm_version": "0.32.0", "vllm_probe_enabled": True}
        variables = {f"h{port}": {**head, "vllm_port": port} for port in self.ports} | self.heads
        mine = {"gateway_address": HOME, "gateway_https_port": self.port, "gateway_http_port": self.plain}
        mine |= {"gateway_keys": [{"name": "bench"}], "gateway_slow_start_seconds": 1, "gateway_check_seconds": 1}
        mine |= {"web_ui_port": self.page, "web_ui_listen_port": 8480, "web_ui_admin_email": "admin@example.org"}
        section, problems = decide_gateways(
            Gateways(
                ["gate"],
                {f"r{name}": {"head": name, "hosts": [name]} for name in variables},
                {**variables, "gate": {**defaults, **mine, **self.more}},
                addresses=dict.fromkeys(variables, HOME),
                web_ui=["gate"] if self.web_ui else [],
            ),
            Secrets(
                lambda _host, name: KEYS[name], lambda: OPENS, lambda: "O" * 40, lambda _host: (), lambda *_names: {}
            ),
        )
        if problems:
            raise SystemExit(str(problems))
        now = datetime.datetime.now(datetime.UTC)
        root, signer = tls.make_authority(now)
        files = {**section["gate"]["files"], "replicas.map": f"all {OPENS}\n", "servers.state": "1\n"}
        files["tls/gateway.pem"] = b"".join(tls.make_certificate(root, signer, [HOME], now)).decode()
        places = {"dir": str(self.folder), "run_dir": str(self.folder), "user": "", "chroot": ""}
        template = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined).from_string(
            (ROLE / "templates/haproxy.cfg.j2").read_text(encoding="utf-8")
        )
        said = template.render(ansible_managed="", _gateway={**section["gate"], **places})
        for name, content in {**files, "haproxy.cfg": said + "\n"}.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(content, encoding="utf-8")
        self.trusted.load_verify_locations(cadata=root.decode())

    def start_replica(self, port: int) -> None:
        state = self.folder / str(port)
        state.mkdir(exist_ok=True)
        (state / "vllm_api_key").write_text(KEY)
        (state / "vllm_api_key.gateway").write_text(OPENS)
        about = ["--name", str(port), "--model", "m", "--address", HOME, "--port", str(port), "--probe"]
        about += ["--middleware", str(MIDDLEWARE), "--secrets", str(state), "--state", str(state)]
        self.replicas[port] = subprocess.Popen([sys.executable, REPLICA, *about])

    @contextlib.contextmanager
    def running(self) -> Iterator[Gateway]:
        self.configure()
        try:
            for port in self.ports:
                self.start_replica(port)
            with (self.folder / "log").open("wb") as log:
                command = [self.program, "-f", str(self.folder / "haproxy.cfg")]
                self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
                self.wait_for(self.ports)
                yield self
        finally:
            for process in [*self.replicas.values(), *([self.process] if self.process else [])]:
                process.terminate()
                process.wait()

    def wait_for(self, wanted: list[int]) -> None:
        """Until just these replicas answer."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(OSError, http.client.HTTPException, KeyError, ValueError):
                if {self.who() for _ in range(8)} == {str(port) for port in wanted}:
                    return
            time.sleep(0.2)
        raise SystemExit((self.folder / "log").read_text()[-2000:])

    def who(self) -> str:
        connection = self.connect(through=True)
        connection.request("POST", "/v1/completions", body(1), HEADERS)
        return str(json.loads(connection.getresponse().read())["system_fingerprint"])

    def connect(self, through: bool) -> http.client.HTTPConnection:
        if through:
            return http.client.HTTPSConnection(HOME, self.port, context=self.trusted, timeout=60)
        return http.client.HTTPConnection(HOME, self.ports[0], timeout=60)

    @property
    def resident_mib(self) -> float:
        """Memory of HAProxy's process."""
        pages = int(Path(f"/proc/{self.process.pid if self.process else 0}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def body(tokens: int, *, stream: bool = False, pause_ms: int = 0, characters: int = 2000) -> str:
    asked: dict[str, Any] = {"model": "m", "prompt": "x" * characters, "max_tokens": tokens, "seed": pause_ms}
    return json.dumps({**asked, "stream": stream})


def first_bytes(gateway: Gateway, requests: int) -> dict[bool, list[float]]:
    """Milliseconds to the first byte of a stream, without and with the gateway, in turn."""
    connections = {through: gateway.connect(through) for through in (False, True)}
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(requests + 20):
        for through, connection in connections.items():
            began = time.perf_counter()
            connection.request("POST", "/v1/completions", body(2, stream=True), HEADERS)
            response = connection.getresponse()
            response.read(1)
            took = (time.perf_counter() - began) * 1000
            response.read()
            if number >= 20:  # the first ones make the connections
                found[through].append(took)
    return found


def while_drained(gateway: Gateway, requests: int) -> Counter[str]:
    """What becomes of requests while a replica is drained, restarted and taken back."""
    outcome: Counter[str] = Counter()
    left = iter(range(requests))
    lock, over = threading.Lock(), threading.Event()

    def ask() -> None:
        connection = gateway.connect(through=True)
        while True:
            with lock:
                # Until the replica is back, so that there is no moment of it without requests.
                if next(left, None) is None and over.is_set():
                    return
            try:
                connection.request("POST", "/v1/completions", body(2, pause_ms=2), HEADERS)
                response = connection.getresponse()
                response.read()
                said = str(response.status)
            except (OSError, http.client.HTTPException) as error:
                said = type(error).__name__
                connection = gateway.connect(through=True)
            with lock:
                outcome[said] += 1

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        first, second = gateway.ports
        drained = gateway.folder / str(first) / "drained"
        time.sleep(1)
        drained.touch()
        gateway.wait_for([second])
        time.sleep(1)
        gateway.replicas[first].terminate()
        gateway.replicas[first].wait()
        gateway.start_replica(first)
        time.sleep(2)
        drained.unlink()
        gateway.wait_for([first, second])
    finally:
        over.set()
        for thread in threads:
            thread.join()
    return outcome


async def idle_streams(gateway: Gateway, count: int) -> tuple[float, float, int]:
    """HAProxy's memory in MiB before and with so many streams that say nothing for long, and how many of them had begun."""
    before = gateway.resident_mib
    text = body(2, stream=True, pause_ms=20000)
    request = f"POST /v1/completions HTTP/1.1\r\nHost: {HOME}\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(text)}\r\n\r\n{text}"

    async def begin() -> tuple[asyncio.StreamWriter, bool]:
        reader, writer = await asyncio.open_connection(HOME, gateway.port, ssl=gateway.trusted)
        writer.write(request.encode())
        return writer, b" 200 " in await reader.readuntil(b"\r\n")

    streams = []
    for _ in range(0, count, 20):
        streams += await asyncio.gather(*(begin() for _ in range(min(20, count - len(streams)))))
    await asyncio.sleep(1)
    held = gateway.resident_mib
    for writer, _begun in streams:
        writer.transport.abort()
    return before, held, sum(begun for _writer, begun in streams)


FRAME = struct.Struct(">I")


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2 (RFC 9113, 4.1)."""
    return FRAME.pack(len(payload))[1:] + bytes((kind, flags)) + FRAME.pack(stream) + payload


def without_a_key(port: int, streams: int) -> bytes:
    """HTTP/2 of a client that opens so many streams with a body of 64 KiB each, as far as the window of a connection reaches, and has no key."""

    def literal(index: int, value: bytes) -> bytes:
        return bytes((index, len(value))) + value

    # HPACK (RFC 7541): POST and https of the static table, path and authority as texts.
    head = b"\x83\x87" + literal(0x04, b"/v1/completions") + literal(0x01, f"{HOME}:{port}".encode())
    said = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame(4, 0, 0)]
    for number in range(1, 2 * streams, 2):
        said += [frame(1, 4, number, head), *[frame(0, 0, number, b"x" * 16384)] * 3]
    return b"".join(said)


ATTACKS = ("idle before TLS", "idle after TLS", "half a request", "bodies", "headers without an end", "streams")


class Strangers:
    """Connections without a key, from as many addresses of the loopback network as it takes, that come again when they are ended."""

    def __init__(self, gateway: Gateway, kind: str, count: int, addresses: int) -> None:
        self.gateway, self.kind, self.count, self.addresses = gateway, kind, count, addresses
        self.over = threading.Event()
        self.open = self.most = 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.context.set_alpn_protocols(["h2" if kind == "streams" else "http/1.1"])
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {HOME}\r\n".encode()
        self.said: bytes = {
            "half a request": head,
            "bodies": head + b"Content-Length: 4000000\r\n\r\n" + b"x" * 3_900_000,
            "headers without an end": head + b"X: " + b"x" * 3_900_000,
            "streams": without_a_key(gateway.port, 100),
        }.get(kind, b"")

    async def one(self, number: int) -> None:
        # Others for each attack: an address that came too often is locked out for a while.
        own = f"127.0.{ATTACKS.index(self.kind) + 1}.{number % self.addresses + 1}"
        secure = {} if self.kind == "idle before TLS" else {"ssl": self.context}
        while not self.over.is_set():
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(HOME, self.gateway.port, local_addr=(own, 0), **secure)
                self.open += 1
                self.most = max(self.most, self.open)
                try:
                    writer.write(self.said)
                    while await reader.read(1 << 16):
                        pass
                finally:
                    self.open -= 1
                    writer.transport.abort()
            await asyncio.sleep(1)

    async def all(self) -> None:
        tasks = [asyncio.create_task(self.one(number)) for number in range(self.count)]
        while not self.over.is_set():
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def attack(port: int, kind: str, count: int, addresses: int) -> None:
    """A process of its own, so that it takes no time of the client that is measured. It ends with its standard input."""
    gateway = Gateway(Path(), "", {})
    gateway.port = port
    strangers = Strangers(gateway, kind, count, addresses)
    thread = threading.Thread(target=asyncio.run, args=(strangers.all(),))
    thread.start()
    sys.stdin.read()
    strangers.over.set()
    thread.join()
    print(strangers.most)


def with_a_key(gateway: Gateway, requests: int) -> list[float]:
    """Milliseconds of whole requests on a connection that stays open, one after the other."""
    connection, found = gateway.connect(through=True), []
    for _ in range(requests):
        began = time.perf_counter()
        connection.request("POST", "/v1/completions", body(1), HEADERS)
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise SystemExit(f"a client with a key was refused: {response.status}")
        found.append((time.perf_counter() - began) * 1000)
        time.sleep(0.01)
    return found


def under_attack(
    gateway: Gateway, kind: str, count: int, addresses: int, requests: int
) -> tuple[float, list[float], int]:
    """The most memory in MiB above idle, the times of a client with a key, and how many connections were open at a time."""
    before = most = gateway.resident_mib
    command = [sys.executable, __file__, "--attack", kind, "--port", str(gateway.port)]
    command += ["--strangers", str(count), "--addresses", str(addresses)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        over = threading.Event()

        def look() -> None:
            nonlocal most
            while not over.wait(0.05):
                most = max(most, gateway.resident_mib)

        thread = threading.Thread(target=look)
        thread.start()
        time.sleep(6)
        # A connection of its own, made while the others are there.
        times = with_a_key(gateway, requests)
        said, _ = process.communicate("")
        over.set()
        thread.join()
    return most - before, times, int(said or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--haproxy", default="", help="the program; by default the one on PATH, or Debian's")
    parser.add_argument("--requests", type=int, default=1000, help="for the first byte")
    parser.add_argument("--drained", type=int, default=2000, help="at least so many while a replica is drained")
    parser.add_argument("--streams", type=int, default=500, help="idle ones")
    parser.add_argument("--strangers", type=int, default=2000, help="connections without a key")
    parser.add_argument("--addresses", type=int, default=20, help="from which they come")
    parser.add_argument("--only-strangers", action="store_true", help="leave out the other questions")
    parser.add_argument("--attack", choices=ATTACKS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack:
        attack(options.port, options.attack, options.strangers, options.addresses)
        return
    program, environment = haproxy(options.haproxy)
    said = subprocess.run(
        [program, "-v"], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True
    )
    print(said.stdout.splitlines()[0])
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder, Gateway(Path(folder), program, environment).running() as gateway:
        if not options.only_strangers:
            costs(gateway, options)
        strangers(gateway, options)


def strangers(gateway: Gateway, options: argparse.Namespace) -> None:
    """Print what clients without a key cost."""
    for kind in ATTACKS:
        # Anew each time: other programs of this machine come and go.
        quiet = statistics.quantiles(with_a_key(gateway, 300), n=100)[98]
        count = 10 if kind == "streams" else options.strangers
        more, times, most = under_attack(gateway, kind, count, options.addresses, 300)
        p99 = statistics.quantiles(times, n=100)[98]
        print(
            f"without a key, {kind}: {count} connections from {options.addresses} addresses, {most} open at a time, {more:+.0f} MiB; "
            f"p99 with a key {p99:.1f} ms, before {quiet:.1f} ms"
        )


def costs(gateway: Gateway, options: argparse.Namespace) -> None:
    """Print what the gateway costs those with a key."""
    found = first_bytes(gateway, options.requests)
    figures = {}
    for through, times in found.items():
        figures[through] = statistics.median(times), statistics.quantiles(times, n=100)[98]
        name = "with the gateway" if through else "without"
        print(
            f"first byte, {len(times)} requests, {name:<17}: median {figures[through][0]:.2f} ms, p99 {figures[through][1]:.2f} ms"
        )
    added = [figures[True][each] - figures[False][each] for each in (0, 1)]
    print(f"first byte, added: {added[0]:+.2f} ms at the median, {added[1]:+.2f} ms at p99")
    outcome = while_drained(gateway, options.drained)
    failed = sum(count for status, count in outcome.items() if status != "200")
    print(
        f"replica drained, restarted, taken back: {failed} failed of {sum(outcome.values())} requests, {dict(outcome)}"
    )
    before, held, begun = asyncio.run(idle_streams(gateway, options.streams))
    print(
        f"{begun} of {options.streams} idle streams: HAProxy has {held:.1f} MiB, {held - before:+.1f} MiB more than before"
    )


if __name__ == "__main__":
    main()
