# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which paths an engine's API server answers. vLLM loads this itself, as --middleware llm_api_paths.ApiPaths; around LMDeploy's server its start puts it.

vLLM asks for its key below /v1 and, depending on the release, below few other prefixes, but has more to offer: /invocations and /tokenize
compute as /v1 does, /pause, /sleep and /update_weights stop or change the model for everybody. New releases bring new ones, so what is
not named here is not answered.

The key is asked for here, below /v1 too. vLLM decides by an address that Starlette before 1.0.1 puts together from the request's Host header,
and "Host: x/health?" makes any path look like /health (CVE-2026-48710); the path itself, by which it finds what to run, comes from the request's line.

It also says which keys count. vLLM knows the one that it was started with; here that one stands for any key that counts at the moment of
the request, so that keys change without a restart. vLLM puts what --middleware names around its own check of the key, in old releases
as in new ones (build_app in vllm/entrypoints/openai/api_server.py, later vllm/entrypoints/serve/middleware/register.py).

LMDeploy is alike: who has its key may put it to sleep or change its weights (roles/lmdeploy/files/start_lmdeploy.py).

For the gateway it counts tokens: the gateway says for which of its keys it asks, and reads the counts at /usage. The gateway itself does not read answers.
What the gateway let through by reading a body in a way of its own is read here again as vLLM reads it: vLLM gets what was compared, and nothing else.
A form (audio) is therefore taken apart and put together anew.
"""

from __future__ import annotations

import asyncio
import hmac
import importlib.metadata
import json
import math
import os
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

# What is answered to whoever has the key.
KEYED = ("/v1",)
# These only tell how the server is.
OPEN = ("/health", "/load", "/metrics", "/ping", "/version")
# In the folder of the secrets, after the name of the engine: the key, those before it that still count, and the one of the gateway, each in a line.
KEY_FILE, FORMER_KEYS_FILE, GATEWAY_KEY_FILE = "_api_key", "_api_key.previous", "_api_key.gateway"
# Whether a gateway may send requests here: what the probe saw last, which asks for a token. roles/common/files/llm-probe.py writes the state,
# playbooks/drain.yml the second file, and a run that is about to restart the server the third one.
READY, STATE_FILE, DRAINED_FILE, RESTARTING_FILE = "/ready", "state.json", "drained", "restarting"
# The probe's way in that nobody else can fill: it writes a question beside the state, and this program answers in a file of a folder that both have.
QUESTION_FILE, ANSWER_FILE, LOOK_SECONDS, INNER_SECONDS = "question.json", "llm-probe.answer", 1.0, 60.0
# Where there is no probe, gateways ask for this.
HEALTH = "/health"
# For which of its keys a gateway asks, and where it reads what they cost. Both count only with the gateway's own key.
KEY_NAME_HEADER, USAGE = b"x-llm-key", "/usage"
# Where clients of OpenAI's API and of Anthropic's say their key.
KEY_HEADERS = (b"authorization", b"x-api-key")
# Which model the gateway let the request through for.
MODEL_HEADER = b"x-llm-model"
# What an answer says of its tokens: completions and embeddings, responses and messages. The largest word of a stream counts: it may say it with each part.
PROMPT_TOKENS, COMPLETION_TOKENS = ("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")
# Of messages, what input_tokens leaves out: _build_anthropic_usage() of vllm/entrypoints/anthropic/serving.py, 0.33.0.
CACHED_TOKENS = ("cache_read_input_tokens", "cache_creation_input_tokens")
# What is uploaded as a form, with the model in a field. plugin_utils/gateway/decide.py has the same paths.
FORMS = ("/v1/audio/transcriptions", "/v1/audio/translations")
# What computes no tokens, and what computes those of its prompt only.
FREE, WITHOUT_ANSWER = ("/v1/messages/count_tokens",), ("/v1/embeddings", "/v1/rerank", "/v1/score")
# Whisper makes 1500 positions of 30 s of sound (max_source_positions in the config.json of its models). Where an answer does not say how long the sound is, it
# is as long as in the least bit rate of Opus, 6 kbit/s (RFC 6716, 2.1.1).
SOUND_TOKENS, SOUND_BYTES = 50, 15
# The first release whose streams say their usage when they are asked (stream_options of vllm/entrypoints/openai/protocol.py), and where.
ASKS_FOR_USAGE, STREAMING = (0, 4, 3), ("/v1/completions", "/v1/chat/completions")
# What an answer may have cost where its request names no limit and it ended before it said so.
UNKNOWN_TOKENS = 1024
# No request costs more, whatever it asks for: numbers that nobody can add up would end the counting for every key.
MOST_TOKENS = 1 << 24
# A picture or sound within a text counts no more than this; how many tokens it is only the model knows.
MOST_OF_MEDIA = 4096
# From this size on an answer is read beside the server's other work.
LARGE_BYTES = 1 << 20
# Of the probe's words those after which the server answers. A rotated key or a renamed model is nothing that another replica would do better.
WELL = ("serving", "busy", "refused")
# An older word counts for nothing: the longest look takes about 120 s, and the next one follows soon.
STATE_SECONDS = 180


def lines_of(path: Path) -> list[bytes]:
    """The lines of a file that are not empty; none where there is no such file."""
    try:
        return [line.strip() for line in path.read_bytes().splitlines() if line.strip()]
    except OSError:
        return []


def key_of(name: bytes, value: bytes) -> bytes:
    """The key that a header names; empty where it names none."""
    kind, _space, key = value.partition(b" ") if name == b"authorization" else (b"bearer", b"", value)
    return key.strip() if kind.lower() == b"bearer" else b""


def below(path: str, prefixes: Iterable[str]) -> bool:
    """Whether a path is one of these, or lies below one."""
    return any(path == prefix or path.startswith(prefix + "/") for prefix in prefixes)


def content_of(text: bytes) -> Mapping[str, Any]:
    """A JSON object; empty where the text is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def usage_of(content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What an answer or an event says of its tokens; None where it says nothing. Events of /v1/responses and /v1/messages may have it further inside."""
    for place in (content, content.get("response"), content.get("message")):
        usage = place.get("usage") if isinstance(place, dict) else None
        if isinstance(usage, dict):
            return usage
    return None


def length(value: Any) -> int:
    """At least as many tokens as the texts in a value are: a token has a byte or more. Numbers are tokens themselves."""
    found, left = 0, [value]
    while left:  # values may lie deeper than Python's stack
        each = left.pop()
        if isinstance(each, str):
            size = len(each.encode(errors="replace"))
            found += min(size, MOST_OF_MEDIA) if each.startswith("data:") else size
        elif isinstance(each, (dict, list)):
            left += each.values() if isinstance(each, dict) else each
        elif isinstance(each, int):
            found += 1
    return found


def once_each(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which no name stands twice: two readers would take another one of them each."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(name)
        found[name] = value
    return found


def read_once(body: bytes) -> dict[str, Any]:
    """A JSON object in which each name stands once; ValueError where the text is none."""
    try:
        found = json.loads(body, object_pairs_hook=once_each)
    except (ValueError, RecursionError) as error:
        raise ValueError("no JSON") from error
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def engine_release() -> tuple[int, ...]:
    """Of the vLLM that this is loaded by; empty where there is none."""
    try:
        said = importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(int(part) for part in said.split("+")[0].split(".")[:3] if part.isdigit())


def tokens(usage: Mapping[str, Any], names: Iterable[str]) -> int:
    """A count of a usage, under the first of these names that it has."""
    return next((min(max(0, value), MOST_TOKENS) for value in map(usage.get, names) if isinstance(value, int)), 0)


def counts_of(usage: Mapping[str, Any] | None) -> tuple[int, int] | None:
    """The tokens of a prompt and of an answer, as a usage says them; None where it says none."""
    if usage is None or not any(name in usage for name in (*PROMPT_TOKENS, *COMPLETION_TOKENS, "total_tokens")):
        return None
    completion = tokens(usage, COMPLETION_TOKENS)
    prompt = tokens(usage, PROMPT_TOKENS) + sum(tokens(usage, (name,)) for name in CACHED_TOKENS)
    # What an answer does not say by name, as that of /v1/rerank, is the rest of the sum.
    return min(max(prompt, tokens(usage, ("total_tokens",)) - completion), MOST_TOKENS), completion


class Asked:
    """A request of the gateway: what vLLM gets of it, and what it may cost. ValueError or RecursionError: it can be read in two ways, or not at all."""

    content_type = b"application/json"

    def __init__(self, body: bytes, path: str, release: tuple[int, ...]) -> None:
        content = read_once(body)
        self.content, self.path = content, path
        # The client gets no more than it asked for: an event of usage that was added here is taken out again.
        self.added = False
        options = content.get("stream_options")
        if content.get("stream") is True and path in STREAMING and release >= ASKS_FOR_USAGE:
            asked = dict(options) if isinstance(options, dict) else {}
            if asked.get("include_usage") is not True:
                self.added = True
                content["stream_options"] = {**asked, "include_usage": True}
        self.body = json.dumps(content).encode()

    @property
    def model(self) -> bytes:
        return str(self.content.get("model")).encode()

    @property
    def prompt_tokens(self) -> int:
        """As many as the prompt can be."""
        found = sum(length(self.content.get(part)) for part in PROMPTS)
        # Each document is read with the query.
        several = [len(each) for each in map(self.content.get, DOCUMENTS) if isinstance(each, list)]
        repeated = sum(length(self.content.get(part)) for part in QUERIES)
        return min(found + repeated * max([1, *several]), MOST_TOKENS)

    @property
    def most_tokens(self) -> int:
        """As many as the answer can be, as far as the request says so."""
        if self.path in WITHOUT_ANSWER:
            return 0
        limits = [self.content.get(name) for name in ("max_completion_tokens", "max_tokens", "max_output_tokens")]
        most = next((limit for limit in limits if isinstance(limit, int) and limit >= 0), UNKNOWN_TOKENS)
        several = [self.content.get(name) for name in ("n", "best_of")]
        return min(most * max([1, *(count for count in several if isinstance(count, int))]), MOST_TOKENS)

    def estimate(self, usage: Mapping[str, Any] | None, answer: bytes | None) -> tuple[int, int]:
        """The tokens of a prompt and of an answer that does not say them; without ``answer``, where it came as a stream or not at all."""
        return self.prompt_tokens, self.most_tokens


# Where the text of a request stands, of all paths that compute.
PROMPTS = (
    "prompt",
    "messages",
    "system",
    "input",
    "instructions",
    "documents",
    "text_2",
    "data_2",
    "items",
    "tools",
    "suffix",
)
# Of scores and ranks: what is read together with each of the documents.
QUERIES, DOCUMENTS = ("query", "queries", "text_1", "data_1"), ("documents", "text_2", "data_2", "items")

# Of a form: what a client's header and the heads of its parts may be (RFC 7578, RFC 2046). All else is refused, since two programs could read it otherwise.
BOUNDARY = re.compile(
    rb'multipart/form-data; *boundary=(?:"([0-9A-Za-z\'()+_,./:=?-]{1,70})"|([0-9A-Za-z\'+_.-]{1,70}))', re.I
)
QUOTED = rb'(?:"([^"\r\n]*)"|([^";\s]+))'
DISPOSITION = re.compile(
    rb"form-data; *name=" + QUOTED + rb"(?:; *filename=" + QUOTED + rb")?(?:; *filename\*=[^\";\s]+)?", re.I
)
FIELD, MEDIA_TYPE = re.compile(rb"[A-Za-z0-9_.-]+(?:\[\])?"), re.compile(rb"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+")
YES = ("1", "on", "t", "true", "y", "yes")


class Part:
    """A part of a form: a field, or a file with its name and type."""

    def __init__(self, piece: bytes) -> None:
        head, end, self.content = piece.partition(b"\r\n\r\n")
        found: dict[bytes, bytes] = {}
        for line in head.split(b"\r\n")[1:]:
            name, colon, value = line.partition(b":")
            name = name.lower()
            # A transfer encoding would make another content of it.
            if not colon or name in found or name not in (b"content-disposition", b"content-type", b"content-length"):
                raise ValueError(name)
            found[name] = value.strip()
        said = DISPOSITION.fullmatch(found.get(b"content-disposition", b""))
        if not end or not head.startswith(b"\r\n") or not said or not FIELD.fullmatch(said[1] or said[2] or b""):
            raise ValueError("a part of a form")
        self.name = (said[1] or said[2]).decode()
        self.is_file = b"filename" in found[b"content-disposition"].lower()
        self.file = re.sub(rb"[^A-Za-z0-9._-]", b"_", said[3] or said[4] or b"file")
        kind = found.get(b"content-type", b"")
        self.kind = kind if MEDIA_TYPE.fullmatch(kind) else b"application/octet-stream"

    @property
    def text(self) -> str:
        return self.content.decode()

    @property
    def written(self) -> bytes:
        """The part as no two programs read it otherwise, with its empty line."""
        head = b'Content-Disposition: form-data; name="%s"' % self.name.encode()
        if self.is_file:
            head += b'; filename="%s"\r\nContent-Type: %s' % (self.file, self.kind)
        return head + b"\r\n\r\n" + self.content


class Form(Asked):
    """The same of a form."""

    def __init__(self, body: bytes, path: str, release: tuple[int, ...], content_types: Sequence[bytes]) -> None:
        said = BOUNDARY.fullmatch(content_types[0]) if len(content_types) == 1 else None
        if not said:
            raise ValueError("a form")
        first, *pieces = (b"\r\n" + body).split(b"\r\n--" + (said[1] or said[2]))
        if first or not pieces or pieces.pop() not in (b"--", b"--\r\n"):
            raise ValueError("a form")
        parts = [Part(piece) for piece in pieces]
        single = [part.name for part in parts if not part.name.endswith("[]")]
        if len(set(single)) != len(single):
            raise ValueError("a field that stands twice")
        self.content, self.path = {part.name: part.text for part in parts if not part.is_file}, path
        self.sound_bytes = sum(len(part.content) for part in parts if part.is_file)
        wants = str(self.content.get("stream_include_usage", "")).lower() in YES
        self.added = str(self.content.get("stream", "")).lower() in YES and not wants and release >= ASKS_FOR_USAGE
        if self.added:
            asks = b'\r\nContent-Disposition: form-data; name="stream_include_usage"\r\n\r\ntrue'
            parts = [*(part for part in parts if part.name != "stream_include_usage"), Part(asks)]
        # Nobody who wrote the contents could know this one.
        boundary = uuid.uuid4().hex.encode()
        self.content_type = b"multipart/form-data; boundary=" + boundary
        self.body = (
            b"".join(b"--" + boundary + b"\r\n" + part.written + b"\r\n" for part in parts)
            + b"--"
            + boundary
            + b"--\r\n"
        )

    @property
    def prompt_tokens(self) -> int:
        return min(self.sound_bytes // SOUND_BYTES + 1 + length(self.content.get("prompt")), MOST_TOKENS)

    @property
    def most_tokens(self) -> int:
        """Nobody says more than is to be heard."""
        return max(UNKNOWN_TOKENS, self.prompt_tokens)

    def estimate(self, usage: Mapping[str, Any] | None, answer: bytes | None) -> tuple[int, int]:
        seconds = (usage or {}).get("seconds")
        prompt = self.prompt_tokens
        if isinstance(seconds, (int, float)) and 0 <= seconds < MOST_TOKENS:
            prompt = min(math.ceil(seconds) * SOUND_TOKENS + length(self.content.get("prompt")), MOST_TOKENS)
        if answer is None:
            return prompt, self.most_tokens
        text = content_of(answer).get("text")
        return prompt, min(length(text) if isinstance(text, str) else len(answer), MOST_TOKENS)


class Counter:
    """The tokens of one answer, while it is sent."""

    def __init__(self, send: Any, asked: Asked) -> None:
        self.send = send
        self.asked = asked
        self.status = 0
        self.stream = False
        # What the answer said of its tokens, and whether that was its last word.
        self.said: tuple[int, int] | None = None
        self.final = True
        # Of a stream: the bytes of the texts that came, and an event that is not complete yet. Else the answer.
        self.texts = 0
        self.rest = b""
        self.parts: list[bytes] = []

    async def __call__(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.stream = any(value.startswith(b"text/event-stream") for _name, value in event["headers"])
        elif event["type"] == "http.response.body" and self.status == 200:
            body = event.get("body", b"")
            if self.stream:
                event = {**event, "body": self.look(body, not event.get("more_body", False))}
            else:
                self.parts.append(body)
        await self.send(event)

    def look(self, part: bytes, last: bool) -> bytes:
        """Read the events of a part of a stream; what of them the client gets."""
        *events, self.rest = (self.rest + part).split(b"\n\n")
        kept = [event + b"\n\n" for event in events if not self.is_added(event)]
        if last:
            kept, self.rest = [*kept, self.rest], b""
        return b"".join(kept)

    def is_added(self, event: bytes) -> bool:
        """Whether an event is the usage for which only this program asked."""
        lines = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
        content = content_of(b"\n".join(lines)) if lines else {}
        usage = usage_of(content)
        said = counts_of(usage)
        if said is not None:
            known = self.said or (0, 0)
            self.said = max(known[0], said[0]), max(known[1], said[1])
            # A message begins with its prompt.
            self.final = content.get("type") != "message_start"
        self.texts += sum(length(content.get(name)) for name in ("choices", "delta"))
        return self.asked.added and usage is not None and content.get("choices") == []

    async def counts(self) -> dict[str, int]:
        """One request with its tokens. Where the answer does not say them, as many as they can have been: an estimate."""
        if self.asked.path in FREE:
            return counted(0, 0, 0)
        said, usage, answer = self.said, None, None
        if self.parts:
            answer = b"".join(self.parts)
            if len(answer) > LARGE_BYTES:
                content = await asyncio.get_running_loop().run_in_executor(None, content_of, answer)
            else:
                content = content_of(answer)
            usage = usage_of(content)
            said = counts_of(usage)
        if said is not None and self.final:
            return counted(*said, 0)
        prompt, completion = self.asked.estimate(usage, answer)
        if self.stream:
            completion = min(completion, self.texts)
        return counted(*((said[0], max(said[1], completion)) if said else (prompt, completion)), 1)


def counted(prompt: int, completion: int, estimated: int) -> dict[str, int]:
    """A request as /usage says it."""
    return {"requests": 1, "prompt_tokens": prompt, "completion_tokens": completion, "estimated": estimated}


async def respond(send: Any, status: int, content: Mapping[str, Any]) -> None:
    """A whole response with JSON."""
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# As OpenAI's API says it, and as this program says nothing else to clients.
REFUSED = {
    "message": "The body is no JSON object, or of an audio path no form, in which each name stands once and model is the one that the gateway let through.",
    "type": "invalid_request_error",
    "param": "model",
    "code": "bad_request",
}


RESTARTS = {
    "message": "This server is about to be restarted. Ask again.",
    "type": "server_error",
    "param": None,
    "code": "restarting",
}


class Ending(Exception):
    """An answer of vLLM that is not sent, since it says only that the server ends."""


async def body_of(receive: Any) -> bytes:
    """The body of a request. The gateway has it as a whole before it asks, and within its limit."""
    parts = []
    while True:
        event = await receive()
        if event["type"] != "http.request":
            return b""
        parts.append(event.get("body", b""))
        if not event.get("more_body", False):
            return b"".join(parts)


def replayed(body: bytes, receive: Any) -> Any:
    """What an application receives: this body, and then what the client still says."""
    events = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_event() -> Mapping[str, Any]:
        return events.pop() if events else await receive()

    return next_event


class ApiPaths:
    """An application of ASGI around the engine's. LLM_API_PATHS names further paths, for which it asks for the key."""

    # Whose server is behind.
    engine = "vllm"

    def __init__(self, app: Any, secrets: str = "", probe: str = "/run/llm-probe", key: str | None = None) -> None:
        self.app = app
        # Where it runs in no container, the environment says where they are.
        self.secrets = Path(secrets or os.environ.get("LLM_SECRETS_DIR") or "/run/secrets")
        self.probe = Path(probe)
        asked = (path.rstrip("/") for path in os.environ.get("LLM_API_PATHS", "").split())
        # Below the root there is what stops and changes the model, too.
        self.paths = [*KEYED, *filter(None, asked)]
        # The one that the engine was started with; without one the API is open.
        self.key = os.environ.get("VLLM_API_KEY", "") if key is None else key
        # By the gateway's key, since this process began. There may be several processes, each with its own.
        self.process = uuid.uuid4().hex
        # Every LMDeploy from 0.10.0 on says the usage of its streams when it is asked, too.
        self.release = engine_release() if self.engine == "vllm" else ASKS_FOR_USAGE
        self.usage: dict[str, dict[str, int]] = {}
        self.began = time.time()
        # Where answers to the probe go: in a container its /tmp, which is a folder of the host.
        self.inner = Path(os.environ.get("LLM_INNER_DIR") or "/tmp")
        self.inner_task: asyncio.Task[None] | None = None
        # The application as a whole, which Starlette hands on with each request and vLLM's routes ask for.
        self.outer: Any = None

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":  # the server starts, with this very loop
            self.outer = scope.get("app")
            self.inner_task = asyncio.get_running_loop().create_task(self.answer_the_probe())
        status = self.refused(scope) if scope["type"] in ("http", "websocket") else 0
        if scope["type"] == "http" and scope["path"] == READY:
            await respond(send, *self.ready())
        elif scope["type"] == "http" and below(scope["path"], (HEALTH,)) and self.leaves():
            await respond(send, *self.leaves())
        elif scope["type"] == "http" and scope["path"] == USAGE and self.is_gateway(scope):
            await respond(send, 200, {"process": self.process, "keys": self.usage})
        elif not status:
            await self.count(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await respond(send, status, {"error": {404: "Not Found", 401: "Unauthorized"}[status]})

    async def count(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Let vLLM answer, and count what the answer cost where a gateway asks for one of its keys."""
        if scope["type"] != "http" or scope.get("method") != "POST" or not self.is_gateway(scope):
            await self.answer(self.with_own_key(scope), receive, send)
            return
        headers = scope["headers"]
        names, models = ([value for name, value in headers if name == one] for one in (KEY_NAME_HEADER, MODEL_HEADER))
        body = await body_of(receive)
        # Whoever is let in by a gateway is let in for one model, by one key; what vLLM would read otherwise goes no further.
        try:
            kinds = [value for name, value in headers if name == b"content-type"]
            path = scope["path"]
            asked = Form(body, path, self.release, kinds) if path in FORMS else Asked(body, path, self.release)
            is_same = len(names) == 1 and [asked.model] == models
        except (ValueError, RecursionError):  # also what is read, but cannot be written again
            is_same = False
        if not is_same:
            await respond(send, 400, {"error": REFUSED})
            return
        counter = Counter(send, asked)
        length_header = (b"content-length", str(len(asked.body)).encode())
        kept = [pair for pair in headers if pair[0] not in (b"content-length", b"transfer-encoding", b"content-type")]
        scope = {**scope, "headers": [*kept, length_header, (b"content-type", asked.content_type)]}
        try:
            await self.answer(self.with_own_key(scope), replayed(asked.body, receive), counter)
        finally:
            # Also where the client is gone, with or without a first byte of an answer: what was computed until then is counted.
            if counter.status in (0, 200):
                mine = self.usage.setdefault(names[0].decode(errors="replace"), {})
                for name, count in (await counter.counts()).items():
                    mine[name] = mine.get(name, 0) + count

    async def answer(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """What vLLM answers. While this server ends, its errors say that another one would answer: a gateway asks that one, and clients ask again."""
        begun = False

        async def sent(event: Mapping[str, Any]) -> None:
            nonlocal begun
            if not begun and event["type"] == "http.response.start" and event["status"] >= 500 and self.is_restarting():
                raise Ending
            begun = True
            await send(event)

        try:
            await self.app(scope, receive, sent)
        except (Exception, asyncio.CancelledError):  # the server cancels what it computes when it ends
            if begun or scope["type"] != "http" or not self.is_restarting():
                raise
            await respond(send, 503, {"error": RESTARTS})

    async def answer_the_probe(self) -> None:
        """Answer each question of the probe once, for as long as the server runs."""
        answered = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                asked = json.loads((self.probe / QUESTION_FILE).read_bytes())
                number, path, question = str(asked["id"]), str(asked["path"]), asked["question"]
                age = time.clock_gettime(time.CLOCK_BOOTTIME) - float(asked["now"])
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                continue
            if number == answered or not 0 <= age < INNER_SECONDS:
                continue
            answered = number
            try:
                status, body = await asyncio.wait_for(self.ask_inside(path, question), INNER_SECONDS)
            except Exception as error:  # vLLM has many of its own, and all of them are an answer
                status, body = 500, str(error)
            self.say_inside({"id": number, "status": status, "body": body})

    async def ask_inside(self, path: str, question: Any) -> tuple[int, str]:
        """What vLLM answers to a request that came through no port."""
        body, status, parts = json.dumps(question).encode(), 0, []
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        headers += [(b"content-length", str(len(body)).encode()), (b"authorization", b"Bearer " + self.key.encode())]
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
        scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers}
        scope |= {"client": ("127.0.0.1", 0), "server": ("127.0.0.1", 0), "app": self.outer, "state": {}}
        ended = asyncio.Event()

        async def send(event: Mapping[str, Any]) -> None:
            nonlocal status
            if event["type"] == "http.response.start":
                status = event["status"]
            else:
                parts.append(event.get("body", b""))
                if not event.get("more_body", False):
                    ended.set()

        async def receive() -> Mapping[str, Any]:
            await ended.wait()
            return {"type": "http.disconnect"}

        await self.app(scope, replayed(body, receive), send)
        return status, b"".join(parts).decode(errors="replace")

    def say_inside(self, answer: Mapping[str, Any]) -> None:
        incoming = self.inner / f"{ANSWER_FILE}.{uuid.uuid4().hex}"
        try:
            with incoming.open("x") as stream:
                json.dump(answer, stream)
            incoming.replace(self.inner / ANSWER_FILE)
        except OSError:  # a full disk; the probe takes it for silence
            incoming.unlink(missing_ok=True)

    def is_gateway(self, scope: Mapping[str, Any]) -> bool:
        """Whether a request comes with the key of the gateway."""
        return self.says(scope, lines_of(self.secret(GATEWAY_KEY_FILE)))

    def leaves(self) -> tuple[int, dict[str, str]] | None:
        """What a gateway is told that is to send nothing more. Behind 404 it still sends what belongs to a conversation, behind 503 nothing."""
        if self.is_restarting():
            return 503, {"status": "restarting"}
        if not (self.probe / DRAINED_FILE).exists():
            return None
        try:
            # Empty where an operator wants it; the probe writes which GPU has failed.
            reason = (self.probe / DRAINED_FILE).read_text(errors="replace")[:300].strip()
        except OSError:
            reason = ""
        return 404, {"status": "drained", **({"reason": reason} if reason else {})}

    def is_restarting(self) -> bool:
        """Whether a run is about to restart this server. The file holds for how many seconds that counts: the run may have been ended.

        For the server that is started then the file is older than itself.
        """
        mark = self.probe / RESTARTING_FILE
        try:
            written, seconds = mark.stat().st_mtime, float(mark.read_text())
        except (OSError, ValueError):
            return False
        return self.began < written and time.time() - written < seconds

    def ready(self) -> tuple[int, dict[str, str]]:
        """200 where the probe's last word is good; 404, on which HAProxy drains, where somebody wants that; else 503. With that word."""
        away = self.leaves()
        if away:
            return away
        try:
            state = json.loads((self.probe / STATE_FILE).read_bytes())["llm-vllm"]
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - state["now"]
            word = str(state["kind"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return 503, {"status": "unknown"}
        if age > STATE_SECONDS:
            return 503, {"status": "stale"}
        return (200 if word in WELL else 503), {"status": word}

    def refused(self, scope: Mapping[str, Any]) -> int:
        """The HTTP status with which a request is refused, or 0."""
        path = scope["path"]
        if below(path, OPEN):
            return 0
        if not below(path, self.paths):
            return 404
        # Browsers ask without the key whether they may ask.
        if not self.key or scope.get("method") == "OPTIONS" or self.knows_key(scope):
            return 0
        return 401

    def knows_key(self, scope: Mapping[str, Any]) -> bool:
        return self.says(scope, self.keys())

    def says(self, scope: Mapping[str, Any], keys: Iterable[bytes]) -> bool:
        """Whether a request comes with one of these keys."""
        said = {key_of(*pair) for pair in scope["headers"] if pair[0] in KEY_HEADERS}
        # Of two headers that name different keys, nobody knows which one is meant.
        return len(said) == 1 and any(hmac.compare_digest(key, counts) for key in said for counts in keys)

    def keys(self) -> list[bytes]:
        """The keys that count now; where the file cannot be read, the one that the engine was started with."""
        more = [self.secret(name) for name in (FORMER_KEYS_FILE, GATEWAY_KEY_FILE)]
        return [
            *(lines_of(self.secret(KEY_FILE)) or [self.key.encode()]),
            *(key for file in more for key in lines_of(file)),
        ]

    def secret(self, ending: str) -> Path:
        return self.secrets / (self.engine + ending)

    def with_own_key(self, scope: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request as vLLM understands it: with its own key for one that counts, and without a key for any other."""
        if not self.key or "headers" not in scope:
            return scope
        headers = [(name, value) for name, value in scope["headers"] if name not in KEY_HEADERS]
        if len(headers) == len(scope["headers"]):
            return scope
        if self.knows_key(scope):
            headers.append((b"authorization", b"Bearer " + self.key.encode()))
        return {**scope, "headers": headers}
