"""An application of ASGI behind the filter of paths, which says which key it was shown, and a request to it without a network."""

from __future__ import annotations

import asyncio
from typing import Any


async def application(scope: Any, receive: Any, send: Any) -> None:
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    await send({"type": "http.response.start", "status": 200, "shown": shown})


def answered(app: Any, path: str, key: str = "") -> tuple[int, list[bytes]]:
    """The status of an answer, and the keys that the application was shown."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        raise AssertionError("nothing is read")

    headers = [(b"authorization", f"Bearer {key}".encode())] if key else []
    asyncio.run(app({"type": "http", "path": path, "method": "GET", "headers": headers}, receive, send))
    return sent[0]["status"], sent[0].get("shown", [])
