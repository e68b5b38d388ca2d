# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which paths vLLM's API server answers; it loads this itself, as --middleware llm_api_paths.ApiPaths.

vLLM asks for its key below /v1 and, depending on the release, below few other prefixes, but has more to offer: /invocations and /tokenize
compute as /v1 does, /pause, /sleep and /update_weights stop or change the model for everybody. New releases bring new ones, so what is
not named here is not answered.

It also says which keys count. vLLM knows the one that it was started with; here that one stands for any key that counts at the moment of
the request, so that keys change without a restart. vLLM puts what --middleware names around its own check of the key, in old releases
as in new ones (build_app in vllm/entrypoints/openai/api_server.py, later vllm/entrypoints/serve/middleware/register.py).
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# vLLM asks for the key here itself.
KEY_OF_VLLM = ("/v1",)
# These only tell how the server is.
OPEN = ("/health", "/load", "/metrics", "/ping", "/version")
# The key, and those before it that still count, each in a line.
KEY_FILE, FORMER_KEYS_FILE = "vllm_api_key", "vllm_api_key.previous"


def lines_of(path: Path) -> list[bytes]:
    """The lines of a file that are not empty; none where there is no such file."""
    try:
        return [line.strip() for line in path.read_bytes().splitlines() if line.strip()]
    except OSError:
        return []


def below(path: str, prefixes: Iterable[str]) -> bool:
    """Whether a path is one of these, or lies below one."""
    return any(path == prefix or path.startswith(prefix + "/") for prefix in prefixes)


class ApiPaths:
    """An application of ASGI around vLLM's. LLM_API_PATHS names further paths, for which it asks for the key."""

    def __init__(self, app: Any, secrets: str = "/run/secrets") -> None:
        self.app = app
        self.secrets = Path(secrets)
        self.paths = [path.rstrip("/") for path in os.environ.get("LLM_API_PATHS", "").split()]
        self.key = os.environ.get("VLLM_API_KEY", "")

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        status = self.refused(scope) if scope["type"] in ("http", "websocket") else 0
        if not status:
            await self.app(self.with_own_key(scope), receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            body = json.dumps({"error": {404: "Not Found", 401: "Unauthorized"}[status]}).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def refused(self, scope: Mapping[str, Any]) -> int:
        """The status of a refusal, or 0."""
        path = scope["path"]
        if below(path, KEY_OF_VLLM) or below(path, OPEN):
            return 0
        if not below(path, self.paths):
            return 404
        # Browsers ask without the key whether they may ask.
        if not self.key or scope.get("method") == "OPTIONS" or self.knows_key(scope):
            return 0
        return 401

    def knows_key(self, scope: Mapping[str, Any]) -> bool:
        said = b"".join(value for name, value in scope["headers"] if name == b"authorization")
        kind, _space, key = said.partition(b" ")
        return kind.lower() == b"bearer" and any(hmac.compare_digest(key.strip(), counts) for counts in self.keys())

    def keys(self) -> list[bytes]:
        """The keys that count now; where the file cannot be read, the one that vLLM was started with."""
        return (lines_of(self.secrets / KEY_FILE) or [self.key.encode()]) + lines_of(self.secrets / FORMER_KEYS_FILE)

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
