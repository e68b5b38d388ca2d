# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's part in passing files on: a program that runs as a unit of systemd while a playbook brings files to hosts, and is gone afterwards.

    python -m ...._fanout FOLDER

FOLDER, in memory and root's alone, has what it is told and what it says:

    job.json     what it is to do, as Job says
    peers.json   [[address, [port of each session]]], written when all hosts have started
    status.json  what it has and did, twice a second, as Status says
    lease        touched by whoever still wants it

Hosts exchange pieces with libtorrent, which is imported in this process and nowhere else. Nobody finds a peer but by the list: there is no tracker,
no DHT, no local discovery, no peer exchange. Connections come from and go to the listed addresses, over TCP, with a handshake that only those can make
who know the secret of the run. What the controller hands over arrives as slices beside the file; a piece is passed on as soon as its hash is right.
"""

from __future__ import annotations

import collections
import errno
import os
import re
import resource
import signal
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import ModuleType
from typing import Any, Iterable, Iterator, Mapping, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import sha256_of
from ansible_collections.baremetal.llm.plugins.module_utils._bundle_host import (
    INCOMING,
    incoming_name,
    place,
    write_state,
)
from ansible_collections.baremetal.llm.plugins.module_utils._content import load_json
from ansible_collections.baremetal.llm.plugins.module_utils._download import PART
from ansible_collections.baremetal.llm.plugins.module_utils._pieces import (
    Pieces,
    piece_bytes,
    piece_count,
    piece_root,
    piece_roots,
    torrent,
)
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import read_state, write_json

JOB, PEERS, STATUS, LEASE = "job.json", "peers.json", "status.json", "lease"
# What is there of a file that still travels, beside where complete ones arrive.
BEGUN = ".begun"
SLICE = re.compile(r"([0-9a-f]{64}-[0-9a-f]{16})\.slice-(\d+)-(\d+)")
# So many files of a host travel at a time, in the order in which they are wanted.
AT_A_TIME = 4
ROUND_SECONDS, STATUS_SECONDS, AGAIN_SECONDS, FLUSH_SECONDS = 0.1, 0.5, 3.0, 2.0
MIB = 1 << 20


class Travelling(Pieces):
    """A file that is passed on."""

    path: str
    # Which session takes it.
    session: int


class Job(TypedDict):
    """What job.json holds."""

    # Where the files get their names.
    dest: str
    # Of this host, in the network that is used.
    address: str
    ports: list[int]
    sessions: int
    # Of the run, known to its hosts.
    secret: str
    # A second, of all sessions.
    limit_bytes: int
    # Threads that write.
    writers: int
    idle_seconds: float
    files: list[Travelling]
    # Paths of the files that are there.
    have: list[str]


class Entry(TypedDict):
    """A file in status.json: ranges of pieces that are there, and whether it has its name."""

    done: bool
    have: list[list[int]]


class Status(TypedDict):
    """What status.json holds."""

    pid: int
    ports: list[int]
    # By path.
    files: dict[str, Entry]
    # By path the SHA-256 of what came, or an error.
    wrong: dict[str, str]
    # Addresses: of who sent what is wrong, and of who was connected.
    liars: list[str]
    reached: list[str]
    # Bytes; slices are those that the controller has handed over.
    received: int
    sent: int
    slices: int
    cpu_seconds: float
    seconds: float
    # Whether all that was here has been looked at.
    ready: bool


def slice_name(file: Mapping[str, object], start: int, size: int) -> str:
    """Under which name a part of a file is put where files arrive; it is complete when it has its size."""
    return "{0}.slice-{1}-{2}".format(incoming_name(file), start, size)


def begun_name(file: Mapping[str, object]) -> str:
    """The name of what is there of a file that still travels."""
    return incoming_name(file) + BEGUN


def ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """Ascending numbers as [first, last] each."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def settings(job: Job, port: int) -> dict[str, object]:
    """The settings of one session of libtorrent 2.0 and 2.1 (https://libtorrent.org/reference-Settings.html)."""
    limit = job["limit_bytes"] // max(job["sessions"], 1)
    address = "[{0}]".format(job["address"]) if ":" in job["address"] else job["address"]
    return {
        "listen_interfaces": "{0}:{1}".format(address, port),
        "outgoing_interfaces": job["address"],
        "enable_dht": False,
        "enable_lsd": False,
        "enable_upnp": False,
        "enable_natpmp": False,
        "enable_incoming_utp": False,
        "enable_outgoing_utp": False,
        # The handshake of MSE hides the torrent's name from all who do not know it, and fails without; the content is no secret.
        "in_enc_policy": 0,
        "out_enc_policy": 0,
        "allowed_enc_level": 1,
        "allow_multiple_connections_per_ip": True,
        "unchoke_slots_limit": -1,
        "connections_limit": 2000,
        "connection_speed": 200,
        "peer_connect_timeout": 5,
        "min_reconnect_time": 2,
        "max_failcount": 30,
        # What is asked for and buffered ahead is sent before a piece that nobody else has yet: half a second of it keeps a link busy.
        "max_out_request_queue": 500,
        "max_allowed_in_request_queue": 4000,
        "request_queue_time": 1,
        "send_buffer_watermark": 4 * MIB,
        "send_buffer_low_watermark": MIB // 8,
        "send_buffer_watermark_factor": 50,
        "max_peer_recv_buffer_size": 4 * MIB,
        "close_redundant_connections": True,
        "rate_limit_ip_overhead": False,
        "download_rate_limit": limit,
        "upload_rate_limit": limit,
        "aio_threads": job["writers"],
        "alert_queue_size": 10000,
        "user_agent": "baremetal.llm",
    }


class _File:
    """A file of the job, as far as it is here."""

    def __init__(self, said: Travelling, folder: str) -> None:
        self.said, self.path = said, said["path"]
        self.pieces, self.piece_bytes = piece_count(said["size"]), piece_bytes(said["size"])
        self.name, self.begun = incoming_name(said), os.path.join(folder, begun_name(said))
        self.roots = piece_roots(said)
        self.handle: Any = None
        # complete: its pieces are here; done: compared as a whole, under its final name
        self.had = self.complete = self.done = self.checked = self.flushing = False
        self.verified: Future[str] | None = None
        self.have: set[int] = set()


class _Swarm:
    """The sessions, the files and what has happened."""

    def __init__(self, folder: str, libtorrent: ModuleType) -> None:
        self.lt, self.folder = libtorrent, folder
        with open(os.path.join(folder, JOB), encoding="utf-8") as stream:
            self.job: Job = load_json(stream)
        self.dest = self.job["dest"]
        self.incoming = os.path.join(self.dest, INCOMING)
        self.files = [_File(said, self.incoming) for said in self.job["files"]]
        self.by_name = {file.name: file for file in self.files}
        self.sessions: list[Any] = []
        self.ports: list[int] = []
        self.peers: list[tuple[str, list[int]]] = []
        self.wrong: dict[str, str] = {}
        self.liars: collections.Counter[str] = collections.Counter()
        self.reached: set[str] = set()
        self.started = self.moved = time.monotonic()
        self.seen = (0, 0)
        self.fed: dict[tuple[str, int], float] = {}
        self.slices = 0
        self.ended = False
        self.pool = ThreadPoolExecutor(max_workers=2)

    # -- the sessions

    def listen(self) -> None:
        """A session for each share of the files, each at the first port that is free."""
        ports = iter(self.job["ports"])
        for _number in range(self.job["sessions"]):
            self.sessions.append(self._session(ports))

    def _session(self, ports: Iterator[int]) -> Any:
        lt = self.lt
        category = lt.alert.category_t
        # Who is not on the list is not talked to.
        nobody = lt.ip_filter()
        for first, last in (("0.0.0.0", "255.255.255.255"), ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")):
            nobody.add_rule(first, last, 1)
        for port in ports:
            session = lt.session(
                {
                    **settings(self.job, port),
                    "alert_mask": int(
                        category.error_notification
                        | category.status_notification
                        | category.peer_notification
                        | category.connect_notification
                        | category.storage_notification
                    ),
                }
            )
            session.set_ip_filter(nobody)
            # libtorrent takes private addresses for local ones, to which no limit applies.
            classes = lt.ip_filter()
            for first, last in (("0.0.0.0", "255.255.255.255"), ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")):
                classes.add_rule(first, last, 1 << lt.session.global_peer_class_id)
            session.set_peer_class_filter(classes)
            until = time.monotonic() + 5
            while time.monotonic() < until:
                if session.is_listening() and session.listen_port() == port:
                    self.ports.append(port)
                    return session
                failed = [one for one in session.pop_alerts() if isinstance(one, lt.listen_failed_alert)]
                if failed:
                    break
                time.sleep(0.02)
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), self.job["address"])

    def meet(self) -> None:
        """Let the hosts of the list in, and go to them."""
        try:
            with open(os.path.join(self.folder, PEERS), encoding="utf-8") as stream:
                peers = load_json(stream)
        except (OSError, ValueError):
            return
        if peers == self.peers:
            return
        self.peers = peers
        rules = self.lt.ip_filter()
        for first, last in (("0.0.0.0", "255.255.255.255"), ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")):
            rules.add_rule(first, last, 1)
        for address, _ports in peers:
            rules.add_rule(address, address, 0)
        for session in self.sessions:
            session.set_ip_filter(rules)
        for file in self.files:
            self._connect(file)

    def _connect(self, file: _File) -> None:
        for address, ports in self.peers if file.handle else ():
            file.handle.connect_peer((str(address), int(ports[file.said["session"]])))

    # -- the files

    def add(self, file: _File) -> None:
        """Take part in passing a file on, with what is here of it."""
        if not file.said["size"]:
            self._make_empty(file)
            return
        lt, final = self.lt, os.path.join(self.dest, file.path)
        asked = lt.add_torrent_params()
        asked.ti = lt.torrent_info(lt.bdecode(torrent(os.path.basename(file.begun), file.said, self.job["secret"])))
        asked.save_path = self.incoming
        flags = lt.torrent_flags
        asked.flags = flags.duplicate_is_error | flags.apply_ip_filter
        if file.had:
            # What was compared when it came is neither read now nor ever written to.
            if not os.path.exists(file.begun):
                os.link(final, file.begun)
            asked.flags |= flags.seed_mode | flags.upload_mode
            file.complete = file.done = file.checked = True
        elif not os.path.exists(file.begun) and os.path.isfile(final) and not os.path.islink(final):
            # Of another release of the file perhaps most pieces are right.
            _copy(final, file.begun, file.said["size"])
        file.handle = self.sessions[file.said["session"]].add_torrent(asked)
        self._connect(file)

    def _make_empty(self, file: _File) -> None:
        """There is no torrent of nothing, and nothing to wait for."""
        file.complete = file.checked = file.done = True
        if not file.had:
            with open(file.begun, "wb"):
                pass
            self._place(file, sha256_of(file.begun))

    def begin(self) -> None:
        """Add what is here at once, and so many of the others as may travel at a time."""
        travelling = sum(1 for file in self.files if file.handle and not file.complete)
        for file in self.files:
            if file.handle or file.done:
                continue
            if file.had or travelling < AT_A_TIME:
                self.add(file)
                travelling += 0 if file.complete else 1

    def take_slices(self) -> None:
        """Give the sessions what the controller has handed over, and remove slices whose pieces have proved right."""
        now = time.monotonic()
        for name in os.listdir(self.incoming):
            found = SLICE.fullmatch(name)
            file = self.by_name.get(found.group(1)) if found else None
            if file is None or found is None:
                continue
            full, start, size = os.path.join(self.incoming, name), int(found.group(2)), int(found.group(3))
            if not file.handle and not file.done:
                self.add(file)
            if not file.complete and not file.checked:
                continue
            there = os.stat(full).st_size
            numbers = range(start // file.piece_bytes, -(-(start + size) // file.piece_bytes))
            lacking = [] if file.complete else [number for number in numbers if not file.handle.have_piece(number)]
            if there == size and not lacking:
                os.unlink(full)
                self.slices += size
                self.moved = now
                continue
            with open(full, "rb") as stream:
                for number in lacking:
                    offset = number * file.piece_bytes
                    length = min(file.piece_bytes, file.said["size"] - offset)
                    if offset - start + length > there or now - self.fed.get((file.path, number), 0.0) < AGAIN_SECONDS:
                        continue
                    stream.seek(offset - start)
                    piece = stream.read(length)
                    # While it arrives, what is there need not have been written in order.
                    if piece_root(piece, file.said["size"]) == file.roots[number]:
                        self.fed[file.path, number] = self.moved = now
                        file.handle.add_piece(number, piece, 0)

    def hear(self) -> None:
        """What the sessions tell."""
        lt = self.lt
        for session in self.sessions:
            for alert in session.pop_alerts():
                if isinstance(alert, lt.peer_ban_alert):
                    self.liars[_address(alert)] += 1
                elif isinstance(alert, lt.incoming_connection_alert) or _was_reached(alert, lt):
                    self.reached.add(_address(alert))
                elif isinstance(alert, lt.torrent_checked_alert):
                    self._of(alert, "checked")
                elif isinstance(alert, lt.cache_flushed_alert):
                    self._of(alert, "flushed")
                elif isinstance(alert, lt.file_error_alert):
                    self._of(alert, "error")

    def _of(self, alert: Any, what: str) -> None:
        for file in self.files:
            if file.handle and file.handle == alert.handle:
                if what == "checked":
                    file.checked = True
                elif what == "flushed" and file.flushing and file.verified is None and not file.done:
                    file.verified = self.pool.submit(sha256_of, file.begun)
                elif what == "error":
                    self.wrong[file.path] = str(alert.message())

    def flush(self) -> None:
        """Write what has arrived of the files that still travel."""
        for file in self.files:
            if file.handle and not file.complete:
                file.handle.flush_cache()

    def finish(self) -> None:
        """Compare each file that is complete as a whole, and give it its name."""
        for file in self.files:
            if file.handle is None or file.done or not file.checked:
                continue
            if not file.complete:
                file.complete = bool(file.handle.status().is_finished)
            if file.complete and not file.flushing:
                file.flushing = True
                file.handle.flush_cache()
            if file.verified is not None and file.verified.done():
                self._place(file, file.verified.result())

    def _place(self, file: _File, digest: str) -> None:
        file.done = True
        if digest != file.said["sha256"]:
            self.wrong[file.path] = digest
            return
        # The session goes on with its own name of the same file.
        arrived = os.path.join(self.incoming, file.name)
        # Also what a download has begun of it.
        for there in (arrived, arrived + PART, arrived + PART + ".note"):
            if os.path.lexists(there):
                os.unlink(there)
        os.link(file.begun, arrived)
        state = read_state(self.dest)
        place(self.dest, file.said, arrived, state)
        write_state(self.dest, state)

    # -- what is said

    def status(self) -> Status:
        """What it has and did."""
        files: dict[str, Entry] = {}
        received = sent = 0
        reached = set()
        for file in self.files:
            entry: Entry = {"done": file.done and file.path not in self.wrong, "have": []}
            if file.handle:
                state = file.handle.status(self.lt.torrent_handle.query_pieces)
                received += state.total_payload_download
                sent += state.total_payload_upload
                if file.complete:
                    entry["have"] = [[0, file.pieces - 1]] if file.pieces else []
                else:
                    entry["have"] = ranges_of(number for number, there in enumerate(state.pieces) if there)
                for peer in file.handle.get_peer_info():
                    if not peer.flags & (peer.connecting | peer.handshake):
                        reached.add(peer.ip[0])
            files[file.path] = entry
        self.reached |= reached
        if (received, sent) != self.seen:
            self.seen, self.moved = (received, sent), time.monotonic()
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "pid": os.getpid(),
            "ports": self.ports,
            "files": files,
            "wrong": self.wrong,
            "liars": sorted(self.liars),
            "reached": sorted(self.reached),
            "received": received,
            "sent": sent,
            "slices": self.slices,
            "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
            "seconds": round(time.monotonic() - self.started, 1),
            "ready": all(file.checked or file.handle is None for file in self.files),
        }

    def is_wanted(self) -> bool:
        """Whether somebody has asked, or bytes have moved, not too long ago."""
        try:
            asked = time.time() - os.stat(os.path.join(self.folder, LEASE)).st_mtime
        except OSError:
            return False
        return min(asked, time.monotonic() - self.moved) < self.job["idle_seconds"]

    def run(self) -> None:
        """Until it is told to end, or nobody wants it any more."""
        done = set(self.job["have"])
        for file in self.files:
            file.had = file.path in done
        os.makedirs(self.incoming, mode=0o700, exist_ok=True)
        self.listen()
        said = flushed = 0.0
        while not self.ended:
            self.begin()
            self.meet()
            self.hear()
            self.take_slices()
            self.finish()
            if time.monotonic() - flushed >= FLUSH_SECONDS:
                # Who is killed loses no more than what came since: libtorrent keeps pieces in memory for a while.
                flushed = time.monotonic()
                self.flush()
            if time.monotonic() - said >= STATUS_SECONDS:
                said = time.monotonic()
                write_json(os.path.join(self.folder, STATUS), self.status())
                if not self.is_wanted():
                    break
            time.sleep(ROUND_SECONDS)
        self.end()

    def end(self) -> None:
        """What is complete needs its second name no more; what is not is continued by a later run."""
        write_json(os.path.join(self.folder, STATUS), self.status())
        for file in self.files:
            if file.done and os.path.lexists(file.begun):
                os.unlink(file.begun)
        for name in os.listdir(self.incoming):
            if SLICE.fullmatch(name):
                os.unlink(os.path.join(self.incoming, name))


def _was_reached(alert: Any, lt: ModuleType) -> bool:
    """Whether a connection that ends was one: those who both have everything part at once, and who is not reached gives no other sign."""
    if not isinstance(alert, lt.peer_disconnected_alert):
        return False
    return alert.error.category().name() == "libtorrent" and "time" not in alert.error.message().lower()


def _address(alert: Any) -> str:
    return str(alert.endpoint[0])


def _copy(source: str, target: str, size: int) -> None:
    """The first bytes of a file as another one, without a copy of the content where the file system can share it."""
    with open(source, "rb") as stream, open(target, "wb") as out:
        try:
            import fcntl

            fcntl.ioctl(out.fileno(), 0x40049409, stream.fileno())  # FICLONE of linux/fs.h
        except OSError:
            while True:
                piece = stream.read(MIB)
                if not piece:
                    break
                out.write(piece)
        if out.seek(0, os.SEEK_END) > size:
            out.truncate(size)


def main(arguments: Sequence[str]) -> None:
    import libtorrent  # type: ignore[import-not-found,unused-ignore]

    os.umask(0o022)
    swarm = _Swarm(arguments[0], libtorrent)

    def end(number: int, frame: object) -> None:
        swarm.ended = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    swarm.run()


if __name__ == "__main__":
    main(sys.argv[1:])
