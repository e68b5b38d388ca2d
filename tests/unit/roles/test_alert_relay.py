"""Alertmanager's webhooks become what the robots of WeCom, DingTalk and Feishu take: the program itself, between two real servers."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs

FILE = Path(__file__).parents[3] / "roles/monitoring/files/llm-alert-relay.py"
relay = programs.load("monitoring/files/llm-alert-relay.py")

WORDS = {"firing": "告警", "resolved": "恢复"}
ALERT = {
    "status": "firing",
    "labels": {"alertname": "HostDown", "severity": "critical", "host": "gpu01"},
    "annotations": {"summary": "gpu01 无应答", "runbook_url": "https://example.com/alerts.md#hostdown"},
}
TEXT = "[告警] HostDown (critical)\ngpu01 无应答\nhttps://example.com/alerts.md#hostdown"


class Robot(http.server.BaseHTTPRequestHandler):
    """Notes what it gets; the path is the answer that it gives."""

    received: list[Any] = []  # noqa: RUF012 - emptied before each test

    def do_POST(self) -> None:
        self.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.strip("/").encode())

    def log_message(self, *dummy: Any) -> None:
        pass


@pytest.fixture
def robot() -> Iterator[str]:
    Robot.received.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Robot)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture
def post(robot: str, tmp_path: Path) -> Iterator[Any]:
    """Posts to the program as Alertmanager does, and returns the status."""
    answers = {"wecom": '{"errcode":0}', "dingtalk": '{"errcode":0}', "feishu": '{"code":0}', "webhook": "thanks"}
    answers |= {"full": '{"errcode":45009}', "strange": "ok", "gone": ""}
    for name, answer in answers.items():
        (tmp_path / name).write_text(f"{robot}/{answer}\n" if name != "gone" else "http://127.0.0.1:1/\n")
    kinds = {name: name if name in (*relay.BODIES, "webhook") else "wecom" for name in [*answers, "nofile"]}
    (tmp_path / "relay.json").write_text(json.dumps({"receivers": kinds, "words": WORDS}))
    with http.server.HTTPServer(("127.0.0.1", 0), Robot) as free:
        port = free.server_address[1]
    command = [
        sys.executable,
        str(FILE),
        "--settings",
        str(tmp_path / "relay.json"),
        "--secrets",
        str(tmp_path),
        "--port",
        str(port),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def status(name: str, body: bytes) -> int:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", body, timeout=20) as response:
                    return int(response.status)
            except urllib.error.HTTPError as error:
                return error.code

        for _attempt in range(100):
            try:
                status("nobody", b"{}")
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        yield status
        process.terminate()
        assert process.stdout is not None
        assert robot not in process.stdout.read(), "the address of a robot is a secret"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("wecom", {"msgtype": "text", "text": {"content": TEXT}}),
        ("dingtalk", {"msgtype": "text", "text": {"content": TEXT}}),
        ("feishu", {"msg_type": "text", "content": {"text": TEXT}}),
        ("webhook", {"alerts": [ALERT]}),
    ],
)
def test_a_receiver_is_told(post: Any, name: str, body: dict[str, Any]) -> None:
    assert post(name, json.dumps({"alerts": [ALERT]}).encode()) == 200
    assert Robot.received == [body]


@pytest.mark.parametrize("name", ["full", "strange", "gone", "nofile"])
def test_what_a_robot_does_not_take_is_tried_again(post: Any, name: str) -> None:
    assert post(name, json.dumps({"alerts": [ALERT]}).encode()) == 502


@pytest.mark.parametrize(
    ("name", "body", "status"), [("nobody", b"{}", 404), ("wecom", b"[]", 400), ("wecom", b"{", 400)]
)
def test_what_is_no_webhook_is_refused(post: Any, name: str, body: bytes, status: int) -> None:
    assert post(name, body) == status
    assert Robot.received == []


def test_a_long_text_is_cut_between_characters() -> None:
    text = relay.text_of({"alerts": [ALERT] * 100}, WORDS)
    assert 1990 < len(text.encode()) <= relay.MOST_BYTES
    assert text.endswith("...")
    assert relay.text_of({"alerts": [{**ALERT, "status": "resolved"}]}, WORDS).startswith("[恢复]")
    assert relay.text_of({}, WORDS) == ""
