"""What tests/run.py says of a stage: nothing may pass that did not look at anything, and nothing may live on when a run is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import run
from tests.support import processes


@pytest.fixture(autouse=True)
def _own_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "BUILD", tmp_path / "build")
    monkeypatch.setattr(run, "DURATIONS", tmp_path / "durations.json")


def sh(script: str, name: str = "group/stage", **more: Any) -> run.Stage:
    return run.Stage(name, ("sh", "-c", script), **more)


def suite(tmp_path: Path, source: str, **more: Any) -> run.Stage:
    cases = tmp_path / "cases"
    cases.mkdir()
    (cases / "test_cases.py").write_text(source)
    command = (sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(cases), str(cases))
    return run.Stage("suite", command, suite=True, **more)


def test_a_stage_that_succeeds_is_one_passed() -> None:
    stage = run.run(sh("echo fine"))
    assert (stage.passed, stage.failed, stage.why) == (1, 0, "")
    assert stage.log.read_text() == "fine\n"


def test_a_stage_that_fails_is_one_failed() -> None:
    stage = run.run(sh("exit 3"))
    assert (stage.passed, stage.failed, stage.why) == (0, 1, "exit status 3")


def test_a_command_that_does_not_exist_is_one_failed() -> None:
    stage = run.run(run.Stage("stage", ("no-such-command-here",)))
    assert (stage.passed, stage.failed) == (0, 1)
    assert "could not be started" in stage.why


@pytest.mark.parametrize(("output", "failed"), [("in 12 files", 0), ("in 0 files", 1), ("no files", 1)])
def test_a_stage_must_show_that_it_looked_at_something(
    output: str, failed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(run.PROOFS, "group/stage", r"in (\d+) files")
    assert run.run(sh(f"echo {output}")).failed == failed


def test_a_stage_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "HEARTBEAT_SECONDS", 0.05)
    stage = run.run(sh("sleep 60", limit_seconds=0))
    assert stage.failed == 1
    assert "not done" in stage.why
    assert stage.seconds < 30


def test_a_stage_that_takes_long_is_heard_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "HEARTBEAT_SECONDS", 0.2)
    run.run(sh("echo so far; sleep 1"))
    assert "so far" in capsys.readouterr().out


def test_set_up_counts_only_when_it_fails() -> None:
    assert run.run(sh("true", itself=False)).passed == 0
    assert run.run(sh("false", itself=False)).failed == 1


def test_the_cases_of_a_suite_are_counted(tmp_path: Path) -> None:
    source = """
import pytest
def test_one(): pass
def test_two(): pass
def test_three(): raise ValueError
@pytest.mark.skip(reason="here to be counted")
def test_four(): pass
"""
    stage = run.run(suite(tmp_path, source, itself=False))
    assert (stage.passed, stage.failed, stage.skipped) == (2, 1, 1)
    assert stage.why == "exit status 1"


def test_a_scenario_is_one_plus_its_tests(tmp_path: Path) -> None:
    stage = run.run(suite(tmp_path, "def test_one(): pass"))
    assert (stage.passed, stage.failed) == (2, 0)


@pytest.mark.parametrize("source", ["import no_such_module_here", "", "import os\nos._exit(0)"])
def test_a_suite_that_runs_no_test_is_a_failure(source: str, tmp_path: Path) -> None:
    stage = run.run(suite(tmp_path, source, itself=False))
    assert (stage.passed, stage.failed) == (0, 1)


def test_a_command_that_runs_no_suite_though_it_should_is_a_failure() -> None:
    # Molecule succeeds when its verifier finds no test.
    stage = run.run(sh("true", suite=True))
    assert (stage.passed, stage.failed) == (0, 1)
    assert "not one test" in stage.why


def test_what_a_person_has_set_does_not_reach_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_STRATEGY", "free")
    monkeypatch.setenv("LLM_LAB", "7")
    assert not {"ANSIBLE_STRATEGY", "LLM_LAB"} & set(run.environment(sh("true"), 0))
    assert run.environment(sh("true"), 2)["LLM_LAB"] == "2"


STAGES = [sh("true", name) for name in ("lint/mypy", "unit", "molecule/default", "molecule/vllm")]
WALK = sh("true", run.WALK)


@pytest.mark.parametrize(
    ("only", "fast", "names"),
    [
        ([], False, ["lint/mypy", "unit", "molecule/default", "molecule/vllm", "lab/images", "lab/states"]),
        ([], True, ["lint/mypy", "unit"]),
        (["lint", "unit"], False, ["lint/mypy", "unit"]),
        (["lint/mypy,molecule/default"], False, ["lint/mypy", "molecule/default", "lab/images"]),
        # Who walks the whole road keeps its end for those that begin there.
        (["molecule/cluster,molecule/vllm"], False, ["molecule/vllm", "molecule/cluster", "lab/images"]),
    ],
)
def test_what_is_chosen(only: list[str], fast: bool, names: list[str]) -> None:
    everything = [*STAGES, WALK] if run.WALK in str(only) else STAGES
    assert [stage.name for stage in run.chosen(everything, only, fast)] == names


@pytest.mark.parametrize(
    ("only", "state"),
    [
        ("molecule/parallel,molecule/cluster,molecule/vllm", "loaded"),
        ("molecule/parallel,molecule/vllm", "serving"),  # made from the other
        ("molecule/parallel", "loaded"),
    ],
)
def test_the_state_that_is_made_before_those_that_begin_with_it(only: str, state: str) -> None:
    found = run.chosen([*STAGES, WALK, sh("true", "molecule/parallel")], [only], fast=False)
    assert found[-1].command[-3:] == ("state", "make", state)


def test_who_asks_for_an_unknown_stage_is_told_what_there_is() -> None:
    with pytest.raises(SystemExit, match=r"named molecule/vlm; there are: .* molecule/vllm "):
        run.chosen(STAGES, ["lint,molecule/vlm"], fast=False)


def test_nox_and_molecule_say_what_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sessions = [{"session": "lint(mypy)", "tags": []}, {"session": "unit", "tags": ["suite"]}]
    nox = tmp_path / "nox"
    nox.write_text(f"#!/bin/sh\necho '{json.dumps(sessions)}'\n")
    nox.chmod(0o755)
    (tmp_path / "molecule" / "ray").mkdir(parents=True)
    (tmp_path / "molecule" / "ray" / "molecule.yml").touch()
    monkeypatch.setattr(run, "NOX", str(nox))
    monkeypatch.setattr(run, "ROOT", tmp_path)
    found = [(stage.name, stage.suite, stage.itself) for stage in run.stages()]
    assert found == [("lint/mypy", False, True), ("unit", True, False), ("molecule/ray", True, True)]


def test_each_proof_is_one_of_a_stage() -> None:
    assert set(run.PROOFS) <= {stage.name for stage in run.stages()}


def test_what_needs_hosts_runs_beside_what_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Each waits for the others' files: one after the other they would never end. The images are there before.
    names = ("lint", "default", "vllm")

    def meets(name: str, stage: str) -> run.Stage:
        waits = "".join(f"until [ -e {other} ]; do sleep 0.1; done; " for other in names)
        return sh(f"cd {tmp_path}; touch {name}; {waits} cat images; echo $LLM_LAB", stage)

    lint, default, vllm = meets("lint", "lint"), meets("default", "molecule/default"), meets("vllm", "molecule/vllm")
    images = sh(f"sleep 0.5; echo lab=$LLM_LAB > {tmp_path}/images", "lab/images", itself=False)
    picked = [lint, default, vllm, images, sh("exit 1")]
    run.run_all(picked, 2, "longest")
    assert [(stage.passed, stage.failed) for stage in picked] == [(1, 0), (1, 0), (1, 0), (0, 0), (0, 1)]
    assert sorted(stage.log.read_text() for stage in (lint, default, vllm)) == ["lab=\n\n", "lab=\n\n", "lab=\n2\n"]
    said = capsys.readouterr().out
    assert said.count(" ok ") == 4
    assert said.count("FAILED") == 1


def test_what_begins_with_hosts_that_serve_runs_in_the_first_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "serves", lambda stage: stage.name in ("molecule/b", "molecule/d"))
    picked = [sh("sleep 0.2; echo lab=$LLM_LAB", f"molecule/{name}") for name in "abcde"]
    run.run_all(picked, 2, "longest")
    assert [stage.log.read_text() for stage in picked if run.serves(stage)] == ["lab=\n"] * 2
    assert "lab=2\n" in [stage.log.read_text() for stage in picked]
    assert sum(stage.passed for stage in picked) == 5


def test_states_are_made_in_the_first_lab_while_the_second_goes_on(tmp_path: Path) -> None:
    states = sh(f"until [ -e {tmp_path}/bare ]; do sleep 0.1; done; echo lab=$LLM_LAB", "lab/states", itself=False)
    picked = [states, sh(f"touch {tmp_path}/bare", "molecule/default"), sh("true", "molecule/vllm")]
    run.run_all(picked, 2, "longest")
    assert states.log.read_text() == "lab=\n"
    assert [(stage.passed, stage.failed) for stage in picked] == [(0, 0), (1, 0), (1, 0)]


def test_who_walks_the_whole_road_is_the_first_in_every_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "serves", lambda stage: stage.name == "molecule/vllm")
    serving = tmp_path / "serving"
    for order in ("longest", "reverse", "shuffle:1", "shuffle:2"):
        picked = [sh(f"cat {serving}", "molecule/vllm"), sh(f"echo lab=$LLM_LAB > {serving}", run.WALK)]
        run.run_all(picked, 2, order)
        assert picked[0].log.read_text() == "lab=\n"
        serving.unlink()


def test_images_are_on_their_way_to_the_hosts_of_one_lab_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "loads", lambda stage: stage.name == "molecule/image")
    for others in ([sh(f"touch {tmp_path}/bare", "molecule/default")], []):
        (tmp_path / "walked").unlink(missing_ok=True)
        (tmp_path / "made").unlink(missing_ok=True)
        states = sh(f"cat {tmp_path}/walked && sleep 0.3 && touch {tmp_path}/made", "lab/states", itself=False)
        walk = sh(f"until [ -e {tmp_path}/bare ]; do sleep 0.1; done; touch {tmp_path}/walked", run.WALK)
        loading = sh(f"cat {tmp_path}/made", "molecule/image")
        run.run_all([loading, states, walk, *others], 2, "longest")
        assert (loading.passed, walk.passed, states.failed) == (1, 1, 0), loading.why


def test_a_scenario_for_which_there_is_no_time_is_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    run.DURATIONS.write_text(json.dumps({"molecule/long": {"seconds": 100}, "molecule/short": {"seconds": 1}}))
    picked = [sh("true", "molecule/long"), sh("true", "molecule/short"), sh("true", "molecule/new"), sh("true", "lint")]
    run.run_all(picked, 1, "longest", limit_seconds=50)
    assert [stage.left_out for stage in picked] == [True, False, False, False]
    assert [stage.passed for stage in picked] == [0, 1, 1, 1]
    assert "molecule/long                      no time" in capsys.readouterr().out


def test_the_walk_is_never_left_out_since_other_scenarios_begin_at_its_end() -> None:
    run.DURATIONS.write_text(json.dumps({run.WALK: {"seconds": 100}}))
    picked = [sh("true", run.WALK)]
    run.run_all(picked, 1, "longest", limit_seconds=50)
    assert (picked[0].left_out, picked[0].passed) == (False, 1)


def test_the_pace_of_this_run_says_how_long_a_stage_will_take() -> None:
    run.DURATIONS.write_text(json.dumps({"a": {"seconds": 10}, "b": {"seconds": 100}}))
    done = [sh("true", "a", seconds=25), sh("true", "unknown", seconds=500)]
    assert run.expected_seconds(sh("true", "b"), done) == 250
    assert run.expected_seconds(sh("true", "b"), []) == 100
    assert run.expected_seconds(sh("true", "unknown"), done) == 0


def test_what_makes_images_failed_or_was_left_out_says_nothing_of_the_pace() -> None:
    names = ("lab/images", "failed", "waiting", "b")
    run.DURATIONS.write_text(json.dumps({name: {"seconds": 100} for name in names}))
    done = [sh("true", "lab/images", seconds=9000), sh("true", "failed", seconds=9000), sh("true", "waiting")]
    done[1].why, done[2].left_out = "exit status 1", True
    assert run.expected_seconds(sh("true", "b"), done) == 100


def test_scenarios_say_whether_they_begin_with_hosts_that_serve() -> None:
    found = {name for name in run.scenarios() if run.serves(sh("true", f"molecule/{name}"))}
    assert {"failure", "vllm"} <= found
    assert "docker" not in found


def test_orders() -> None:
    run.DURATIONS.write_text(json.dumps({"a": {"seconds": 1}, "b": {"seconds": 3}}))
    found = [sh("true", name) for name in "abc"]

    def names(order: str) -> str:
        return "".join(stage.name for stage in run.ordered(found, order))

    assert names("longest") == "cba"
    assert names("reverse") == "abc"
    assert names("shuffle:1") == names("shuffle:1")
    assert len({names(f"shuffle:{seed}") for seed in range(20)}) > 1


def test_what_failed_stands_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    stages = [sh("echo fine"), sh("echo fatal: no such host; echo much more; exit 1", "molecule/ray")]
    run.failures([run.run(stage) for stage in stages])
    assert capsys.readouterr().out == "\nFAILED molecule/ray: exit status 1\n  | fatal: no such host\n"


def failed(**result: Any) -> str:
    return f"fatal: [node1]: FAILED! => {json.dumps({'changed': True, 'cmd': 'x' * 400, **result})}\n"


def at_the_end(folder: Path, capsys: pytest.CaptureFixture[str], log: str) -> list[str]:
    """What is said in short of a stage that failed with this output."""
    (folder / "log").write_text(log)
    run.failures([run.run(sh(f"cat {folder}/log; exit 2", "molecule/ray"))])
    return [line.removeprefix("  | ") for line in capsys.readouterr().out.splitlines()[2:]]


def test_of_a_failed_command_the_end_of_what_it_said_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ignored = "TASK [Look] ****\n" + failed(msg="no matter") + "...ignoring\n\nTASK [Ray | Start] ****\n"
    said = "\n".join(f"line {number}" for number in range(100))
    result = failed(msg="non-zero return code", rc=1, stderr="Traceback\nValueError: {", stdout=said, stdout_lines=[])
    assert at_the_end(tmp_path, capsys, ignored + result + "\nPLAY RECAP ****\n") == [
        "TASK [Ray | Start]",
        "fatal: [node1]: FAILED!",
        "  msg: non-zero return code",
        "  stderr:",
        "    Traceback",
        "    ValueError: {",
        "  stdout (8 of 100 lines):",
        *(f"    line {number}" for number in range(92, 100)),
    ]


def test_of_a_failed_assertion_and_of_a_loop_the_messages_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = """
TASK [Gateway | Check] ***
fatal: [node1]: FAILED! => {
    "assertion": false,
    "msg": "no address\\nanother line"
}
fatal: [node2]: UNREACHABLE! => {"changed": false, "msg": "no route", "unreachable": true}
TASK [Docker | Pull] ***
FAILED - RETRYING: [node1]: Docker | Pull (2 retries left).
failed: [node1] (item=a) => {"item": "a", "msg": "denied"}
failed: [node1] (item=b) => {"censored": "it is hidden"}
fatal: [node1]: FAILED! => {"msg": "the end is missing
"""
    assert at_the_end(tmp_path, capsys, log) == [
        "TASK [Gateway | Check]",
        "fatal: [node1]: FAILED!",
        "  msg:",
        "    no address",
        "    another line",
        "TASK [Gateway | Check]",
        "fatal: [node2]: UNREACHABLE!",
        "  msg: no route",
        "TASK [Docker | Pull]",
        "failed: [node1] (item=a)",
        "  msg: denied",
        "TASK [Docker | Pull]",
        "failed: [node1] (item=b)",
        "  censored: it is hidden",
        'fatal: [node1]: FAILED! => {"msg": "the end is missing',
    ]
    assert at_the_end(tmp_path, capsys, log.partition("fatal: [node2]")[0] + "...ignoring\n") == []
    loop = 'failed: [node1] (item=a) => {"msg": "denied"}\nfailed: [node1] (item=b) => {"msg": "denied"}\n'
    assert at_the_end(tmp_path, capsys, loop + "...ignoring\n") == []


def test_what_failed_last_is_shown_where_much_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = "".join(failed(msg="m" * 5000, stderr=f"{number}\n" * 50) for number in range(9))
    shown = at_the_end(tmp_path, capsys, log)
    assert [line for line in shown if not line.startswith("    ")] == [
        "fatal: [node1]: FAILED!",
        "  msg (10 of 17 lines):",
        "  stderr (8 of 50 lines):",
    ]
    assert shown[-1] == "    8"
    assert max(map(len, shown)) <= 304
    many = at_the_end(tmp_path, capsys, "".join(failed(msg=str(number)) for number in range(99)))
    assert (len(many), many[-1]) == (40, "  msg: 98")


def test_times_are_recorded_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    stages = [sh("true", "a", seconds=12.4, passed=1), sh("true", "b", seconds=3, why="exit status 1")]
    run.compare(stages, None)
    assert not run.DURATIONS.exists()
    run.compare(stages, 7.5)
    (known,) = run.recorded().items()
    assert known[0] == "a"
    assert (known[1]["seconds"], known[1]["P"]) == (12, 7.5)
    capsys.readouterr()
    run.compare([sh("true", "a", seconds=20)], None)
    assert f"20  12 on {known[1]['date']}" in capsys.readouterr().out


# A run whose only stage starts a process in a session of its own and one whose parent is gone, and does not listen to SIGTERM.
RUN = """
import signal, sys
from pathlib import Path
from tests import run
signal.signal(signal.SIGINT, signal.default_int_handler)
run.BUILD = Path(sys.argv[1])
script = "trap '' TERM; setsid sleep 987 & (sleep 987 &); echo started; while :; do sleep 987; done"
run.stages = lambda: [run.Stage("stage", ("bash", "-c", script))]
sys.argv[1:] = []
run.main()
"""


def ours(folder: Path) -> set[int]:
    """The processes that have this folder in their environment, for what a run started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"RUN_OF_TEST={folder}".encode() in path.read_bytes().split(b"\0"):
                found.add(int(path.parent.name))
        except OSError:
            pass
    return found


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_all_that_was_started(number: signal.Signals, status: int, tmp_path: Path) -> None:
    script = RUN.replace("from tests import run\n", "from tests import run\nrun.processes.GRACE_SECONDS = 1\n")
    command = (sys.executable, "-c", script, str(tmp_path))
    environment = {**os.environ, "RUN_OF_TEST": str(tmp_path), "PYTHONPATH": str(run.ROOT)}
    first = subprocess.Popen(command, env=environment, cwd=run.ROOT, stdout=subprocess.PIPE, text=True)
    try:
        log = tmp_path / "logs" / "stage.log"
        deadline = time.monotonic() + 120
        seen: set[int] = set()
        # Looked at once a turn: a process that becomes another program (exec) has no environment for a moment.
        while len(seen) != 5 and time.monotonic() < deadline:
            time.sleep(0.1)
            if log.exists() and log.read_text():
                seen = ours(tmp_path)
        assert len(seen) == 5, f"not the run, the stage, and three that it started: {seen}"

        second = subprocess.run(command, env=environment, cwd=run.ROOT, capture_output=True, text=True, timeout=60)
        assert second.returncode == 1
        assert f"already run in this checkout: process {first.pid}, since 2" in second.stderr

        first.send_signal(number)
        said = first.communicate(timeout=60)[0]
        assert first.returncode == status
        assert f"interrupted by {number.name}" in said
        assert not ours(tmp_path)
    finally:
        for pid in ours(tmp_path):
            os.kill(pid, signal.SIGKILL)
