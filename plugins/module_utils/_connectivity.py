# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether hosts reach each other on the ports that a cluster will use: the two ends of the check, listener and prober.

A listener is a process of its own that ends when it is asked to, or by itself when its time is up. It holds the ports that nothing
holds yet, so that a prober finds an answer there; where the cluster's own service has a port already, that is what gets
connected to, and where that service ends meanwhile, the listener takes its port. Whoever talks to a listener shows with the
run's token that it belongs to this run, and the listener shows who it is, so that neither another program's service nor a
second host with the same address is taken for the right one.

Connections alone cannot tell which direction of a path is dead: both need both. So the listener also writes down whose
datagrams arrive, and how large they were: nobody may fragment them, which tells the MTU of the path.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import hmac
import http.client
import ipaddress
import json
import os
import selectors
import socket
import struct
import threading
import time
from typing import Any, Mapping, NamedTuple, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json, read_object
from ansible_collections.baremetal.llm.plugins.module_utils._engine import EngineConnection
from ansible_collections.baremetal.llm.plugins.module_utils._proc import (
    container_ids,
    listening_sockets,
    process_ids,
    read,
    server_unit,
    socket_owners,
)

LABEL = "baremetal.llm.deployment"
DAEMON_JSON, DATA_ROOT = "/etc/docker/daemon.json", "/var/lib/docker"
# What asks a listener to end, and names it. Abstract: gone with its process.
CONTROL = b"\0baremetal.llm.connectivity"
# How long a listener may take to end, and what it may have to say then: a line for each of the other hosts.
_STOP_SECONDS, _HEARD_BYTES = 10, 4 << 20
_LINE = 1024
_CHUNK = 1 << 18
_STREAM_BYTES = 1 << 31
# Linux: include/uapi/linux/in.h, in6.h. Python 3.8 has no names for them.
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE = 10, 23, 3
_OVERHEAD = {4: 28, 6: 48}  # IP and UDP headers
# Sizes of whole packets that tell something: jumbo frames, InfiniBand, Ethernet, PPPoE, tunnels, the least that IPv6 allows.
_SIZES = (9000, 8942, 4092, 2044, 1500, 1492, 1450, 1420, 1400, 1280, 576)
_COPIES = 3
# How often a port is looked at whose program cannot be found out, and how long between.
_LOOKS, _LOOK_SECONDS = 4, 0.5
# How often a listener looks whether a service has given up its port, and a prober tries such a port again.
_AGAIN_SECONDS = 0.2
_WORKERS = 64


def signature(token: str, *parts: object) -> str:
    """Shows that its maker knows the token."""
    text = "|".join(str(part) for part in parts)
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def _same(one: object, other: str) -> bool:
    return hmac.compare_digest(str(one).encode(), other.encode())


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET


def _receive_line(channel: socket.socket) -> dict[str, Any]:
    data = b""
    while not data.endswith(b"\n") and len(data) < _LINE:
        part = channel.recv(1)
        if not part:
            break
        data += part
    return _object(data)


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = read_json(data.decode())
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _send_line(channel: socket.socket, **values: object) -> None:
    channel.sendall(json.dumps(values).encode() + b"\n")


# Who holds a port


class Held(TypedDict):
    """A port at which the listener answers, or a service of the cluster that has it."""

    port: int
    answers: bool


class Foreign(TypedDict):
    """A port that another program has."""

    port: int
    address: str
    program: str
    pid: int


class Taken(Foreign):
    """The same, with the variable that names the port."""

    variable: str


class Range(TypedDict):
    """Ports to be held, the first that is free of several, and the variable that names them."""

    variable: str
    first: int
    last: int


class Started(TypedDict):
    """The listener's own port, by variable and network what it holds, and what others have."""

    port: int
    held: dict[str, dict[str, Held]]
    taken: list[Taken]


class Peer(TypedDict):
    """Another host, most of it as its ``start_listener`` returned it."""

    host: str
    # By network.
    addresses: dict[str, str]
    port: int
    mtus: dict[str, int]
    held: dict[str, dict[str, Held]]


class Failure(TypedDict):
    """A port that could not be reached, and why."""

    port: int
    reason: str


class Reached(TypedDict):
    """A peer over one network: how long a connection took, what one carries, and what failed."""

    milliseconds: float | None
    mbps: float | None
    # By variable; the listener's own port is called dynamic.
    failed: dict[str, Failure]
    # Why nothing is known of what it carries; empty where it is.
    stream: str


class Holder(NamedTuple):
    """A program that listens."""

    pid: int
    program: str
    deployment: str  # of the container it runs in, or the unit, if that is one of ours


def _holds(listener: str, address: str) -> bool:
    mine = ipaddress.ip_address(listener)
    mapped = getattr(mine, "ipv4_mapped", None)
    return mine.is_unspecified or str(mapped or mine) == str(ipaddress.ip_address(address))


def holder(address: str, port: int, proc: str = "/proc", engine: str = "/run/docker.sock") -> Holder | None:
    """Which program listens on this address and port."""
    inodes = [at.inode for at in listening_sockets(proc) if at.port == port and _holds(at.address, address)]
    if not inodes:
        return None
    for pid in socket_owners(proc, process_ids(proc), inodes).values():
        program = read(proc, str(pid), "comm").strip()
        if program:  # else it has ended meanwhile
            return Holder(pid, program, ours(pid, proc, engine))
    return Holder(0, "", "")  # of another process namespace, or the kernel's


def ours(pid: int, proc: str = "/proc", engine: str = "/run/docker.sock") -> str:
    """The unit of ours that a process belongs to, or the deployment of its container; nothing for any other."""
    return server_unit(proc, pid) or container_deployment(pid, proc, engine)


def container_deployment(pid: int, proc: str = "/proc", engine: str = "/run/docker.sock") -> str:
    """The deployment of the container that a process runs in; nothing if that is none of ours."""
    return next(filter(None, (_deployment(found, engine) for found in container_ids(proc, pid))), "")


def _deployment(container: str, engine: str) -> str:
    """The deployment that a container of this host's engine belongs to; nothing if it is none of ours."""
    connection = EngineConnection(engine, timeout=5)
    try:
        connection.request("GET", "/containers/{0}/json".format(container))
        answer = _object(connection.getresponse().read())
    except (OSError, http.client.HTTPException):
        answer = _written(container)
    finally:
        connection.close()
    try:
        return str(answer["Config"]["Labels"].get(LABEL, ""))
    except (KeyError, TypeError, AttributeError):
        return ""


def _written(container: str) -> dict[str, object]:
    """What the engine wrote of a container, for as long as it does not answer: its containers may go on meanwhile."""
    root = str(read_object(DAEMON_JSON).get("data-root") or DATA_ROOT)
    return read_object(os.path.join(root, "containers", container, "config.v2.json"))


# The listening end


class Listener:
    """Holds free ports on the given addresses, and answers there."""

    def __init__(self, host: str, token: str, addresses: Mapping[str, str], control: bytes = CONTROL) -> None:
        self.host = host
        self.token = token
        self.addresses = dict(addresses)
        self.heard: dict[str, dict[str, int]] = {network: {} for network in addresses}
        self.port = 0
        self.streaming = threading.Lock()
        # Network, address and port of what services of the cluster hold.
        self.services: list[tuple[str, str, int]] = []
        self.selector = selectors.DefaultSelector()
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.control.bind(control)
        self.control.listen(4)
        self.selector.register(self.control, selectors.EVENT_READ, None)
        self.hold_dynamic()

    def hold_dynamic(self) -> None:
        """One port that the kernel chooses, on every address, for connections and datagrams: as NCCL and gloo get theirs."""
        for _attempt in range(50):
            held: list[tuple[socket.socket, str]] = []
            try:
                port = 0
                for network, address in self.addresses.items():
                    channel = _listening(address, port)
                    held.append((channel, network))
                    port = channel.getsockname()[1]
                    datagrams = socket.socket(_family(address), socket.SOCK_DGRAM)
                    held.append((datagrams, network))
                    datagrams.bind((address, port))
            except OSError:
                for channel, _network in held:
                    channel.close()
                continue
            self.port = port
            for channel, network in held:
                self.watch(channel, network)
            return
        raise OSError("no free port on {0}".format(", ".join(self.addresses.values())))

    def watch(self, channel: socket.socket, network: str) -> None:
        self.selector.register(channel, selectors.EVENT_READ, network)

    def hold(self, first: int, last: int) -> tuple[dict[str, Held], list[Foreign]]:
        """Hold a port, or the first free one of a range: per network where to connect, and by whom it is taken else."""
        there: dict[str, Held] = {}
        taken: list[Foreign] = []
        for network, address in self.addresses.items():
            for port in range(first, last + 1):
                owner = self.hold_one(network, address, port, _LOOKS if first == last else 1)
                if owner is None or owner.deployment:
                    there[network] = {"port": port, "answers": owner is None}
                    if owner is not None:
                        self.services.append((network, address, port))
                    break
                if first == last:
                    taken.append({"port": port, "address": address, "program": owner.program, "pid": owner.pid})
        return there, taken

    def hold_one(self, network: str, address: str, port: int, looks: int) -> Holder | None:
        """Hold this port: nothing then, else who has it.

        A program that ends while it is looked at, as a Ray node does that has lost its head, can no longer be recognised: the port is
        taken by another program only if the same one has it at the next look, too.
        """
        owner: Holder | None = None
        for look in range(looks):
            if look:
                time.sleep(_LOOK_SECONDS)
            before = owner
            try:
                self.watch(_listening(address, port), network)
                return None
            except OSError as error:
                owner = holder(address, port) or Holder(0, str(error), "")
            if owner.deployment or owner == before:
                break
        return owner

    def serve(self, seconds: float) -> None:
        """Until it is asked to end, or for so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.take_over()
            wait = max(0.0, deadline - time.monotonic())
            for key, _events in self.selector.select(min(wait, _AGAIN_SECONDS) if self.services else wait):
                channel = key.fileobj
                if not isinstance(channel, socket.socket):
                    continue
                if channel is self.control:
                    if self.should_end(channel):
                        return
                elif channel.type == socket.SOCK_DGRAM:
                    self.datagram(channel, key.data)
                else:
                    connection, _peer = channel.accept()
                    threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def take_over(self) -> None:
        """Hold the ports of services that have ended: a Ray node ends a minute after its head."""
        for network, address, port in list(self.services):
            try:
                self.watch(_listening(address, port), network)
            except OSError:
                continue
            self.services.remove((network, address, port))

    def close(self) -> None:
        """Give up what is held, in this process."""
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self.selector.close()

    def should_end(self, channel: socket.socket) -> bool:
        connection, _peer = channel.accept()
        with connection:
            _pid, user, _group = struct.unpack(
                "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            )
            if user not in (0, os.getuid()):
                return False
            connection.settimeout(5)
            self.close()  # first, so that whoever asked finds the ports free
            connection.sendall(json.dumps({"host": self.host, "heard": self.heard}).encode())
        return True

    def datagram(self, channel: socket.socket, network: str) -> None:
        try:
            data, sender = channel.recvfrom(1 << 16)
            head = _object(data.partition(b"\n")[0])
            host = str(head.get("from"))
            if _same(head.get("signature"), signature(self.token, "datagram", host, head.get("nonce"))):
                size = len(data) + _OVERHEAD[6 if channel.family == socket.AF_INET6 else 4]
                self.heard[network][host] = max(size, self.heard[network].get(host, 0))
                channel.sendto(signature(self.token, "heard", self.host, head.get("nonce")).encode(), sender)
        except OSError:
            pass  # such as an ICMP error that came back for an earlier answer

    def answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(5)
                asked = _receive_line(connection)
                action, host, nonce = (str(asked.get(key)) for key in ("do", "from", "nonce"))
                if not _same(asked.get("signature"), signature(self.token, action, host, nonce)):
                    return
                _send_line(connection, host=self.host, signature=signature(self.token, "here", self.host, nonce))
                if action == "stream":
                    # One at a time, so that each has the link to itself.
                    if self.streaming.acquire(timeout=30):
                        try:
                            _send_line(connection, go=True)
                            count, seconds = _count(connection)
                        finally:
                            self.streaming.release()
                        _send_line(connection, bytes=count, seconds=seconds)
        except OSError:
            pass  # the other end went away: it knows


def _listening(address: str, port: int) -> socket.socket:
    channel = socket.socket(_family(address), socket.SOCK_STREAM)
    try:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        channel.bind((address, port))
        channel.listen(128)
    except OSError:
        channel.close()
        raise
    return channel


def _count(connection: socket.socket) -> tuple[int, float]:
    """Bytes that arrive until the other end is done, and the seconds from the first to the last."""
    buffer = bytearray(_CHUNK)
    count, first, last = 0, 0.0, 0.0
    while True:
        size = connection.recv_into(buffer)
        now = time.monotonic()
        if not size:
            return count, last - first
        # The first read only starts the clock.
        first, last = first or now, now
        count += size


def stop_listener(control: bytes = CONTROL) -> dict[str, object] | None:
    """End this host's listener; what it heard, or None if there was none, or a program of somebody else that has its name and does not end."""
    said, end = b"", time.monotonic() + _STOP_SECONDS
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(_STOP_SECONDS)
        try:
            channel.connect(control)
            while True:
                part = channel.recv(_CHUNK)
                if not part:
                    break
                said += part
                if len(said) > _HEARD_BYTES or time.monotonic() > end:
                    return None
        except OSError:
            return None
    return _object(said) or None


def start_listener(
    host: str,
    token: str,
    addresses: Mapping[str, str],
    ports: Sequence[Range],
    seconds: float,
    control: bytes = CONTROL,
) -> Started:
    """Start a process that listens; what it holds. It has its ports before this returns."""
    stop_listener(control)  # of a run that was interrupted
    listener = Listener(host, token, addresses, control)
    held: dict[str, dict[str, Held]] = {}
    taken: list[Taken] = []
    for port in ports:
        there, foreign = listener.hold(port["first"], port["last"])
        held[port["variable"]] = there
        taken += [{"variable": port["variable"], **entry} for entry in foreign]
    child = os.fork()
    if child == 0:
        _become_daemon(listener, seconds)
    os.waitpid(child, 0)
    listener.close()  # the process has its own
    return {"port": listener.port, "held": held, "taken": taken}


def _become_daemon(listener: Listener, seconds: float) -> None:
    """The rest of the child's life. Nothing of the parent's is kept open, or its connection would wait."""
    try:
        os.setsid()
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        if os.fork() == 0:
            listener.serve(seconds)
    finally:
        os._exit(0)


# The probing end


class Prober:
    """Connects to all others, one network after the other."""

    def __init__(self, host: str, token: str, addresses: Mapping[str, str], timeout: float) -> None:
        self.host = host
        self.token = token
        self.addresses = addresses
        self.timeout = timeout

    def connect(self, network: str, address: str, port: int) -> socket.socket:
        channel = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            channel.settimeout(self.timeout)
            channel.bind((self.addresses[network], 0))
            channel.connect((address, port))
        except OSError:
            channel.close()
            raise
        return channel

    def greet(self, channel: socket.socket, peer: str, action: str) -> str:
        """Show and ask for the token; what is wrong, or nothing."""
        nonce = os.urandom(12).hex()
        _send_line(
            channel,
            **{"do": action, "from": self.host, "nonce": nonce},
            signature=signature(self.token, action, self.host, nonce),
        )
        answer = _receive_line(channel)
        other = str(answer.get("host"))
        if not _same(answer.get("signature"), signature(self.token, "here", other, nonce)):
            return "other_service"
        return "" if other == peer else "other:{0}".format(other)

    def try_port(self, network: str, peer: str, address: str, port: int, answers: bool) -> tuple[str, float]:
        """What is wrong with a connection to this port, or nothing; and how long it took in milliseconds.

        A service of the cluster (``answers`` is false) may just have ended. The peer's listener takes its port then, so it is tried again.
        """
        deadline = time.monotonic() + self.timeout
        while True:
            started = time.monotonic()
            try:
                with self.connect(network, address, port) as channel:
                    took = (time.monotonic() - started) * 1000
                    return (self.greet(channel, peer, "hello") if answers else ""), took
            except OSError as error:
                if answers or not isinstance(error, ConnectionRefusedError) or started >= deadline:
                    return _reason(error), 0.0
            time.sleep(_AGAIN_SECONDS)

    def send_datagrams(self, network: str, peers: Sequence[Peer], mtu: int, sizes: Sequence[int]) -> None:
        """To every peer, in all sizes that may tell something, never fragmented."""
        own = self.addresses[network]
        version = ipaddress.ip_address(own).version
        with socket.socket(_family(own), socket.SOCK_DGRAM) as channel:
            channel.bind((own, 0))
            if version == 6:
                channel.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE)
            else:
                channel.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
            nonce = os.urandom(12).hex()
            head = {"from": self.host, "nonce": nonce, "signature": signature(self.token, "datagram", self.host, nonce)}
            line = json.dumps(head).encode() + b"\n"
            wanted = sorted({size for size in (*_SIZES, *sizes, mtu) if 0 < size <= mtu})
            lengths = [0, *(size - _OVERHEAD[version] for size in wanted)]
            for _copy in range(_COPIES):
                for peer in peers:
                    for length in lengths:
                        try:
                            channel.sendto(line.ljust(length, b"\0"), (peer["addresses"][network], int(peer["port"])))
                        except OSError:
                            pass  # no route, refused, larger than the device takes: it does not arrive, and that is recorded
                time.sleep(0.02)  # a burst may be lost where nothing else would

    def stream(self, network: str, peer: str, address: str, port: int, seconds: float) -> tuple[float | None, str]:
        """Megabits a second that one connection carries to a peer, as that one counts them."""
        try:
            with self.connect(network, address, port) as channel:
                wrong = self.greet(channel, peer, "stream")
                if wrong:
                    return None, wrong
                channel.settimeout(40)
                if not _receive_line(channel).get("go"):
                    return None, "timeout"
                channel.settimeout(self.timeout)
                block = bytes(_CHUNK)
                sent, deadline = 0, time.monotonic() + seconds
                while sent < _STREAM_BYTES and time.monotonic() < deadline:
                    sent += channel.send(block)
                channel.shutdown(socket.SHUT_WR)
                channel.settimeout(self.timeout + 5)
                counted = _receive_line(channel)
        except OSError as error:
            return None, _reason(error)
        if counted.get("bytes") != sent:
            return None, "lost"
        seconds = float(counted["seconds"])
        return (round(sent * 8 / 1e6 / seconds, 1) if seconds > 0 else None), ""


def _reason(error: OSError) -> str:
    if isinstance(error, socket.timeout):
        return "timeout"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, ConnectionError):
        return "reset"
    return (error.strerror or str(error)).lower()


def probe(
    host: str,
    token: str,
    addresses: Mapping[str, str],
    peers: Sequence[Peer],
    mtus: Mapping[str, int],
    timeout: float,
    streams: Mapping[str, float],
) -> dict[str, dict[str, Reached]]:
    """Per network and peer: milliseconds of a connection, megabits a second, and what failed on which port.

    ``streams`` says how many seconds are streamed to which peers.
    """
    prober = Prober(host, token, addresses, timeout)
    result: dict[str, dict[str, Reached]] = {}
    with concurrent.futures.ThreadPoolExecutor(_WORKERS) as pool:
        waiting = {}
        for network in addresses:
            there = [peer for peer in peers if network in peer["addresses"]]
            sizes = [int(peer["mtus"][network]) for peer in there if peer.get("mtus", {}).get(network)]
            prober.send_datagrams(network, there, int(mtus.get(network) or 1500), sizes)
            result[network] = {
                str(peer["host"]): {"milliseconds": None, "mbps": None, "failed": {}, "stream": ""} for peer in there
            }
            for peer in there:
                targets = [("", int(peer["port"]), True)]
                for variable, held in peer["held"].items():
                    if network in held:
                        targets.append((variable, int(held[network]["port"]), bool(held[network]["answers"])))
                for variable, port, answers in targets:
                    task = pool.submit(
                        prober.try_port, network, str(peer["host"]), peer["addresses"][network], port, answers
                    )
                    waiting[task] = (network, str(peer["host"]), variable, port)
        for task in concurrent.futures.as_completed(waiting):
            network, name, variable, port = waiting[task]
            wrong, took = task.result()
            if wrong:
                result[network][name]["failed"][variable or "dynamic"] = {"port": port, "reason": wrong}
            elif not variable:
                result[network][name]["milliseconds"] = round(took, 2)
    by_name = {str(peer["host"]): peer for peer in peers}
    for network, reached in result.items():
        for name, seconds in streams.items():
            if name in reached and "dynamic" not in reached[name]["failed"]:
                peer = by_name[name]
                rate, wrong = prober.stream(network, name, peer["addresses"][network], int(peer["port"]), seconds)
                reached[name]["mbps"], reached[name]["stream"] = rate, wrong
    return result


def stream_partners(hosts: Sequence[str], host: str, most: int = 8) -> list[str]:
    """To whom a host streams: all others in a small cluster, else some, so that the time does not grow with the hosts.

    Every host counts from itself in the same steps, so that at each step it sends to one other and receives from one other.
    """
    count, at = len(hosts), list(hosts).index(host)
    partners = min(most, count - 1)
    return [hosts[(at + count * step // (partners + 1)) % count] for step in range(1, partners + 1)]
