"""The probe restarts what is dead, and nothing else."""

from __future__ import annotations

import argparse
import contextlib
import http.server
import importlib.util
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

FILE = Path(__file__).parents[3] / "roles/vllm/files/llm-probe.py"
spec = importlib.util.spec_from_file_location("llm_probe", FILE)
assert spec is not None
assert spec.loader is not None
probe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(probe)

SEEN = {
    "container": "2026-01-01",
    "phase": "starting",
    "phase_since": 1000.0,
    "answer": "none",
    "computed": 0,
    "detail": "refused",
    "grace": 200.0,
}


def run(
    *looks: dict[str, Any], now: float = 5000.0, state: dict[str, Any] | None = None
) -> tuple[list[str], dict[str, Any]]:
    actions = []
    state = state or {}
    for look in looks:
        action, _line, state = probe.decide(state, {**SEEN, **look}, look.get("now", now), 3)
        actions.append(action)
    return actions, state


def test_it_restarts_after_three_failures_in_a_row() -> None:
    served = {"answer": "token"}
    assert run(served, {}, {}, {})[0] == ["none", "none", "none", "restart"]


def test_an_answer_in_between_starts_the_count_anew() -> None:
    served = {"answer": "token"}
    assert run(served, {}, {}, served, {}, {})[0].count("restart") == 0
    assert run(served, {}, {}, {"answer": "busy"}, {}, {})[0].count("restart") == 0


@given(st.floats(0, 199), st.integers(1, 50))
def test_it_never_restarts_what_is_loading(age: float, looks: int) -> None:
    assert "restart" not in run(*[{}] * looks, now=1000.0 + age)[0]


@given(st.floats(0, 1e6), st.integers(1, 50))
def test_it_never_restarts_what_waits_for_its_cluster_or_was_stopped(age: float, looks: int) -> None:
    assert "restart" not in run(*[{"phase": "waiting"}] * looks, now=1000.0 + age)[0]
    assert "restart" not in run(*[{"container": ""}] * looks, now=1000.0 + age)[0]


def test_a_start_that_takes_longer_than_its_grace_is_restarted() -> None:
    assert run({}, {}, {}, now=1000.0 + 201)[0][-1] == "restart"


def test_what_computed_for_others_is_no_start_any_more() -> None:
    """It began to serve and died before the probe had its first token."""
    assert run({}, {"computed": 5}, {"computed": 5}, {"computed": 5}, now=1010.0)[0] == [*["none"] * 3, "restart"]


def test_the_time_that_was_waited_is_no_part_of_the_start() -> None:
    waiting, loading = {"phase": "waiting"}, {"now": 5199.0}
    actions, state = run(waiting, loading, loading, loading)
    assert actions == ["none"] * 4
    assert run({}, {}, {}, now=5201.0, state=state)[0][-1] == "restart"


def test_it_counts_the_hosts_that_are_connected() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert probe.connected(port) == 0
        with contextlib.ExitStack() as stack:
            for host in ("127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.3"):
                stack.enter_context(socket.create_connection(server.getsockname(), source_address=(host, 0)))
            assert probe.connected(port) == 2  # its own connection does not count, nor a second one
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)):
            assert probe.connected(port) == 1


def test_a_new_container_has_its_own_grace() -> None:
    served = {"answer": "token"}
    young = {"container": "2026-01-02", "phase_since": 4990.0}
    assert "restart" not in run(served, {}, {}, young, young, young, young)[0]


def test_it_counts_restarts_until_one_helps() -> None:
    _actions, state = run({}, {}, {}, {}, {}, {})
    assert state["restarts"] == 2
    assert run({"answer": "token"}, state=state)[1]["restarts"] == 0


def test_the_time_for_loading_follows_from_bytes_and_the_measured_rate(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(3 << 20))
    (tmp_path / "config.json").write_text("{}")
    rate = probe.measured_rate(str(tmp_path), 1 << 20)
    assert rate > 0
    assert probe.start_seconds(str(tmp_path), 1 << 20) == pytest.approx(probe.BASE_SECONDS + 6, abs=0.1)
    assert probe.measured_rate(str(tmp_path / "nothing")) is None


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        allowed = self.headers["Authorization"] == "Bearer secret"
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(json.dumps({"usage": {"completion_tokens": body["max_tokens"]}}).encode())

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(
            b'vllm:prompt_tokens_total{engine="0"} 7.0\nvllm:generation_tokens_total{engine="0"} 1e1\nother_total 99\n'
        )

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_it_asks_as_a_client_does(url: str) -> None:
    assert probe.ask(url, "tiny", "secret", 5) == ("token", "")
    assert probe.ask(url, "tiny", "wrong", 5) == ("none", f"{url} answered 401")
    assert probe.ask("http://127.0.0.1:9", "tiny", "", 5)[0] == "none"


def test_it_reads_what_was_computed(url: str) -> None:
    assert probe.computed(url, 5) == 17
    assert probe.computed("http://127.0.0.1:9", 1) is None


@pytest.mark.parametrize(("per_look", "answer"), [(0, "none"), (1, "busy")])
def test_who_computes_for_others_is_busy(per_look: int, answer: str, tmp_path: Path) -> None:
    """What was computed before the probe asked says nothing of now."""
    looks = [7]
    asked = threading.Event()

    class Busy(Server):
        def do_POST(self) -> None:
            asked.wait(10)

        def do_GET(self) -> None:
            looks[0] += per_look
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"vllm:generation_tokens_total %d.0\n" % looks[0])

    options = argparse.Namespace(model="tiny", key="", timeout=0.2, followers=0, phase=str(tmp_path / "phase"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options.url = f"http://127.0.0.1:{server.server_port}"
        try:
            assert probe.look(options, 200.0)["answer"] == answer
        finally:
            asked.set()
            server.shutdown()


def test_what_hangs_is_asked_again_at_once_and_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and says nothing, as vLLM does whose ranks lost each other."""
    docker, calls = tmp_path / "docker", tmp_path / "calls"
    docker.write_text(f'#!/bin/sh\necho "$@" >> {calls}\necho 2026-01-01\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(probe, "AGAIN_SECONDS", 0)
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"container": "2026-01-01", "served": True, "bytes_per_second": 1e9}))
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        arguments = ["--weights", str(tmp_path), "--state", str(state), "--url", url, "--model", "tiny"]
        arguments += ["--key", "", "--phase", str(tmp_path / "phase"), "--timeout", "0.1"]
        monkeypatch.setattr("sys.argv", ["llm-probe.py", *arguments])
        monkeypatch.setattr(probe, "COUNTERS_SECONDS", 0.1)
        assert probe.main() == 0
    (*looks, last) = calls.read_text().splitlines()
    assert last == "restart llm-vllm"
    assert [look.split()[0] for look in looks] == ["inspect"] * 3
    assert json.loads(state.read_text())["restarts"] == 1
