"""A replica without a model: an OpenAI-compatible server of one file, behind the real program that answers for vLLM (--middleware).

It speaks the part of the API that a gateway sees: completions and chat, at once or streamed, the call of a tool, messages and responses, ranks, audio by
form, the list of models, /health and /metrics. What it says are the numbers of its tokens. `--probe` writes what llm-probe.py would: without a container
there is nothing that the probe could ask.
Python 3.8 and its standard library, as it runs on hosts that have nothing else.
"""

import argparse
import asyncio
import contextlib
import email.parser
import importlib.util
import itertools
import json
import os
import sys
import time
from pathlib import Path


class Model:
    """The application that vLLM would be."""

    def __init__(self, name, model, key):
        self.name, self.model, self.key = name, model, key
        self.running = self.done = self.aborted = 0

    async def __call__(self, scope, receive, send):
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        path = scope["path"]
        if path == "/health":
            return await answer(send, 200, {})
        if path == "/metrics":
            lines = "vllm:num_requests_running{} %d\nvllm:num_requests_waiting{} 0\n" % self.running
            return await answer(send, 200, lines)
        if path == "/aborted":
            return await answer(send, 200, {"aborted": self.aborted, "done": self.done})
        if self.key and headers.get("authorization") != "Bearer " + self.key:
            return await answer(send, 401, {"error": "Unauthorized"})
        if path not in ("/v1/completions", "/v1/chat/completions", *OTHER):
            return await answer(send, 404, {"error": "Not Found"})
        body = await body_of(receive)
        asked = fields_of(headers["content-type"], body) if path.startswith("/v1/audio/") else json.loads(body)
        if asked.get("model") != self.model:
            return await answer(
                send, 404, {"error": {"message": "no such model", "type": "NotFoundError", "code": 404}}
            )
        if path in OTHER:
            if "x-api-key" in headers:
                return await answer(send, 400, {"error": "a key of a client"})
            if asked.get("stream"):
                return await stream(send, EVENTS[path])
            return await answer(send, 200, dict(OTHER[path], model=self.model))
        self.running += 1
        try:
            await self.generate(asked, path.endswith("chat/completions"), headers, send)
            self.done += 1
        except ConnectionError:
            self.aborted += 1
        finally:
            self.running -= 1

    async def generate(self, asked, chat, headers, send):
        count = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 4)
        pause = float(asked.get("seed") or 0) / 1000  # ms for a token: a model would need no word for it
        about = {
            "id": "cmpl-" + headers.get("x-request-id", ""),
            "created": int(time.time()),
            "model": self.model,
            "system_fingerprint": self.name,
        }
        words = [" %d" % number for number in range(count)]
        if asked.get("tools") and asked["messages"][-1]["role"] == "user":
            message = {"role": "assistant", "content": None, "tool_calls": [call_of(asked["tools"][0]["function"])]}
            usage = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
            choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
            return await answer(send, 200, dict(about, object="chat.completion", choices=choices, usage=usage))
        if not asked.get("stream"):
            await asyncio.sleep(pause * count)
            said = "".join(words)
            choice = {"message": {"role": "assistant", "content": said}} if chat else {"text": said}
            usage = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
            kind = "chat.completion" if chat else "text_completion"
            choices = [dict(choice, index=0, finish_reason="stop")]
            return await answer(send, 200, dict(about, object=kind, choices=choices, usage=usage))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        kind = "chat.completion.chunk" if chat else "text_completion"
        for word in words:
            choice = {"delta": {"content": word}} if chat else {"text": word}
            line = json.dumps(dict(about, object=kind, choices=[dict(choice, index=0, finish_reason=None)]))
            await send({"type": "http.response.body", "body": ("data: " + line + "\n\n").encode(), "more_body": True})
            await asyncio.sleep(pause)
        if (asked.get("stream_options") or {}).get("include_usage"):
            usage = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
            line = json.dumps(dict(about, object=kind, choices=[], usage=usage))
            await send({"type": "http.response.body", "body": ("data: " + line + "\n\n").encode(), "more_body": True})
        return await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


# What is said at the other paths: three tokens were read and two are said, of audio 4 s.
READ, SAID = {"input_tokens": 3}, {"output_tokens": 2}
OTHER = {
    "/v1/messages": {"type": "message", "content": [{"type": "text", "text": "0 1"}], "usage": dict(READ, **SAID)},
    "/v1/messages/count_tokens": READ,
    "/v1/responses": {"object": "response", "usage": dict(READ, **SAID)},
    "/v1/rerank": {"results": [{"index": 0, "relevance_score": 0.5}], "usage": {"total_tokens": 3}},
    "/v1/audio/transcriptions": {"text": "0 1", "usage": {"type": "duration", "seconds": 4}},
    "/v1/audio/translations": {"text": "0 1"},
}
EVENTS = {
    "/v1/messages": [
        {"type": "message_start", "message": {"content": [], "usage": dict(READ, output_tokens=0)}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "0 1"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": SAID},
        {"type": "message_stop"},
    ],
    "/v1/responses": [
        {"type": "response.created", "response": {"usage": None}},
        {"type": "response.output_text.delta", "delta": "0 1"},
        {"type": "response.completed", "response": {"usage": dict(READ, **SAID)}},
    ],
    "/v1/audio/transcriptions": [
        {"choices": [{"delta": {"content": "0 1"}}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
    ],
}


def fields_of(kind, body):
    """The fields of a form, and under its name what a file has; of a name that stands twice the last one."""
    form = email.parser.BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    return {
        part.get_param("name", header="content-disposition"): part.get_payload(decode=True).decode("latin-1")
        for part in form.get_payload()
    }


async def stream(send, events):
    """Events with their names, as Anthropic's API and OpenAI's responses have them."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for event in events:
        line = "event: %s\ndata: %s\n\n" % (event.get("type", "message"), json.dumps(event))
        await send({"type": "http.response.body", "body": line.encode(), "more_body": True})
    return await send({"type": "http.response.body", "body": b""})


def call_of(function):
    """The call of a tool, with the first of the values that each of its parameters may have."""
    arguments = {name: schema["enum"][0] for name, schema in function["parameters"]["properties"].items()}
    return {
        "id": "call-0",
        "type": "function",
        "function": {"name": function["name"], "arguments": json.dumps(arguments)},
    }


async def answer(send, status, content):
    body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def body_of(receive):
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    return body


class Server:
    """As much of HTTP/1.1 as there is between a gateway and a server: an application of ASGI on a socket."""

    def __init__(self, application):
        self.application = application

    async def connected(self, reader, writer):
        try:
            while await self.exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def exchange(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _version = head[0].split(" ")
        headers = [line.split(": ", 1) for line in head[1:] if line]
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
        sizes = [int(value) for name, value in headers if name == b"content-length"]
        body = await reader.readexactly(sizes[0]) if sizes else b""
        if (b"transfer-encoding", b"chunked") in headers:
            body = b"".join([part async for part in chunks(reader)])
        chunked = False

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(event):
            nonlocal chunked
            if event["type"] == "http.response.start":
                chunked = all(name != b"content-length" for name, _value in event["headers"])
                lines = [
                    b"HTTP/1.1 %d -" % event["status"],
                    *(name + b": " + value for name, value in event["headers"]),
                ]
                writer.write(b"\r\n".join([*lines, *[b"transfer-encoding: chunked"] * chunked, b"", b""]))
                return
            part = event.get("body", b"")
            if chunked:
                writer.write(b"%x\r\n%s\r\n" % (len(part), part) if part else b"")
                writer.write(b"" if event.get("more_body") else b"0\r\n\r\n")
            else:
                writer.write(part)
            # A client that is gone is noticed when it reads nothing more.
            if reader.at_eof() or writer.is_closing():
                raise ConnectionResetError
            await writer.drain()

        scope = {"type": "http", "method": method, "path": target.partition("?")[0], "headers": headers}
        await self.application(scope, receive, send)
        return True


async def chunks(reader):
    """The parts of a request whose length is not known when it begins."""
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        part = await reader.readexactly(size + 2)
        if not size:
            return
        yield part[:-2]


async def probe(path):
    """The verdict of a probe that gets its token each time."""
    for number in itertools.count():
        state = {"kind": "serving", "said": "serving", "now": time.clock_gettime(time.CLOCK_BOOTTIME), "looks": number}
        with contextlib.suppress(OSError):
            path.with_suffix(".new").write_text(json.dumps({"form": 1, "llm-vllm": state}))
            os.replace(str(path.with_suffix(".new")), str(path))
        await asyncio.sleep(5)


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--address", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--middleware", required=True, help="llm_api_paths.py")
    parser.add_argument("--secrets", required=True, help="folder with the keys")
    parser.add_argument("--state", type=Path, required=True, help="folder of the probe's state")
    parser.add_argument("--probe", action="store_true")
    options = parser.parse_args()
    key_file = Path(options.secrets, "vllm_api_key")
    key = key_file.read_text().strip() if key_file.exists() else ""
    os.environ["VLLM_API_KEY"] = key
    spec = importlib.util.spec_from_file_location("llm_api_paths", options.middleware)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = Model(options.name, options.model, key)
    application = module.ApiPaths(model, secrets=options.secrets, probe=str(options.state))
    server = Server(application)
    listening = await asyncio.start_server(server.connected, options.address, options.port, limit=1 << 26, backlog=1024)
    tasks = [asyncio.ensure_future(probe(options.state / "state.json"))] if options.probe else []
    async with listening:
        await asyncio.gather(listening.serve_forever(), *tasks)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
