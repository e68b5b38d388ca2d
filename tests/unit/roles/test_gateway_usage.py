"""The program that counts what the gateway's keys cost: from what replicas say to CSV, metrics and HAProxy's map."""

from __future__ import annotations

import csv
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs

NOW = 1764000000.0  # 2025-11-24, 16:00 UTC
MONTH = "2025-11"
# What the gateway has to hear, or it lets in no key with a limit.
LOOKED = "set table counting key counted data.gpt0 1"


def program() -> Any:
    return programs.load("gateway/files/llm-gateway-usage.py")


def said(process: str = "p1", **keys: tuple[int, int]) -> dict[str, Any]:
    """What a replica says: for each key the tokens of prompts and answers."""
    counts = {
        name: {"requests": 1, "prompt_tokens": prompt, "completion_tokens": answer, "estimated": 0}
        for name, (prompt, answer) in keys.items()
    }
    return {"process": process, "keys": counts}


def tokens(usage: Any) -> dict[str, int]:
    return {row["key"]: row["prompt_tokens"] + row["completion_tokens"] for row in usage.rows(MONTH)}


def test_only_what_is_new_is_added() -> None:
    usage = program().Usage({})
    assert usage.add("a", "qwen", said(alice=(10, 5)), NOW)
    assert not usage.add("a", "qwen", said(alice=(10, 5)), NOW)
    assert usage.add("a", "qwen", said(alice=(30, 5), bob=(1, 1)), NOW)
    assert tokens(usage) == {"alice": 35, "bob": 2}


def test_a_replica_that_begins_anew_and_one_with_several_processes() -> None:
    usage = program().Usage({})
    for process, count in (("p1", 10), ("p2", 4), ("p1", 12), ("p3", 1), ("p2", 4)):
        usage.add("a", "qwen", said(process, alice=(count, 0)), NOW)
    assert tokens(usage) == {"alice": 12 + 4 + 1}
    for number in range(100):
        usage.add("a", "qwen", said(f"later{number}", alice=(1, 0)), NOW)
    assert len(usage.processes["a"]) == 32
    assert tokens(usage) == {"alice": 117}


def test_what_was_counted_outlives_the_program() -> None:
    first = program().Usage({})
    first.add("a", "qwen", said(alice=(10, 5)), NOW)
    second = program().Usage(json.loads(json.dumps(first.state())))
    second.add("a", "qwen", said(alice=(11, 5)), NOW)
    assert tokens(second) == {"alice": 16}
    third = program().Usage(json.loads(json.dumps(second.state())))
    assert third.spent({"alice": 1}, NOW + 1) == {"alice"}, "a key that is over its limit stays so"


def test_a_month_ends_and_the_metrics_go_on() -> None:
    usage = program().Usage({})
    usage.add("a", "qwen", said(alice=(10, 5)), NOW)
    usage.add("a", "qwen", said(alice=(12, 5)), NOW + 7 * 86400)
    assert tokens(usage) == {"alice": 15}
    (row,) = usage.rows("2025-12")
    assert row == {
        "month": "2025-12",
        "key": "alice",
        "model": "qwen",
        "requests": 0,
        "prompt_tokens": 2,
        "completion_tokens": 0,
        "estimated": 0,
    }
    assert 'llm_gateway_usage_total{key="alice",model="qwen",kind="prompt_tokens"} 12\n' in usage.metrics()


@pytest.mark.parametrize(("limit", "expected"), [(100, {"alice"}), (101, set()), (0, set())])
def test_a_limit_looks_at_the_last_minute(limit: int, expected: set[str]) -> None:
    usage = program().Usage({})
    # What a process had counted before it was first seen may be long ago.
    usage.add("a", "qwen", said(alice=(1000, 0)), NOW)
    usage.add("a", "qwen", said(alice=(1050, 0)), NOW + 1)
    usage.add("a", "qwen", said(alice=(1050, 50)), NOW + 30)
    assert usage.spent({"alice": limit}, NOW + 31) == expected
    assert usage.spent({"alice": limit}, NOW + 62) == set()


WRONG = [
    None,
    True,
    -1,
    1.5,
    10**30,
    "5",
    [],
    {},
    {"alice": 1},
    {"alice": {"prompt_tokens": "many"}},
    [["a", "b", "c"]],
    [[1, "alice"]],
]


@pytest.mark.parametrize("part", ["process", "keys", "counts", "kind"])
def test_a_wrong_answer_counts_nothing_and_ends_nothing(part: str) -> None:
    """Of each part that a replica says, with what it cannot be."""
    for wrong in WRONG:
        usage = program().Usage({})
        usage.add("a", "qwen", said(alice=(10, 5)), NOW)
        kinds: Any = {"prompt_tokens": 11, "completion_tokens": 5}
        keys = {"alice": {**kinds, "prompt_tokens": wrong} if part == "kind" else wrong if part == "counts" else kinds}
        usage.add(
            "a",
            "qwen",
            {"process": wrong if part == "process" else "p1", "keys": wrong if part == "keys" else keys},
            NOW,
        )
        usage.add("a", "qwen", said(alice=(12, 5), **{"x y\nflush": (1, 1)}), NOW)
        assert set(tokens(usage)) == {"alice"}, wrong
        json.dumps(usage.state())
        usage.metrics()


@pytest.mark.parametrize("place", ["all", "processes", "months", "recent", "month", "key", "model", "row"])
def test_a_damaged_state_is_read_as_far_as_it_can_be(place: str) -> None:
    for wrong in WRONG:
        first = program().Usage({})
        first.add("a", "qwen", said(alice=(10, 5)), NOW)
        first.add("a", "qwen", said(alice=(11, 5)), NOW)
        state = json.loads(json.dumps(first.state()))
        months = state["months"]
        deeper = {"month": (months, MONTH), "key": (months[MONTH], "alice"), "model": (months[MONTH]["alice"], "qwen")}
        holder, name = deeper.get(place) or ((state["recent"], 0) if place == "row" else (state, place))
        holder[name] = wrong
        usage = program().Usage(wrong if place == "all" else state)
        usage.add("a", "qwen", said("p2", alice=(1, 0)), NOW)
        usage.spent({"alice": 1}, NOW)
        usage.metrics()
        assert tokens(usage)["alice"] >= 1, wrong
        program().Usage(json.loads(json.dumps(usage.state())))


class Replica(http.server.BaseHTTPRequestHandler):
    """What the server's program answers at /usage."""

    answer: Any = None

    def do_GET(self) -> None:
        good = self.path == "/usage" and self.headers["Authorization"] == "Bearer of-the-gateway"
        self.send_response(200 if good else 404)
        self.end_headers()
        self.wfile.write(json.dumps(type(self).answer).encode() if good else b"{}")

    def log_message(self, *_dummy: Any) -> None:
        pass


@contextmanager
def haproxy(path: Path, held: set[str]) -> Iterator[list[str]]:
    """As much of HAProxy's socket as maps need."""
    asked: list[str] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            while True:
                connection, _address = server.accept()
                with connection:
                    line = connection.recv(4096).decode().strip()
                    if line == "end":
                        return
                    asked.append(line)
                    shown = "".join(f"0x55d1 {key} 1\n" for key in sorted(held)) if line.startswith("show") else "\n"
                    connection.sendall(shown.encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield asked
        program().command("end", str(path))
        thread.join()


def test_one_look_from_the_replica_to_the_files_and_the_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Replica)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    gone = socket.create_server(("127.0.0.1", 0))
    port = gone.getsockname()[1]
    gone.close()
    (tmp_path / "node").mkdir()
    (tmp_path / "replicas.map").write_text("all of-the-gateway\n")
    config = {
        "seconds": 2,
        "limits": {"alice": 0, "bob": 20},
        "replicas": [
            {"name": "a", "model": "qwen", "address": "127.0.0.1", "port": server.server_port},
            {"name": "b", "model": "qwen", "address": "127.0.0.1", "port": port},
        ],
        "key_file": str(tmp_path / "replicas.map"),
        "spent_map": "/etc/spent.map",
        "admin": str(tmp_path / "admin.sock"),
        "folder": str(tmp_path),
        "textfile_folder": str(tmp_path / "node"),
    }
    (tmp_path / "usage.json.config").write_text(json.dumps(config))
    # The program was there before, so what comes now is of this minute.
    (tmp_path / "usage.json").write_text(json.dumps({"processes": {"a": {"p1": {}}}}))
    Replica.answer = said(alice=(100, 5), bob=(10, 10))
    monkeypatch.setattr("sys.argv", ["usage", "--once", "--config", str(tmp_path / "usage.json.config")])
    with haproxy(tmp_path / "admin.sock", {"carol"}) as asked:
        assert program().main() == 0
    server.shutdown()
    server.server_close()
    assert asked == ["show map /etc/spent.map", "add map /etc/spent.map bob 1", "del map /etc/spent.map carol", LOOKED]
    (table,) = tmp_path.glob("usage-*.csv")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [(row["key"], row["model"], row["prompt_tokens"], row["completion_tokens"]) for row in rows] == [
        ("alice", "qwen", "100", "5"),
        ("bob", "qwen", "10", "10"),
    ]
    assert table.name == f"usage-{rows[0]['month']}.csv"
    assert 'key="bob",model="qwen",kind="completion_tokens"} 10' in (tmp_path / "node/llm_gateway.prom").read_text()
    # A disk that is full opens no limit.
    Replica.answer = said(alice=(100, 5), bob=(50, 50))
    table.rename(tmp_path / "aside")
    table.mkdir()
    (tmp_path / "admin.sock").unlink()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", server.server_port), Replica)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    with haproxy(tmp_path / "admin.sock", set()) as asked:
        assert program().main() == 0
    server.shutdown()
    server.server_close()
    assert asked == ["show map /etc/spent.map", "add map /etc/spent.map bob 1", LOOKED]
    assert "What was counted is not written" in capsys.readouterr().err
    table.rmdir()
    (tmp_path / "aside").rename(table)
    # HAProxy is away: what was counted stays counted.
    (tmp_path / "admin.sock").unlink()
    assert program().main() == 0
    assert "HAProxy does not answer" in capsys.readouterr().err
