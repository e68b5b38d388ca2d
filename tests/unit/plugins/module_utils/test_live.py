"""What runs on a host: read from an engine, a probe, systemd and a Prometheus that answer as real ones, half, or not at all."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _live as live
from ansible_collections.baremetal.llm.plugins.module_utils._left import synchronized
from ansible_collections.baremetal.llm.plugins.module_utils._rehash import STATE_NAME
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.told import figures

METRICS = """# HELP vllm:num_requests_running Number of requests
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
vllm:num_requests_running{engine="1",model_name="tiny"} 1.0
vllm:num_requests_waiting{model_name="tiny"} 0.0
vllm:gpu_cache_usage_perc{model_name="tiny"} 0.25
vllm:generation_tokens_total{model_name="tiny"} 1.5e+03
vllm:inter_token_latency_seconds_sum{model_name="tiny"} 30.0
vllm:inter_token_latency_seconds_count{model_name="tiny"} 1000.0
vllm:some_other_total 7.0
"""
INSPECTED = {
    "Name": "/llm-vllm",
    "Image": "sha256:0a",
    "RestartCount": 4,
    "Args": ["--port=8000", "--node-rank", "1", "--model", "/m", "--api-key", "secret"],
    "Config": {"Image": "vllm:1", "Env": ["NCCL_SOCKET_IFNAME=eth1", "HF_TOKEN=secret", "VLLM_API_KEY=secret"]},
    "State": {
        "Status": "running",
        "ExitCode": 0,
        "OOMKilled": False,
        "StartedAt": "2026-11-27T23:45:12.5Z",
        "FinishedAt": "0001-01-01T00:00:00Z",
    },
}


class FakePrograms:
    """Programs of a host by name: what each answers, with its status."""

    def __init__(self, **answers: tuple[int, str, str]) -> None:
        self.answers = answers
        self.asked: list[list[str]] = []

    def path(self, name: str) -> str:
        return name if name in self.answers else ""

    def run(self, command: list[str], must_succeed: bool = False) -> tuple[int, str, str]:
        self.asked.append(command)
        return self.answers[command[0]]

    def answer(self, name: str, *arguments: str) -> str:
        status, out, _err = self.run([name, *arguments]) if self.path(name) else (1, "", "")
        return out if status == 0 else ""


@contextmanager
def web(pages: dict[str, str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = pages.get(self.path.split("?")[0], "").encode()
            self.send_response(200 if content else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_container_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "ask_engine_list", lambda _question, _path: [{"Id": "1"}, {"Id": "gone"}])
    monkeypatch.setattr(live, "ask_engine", lambda question, _path: INSPECTED if "/1/" in question else None)
    (found,) = live.own_containers(addresses=["VLLM_HOST_IP"]) or []
    assert "secret" not in json.dumps(found)
    assert found["arguments"] == {"port": "8000", "node-rank": "1"}
    assert found["environment"] == {"NCCL_SOCKET_IFNAME": "eth1"}
    assert (found["name"], found["restarts"], found["started"], found["finished"]) == (
        "llm-vllm",
        4,
        1795823112.0,
        None,
    )
    monkeypatch.setattr(live, "ask_engine_list", lambda _question, _path: None)
    assert live.own_containers() is None


def test_units_that_systemd_knows() -> None:
    said = (
        "Id=llm-vllm.service\nLoadState=loaded\nActiveState=active\nSubState=running\nNRestarts=2\nResult=success\n"
        "ActiveEnterTimestampMonotonic=5000000\n\nId=llm-probe.timer\nLoadState=loaded\nActiveState=active\n"
    )
    probe, server = live.own_units(FakePrograms(systemctl=(0, said, "")))  # type: ignore[arg-type]
    assert (probe["name"], probe["restarts"], probe["started"]) == ("llm-probe.timer", None, None)
    assert server["started"] == pytest.approx(time.time() - time.monotonic() + 5, abs=1)
    assert live.own_units(FakePrograms()) == []  # type: ignore[arg-type]


def test_what_an_engine_counts() -> None:
    assert live.metrics_of(METRICS, figures()) == {
        "running": 3.0,
        "waiting": 0.0,
        "kv_use": 0.25,
        "generated_tokens": 1500.0,
        "token_seconds": 30.0,
        "token_gaps": 1000.0,
    }
    with web({"/metrics": METRICS, "/other/metrics": "<html>"}) as url:
        assert live.ask_metrics(url, figures())["figures"]["running"] == 3.0
        assert live.ask_metrics(url + "/other", figures())["error"]
    assert "Error" in live.ask_metrics(url, figures())["error"], "nobody listens there now"


def test_where_the_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [{"name": "llm-vllm-a", "arguments": {"host": "0.0.0.0", "port": "8001"}}]
    assert live.server_url("-a", told, 8000) == "http://127.0.0.1:8001"
    assert live.server_url("", told, 8000) == "http://127.0.0.1:8000"
    told[0]["arguments"] = {"host": "fd00::1"}
    assert live.server_url("-a", told, 8000) == "http://[fd00::1]:8000"
    unit = 'ExecStart="/usr/bin/env" "python3" "--url" "http://10.0.0.1:8000" "--model" "x"'
    monkeypatch.setattr(live, "read", lambda path: unit if path.endswith("llm-probe-a.service") else "")
    assert live.server_url("-a", told, 8000) == "http://10.0.0.1:8000"
    assert live.server_name("-a") == "llm-vllm-a"
    unit += ' "--server=llm-llama_cpp" --key /opt/llm/secrets/llama_cpp_api_key'
    assert (live.server_name("-a"), live.server_name("")) == ("llm-llama_cpp-a", "llm-vllm")
    assert live.probe_option("-a", "key") == "/opt/llm/secrets/llama_cpp_api_key"
    assert live.probe_option("", "key") == ""


def test_what_the_probe_found_and_when(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    path.write_text(
        json.dumps({"form": 2, "llm-vllm": {"kind": "serving", "now": now - 7, "turns": {}}, "measured": {}})
    )
    (word,) = live.probe_words(str(path)).values()
    assert (word["kind"], word["counters"], "turns" in word) == ("serving", {}, False)
    assert word["age"] == pytest.approx(7, abs=2)
    for text in ("", "{", "[]", '{"llm-vllm": 3}'):
        path.write_text(text)
        assert live.probe_words(str(path)) == {}


def test_errors_that_the_driver_logged() -> None:
    lines = "1790000000.5 gpu01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    found = live.xids(FakePrograms(journalctl=(0, lines, "")))  # type: ignore[arg-type]
    assert found == [{"time": 1790000000.5, "bus_id": "0000:3b:00", "xid": 79, "action": "reboot"}]
    nothing = FakePrograms(journalctl=(1, "", ""))
    assert live.xids(nothing) is None, "a journal without a line of the kernel"  # type: ignore[arg-type]
    nothing.run = lambda command, **_more: (0, "a line", "") if "--lines" in command else (1, "", "")  # type: ignore[method-assign]
    assert live.xids(nothing) == [], "no line fits"  # type: ignore[arg-type]
    assert live.xids(FakePrograms()) is None  # type: ignore[arg-type]


def test_what_waits_in_ray() -> None:
    said = "Demands:\n {'GPU': 1.0} * 2 (PACK): 1+ pending placement groups\n"
    programs = FakePrograms(docker=(0, said, ""))
    assert live.pending_groups(programs, "llm-ray") == ["{'GPU': 1.0} * 2 (PACK)"]  # type: ignore[arg-type]
    none = FakePrograms(docker=(0, "Demands:\n (no resource demands)\n", ""))
    assert live.pending_groups(none, "llm-ray") == []  # type: ignore[arg-type]
    assert live.pending_groups(FakePrograms(docker=(1, "", "no Ray")), "llm-ray") is None  # type: ignore[arg-type]


def test_logs_are_read_of_what_is_not_well() -> None:
    programs = FakePrograms(docker=(0, "end of the log", ""), journalctl=(0, "of the unit", ""))
    container = {"name": "llm-vllm-a", "state": "running", "restarts": 0, "arguments": {}}
    found: Any = {"containers": [container], "units": [], "probe": {"llm-vllm": {"kind": "serving"}}}
    live.add_causes(found, programs, "-a")  # type: ignore[arg-type]
    assert (found["logs"], found["pending"]) == ({}, None)
    found["probe"]["llm-vllm"]["kind"] = "crashing"
    live.add_causes(found, programs, "-a")  # type: ignore[arg-type]
    assert found["logs"] == {"llm-vllm-a": "end of the log"}
    found.update(containers=None, units=[{"name": "llm-vllm-a.service", "state": "failed", "restarts": 0}])
    live.add_causes(found, programs, "-a")  # type: ignore[arg-type]
    assert found["logs"] == {"llm-vllm-a": "of the unit"}


def test_a_certificate_leaves_its_key_where_it_is(tmp_path: Path) -> None:
    pem, block = tmp_path / "a.pem", "-----BEGIN {0}-----\nx\n-----END {0}-----\n"
    pem.write_text(block.format("PRIVATE KEY") + block.format("CERTIFICATE"))
    found = live.certificates([str(pem), "/nowhere"])
    assert found == {str(pem): block.format("CERTIFICATE").strip(), "/nowhere": None}


def test_series_of_prometheus() -> None:
    result = [{"metric": {"host": "a"}, "values": [[1, "2.5"]]}]
    page = json.dumps({"data": {"result": result}})
    with web({"/api/v1/query_range": page, "/odd/api/v1/query_range": "[]"}) as url:
        assert live.series(url, {"free": "x"}, 60, 10) == {"free": [{"labels": {"host": "a"}, "values": [[1.0, 2.5]]}]}
        assert live.series(url + "/odd", {"free": "x"}, 60, 10) is None
    assert live.series(url, {"free": "x"}, 60, 10) is None


def test_models_and_disks(tmp_path: Path) -> None:
    noted = {"org--a/x": {"sha256": "1"}, "org--a/y": {"sha256": "2"}, "org--b/x": {"sha256": "1"}, "odd": 3}
    (tmp_path / STATE_NAME).write_text(json.dumps(noted))
    found = live.models(str(tmp_path))
    assert sorted(found) == ["org--a", "org--b"]
    assert len(set(found.values())) == 2
    (disk,) = live.disks([str(tmp_path), str(tmp_path / "not/yet")])
    assert 0 <= disk["available_bytes"] <= disk["total_bytes"]
    assert set(disk) == {"mount", "total_bytes", "available_bytes", "files", "files_free"}


def test_the_clock_of_a_host() -> None:
    for said, expected in (("yes\n", True), ("no\n", False), ("", None)):
        assert synchronized(FakePrograms(timedatectl=(0, said, ""))) is expected  # type: ignore[arg-type]
    assert [live.moment(text) for text in ("1970-01-01T00:01:00Z", "0001-01-01T00:00:00Z", None)] == [60.0, None, None]


def test_the_firmware_of_a_card_that_is_none() -> None:
    assert live.card_firmware("lo") is None
    assert live.card_firmware("no-such-card") is None
