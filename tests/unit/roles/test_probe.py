"""The probe restarts what is dead, and nothing else: what it decides, as a state machine."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _xid
from hypothesis import given
from hypothesis import strategies as st

from tests.support import programs

probe = programs.load("common/files/llm-probe.py")

LIMITS = probe.Limits(failures=3, grace=200.0, silence=35.0, gap=70.0)
# A server that has the probe's request and says nothing, with counters that stand still.
SEEN = {
    "took": 10.0,
    "container": "first",
    "waiting": False,
    "answer": "silent",
    "detail": "no whole answer within 10 s",
    "counters": {"prompt_tokens_total": 7.0, "num_requests_running": 1.0},
    "turns": {},
    "lost": "",
    "causes": [],
}
TOKEN = {"answer": "token"}
STILL = {"vllm (1)": [0]}
REFUSING = {"answer": "error", "detail": "Connection refused", "counters": None, "took": 0.1}


class Server:
    """Looks at a made-up server, one after another, at the probe's own pace."""

    def __init__(self, state: dict[str, Any] | None = None, **limits: Any) -> None:
        self.state, self.limits = state or {}, LIMITS._replace(**limits)
        self.now, self.moves, self.lines = 1000.0, 0, [""]

    def look(self, passed: float = 10.0, **seen: Any) -> str:
        """One look, so many seconds after the last. With ``moves`` the counters do; turns do unless they are given."""
        self.now += passed
        self.moves += 1
        if seen.pop("moves", False):
            seen["counters"] = {"prompt_tokens_total": 7.0, "kv_cache_usage_perc": self.moves / 1e6}
        action, line, self.state = probe.decide(
            self.state, {**SEEN, "turns": {"vllm (1)": [self.moves]}, **seen, "now": self.now}, self.limits
        )
        self.lines.append(line)
        return str(action)

    def until_restart(self, passed: float = 10.0, most: int = 1000, **seen: Any) -> float | None:
        """Seconds from the end of the last good look until the restart; None if there is none in so many looks."""
        began = self.now
        for _look in range(most):
            if self.look(passed, **seen) == "restart":
                return self.now - began
        return None


def serving(**limits: Any) -> Server:
    server = Server(**limits)
    assert server.look(**TOKEN) == "none"
    return server


# -- what counts as alive ---------------------------------------------------------------------------------------------
def test_a_token_is_life_whatever_else_was_seen() -> None:
    server = serving()
    odd = {"counters": None, "turns": STILL, "lost": "node2", "waiting": True}
    assert {server.look(**TOKEN, **odd) for _look in range(100)} == {"none"}
    assert server.lines[-1] == "serving"


@given(st.lists(st.sampled_from(["token", "silent", "error"]), max_size=100))
def test_who_computes_is_never_restarted(answers: list[str]) -> None:
    """Minutes of full load, or one long prompt in chunks: no token for the probe, but the counters move."""
    server = serving()
    for answer in answers:
        assert server.look(answer=answer, moves=True) == "none"


@given(st.integers(1, 1000), st.floats(0.1, 1000))
def test_an_answer_below_500_is_never_a_reason(looks: int, passed: float) -> None:
    """The key was rotated, or the model renamed: the server is well."""
    server = serving()
    refused = {"answer": "refused", "detail": "answered 401", "turns": STILL, "lost": "node2"}
    assert server.until_restart(passed, most=looks, **refused) is None
    assert server.lines[-1].startswith("refused: answered 401")


def test_life_in_between_starts_the_count_anew() -> None:
    for life in (TOKEN, {"moves": True}, {"answer": "refused"}):
        server = serving()
        for _time in range(20):
            assert [server.look(), server.look(), server.look(**life)] == ["none"] * 3


# -- how long silence has to last -------------------------------------------------------------------------------------
def test_a_silent_engine_is_restarted_after_its_time_and_no_sooner() -> None:
    assert serving().until_restart() == 40  # looks of 10 s: 10, 20, 30, 40
    assert serving(silence=120.0).until_restart() == 120
    assert serving(failures=9).until_restart() == 90


def test_errors_that_return_at_once_are_no_proof_for_half_a_minute() -> None:
    seconds = serving().until_restart(5, **REFUSING)
    assert seconds is not None
    assert probe.ERROR_SECONDS <= seconds <= probe.ERROR_SECONDS + 10


def test_without_counters_silence_has_to_be_long() -> None:
    """Log stats are off, or /metrics is slow: it may be busy with others."""
    seconds = serving().until_restart(10, counters=None)
    assert seconds is not None
    assert probe.UNKNOWN_SECONDS <= seconds <= probe.UNKNOWN_SECONDS + 20


def test_counters_that_came_only_once_are_none_that_stand_still() -> None:
    server = serving()
    server.look(counters=None)
    assert server.until_restart(10, most=50, counters=None) is None


@pytest.mark.parametrize("passed", [0.0, -1e6, 1e6])
def test_no_jump_of_the_clock_makes_a_silence_longer(passed: float) -> None:
    """Boot time does not jump; were it to, as on a host that was halted between two looks, it would count little."""
    server = serving(gap=20.0)
    assert server.look() == "none"
    assert server.look(passed) == "none"
    loading = Server(gap=20.0)
    loading.look(**REFUSING)
    assert {loading.look(1e6, **REFUSING) for _look in range(9)} == {"none"}


@given(st.lists(st.tuples(st.floats(0, 1e4), st.sampled_from(["silent", "error"])), max_size=60))
def test_no_restart_before_so_many_failures_and_seconds(looks: list[tuple[float, str]]) -> None:
    server = serving()
    silent = 0.0
    for failed, (passed, answer) in enumerate(looks, start=1):
        action = server.look(passed, answer=answer)
        silent += min(passed, LIMITS.gap) if failed > 1 else SEEN["took"]
        if action == "restart":
            assert failed >= LIMITS.failures
            assert silent >= min(LIMITS.silence, probe.ERROR_SECONDS)
            return
        assert failed < LIMITS.failures or silent < LIMITS.silence


def test_the_silence_that_is_allowed_follows_from_a_start() -> None:
    def silence(**measured: float) -> float:
        options = type("options", (), {"start_seconds": None, "weights": "/nowhere", "failures": 3, "interval": 10})
        return float(probe.limits_of(options, measured)[1].silence)

    assert silence(start_seconds=10.0) == probe.SILENCE_LEAST == 30
    assert silence(start_seconds=100.0) == probe.SILENCE_SECONDS + 50 == 60
    assert silence(start_seconds=5000.0) == probe.SILENCE_MOST


# -- what was seen besides --------------------------------------------------------------------------------------------
def test_a_member_that_died_needs_one_failure() -> None:
    server = serving()
    assert server.look(lost="node2") == "restart"
    assert "lost node2" in server.lines[-1]
    # Where that did not help, there is no hurry.
    assert server.until_restart(5, lost="node2") == 2 * probe.ERROR_SECONDS - SEEN["took"] + 5


def test_a_frozen_process_needs_no_counters() -> None:
    """One of several is enough, and two looks see it."""
    server = serving()
    assert server.look(turns={"vllm (1)": [1], "VLLM::EngineCor (2)": [7]}, counters=None) == "none"
    assert server.look(turns={"vllm (1)": [2], "VLLM::EngineCor (2)": [7]}, counters=None) == "restart"
    assert server.lines[-1] == "failed 2 of 2, silent for 20 s of 20 s: frozen: VLLM::EngineCor (2)"


def test_a_process_that_is_new_is_not_frozen() -> None:
    """It has had as many turns as the one before it."""
    server = serving(failures=1)
    assert [server.look(turns={f"VLLM::Worker ({pid})": [7]}, counters=None) for pid in range(20)] == ["none"] * 20


def test_docker_that_does_not_answer_hides_nothing() -> None:
    assert serving().until_restart(container=None) == 40
    assert Server().until_restart(container=None, most=50) is None


# -- starts -----------------------------------------------------------------------------------------------------------
@given(st.floats(0, 199), st.integers(1, 50))
def test_it_never_restarts_what_is_loading(seconds: float, looks: int) -> None:
    assert Server().until_restart(seconds / looks, most=looks, **REFUSING) is None


@given(st.floats(0, 1e6), st.integers(1, 50))
def test_it_never_restarts_what_waits_for_its_cluster_or_was_stopped(passed: float, looks: int) -> None:
    assert Server().until_restart(passed, most=looks, waiting=True, **REFUSING) is None
    for server in (Server(), serving()):
        assert server.until_restart(passed, most=looks, container="", **REFUSING) is None


def test_a_start_that_takes_longer_than_its_grace_is_restarted() -> None:
    seconds = Server().until_restart(**REFUSING)
    assert seconds is not None
    assert LIMITS.grace <= seconds <= LIMITS.grace + probe.ERROR_SECONDS + 20


def test_each_start_that_was_too_short_gets_twice_the_time() -> None:
    """The disk of another host may be slower than the head's."""
    server, took = Server(), []
    for start in range(6):
        seconds = server.until_restart(container=f"start {start}", **REFUSING)
        assert seconds is not None
        took.append(seconds)
    assert [took[n] >= LIMITS.grace * 2 ** min(n, probe.DOUBLINGS) for n in range(6)] == [True] * 6
    assert took[4] == pytest.approx(took[5], abs=20)
    assert server.look(container="start 6", **TOKEN) == "none"
    assert server.state["restarts"] == 0


def test_the_time_that_was_waited_is_no_part_of_the_start() -> None:
    server = Server()
    for _look in range(100):
        server.look(waiting=True, **REFUSING)
    seconds = server.until_restart(**REFUSING)
    assert seconds is not None
    assert seconds >= LIMITS.grace


def test_what_computed_for_others_is_no_start_any_more() -> None:
    """It began to serve and died before the probe had its first token."""
    server = Server()
    server.look()
    assert server.until_restart() == 30


def test_a_new_container_has_its_own_grace() -> None:
    server = serving()
    assert server.until_restart(5, most=30, container="second", **REFUSING) is None
    assert server.lines[-1].startswith("loading: ")


def test_it_learns_how_long_a_start_takes() -> None:
    server = Server()
    for _look in range(6):
        server.look(**REFUSING)
    server.look(**TOKEN)
    assert server.state["start_seconds"] == 50
    for _look in range(9):
        server.look(**TOKEN)
    assert server.state["start_seconds"] == 50


def test_a_crash_loop_does_not_look_like_loading() -> None:
    server = serving()
    for start in range(1, 6):
        for _look in range(3):
            causes = ["a warning", f"ValueError: {start}"]
            assert server.look(container=f"start {start}", causes=causes, **REFUSING) == "none"
        kind = "crashing" if start >= probe.CRASH_STARTS else "loading"
        assert server.lines[-1].startswith(kind)
    assert server.lines[-1] == "crashing: 5 starts without a token; last: ValueError: 5"
    assert server.state["causes"] == ["a warning", "ValueError: 5"]
    server.look(container="start 5", **TOKEN)
    server.look(container="start 6", **REFUSING)
    assert server.lines[-1].startswith("loading")


# -- a container of which no token can be asked -----------------------------------------------------------------------
class Member:
    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.now, self.lines = 0.0, [""]

    def look(self, passed: float = 5.0, container: str | None = "first", **turns: int) -> str:
        self.now += passed
        seen = {"now": self.now, "container": container, "turns": {name: [turn] for name, turn in turns.items()}}
        seen["names"] = [name for name in turns if name == "raylet"]
        action, line, self.state = probe.watch(self.state, seen, LIMITS._replace(gap=20.0))
        self.lines.append(line)
        return str(action)


def test_one_process_that_stands_still_is_enough() -> None:
    member = Member()
    actions = [member.look(raylet=1, main=turn) for turn in range(6)]
    assert actions == ["none", "none", "none", "none", "restart", "none"]
    assert member.lines[5] == "failed 4 of 3, standing still for 20 s of 20 s: raylet"


def test_a_process_that_has_to_stay_and_ended_is_missed() -> None:
    """Ray's container outlives a raylet that ended in good order. A rank comes and goes with the server that uses it."""
    member = Member()
    there = [member.look(main=1), member.look(main=2, raylet=2, rank=2), member.look(main=3, raylet=3)]
    assert there == ["none"] * 3
    assert [member.look(main=turn) for turn in range(4, 9)] == ["none", "none", "none", "restart", "none"]
    assert member.lines[7] == "failed 4 of 3, standing still for 20 s of 20 s: raylet, which ended"
    assert [member.look(main=turn, container="second") for turn in range(20)] == ["none"] * 20


@given(st.lists(st.floats(0, 1e5), max_size=60))
def test_what_moves_is_never_restarted(pauses: list[float]) -> None:
    member = Member()
    for turn, passed in enumerate(pauses):
        assert member.look(passed, raylet=turn, main=turn) == "none"


def test_a_host_that_stood_still_as_a_whole_is_no_frozen_process() -> None:
    member = Member()
    member.look(main=1)
    assert [member.look(1e6, main=1), member.look(1e6, main=2), member.look(main=3)] == ["none"] * 3


def test_a_member_that_was_stopped_stays_so() -> None:
    member = Member()
    assert {member.look(container=container) for container in ("first", "", "")} == {"none"}
    assert member.lines[-1].startswith("stopped")


def test_what_freezes_again_at_once_is_restarted_less_often() -> None:
    member, restarts = Member(), []
    for look in range(100):
        if member.look(main=1, container=f"start {len(restarts)}") == "restart":
            restarts.append(look)
    assert [later - earlier for earlier, later in itertools.pairwise(restarts)][:4] == [9, 17, 33, 33]


# -- what it reads ----------------------------------------------------------------------------------------------------
def test_it_counts_the_hosts_that_are_connected_and_misses_one_that_starts_anew() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert probe.connections(port) == {}

        def connect(host: str) -> socket.socket:
            return socket.create_connection(server.getsockname(), source_address=(host, 0))

        with contextlib.ExitStack() as stack:
            for host in ("127.0.0.1", "127.0.0.2", "127.0.0.2"):
                stack.enter_context(connect(host))
            with connect("127.0.0.3"):
                before = probe.connections(port)
                assert len(before) == 2  # its own connection does not count
                assert probe.gone(before, before) == []
            # It is there again, as another process.
            stack.enter_context(connect("127.0.0.3"))
            after = probe.connections(port)
            assert len(after) == 2
            assert probe.gone(before, after) == ["0300007F"]
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)):
            assert len(probe.connections(port)) == 1


def test_a_stopped_process_gets_no_turn() -> None:
    program = "import time\nwhile True: time.sleep(0.02)"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            born = probe.born(process.pid)
            assert born

            def moves() -> bool:
                before = probe.turns(process.pid)
                deadline = time.monotonic() + 10
                while probe.turns(process.pid) == before and time.monotonic() < deadline:
                    time.sleep(0.05)
                return bool(probe.turns(process.pid) != before)

            assert moves()
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            before = probe.turns(process.pid)
            time.sleep(0.3)
            assert probe.turns(process.pid) == before
            process.send_signal(signal.SIGCONT)
            assert moves()
            assert probe.born(process.pid) == born
            name = Path(f"/proc/{process.pid}/comm").read_text().strip()
            called = f"{name} ({process.pid})"
            assert called in probe.processes(os.getppid(), [name])  # not only children
            assert list(probe.processes(process.pid)) == [called]
            assert called not in probe.processes(os.getpid(), ["other"])
        finally:
            process.kill()
    assert probe.turns(process.pid) is None
    assert probe.born(process.pid) == ""


def test_the_time_for_loading_follows_from_bytes_and_the_measured_rate(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(3 << 20))
    (tmp_path / "config.json").write_text("{}")
    rate = probe.measured_rate(str(tmp_path), 1 << 20)
    assert rate > 0
    assert probe.start_seconds(str(tmp_path), 1 << 20) == pytest.approx(probe.BASE_SECONDS + 6, abs=0.1)
    assert probe.measured_rate(str(tmp_path / "nothing")) is None


GIVEN_UP = {"status": "exited", "exit_code": 128, "error": "no such file or directory: /dev/nvidia-uvm"}


@pytest.mark.parametrize(
    ("left", "action"),
    [
        (GIVEN_UP, "restart"),
        ({**GIVEN_UP, "status": "created"}, "restart"),
        ({**GIVEN_UP, "exit_code": 137}, "restart"),  # a restart that failed
        ({**GIVEN_UP, "exit_code": 0, "error": ""}, "none"),  # stopped by somebody
        ({**GIVEN_UP, "exit_code": 137, "error": ""}, "none"),
        ({**GIVEN_UP, "exit_code": 1, "error": ""}, "none"),  # its restart policy's business
        ({}, "none"),
    ],
)
def test_what_the_engine_gave_up_at_boot_is_started(left: dict[str, Any], action: str) -> None:
    seen = {**SEEN, "container": "", "left": left, "now": 1.0}
    assert probe.decide({}, seen, LIMITS)[0] == action
    watched, line, _state = probe.watch({}, {**seen, "names": []}, LIMITS)
    assert watched == action
    assert (f"exit {left.get('exit_code')}: no such file" in line) == (action == "restart")


def test_gpus_that_a_reload_of_systemd_took_away_come_back_with_what_lies_below() -> None:
    gone = ["RuntimeError: Failed to initialize NVML: Unknown Error"]
    server, actions = Server(), []
    for start in range(6):
        actions.append(server.look(container=f"start {start}", causes=gone, answer="error", counters=None))
    assert actions.count("restart") == 1
    assert server.state["restarts"] % 2 == 0
    assert any(line.startswith("lost the GPUs") for line in server.lines)


# -- faults of GPUs ---------------------------------------------------------------------------------------------------
def test_a_new_fault_of_a_gpu_takes_the_deployment_out_of_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was logged before the first look is only noted, a program's own fault drains nothing, and a mark that somebody took away stays away."""
    monkeypatch.setitem(sys.modules, "xid", _xid)
    log, mark = tmp_path / "kmsg", tmp_path / "drained"
    options = argparse.Namespace(kernel_log=str(log), url="http://127.0.0.1:8000", state=str(tmp_path / "state.json"))
    log.write_text("6,7,100,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1\ngarbage\n")
    state = probe.gpu_step(options, {})
    assert (state, mark.exists()) == ({"number": 7}, False)
    log.write_text(log.read_text() + "6,8,200,-;NVRM: Xid (PCI:0000:3b:00): 13, pid=1\n6,9,200,c;eth0: link is up\n")
    state = probe.gpu_step(options, state)
    assert (state, mark.exists()) == ({"number": 9}, False)
    log.write_text(log.read_text() + "4,10,300,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n")
    state = probe.gpu_step(options, state)
    assert (state["number"], mark.read_text()) == (10, "GPU 0000:3b:00: Xid 79, reboot\n")
    assert "drain.yml" in capsys.readouterr().out
    mark.unlink()
    assert probe.gpu_step(options, state) == state
    assert not mark.exists()


def test_a_host_that_is_no_head_only_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xid", _xid)
    log = tmp_path / "kmsg"
    options = argparse.Namespace(kernel_log=str(log), url=None, state=str(tmp_path / "state.json"))
    assert probe.gpu_step(options, {}) == {"number": -1}
    log.write_text("4,0,300,-;NVRM: Xid (PCI:0000:3b:00): 48, DBE\n")
    assert probe.gpu_step(options, {"number": -1})["bad"] == "GPU 0000:3b:00: Xid 48, reset"
    assert not (tmp_path / "drained").exists()


def test_one_that_sleeps_is_left_alone_and_its_starts_are_no_crash_loop() -> None:
    server = serving()
    for number in range(5):
        assert server.look(container="", asleep=True, answer="error", counters=None, left={}) == "none"
        assert server.lines[-1].startswith("asleep: ")
        assert (server.state["starts"], server.state["failures"]) == (0, 0)
        server.look(container=f"run {number}", answer="error", counters=None)
        assert server.lines[-1].startswith("loading: ")
