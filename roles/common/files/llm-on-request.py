# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds the public ports of the deployments of this host that are loaded on request, and loads each one when somebody asks for it.

usage: llm-on-request.py serve FOLDER SOCKET    the ports, without rights: what starts and stops containers is asked through SOCKET
       llm-on-request.py switch FOLDER          one command of the former, from standard input, as root

FOLDER has a file for each deployment, NAME.json (plugin_utils/deployment/on_request.py), and is read again each second: without its file a deployment
is neither served nor started.

A request for a model that is loaded goes through byte by byte. One for a model that is not waits while `decide`, which is pure, says who has to go and
who may come. Only who sends a key of the deployment wakes a model or waits for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import hashlib
import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

ASLEEP, STARTING, LOADED, STOPPING = "asleep", "starting", "loaded", "stopping"
# What did not start is not tried again for so long, and each further time for twice as long: it would only take the place of what works.
PAUSE_SECONDS, PAUSE_MOST = 30, 600
# Without a setting a model stays as long as its last start took, so that a host spends at most half of its time with starts.
STAY_MOST = 300
# Of a request: its line and headers, the time for them, and a piece of a body or an answer.
HEAD_BYTES, HEAD_SECONDS, PIECE = 64 << 10, 15, 64 << 10
# Open connections of a deployment; one more is closed at once.
MOST_CONNECTIONS = 1024
FOLDER_SECONDS, READY_SECONDS, LOOK_SECONDS = 1.0, 0.25, 5.0
# Keys are read again for one that is not known, but no more often than this: whoever guesses costs no more. A key that was known is asked for anew later.
KEYS_SECONDS, KEYS_MOST = 2.0, 60.0
# A container that its engine has started anew so often will not be ready.
MOST_RESTARTS = 3
CONNECT_SECONDS, SWITCH_SECONDS = 5, 120
# After an answer what a client still sends is read for so long: closed at once, it might lose the answer.
LINGER_SECONDS = 2
# Open files at most, where the system allows so many.
MOST_FILES = 65536
# What counts as no use of a model that is loaded. Of one that is not, the first ones are answered here; of the others only the server knows something.
# Gateways ask for the last one again and again: what each key has cost.
ANSWERED = ("/health", "/ready", "/ping", "/metrics", "/v1/models")
QUIET = (*ANSWERED, "/load", "/version", "/usage")
# What gateways ask before they send requests, and what tells them to send none, as llm_api_paths.py has it: also while no server runs, or one without it.
READY, HEALTH = "/ready", "/health"
DRAINED_FILE, RESTARTING_FILE = "drained", "restarting"
# What a server says that is ready. Behind 404 it is drained (llm_api_paths.py), which is for gateways to know.
READY_STATUSES = ((b"200",), (b"404",))
NAME = re.compile(r"llm-[A-Za-z0-9_-]+")
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Of a connection, not of the request (RFC 9110, 7.6.1).
HOP_BY_HOP = (b"connection", b"keep-alive", b"proxy-connection", b"upgrade", b"te")
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


# -- what is decided: pure --------------------------------------------------------------------------------------------
class Model(NamedTuple):
    """A model as `decide` sees it. Times are seconds of one clock."""

    state: str
    # Those that cannot be loaded beside it: they need a GPU of its own.
    rivals: frozenset[str]
    # Requests that it answers now.
    answering: int = 0
    # Since when the oldest request waits for it; None where none does.
    waiting: float | None = None
    # When it was loaded, and when its last request began or ended.
    loaded: float = 0.0
    used: float = 0.0
    # For how many seconds it stays at least, once loaded, and after how many without a request it goes; 0 for never.
    stay: float = 0.0
    idle: float = 0.0
    # Not started before.
    not_before: float = 0.0
    # For how many seconds it stays after an answer, for gateways to ask what that has cost.
    counted: float = 0.0


class Decision(NamedTuple):
    """What to do now."""

    start: tuple[str, ...]
    stop: tuple[str, ...]
    # Loaded ones that get no more requests, because others wait for their place and they have had their time.
    closed: frozenset[str]
    # When to decide again, if nothing else happens; None for never.
    again: float | None


def decide(models: Mapping[str, Model], now: float) -> Decision:
    """Who is started and who is stopped.

    Who waits longest comes first, and reserves its place: nobody who waits for less long takes a GPU that it needs. What is loaded goes for others when it
    has stayed long enough, gets no more requests then, and ends those that it has; it never goes while it answers.
    """
    start: list[str] = []
    stop: list[str] = []
    closed: set[str] = set()
    moments: list[float] = []
    reserved: set[str] = set()
    queue = [(model.waiting, name) for name, model in models.items() if model.waiting is not None]
    for _since, name in sorted(queue):
        model = models[name]
        if name in reserved:
            continue
        if model.state == LOADED:
            reserved.update(model.rivals)  # these come in at once
        if model.state != ASLEEP:
            continue
        if model.not_before > now:
            moments.append(model.not_before)
            continue
        reserved.update(model.rivals)
        there = [rival for rival in sorted(model.rivals) if rival in models and models[rival].state != ASLEEP]
        if not there:
            start.append(name)
            continue
        if any(models[rival].state != LOADED for rival in there):
            continue  # what starts or stops tells when it is done
        free = max(models[rival].loaded + models[rival].stay for rival in there)
        if free > now:
            moments.append(free)
            continue
        closed.update(there)
        for rival in [each for each in there if not models[each].answering and each not in stop]:
            quiet = models[rival].used + models[rival].counted
            if quiet > now:
                moments.append(quiet)
            else:
                stop.append(rival)
    for name, model in models.items():
        if model.state != LOADED or not model.idle or model.answering or name in closed or model.waiting is not None:
            continue
        over = model.used + max(model.idle, model.counted)
        if over <= now:
            stop.append(name)
        else:
            moments.append(over)
    return Decision(tuple(start), tuple(stop), frozenset(closed), min(moments, default=None))


# -- what a request says ----------------------------------------------------------------------------------------------
class Bad(Exception):
    """A request that is not answered: status, code, and a sentence for people."""

    def __init__(self, status: int, code: str, said: str, retry: int = 0) -> None:
        super().__init__(said)
        self.status, self.code, self.said, self.retry = status, code, said, retry


class Head(NamedTuple):
    """The line and the headers of a request."""

    method: str
    path: str
    # What goes to the server in their place.
    forwarded: bytes
    # Of the body: its bytes, or that it comes in chunks.
    length: int
    chunked: bool
    # As clients send keys: `Authorization: Bearer KEY` or `X-Api-Key: KEY`.
    key: str


def read_head(text: bytes) -> Head:
    """Read strictly: what two programs could read in two ways is refused (RFC 9112, 11.2)."""
    lines = text[:-4].split(b"\r\n")
    words = lines[0].split(b" ")
    if len(words) != 3 or not TOKEN.fullmatch(words[0]) or words[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise Bad(400, "bad_request", "This is no request of HTTP/1.1.")
    kept, lengths, codings, keys = [lines[0]], [], [], []
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not TOKEN.fullmatch(name) or b"\r" in value or b"\n" in value or b"\0" in value:
            raise Bad(400, "bad_request", "A header of the request cannot be read.")
        name, value = name.lower(), value.strip()
        if name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            codings.append(value.lower())
        elif name == b"authorization" and value[:7].lower() == b"bearer ":
            keys.append(value[7:].strip())
        elif name == b"x-api-key":
            keys.append(value)
        if name not in HOP_BY_HOP:
            kept.append(line)
    plain = len(lengths) == 1 and re.fullmatch(rb"[0-9]{1,15}", lengths[0])
    if len(lengths) + len(codings) > 1 or (lengths and not plain) or codings not in ([], [b"chunked"]):
        raise Bad(400, "bad_request", "The length of the request's body cannot be read.")
    return Head(
        method=words[0].decode(),
        path=words[1].partition(b"?")[0].decode(errors="replace"),
        forwarded=b"\r\n".join([*kept, b"Connection: close", b"", b""]),
        length=int(lengths[0]) if lengths else 0,
        chunked=bool(codings),
        key=keys[0].decode(errors="replace") if len(set(keys)) == 1 else "",
    )


def answer(status: int, body: bytes, kind: str = "application/json", retry: int = 0) -> bytes:
    more = "Retry-After: {0}\r\n".format(retry) if retry else ""
    more += "WWW-Authenticate: Bearer\r\n" if status == 401 else ""
    head = "HTTP/1.1 {0} {1}\r\nContent-Type: {2}\r\nContent-Length: {3}\r\n{4}Connection: close\r\n\r\n"
    return head.format(status, REASONS[status], kind, len(body), more).encode() + body


def refusal(bad: Bad) -> bytes:
    """An error as OpenAI's clients read it."""
    kind = "server_error" if bad.status >= 500 else "invalid_request_error"
    error = {"message": bad.said, "type": kind, "param": None, "code": bad.code}
    return answer(bad.status, json.dumps({"error": error}).encode(), retry=bad.retry)


def key_digests(texts: Iterable[str]) -> list[str]:
    """The SHA-256 of each key of these files, which have one in each line."""
    keys = {line.strip() for text in texts for line in text.splitlines() if re.fullmatch(r"[!-~]+", line.strip())}
    return sorted(hashlib.sha256(key.encode()).hexdigest() for key in keys)


# -- what root does ---------------------------------------------------------------------------------------------------
def read_settings(folder: str, name: str) -> dict[str, Any] | None:
    """The file of a deployment; None where there is none that only root can write."""
    path = os.path.join(folder, name + ".json")
    try:
        with open(path, encoding="utf-8") as stream:
            found = os.fstat(stream.fileno())
            if found.st_uid != os.stat(folder).st_uid or stat.S_IMODE(found.st_mode) & 0o022:
                return None
            said = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def docker(*words: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            ["docker", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SWITCH_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout.decode(errors="replace").strip()


def look(name: str) -> tuple[bool, int, str]:
    """Whether a container runs, how often its engine has started it anew, and what is wrong."""
    form = "{{.State.Running}} {{.RestartCount}}"
    status, said = docker("container", "inspect", "--format", form, name)
    words = said.split()
    if status or len(words) != 2:
        return False, 0, said or "Docker does not answer"
    return words[0] == "true", int(words[1]), ""


def switch(folder: str, command: Mapping[str, Any]) -> dict[str, Any]:
    """One command: look, start, stop or keys, for a deployment that has a file."""
    name = str(command.get("name"))
    settings = read_settings(folder, name) if NAME.fullmatch(name) else None
    if settings is None:
        return {"ok": False, "said": "{0} has no file".format(name)}
    done = command.get("do")
    if done == "keys":
        texts = []
        for path in settings["keys"]:
            with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
                texts.append(stream.read())
        return {"ok": True, "keys": key_digests(texts)}
    if done == "look":
        runs, restarts, said = look(name)
        return {"ok": not said, "runs": runs, "restarts": restarts, "said": said}
    if done == "start":
        # Whoever asks may be wrong about what runs: two models at once could take a GPU from each other.
        there = [rival for rival in settings["rivals"] if NAME.fullmatch(str(rival)) and look(rival)[0]]
        if there:
            return {"ok": False, "said": "{0} runs".format(", ".join(there)), "rivals": there}
        status, said = docker("start", name)
        return {"ok": status == 0, "said": said}
    if done == "stop":
        status, said = docker("stop", name)
        return {"ok": status == 0, "said": said}
    return {"ok": False, "said": "no such command"}


# -- a deployment -----------------------------------------------------------------------------------------------------
class Served:
    """A deployment with what is known of it now."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.name, self.settings = name, settings
        self.state = ASLEEP
        self.answering, self.connections = 0, 0
        # Since when each request waits, and what tells it that something has changed.
        self.waits: list[float] = []
        self.changed = asyncio.Event()
        self.loaded = self.used = self.not_before = 0.0
        # When it was loaded by the time of day, which files have.
        self.began = 0.0
        self.start_seconds = 0.0
        self.closed, self.failed, self.pause = False, "", 0.0
        self.keys: frozenset[str] = frozenset()
        self.keys_read = -KEYS_SECONDS
        self.asking = asyncio.Lock()
        self.port: asyncio.AbstractServer | None = None

    def seen(self) -> Model:
        stay = self.settings.get("stay_seconds")
        return Model(
            state=self.state,
            rivals=frozenset(self.settings["rivals"]),
            answering=self.answering,
            waiting=min(self.waits, default=None),
            loaded=self.loaded,
            used=self.used,
            stay=min(self.start_seconds, STAY_MOST) if stay is None else float(stay),
            idle=float(self.settings["idle_seconds"]),
            not_before=self.not_before,
            counted=float(self.settings.get("counted_seconds") or 0),
        )

    def leaves(self) -> int:
        """The status by which gateways send nothing more; 0 where they may. As for a server that runs: an operator, or a run that changes it."""
        folder = str(self.settings.get("state") or "")
        with contextlib.suppress(OSError, ValueError):
            mark = os.path.join(folder, RESTARTING_FILE)
            with open(mark, encoding="utf-8") as stream:
                written = os.stat(mark).st_mtime
                if self.began < written and time.time() - written < float(stream.read()):
                    return 503
        return 404 if os.path.exists(os.path.join(folder, DRAINED_FILE)) else 0

    def tell(self) -> None:
        """Whoever waits looks again."""
        self.changed.set()
        self.changed = asyncio.Event()

    def said(self, line: str) -> None:
        print("{0}: {1}".format(self.name, line), flush=True)


class Reader(asyncio.StreamReader):
    """Tells when a client has left, also while nobody reads."""

    def __init__(self) -> None:
        super().__init__(limit=HEAD_BYTES)
        self.left = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.left.set()

    def set_exception(self, exc: BaseException) -> None:
        super().set_exception(exc)  # type: ignore[arg-type]
        self.left.set()


class Program:
    """All deployments of the host."""

    def __init__(self, folder: str, socket: str) -> None:
        self.folder, self.socket = folder, socket
        self.served: dict[str, Served] = {}
        self.timer: asyncio.TimerHandle | None = None
        # Python forgets a task that nobody keeps.
        self.tasks: set[asyncio.Task[None]] = set()

    # -- who is loaded ------------------------------------------------------------------------------------------------
    async def ask(self, do: str, name: str) -> dict[str, Any]:
        """What root does, see `switch`."""
        try:
            reader, writer = await asyncio.open_unix_connection(self.socket)
            try:
                writer.write(json.dumps({"do": do, "name": name}).encode() + b"\n")
                line = await asyncio.wait_for(reader.readline(), SWITCH_SECONDS + 10)
            finally:
                writer.close()
            found = json.loads(line)
        except (OSError, ValueError, RecursionError, asyncio.TimeoutError) as error:
            return {"ok": False, "said": "{0}: {1}".format(type(error).__name__, error)}
        return found if isinstance(found, dict) else {"ok": False, "said": "no answer"}

    def run(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def step(self) -> None:
        """Decide, and do so. Called whenever something has changed."""
        if self.timer:
            self.timer.cancel()
            self.timer = None
        now = time.monotonic()
        found = decide({name: one.seen() for name, one in self.served.items()}, now)
        for name, one in self.served.items():
            is_closed = name in found.closed
            if one.closed and not is_closed:
                one.closed = False
                one.tell()
            one.closed = is_closed
        for name in found.stop:
            self.served[name].state = STOPPING
            self.run(self.stop(self.served[name]))
        for name in found.start:
            self.served[name].state = STARTING
            self.run(self.start(self.served[name], time.monotonic()))
        if found.again is not None:
            loop = asyncio.get_event_loop()
            self.timer = loop.call_later(max(found.again - now, 0) + 0.01, self.step)

    async def stop(self, one: Served) -> None:
        began = time.monotonic()
        found = await self.ask("stop", one.name)
        if found["ok"]:
            one.state = ASLEEP
            one.said("asleep, stopped in {0:.1f} s".format(time.monotonic() - began))
        else:
            one.said("could not be stopped: {0}".format(found["said"]))
            await asyncio.sleep(LOOK_SECONDS)
            await self.adopt(one)
        one.tell()
        self.step()

    async def start(self, one: Served, began: float) -> None:
        """Until it is ready, or will not be."""
        found = await self.ask("start", one.name)
        why = "" if found["ok"] else str(found["said"])
        for rival in found.get("rivals") or ():
            # Somebody else has started it.
            if rival in self.served and self.served[rival].state == ASLEEP:
                await self.adopt(self.served[rival])
        if found.get("rivals"):
            one.state = ASLEEP
            one.not_before = time.monotonic() + FOLDER_SECONDS
            self.step()
            return
        why = why or await self.ready(one, began)
        if why:
            await self.ask("stop", one.name)
            one.state, one.failed = ASLEEP, why
            one.pause = min(max(2 * one.pause, PAUSE_SECONDS), PAUSE_MOST)
            one.not_before = time.monotonic() + one.pause
            one.said("did not start: {0}".format(why))
        else:
            now = time.monotonic()
            one.state, one.failed, one.pause = LOADED, "", 0.0
            one.loaded, one.used, one.start_seconds, one.began = now, now, now - began, time.time()
            one.said("loaded, {0:.1f} s after the start".format(now - began))
        one.tell()
        self.step()

    async def ready(self, one: Served, began: float) -> str:
        """Wait for the server. Returns why it is not ready; empty where it is."""
        looked = time.monotonic()
        while True:
            if await self.is_ready(one):
                return ""
            now = time.monotonic()
            if now - began > float(one.settings["start_seconds"]):
                return "not ready after {0:.0f} s".format(now - began)
            if now - looked > LOOK_SECONDS:
                looked = now
                found = await self.ask("look", one.name)
                if found["ok"] and not found["runs"]:
                    return "its container has ended"
                if found["ok"] and found["restarts"] >= MOST_RESTARTS:
                    return "its container has ended {0} times".format(found["restarts"])
            await asyncio.sleep(READY_SECONDS)

    async def is_ready(self, one: Served) -> bool:
        try:
            host, port = one.settings["inner"]
            reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_SECONDS)
            try:
                form = "GET {0} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                writer.write(form.format(one.settings["ready"]).encode())
                line = await asyncio.wait_for(reader.readline(), CONNECT_SECONDS)
            finally:
                writer.close()
        except (OSError, ValueError, asyncio.TimeoutError):
            return False
        return tuple(line.split(b" ")[1:2]) in READY_STATUSES

    async def adopt(self, one: Served) -> None:
        """What runs without having been started here counts as starting, until it is ready."""
        one.state = STARTING
        found = await self.ask("look", one.name)
        if not found["ok"] or not found["runs"]:
            one.state = ASLEEP
            one.tell()
            self.step()
            return
        if any(self.served[rival].state != ASLEEP for rival in one.settings["rivals"] if rival in self.served):
            one.said("runs beside what needs its GPUs, and is stopped")
            one.state = STOPPING
            self.run(self.stop(one))
            return
        self.run(self.adopted(one, time.monotonic()))

    async def adopted(self, one: Served, began: float) -> None:
        why = await self.ready(one, began)
        now = time.monotonic()
        if why:
            one.state = ASLEEP
            await self.ask("stop", one.name)
        else:
            one.state, one.loaded, one.used, one.began = LOADED, now, now, time.time()
        one.said("did not get ready: {0}".format(why) if why else "runs already")
        one.tell()
        self.step()

    # -- which deployments there are ----------------------------------------------------------------------------------
    async def follow(self) -> None:
        """Read the folder again and again."""
        while True:
            await self.look_at_folder()
            await asyncio.sleep(FOLDER_SECONDS)

    async def look_at_folder(self) -> None:
        paths = glob.glob(os.path.join(glob.escape(self.folder), "*.json"))
        names = sorted(os.path.basename(path)[: -len(".json")] for path in paths)
        found = {name: read_settings(self.folder, name) for name in names if NAME.fullmatch(name)}
        wanted = {name: settings for name, settings in found.items() if settings}
        for name in [name for name in self.served if name not in wanted]:
            await self.close(self.served.pop(name))
        for name, settings in wanted.items():
            one = self.served.get(name)
            if one is None:
                one = self.served[name] = Served(name, settings)
                await self.adopt(one)
            elif one.settings != settings:
                if one.settings["listen"] != settings["listen"]:
                    await self.close(one)
                one.failed, one.pause, one.not_before = "", 0.0, 0.0
            one.settings = settings
            if one.port is None:
                await self.open(one)
        self.step()

    async def open(self, one: Served) -> None:
        host, port = one.settings["listen"]

        def protocol() -> asyncio.StreamReaderProtocol:
            reader = Reader()
            return asyncio.StreamReaderProtocol(reader, lambda _reader, writer: self.connected(one, reader, writer))

        try:
            one.port = await asyncio.get_event_loop().create_server(protocol, host, port, backlog=512)
        except OSError as error:
            # What the deployment ran before may still have it. The next look tries again.
            one.said("port {0} is not free: {1}".format(port, error))
            return
        one.said("listens on port {0}".format(port))

    async def close(self, one: Served) -> None:
        if one.port:
            one.port.close()
            one.port = None
            one.said("listens no more")

    # -- requests -----------------------------------------------------------------------------------------------------
    async def connected(self, one: Served, reader: Reader, writer: asyncio.StreamWriter) -> None:
        one.connections += 1
        try:
            if one.connections <= MOST_CONNECTIONS:
                await self.serve(one, reader, writer)
        except Bad as bad:
            with contextlib.suppress(OSError):
                writer.write(refusal(bad))
                await asyncio.wait_for(writer.drain(), HEAD_SECONDS)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            pass  # the client or the server has left
        finally:
            await linger(reader, writer)
            one.connections -= 1

    async def serve(self, one: Served, reader: Reader, writer: asyncio.StreamWriter) -> None:
        try:
            text = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
        except asyncio.LimitOverrunError:
            raise Bad(431, "headers_too_large", "The headers of the request are too large.") from None
        except asyncio.TimeoutError:
            raise Bad(408, "request_timeout", "The request did not come in time.") from None
        head = read_head(text)
        is_loaded = one.state == LOADED and not one.closed
        if head.method == "GET" and head.path in (READY, HEALTH) and one.leaves():
            writer.write(answer(one.leaves(), json.dumps({"status": "drained or restarting"}).encode()))
            await writer.drain()
            return
        if head.method == "GET" and head.path.startswith(QUIET):
            # Also while it gets no more requests: what it has counted, and how it is, it says to the end.
            if one.state == LOADED and not self.is_new(one, head) and await self.passed(one, head, reader, writer):
                return
            writer.write(await self.instead(one, head))
            await writer.drain()
            return
        await self.check_key(one, head.key)
        if not is_loaded and head.method != "POST":
            raise Bad(503, "model_asleep", "The model is not loaded, and only a POST loads it.", PAUSE_SECONDS)
        end = time.monotonic() + float(one.settings["wait_seconds"])
        while True:
            await self.enter(one, reader, end)
            try:
                if await self.passed(one, head, reader, writer):
                    return
            finally:
                one.answering -= 1
                one.used = time.monotonic()
                self.step()
            if one.state == LOADED:
                # It listens no more: somebody has stopped it, or it is started anew.
                await self.adopt(one)

    @staticmethod
    def is_new(one: Served, head: Head) -> bool:
        """Whether the server would say what its probe thought before it was loaded."""
        return head.path == READY and time.monotonic() - one.loaded < float(one.settings.get("look_seconds") or 0)

    async def instead(self, one: Served, head: Head) -> bytes:
        """What is said in the place of a server that is not loaded, without loading it; and of one that is new."""
        if not head.path.startswith(ANSWERED):
            raise Bad(503, "model_asleep", "The model is not loaded.", PAUSE_SECONDS)
        if head.path.startswith("/metrics"):
            return answer(200, b"", "text/plain")
        if head.path.startswith("/v1/models"):
            await self.check_key(one, head.key)
            entry = {"id": one.settings["model"], "object": "model", "created": 0, "owned_by": "baremetal.llm"}
            found = entry if head.path.rstrip("/") != "/v1/models" else {"object": "list", "data": [entry]}
            return answer(200, json.dumps(found).encode())
        return answer(200, json.dumps({"status": one.state}).encode())

    async def check_key(self, one: Served, key: str) -> None:
        """Bad for who has no key of the deployment. A deployment without keys listens to its own host only."""
        if not one.settings["keys"]:
            return
        digest = hashlib.sha256(key.encode()).hexdigest()

        def is_late() -> bool:
            return time.monotonic() - one.keys_read >= (KEYS_MOST if digest in one.keys else KEYS_SECONDS)

        if is_late():
            async with one.asking:
                if is_late():
                    found = await self.ask("keys", one.name)
                    one.keys_read = time.monotonic()
                    if not found["ok"]:
                        raise Bad(503, "keys_unknown", "The API keys cannot be read.", PAUSE_SECONDS)
                    one.keys = frozenset(map(str, found["keys"]))
        if digest not in one.keys:
            raise Bad(401, "invalid_api_key", "The API key is missing or not valid.")

    async def enter(self, one: Served, reader: Reader, end: float) -> None:
        """Wait until the model takes requests, and be counted as one that it answers. Bad where it does not in time, or the queue is full."""
        now = time.monotonic()
        if one.state == LOADED and not one.closed:
            one.answering, one.used = one.answering + 1, now
            return
        if one.failed and one.not_before > now:
            said = "The model did not start: {0}.".format(one.failed)
            raise Bad(503, "model_not_started", said, int(one.not_before - now) + 1)
        if len(one.waits) >= int(one.settings["queue"]):
            said = "The model is being loaded, and {0} requests wait for it already.".format(len(one.waits))
            raise Bad(503, "queue_full", said, PAUSE_SECONDS)
        one.waits.append(now)
        try:
            self.step()
            while one.state != LOADED or one.closed:
                if one.failed and one.not_before > time.monotonic():
                    raise Bad(
                        503, "model_not_started", "The model did not start: {0}.".format(one.failed), PAUSE_SECONDS
                    )
                if time.monotonic() >= end:
                    said = "The model was not loaded within {0:.0f} s."
                    raise Bad(
                        504, "model_loading_timeout", said.format(float(one.settings["wait_seconds"])), PAUSE_SECONDS
                    )
                await first_of([one.changed.wait(), reader.left.wait()], end - time.monotonic())
                if reader.left.is_set():
                    raise ConnectionResetError
            # Before anything is decided: nobody stops what is about to answer.
            one.answering, one.used = one.answering + 1, time.monotonic()
        finally:
            one.waits.remove(now)
            self.step()

    async def passed(self, one: Served, head: Head, reader: Reader, writer: asyncio.StreamWriter) -> bool:
        """Hand the request on and the answer back. False where the server does not listen, and nothing was sent."""
        host, port = one.settings["inner"]
        try:
            from_server, to_server = await asyncio.wait_for(
                asyncio.open_connection(host, port, limit=PIECE), CONNECT_SECONDS
            )
        except (OSError, asyncio.TimeoutError):
            return False
        body = asyncio.ensure_future(send_body(head, reader, to_server))
        back = asyncio.ensure_future(pump(from_server, writer))
        left = asyncio.ensure_future(reader.left.wait())
        try:
            # An answer may come, and end, before all of the body was read.
            await asyncio.wait({back, left}, return_when=asyncio.FIRST_COMPLETED)
            if back.done() and not back.result():
                raise Bad(502, "no_answer", "The model's server ended without an answer.", 1)
        finally:
            for task in (body, back, left):
                task.cancel()
            await asyncio.gather(body, back, left, return_exceptions=True)
            to_server.close()
        return True


async def linger(reader: Reader, writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the client gets all of its answer."""
    with contextlib.suppress(OSError, ValueError, RuntimeError, asyncio.TimeoutError):
        if not reader.left.is_set():
            writer.write_eof()
            await asyncio.wait_for(rest_of(reader), LINGER_SECONDS)
    with contextlib.suppress(OSError):
        writer.close()


async def rest_of(reader: asyncio.StreamReader) -> None:
    while await reader.read(PIECE):
        pass


async def first_of(waiting: Sequence[Any], seconds: float) -> None:
    """Wait for one of these, at most so long."""
    tasks = {asyncio.ensure_future(each) for each in waiting}
    try:
        await asyncio.wait(tasks, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def send_body(head: Head, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
    """The request, and exactly its body: nothing behind it."""
    to_server.write(head.forwarded)
    await to_server.drain()
    if not head.chunked:
        await send(head.length, reader, to_server)
        return
    while True:
        line = await reader.readuntil(b"\n")
        size = re.fullmatch(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n", line)
        if size is None:
            raise ConnectionResetError
        to_server.write(line)
        length = int(size.group(1), 16)
        if not length:
            break
        await send(length + 2, reader, to_server)  # with the end of its line
    while line != b"\r\n":  # trailers
        line = await reader.readuntil(b"\n")
        to_server.write(line)
    await to_server.drain()


async def send(length: int, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
    while length:
        piece = await reader.read(min(length, PIECE))
        if not piece:
            raise ConnectionResetError
        length -= len(piece)
        to_server.write(piece)
        await to_server.drain()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """All that comes, as it comes. Returns how many bytes."""
    count = 0
    while True:
        try:
            piece = await reader.read(PIECE)
        except OSError:
            return count
        if not piece:
            return count
        count += len(piece)
        writer.write(piece)
        await writer.drain()


async def serve(folder: str, socket: str) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, MOST_FILES) if most > 0 else MOST_FILES, most))
    program = Program(folder, socket)
    ended = asyncio.Event()
    asyncio.get_event_loop().add_signal_handler(signal.SIGTERM, ended.set)
    program.run(program.follow())
    await ended.wait()


def main(words: Sequence[str]) -> int:
    if len(words) == 3 and words[0] == "serve":
        asyncio.run(serve(words[1], words[2]))
        return 0
    if len(words) == 2 and words[0] == "switch":
        try:
            command = json.loads(sys.stdin.readline(4096))
        except (ValueError, RecursionError):
            command = None
        found = switch(words[1], command) if isinstance(command, dict) else {"ok": False, "said": "no command"}
        print(json.dumps(found), flush=True)
        return 0
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
