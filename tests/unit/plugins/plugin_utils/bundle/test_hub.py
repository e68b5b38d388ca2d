"""A model's config.json from hubs, asked over real connections."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._download import make_opener
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import hub
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.hub import (
    HUGGING_FACE,
    MIRRORS,
    MODELSCOPE,
    Hub,
    ask,
    hubs,
)

CONFIG = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
PATH = "/{model}/resolve/main/config.json"


class Server(http.server.BaseHTTPRequestHandler):
    """Answers by the publisher in the path."""

    def do_GET(self) -> None:
        publisher = self.path.split("/")[1]
        self.server.seen.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
        if publisher == "slow":
            time.sleep(3)
        status = {"gated": 403, "private": 401, "licensed": 401, "nobody": 404, "broken": 500}.get(publisher, 200)
        body = {"portal": b"<html>log in</html>", "list": b"[]"}.get(publisher, json.dumps(CONFIG).encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if publisher == "licensed":
            self.send_header("X-Error-Code", "GatedRepo")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    found = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    found.seen = []  # type: ignore[attr-defined]
    found.daemon_threads = True
    threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield found
    found.shutdown()


def at(server: Any, token: str = "") -> Hub:
    return Hub(f"http://127.0.0.1:{server.server_port}", PATH, token)


def test_the_first_hub_that_has_it_counts(server: Any) -> None:
    away = Hub("http://127.0.0.1:1", PATH)
    answer = ask("Qwen/Qwen3-8B", [away, at(server)], make_opener())
    assert answer.config == CONFIG
    assert answer.url == f"http://127.0.0.1:{server.server_port}/Qwen/Qwen3-8B/resolve/main/config.json"


@pytest.mark.parametrize(
    ("publisher", "said"),
    [
        ("nobody", "there is no such model"),
        ("private", "private or gated"),
        ("gated", "accept its licence"),
        ("licensed", "accept its licence"),
        ("broken", "HTTP 500"),
        ("portal", "no model's config.json"),
        ("list", "no model's config.json"),
    ],
)
def test_each_address_says_why_it_has_none(publisher: str, said: str, server: Any) -> None:
    answer = ask(f"{publisher}/x", [at(server), Hub("http://127.0.0.1:1", PATH)], make_opener())
    assert answer.config is None
    first, second = (text.say() for text in answer.tried)
    assert f"127.0.0.1:{server.server_port}/{publisher}/x" in first
    assert said in first
    assert "refused" in second


def test_one_that_does_not_answer_costs_no_more_than_its_time(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "TIMEOUT_SECONDS", 0.3)
    began = time.monotonic()
    answer = ask("slow/x", [at(server), at(server)], make_opener())
    assert answer.config is None
    assert len(answer.tried) == 2
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("model", ["llama", "a/b/c", "../x", "a/b?x", "/srv/models/x", "https://h/x"])
def test_what_is_no_name_is_asked_of_nobody(model: str, server: Any) -> None:
    assert ask(model, [at(server)], make_opener()).config is None
    assert server.seen == []


def test_a_token_goes_to_the_hub_that_it_is_for(server: Any) -> None:
    ask("Qwen/x", [at(server, "hf_secret")], make_opener())
    assert server.seen == ["Bearer hf_secret"]
    tokens = {"huggingface": "hf", "modelscope": "ms"}
    assert {each.endpoint: each.token for each in hubs("", "", tokens)} == {
        HUGGING_FACE: "hf",
        MIRRORS[0]: "",
        MODELSCOPE: "ms",
    }
    own = hubs("https://mirror.site/", "https://scope.site", tokens)
    assert [each.endpoint for each in own] == ["https://mirror.site", "https://scope.site"]
