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

from tests import run, scenarios
from tests.scenarios import Pass, Passes, Scenario
from tests.support import processes


@pytest.fixture(autouse=True)
def _own_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "BUILD", tmp_path / "build")
    monkeypatch.setattr(run, "FULL_RUN", tmp_path / "full_run.json")


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


def scenario(name: str, begins: str = "bare", script: str = "true", **more: Any) -> run.Stage:
    return sh(script, f"molecule/{name}", begins=begins, **more)


def names(stages: list[run.Stage]) -> list[str]:
    return [stage.name for stage in stages]


def test_stages_and_groups_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    everything = [sh("true", "lint/mypy"), sh("true", "unit"), scenario("venv")]
    assert names(run.named(everything, ["lint,molecule/venv"])) == ["lint/mypy", "molecule/venv"]
    with pytest.raises(SystemExit, match=r"named molecule/ven; there are: lint lint/mypy molecule molecule/venv unit"):
        run.named(everything, ["lint,molecule/ven"])


def test_each_stage_is_in_one_part() -> None:
    everything = [sh("true", str(number)) for number in range(9)]
    parts = [run.part(everything, f"{number}/4") for number in range(1, 5)]
    assert sorted(names([stage for one in parts for stage in one])) == names(everything)
    for wrong in ("0/4", "5/4", "1", "a/b", ""):
        with pytest.raises(SystemExit, match="a part is K/N"):
            run.part(everything, wrong)


@pytest.mark.parametrize(
    ("begin", "made"),
    [
        ([], []),
        (["bare"], ["lab/images"]),
        (["bare", "loaded"], ["lab/images", "lab/states loaded"]),
        (["loaded", "serving"], ["lab/images", "lab/states serving"]),  # made from loaded
        (["serving", "walk"], ["lab/images"]),  # it keeps its hosts as that state
        (["loaded", "serving", "walk"], ["lab/images", "lab/states loaded"]),
    ],
)
def test_what_scenarios_begin_with_is_made_before(begin: list[str], made: list[str]) -> None:
    walk = sh("true", run.WALK, begins="bare")
    picked = [walk if state == "walk" else scenario(state, state) for state in begin]
    added = run.with_lab([sh("true", "unit"), *picked])[len(picked) + 1 :]
    assert [f"{stage.name} {stage.command[-1]}" if stage.name == run.STATES else stage.name for stage in added] == made


def recorded(known: dict[str, Scenario], **seconds: int) -> run.Record:
    """With passes on a commit of zeros."""
    one = {name.replace("__", "/"): Pass("0" * 40, "2026-01-02", "2 cores", took) for name, took in seconds.items()}
    Passes(run.FULL_RUN, one).save()
    return run.Record(known)


def test_the_gate_has_eight_minutes_for_what_a_change_concerns() -> None:
    record = recorded({}, molecule__a=300, molecule__b=100, molecule__c=90, molecule__d=10, lab__states=200)
    concerned = [scenario(name) for name in "abc"]
    assert names(run.reached(concerned, record)) == ["molecule/c", "molecule/b"]
    # What begins with images that are loaded waits for them; the second such scenario does not.
    assert names(run.reached([scenario("a", "loaded")], record)) == []
    assert names(run.reached([scenario(name, "loaded") for name in "bcd"], record)) == [
        "molecule/d",
        "molecule/c",
        "molecule/b",
    ]
    # Of a scenario that is new nobody knows how long it takes.
    assert run.reached([scenario("new")], record) == []


def test_the_gate_says_which_scenarios_it_has_added_and_which_not(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        name: Scenario(name, tier, "bare", "", (f"roles/{name}",))
        for name, tier in (("road", "gate"), ("short", "full"), ("long", "full"), ("other", "full"))
    }
    everything = [sh("true", "unit"), sh("true", "sanity", tiers=("full",))]
    everything += [
        scenario(one.name, tiers=("gate", "full") if one.tier == "gate" else ("full",)) for one in known.values()
    ]
    monkeypatch.setattr(scenarios, "changed_files", lambda commit: ["roles/short/x", "roles/long/x"])
    gate = ["unit", "molecule/road"]
    picked, said = run.for_gate(everything, run.Record(known))
    assert (names(picked), "molecule/other" in said) == (
        gate,
        True,
    )  # none has passed yet, and nobody knows how long they take

    took = {"molecule__short": 60, "molecule__long": 600, "molecule__other": 70}
    picked, said = run.for_gate(everything, recorded(known, **took))
    assert names(picked) == [*gate, "molecule/short"]
    assert said == (
        "What guards paths that differ from its last pass: molecule/short; for want of time not molecule/long: make test-all."
    )
    # Of a commit that the checkout does not hold, anything may differ.
    monkeypatch.setattr(scenarios, "changed_files", lambda commit: None)
    picked, _said = run.for_gate(everything, recorded(known, **took))
    assert names(picked) == [*gate, "molecule/short", "molecule/other"]


def test_nox_and_the_list_of_scenarios_say_what_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sessions = [
        {"session": "lint(mypy)", "tags": []},
        {"session": "unit", "tags": ["suite", "gate"]},
        {"session": "unit-all", "tags": ["suite", "full"]},
    ]
    nox = tmp_path / "nox"
    nox.write_text(f"#!/bin/sh\necho '{json.dumps(sessions)}'\n")
    nox.chmod(0o755)
    monkeypatch.setattr(run, "NOX", str(nox))
    known = {
        "road": Scenario("road", "gate", "bare", "", ()),
        "venv": Scenario("venv", "full", "prepared", "", ()),
    }
    assert [(one.name, one.tiers, one.suite, one.itself, one.begins) for one in run.stages(known)] == [
        ("lint/mypy", ("gate", "full"), False, True, ""),
        ("unit", ("gate",), True, False, ""),
        ("unit-all", ("full",), True, False, ""),
        ("molecule/road", ("gate", "full"), True, True, "bare"),
        ("molecule/venv", ("full",), True, True, "prepared"),
    ]


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository with one commit, in which the tests run."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "README.md").write_text("A.\nThe last full run: none yet.\nB.\n")
    (tmp_path / ".gitignore").write_text("build\n")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "README", tmp_path / "README.md")
    monkeypatch.setattr(run, "FULL_RUN", tmp_path / "tests/full_run.json")
    changed_files = scenarios.changed_files
    monkeypatch.setattr(scenarios, "changed_files", lambda commit: changed_files(commit, tmp_path))
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *command: str) -> None:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    subprocess.run(("git", *identity, *command), cwd=folder, check=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "All")


def test_what_passed_is_not_repeated_as_long_as_its_files_are_the_same(checkout: Path) -> None:
    known = {"web": Scenario("web", "full", "bare", "", ("roles/web",))}
    stages = [sh("true", "a", seconds=12.4), sh("true", "molecule/web", seconds=60)]
    for stage in stages:
        run.Record(known).add(stage)

    def current() -> list[str]:
        record = run.Record(known)
        return [stage.name for stage in stages if record.is_current(stage.name)]

    assert current() == ["a", "molecule/web"]
    assert run.Record(known).seconds("a") == 12
    commit(checkout)  # the record itself
    assert current() == ["a", "molecule/web"]
    running = run.Record(known)
    (checkout / "new").write_text("a file that the scenario does not guard")
    assert current() == ["molecule/web"]
    running.add(sh("true", "b"))  # it began on other files
    assert "b" not in run.Record(known).passes.stages
    commit(checkout)
    run.Record(known).add(stages[0])
    assert current() == ["a", "molecule/web"]
    (checkout / "roles/web").mkdir(parents=True)
    (checkout / "roles/web/main.yml").write_text("guarded")
    assert current() == []


def test_readme_says_what_has_passed_and_what_has_not(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = [sh("true", "a"), sh("true", "b")]
    record = run.Record({})
    record.add(full[0])
    record.say(full)
    assert run.README.read_text() == "A.\nThe last full run: 1 stages have passed, not yet b.\nB.\n"
    record.add(full[1])
    record.say(full)
    assert "every stage has passed, the earliest on " in run.README.read_text()
    assert "Commit tests/full_run.json and README.md." in capsys.readouterr().out
    assert all(run.Record({}).is_current(stage.name) for stage in full), "nothing but the record's own line"
    run.README.write_text(run.README.read_text() + "C.\n")
    assert not any(run.Record({}).is_current(stage.name) for stage in full)


def test_each_proof_is_one_of_a_stage() -> None:
    assert set(run.PROOFS) <= {stage.name for stage in run.stages(scenarios.load())}


def test_what_needs_hosts_runs_beside_what_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Each waits for the others' files: one after the other they would never end. The images are there before.
    three = ("lint", "default", "vllm")

    def meets(name: str, stage: str) -> run.Stage:
        waits = "".join(f"until [ -e {other} ]; do sleep 0.1; done; " for other in three)
        return sh(f"cd {tmp_path}; touch {name}; {waits} cat images; echo $LLM_LAB", stage)

    lint, default, vllm = meets("lint", "lint"), meets("default", "molecule/default"), meets("vllm", "molecule/vllm")
    images = sh(f"sleep 0.5; echo lab=$LLM_LAB > {tmp_path}/images", "lab/images", itself=False)
    picked = [lint, default, vllm, images, sh("exit 1")]
    run.run_all(picked, 2)
    assert [(stage.passed, stage.failed) for stage in picked] == [(1, 0), (1, 0), (1, 0), (0, 0), (0, 1)]
    assert sorted(stage.log.read_text() for stage in (lint, default, vllm)) == ["lab=\n\n", "lab=\n\n", "lab=\n2\n"]
    said = capsys.readouterr().out
    assert said.count(" ok ") == 4
    assert said.count("FAILED") == 1


def test_what_begins_with_hosts_that_serve_runs_in_the_first_lab_after_the_walk(tmp_path: Path) -> None:
    walk = sh(f"sleep 0.3; touch {tmp_path}/serving", run.WALK, begins="bare")
    serving = [scenario(name, "serving", f"cat {tmp_path}/serving; echo lab=$LLM_LAB") for name in "bd"]
    others = [scenario(name, "bare", "sleep 0.1; echo lab=$LLM_LAB") for name in "ace"]
    run.run_all([*others, *serving, walk], 2)
    assert [stage.log.read_text() for stage in serving] == ["lab=\n"] * 2
    assert "lab=2\n" in [stage.log.read_text() for stage in others]
    assert sum(stage.passed for stage in (*serving, *others)) == 5


def test_images_are_on_their_way_to_the_hosts_of_one_lab_at_a_time(tmp_path: Path) -> None:
    for others in ([scenario("default", script=f"touch {tmp_path}/bare")], []):
        (tmp_path / "walked").unlink(missing_ok=True)
        (tmp_path / "made").unlink(missing_ok=True)
        states = sh(f"cat {tmp_path}/walked && sleep 0.3 && touch {tmp_path}/made", "lab/states", itself=False)
        walk = sh(f"until [ -e {tmp_path}/bare ]; do sleep 0.1; done; touch {tmp_path}/walked", run.WALK)
        loading = scenario("image", "loaded", f"cat {tmp_path}/made")
        run.run_all([loading, states, walk, *others], 2)
        assert (loading.passed, walk.passed, states.failed) == (1, 1, 0), loading.why


def test_a_machine_without_room_for_a_lab_is_told_all_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.engine.lacks", lambda: "No Docker Engine answers.")
    monkeypatch.setattr(run, "available_kib", lambda: 3 * 2**20)
    monkeypatch.setattr(run, "DISK_GIB", 10**6)
    engine, memory, disk = run.missing_for_labs()
    assert engine == "No Docker Engine answers."
    assert memory == "3.0 GiB of memory are free; scenarios need 8."
    assert "scenarios need 1000000." in disk
    assert run.labs() == 0


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


# A run whose only stage starts a process in a session of its own and one whose parent is gone, and does not listen to SIGTERM.
RUN = """
import signal, sys
from pathlib import Path
from tests import run
signal.signal(signal.SIGINT, signal.default_int_handler)
run.BUILD = Path(sys.argv[1])
script = "trap '' TERM; setsid sleep 987 & (sleep 987 &); echo started; while :; do sleep 987; done"
run.stages = lambda known: [run.Stage("stage", ("bash", "-c", script))]
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
@pytest.mark.slow
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
