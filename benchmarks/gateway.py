# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gateway costs, on this machine's loopback: the role's own configuration in a real HAProxy, before replicas without a model.

Three questions, each with its figures, and no verdict: how much later the first byte comes, asked in turn with and without the gateway on
connections that stay open; how many of 2,000 requests fail while a replica is drained, restarted and taken back; and how much memory 500
streams take that are idle. HAProxy is the one on PATH, or `--haproxy`, or Debian's package, unpacked into build/haproxy.
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
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway import tls  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.decide import (  # noqa: E402
    Gateways,
    Secrets,
    decide_gateways,
)

ROLE = ROOT / "roles/gateway"
MIDDLEWARE = ROOT / "roles/vllm/files/middleware/llm_api_paths.py"
REPLICA = ROOT / "molecule/gateway/files/replica.py"
KEY, OPENS, HOME = "A" * 40, "R" * 40, "127.0.0.1"
PACKAGES = ("haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1")
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}


def haproxy(named: str) -> tuple[str, dict[str, str]]:
    """The program, and what its environment has to have besides."""
    found = named or shutil.which("haproxy") or shutil.which("/usr/sbin/haproxy")
    if found:
        return found, {}
    folder = ROOT / "build/haproxy"
    program = folder / "usr/sbin/haproxy"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "--quiet=2", "download", *PACKAGES], cwd=folder, check=True)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "--extract", package, folder], check=True)
    (libraries,) = {str(path.parent) for path in folder.glob("usr/lib/*/liblua5.3.so.0")}
    return str(program), {"LD_LIBRARY_PATH": libraries}


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_sockets:
        return [open_sockets.enter_context(socket.create_server((HOME, 0))).getsockname()[1] for _ in range(count)]


class Gateway:
    """Two replicas and the gateway before them, in a folder that goes with it."""

    def __init__(self, folder: Path, program: str, environment: dict[str, str]) -> None:
        self.folder, self.program, self.environment = folder, program, {**os.environ, **environment}
        self.port, self.plain, *self.ports = free_ports(4)
        self.replicas: dict[int, subprocess.Popen[bytes]] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.trusted = ssl.create_default_context()

    def configure(self) -> None:
        """The files that the role would write."""
        defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
        head = {"vllm_model": "m", "vllm_version": "0.32.0", "vllm_probe_enabled": True}
        variables = {f"h{port}": {**head, "vllm_port": port} for port in self.ports}
        mine = {"gateway_address": HOME, "gateway_https_port": self.port, "gateway_http_port": self.plain}
        mine |= {"gateway_keys": [{"name": "bench"}], "gateway_slow_start_seconds": 1, "gateway_check_seconds": 1}
        section, problems = decide_gateways(
            Gateways(
                ["gate"],
                {f"r{port}": {"head": f"h{port}", "hosts": [f"h{port}"]} for port in self.ports},
                {**variables, "gate": {**defaults, **mine}},
                addresses=dict.fromkeys(variables, HOME),
            ),
            Secrets(lambda _host, _name: KEY, lambda: OPENS, lambda: "O" * 40, lambda _host: (), lambda *_names: {}),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--haproxy", default="", help="the program; by default the one on PATH, or Debian's")
    parser.add_argument("--requests", type=int, default=1000, help="for the first byte")
    parser.add_argument("--drained", type=int, default=2000, help="at least so many while a replica is drained")
    parser.add_argument("--streams", type=int, default=500, help="idle ones")
    options = parser.parse_args()
    program, environment = haproxy(options.haproxy)
    said = subprocess.run(
        [program, "-v"], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True
    )
    print(said.stdout.splitlines()[0])
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder, Gateway(Path(folder), program, environment).running() as gateway:
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
