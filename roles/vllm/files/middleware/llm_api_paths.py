# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which paths vLLM's API server answers; it loads this itself, as --middleware llm_api_paths.ApiPaths.

vLLM asks for its key below /v1 and, depending on the release, below few other prefixes, but has more to offer: /invocations and /tokenize
compute as /v1 does, /pause, /sleep and /update_weights stop or change the model for everybody. New releases bring new ones, so what is
not named here is not answered.

The key is asked for here, below /v1 too. vLLM decides by an address that Starlette before 1.0.1 puts together from the request's Host header,
and "Host: x/health?" makes any path look like /health (CVE-2026-48710); the path itself, by which it finds what to run, comes from the request's line.

It also says which keys count. vLLM knows the one that it was started with; here that one stands for any key that counts at the moment of
the request, so that keys change without a restart. vLLM puts what --middleware names around its own check of the key, in old releases
as in new ones (build_app in vllm/entrypoints/openai/api_server.py, later vllm/entrypoints/serve/middleware/register.py).

For the gateway it counts tokens: the gateway says for which of its keys it asks, and reads the counts at /usage. The gateway itself does not read answers.
"""

from __future__ import annotations

import hmac
import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# What is answered to whoever has the key.
KEYED = ("/v1",)
# These only tell how the server is.
OPEN = ("/health", "/load", "/metrics", "/ping", "/version")
# The key, those before it that still count, and the one of the gateway, each in a line.
KEY_FILE, FORMER_KEYS_FILE, GATEWAY_KEY_FILE = "vllm_api_key", "vllm_api_key.previous", "vllm_api_key.gateway"
# Whether a gateway may send requests here: what the probe saw last, which asks for a token. roles/vllm/files/llm-probe.py writes the state, and
# playbooks/drain.yml the other file.
READY, STATE_FILE, DRAINED_FILE = "/ready", "state.json", "drained"
# For which of its keys a gateway asks, and where it reads what they cost. Both count only with the gateway's own key.
KEY_NAME_HEADER, USAGE = b"x-llm-key", "/usage"
# What an answer says of its tokens: completions and embeddings, responses. The last word counts: a stream may say it with each part.
PROMPT_TOKENS, COMPLETION_TOKENS = ("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")
# Of an answer that is no stream, how much of its end is looked at.
TAIL_BYTES = 1 << 16
# As a key of JSON. Within a text the quotes have backslashes.
USAGE_KEY = b'"usage":'
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


def below(path: str, prefixes: Iterable[str]) -> bool:
    """Whether a path is one of these, or lies below one."""
    return any(path == prefix or path.startswith(prefix + "/") for prefix in prefixes)


def usage_of(part: bytes) -> Mapping[str, Any] | None:
    """What the last usage in a part of an answer says; None where there is none."""
    _before, key, after = part.rpartition(USAGE_KEY)
    if not key:
        return None
    try:
        found = json.JSONDecoder().raw_decode(after.decode(errors="replace").lstrip())[0]
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def tokens(usage: Mapping[str, Any], names: Iterable[str]) -> int:
    """A count of a usage, under the first of these names that it has."""
    return next((value for value in map(usage.get, names) if isinstance(value, int)), 0)


class Counter:
    """The tokens of one answer, while it is sent."""

    def __init__(self, send: Any) -> None:
        self.send = send
        self.status = 0
        self.stream = False
        self.events = 0
        self.usage: Mapping[str, Any] | None = None
        self.tail = b""

    async def __call__(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.stream = any(value.startswith(b"text/event-stream") for _name, value in event["headers"])
        elif event["type"] == "http.response.body":
            self.look(event.get("body", b""))
        await self.send(event)

    def look(self, part: bytes) -> None:
        if self.stream:
            self.events += sum(1 for line in part.split(b"\n") if line.startswith(b"data: {"))
            self.usage = usage_of(part) or self.usage
        else:
            # It may come in parts, and says its usage near the end.
            self.tail = (self.tail + part)[-TAIL_BYTES:]

    def counts(self) -> dict[str, int]:
        """One request with its tokens. Of a stream that does not say them the events are counted as tokens of the answer: an estimate."""
        usage = self.usage or usage_of(self.tail)
        return {
            "requests": 1,
            "prompt_tokens": tokens(usage or {}, PROMPT_TOKENS),
            "completion_tokens": self.events if usage is None else tokens(usage, COMPLETION_TOKENS),
            "estimated": int(usage is None),
        }


async def respond(send: Any, status: int, content: Mapping[str, Any]) -> None:
    """A whole response with JSON."""
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class ApiPaths:
    """An application of ASGI around vLLM's. LLM_API_PATHS names further paths, for which it asks for the key."""

    def __init__(self, app: Any, secrets: str = "", probe: str = "/run/llm-probe") -> None:
        self.app = app
        # Where it runs in no container, the environment says where they are.
        self.secrets = Path(secrets or os.environ.get("LLM_SECRETS_DIR") or "/run/secrets")
        self.probe = Path(probe)
        self.paths = [*KEYED, *(path.rstrip("/") for path in os.environ.get("LLM_API_PATHS", "").split())]
        self.key = os.environ.get("VLLM_API_KEY", "")
        # By the gateway's key, since this process began. There may be several processes, each with its own.
        self.process = uuid.uuid4().hex
        self.usage: dict[str, dict[str, int]] = {}

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        status = self.refused(scope) if scope["type"] in ("http", "websocket") else 0
        if scope["type"] == "http" and scope["path"] == READY:
            await respond(send, *self.ready())
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
        names = [value for name, value in scope.get("headers") or () if name == KEY_NAME_HEADER]
        if scope["type"] != "http" or not names or not self.is_gateway(scope):
            await self.app(self.with_own_key(scope), receive, send)
            return
        counter = Counter(send)
        try:
            await self.app(self.with_own_key(scope), receive, counter)
        finally:
            # Also where the client is gone: what was computed until then is counted.
            if counter.status == 200:
                mine = self.usage.setdefault(names[0].decode(errors="replace"), {})
                for name, count in counter.counts().items():
                    mine[name] = mine.get(name, 0) + count

    def is_gateway(self, scope: Mapping[str, Any]) -> bool:
        """Whether a request comes with the key of the gateway."""
        return self.says(scope, lines_of(self.secrets / GATEWAY_KEY_FILE))

    def ready(self) -> tuple[int, dict[str, str]]:
        """200 where the probe's last word is good; 404, on which HAProxy drains, where somebody wants that; else 503. With that word."""
        if (self.probe / DRAINED_FILE).exists():
            return 404, {"status": "drained"}
        try:
            state = json.loads((self.probe / STATE_FILE).read_bytes())["llm-vllm"]
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - state["now"]
            word = str(state["kind"])
        except (OSError, ValueError, KeyError, TypeError):
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
        said = b"".join(value for name, value in scope["headers"] if name == b"authorization")
        kind, _space, key = said.partition(b" ")
        return kind.lower() == b"bearer" and any(hmac.compare_digest(key.strip(), counts) for counts in keys)

    def keys(self) -> list[bytes]:
        """The keys that count now; where the file cannot be read, the one that vLLM was started with."""
        more = [self.secrets / name for name in (FORMER_KEYS_FILE, GATEWAY_KEY_FILE)]
        return [
            *(lines_of(self.secrets / KEY_FILE) or [self.key.encode()]),
            *(key for file in more for key in lines_of(file)),
        ]

    def with_own_key(self, scope: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request as vLLM understands it: with its own key for one that counts, and without a key for any other."""
        if not self.key or "headers" not in scope:
            return scope
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        if len(headers) == len(scope["headers"]):
            return scope
        if self.knows_key(scope):
            headers.append((b"authorization", b"Bearer " + self.key.encode()))
        return {**scope, "headers": headers}
