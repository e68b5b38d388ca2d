"""What tests/run.py says of a stage: nothing may pass that did not look at anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests import run

VENV = Path(sys.prefix)


@pytest.fixture(autouse=True)
def _own_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "LOGS", tmp_path)


def sh(script: str, **more: Any) -> run.Stage:
    return run.Stage("group/stage", ("sh", "-c", script), **more)


def suite(tmp_path: Path, source: str, **more: Any) -> run.Stage:
    cases = tmp_path / "cases"
    cases.mkdir()
    (cases / "test_cases.py").write_text(source)
    command = ("python", "-m", "pytest", "-c", "/dev/null", "--rootdir", str(cases), str(cases))
    return run.Stage("suite", command, venv=VENV, suite=True, **more)


def test_a_stage_that_succeeds_is_one_passed() -> None:
    result = run.run(sh("echo fine"))
    assert (result.passed, result.failed, result.why) == (1, 0, "")
    assert result.stage.log.read_text() == "fine\n"


def test_a_stage_that_fails_is_one_failed() -> None:
    result = run.run(sh("exit 3"))
    assert (result.passed, result.failed, result.why) == (0, 1, "exit status 3")


def test_a_command_that_does_not_exist_is_one_failed() -> None:
    result = run.run(run.Stage("stage", ("no-such-command-here",)))
    assert (result.passed, result.failed) == (0, 1)
    assert "could not be started" in result.why


@pytest.mark.parametrize(("output", "failed"), [("in 12 files", 0), ("in 0 files", 1), ("no files", 1)])
def test_a_stage_must_show_that_it_looked_at_something(output: str, failed: int) -> None:
    assert run.run(sh(f"echo {output}", counted=r"in (\d+) files")).failed == failed


def test_a_stage_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "HEARTBEAT_SECONDS", 0.05)
    result = run.run(sh("sleep 60", limit_seconds=0))
    assert result.failed == 1
    assert "not done" in result.why
    assert result.seconds < 30


def test_set_up_counts_only_when_it_fails() -> None:
    assert run.run(sh("true", silent=True)).passed == 0
    assert run.run(sh("false", silent=True)).failed == 1


def test_the_cases_of_a_suite_are_counted(tmp_path: Path) -> None:
    source = """
import pytest
def test_one(): pass
def test_two(): pass
def test_three(): raise ValueError
@pytest.mark.skip(reason="here to be counted")
def test_four(): pass
"""
    result = run.run(suite(tmp_path, source, itself=False))
    assert (result.passed, result.failed, result.skipped) == (2, 1, 1)
    assert result.why == "exit status 1"


def test_a_scenario_is_one_plus_its_tests(tmp_path: Path) -> None:
    result = run.run(suite(tmp_path, "def test_one(): pass"))
    assert (result.passed, result.failed) == (2, 0)


def test_a_suite_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    result = run.run(suite(tmp_path, "import no_such_module_here", itself=False))
    assert (result.passed, result.failed) == (0, 1)


def test_a_suite_without_a_test_is_a_failure(tmp_path: Path) -> None:
    result = run.run(suite(tmp_path, "", itself=False))
    assert (result.passed, result.failed) == (0, 1)


def test_a_command_that_runs_no_suite_though_it_should_is_a_failure() -> None:
    # Molecule succeeds when its verifier finds no test.
    result = run.run(sh("true", suite=True))
    assert (result.passed, result.failed) == (0, 1)
    assert "not one test" in result.why


def test_a_scenario_that_is_not_listed_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "ROOT", tmp_path)
    for name in ("forgotten", "docker", "default"):
        (tmp_path / "molecule" / name).mkdir(parents=True)
        (tmp_path / "molecule" / name / "molecule.yml").touch()
    found = list(run.scenarios())
    assert [stage.name for stage in found] == [
        "molecule/clear",
        "molecule/forgotten",
        "molecule/default",
        "molecule/docker",
        "molecule/destroy",
    ]
    assert found[1].command[-1].endswith("exit 1")


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(SystemExit, match="no stage or group is named nothing"):
        run.chosen(["lint,nothing"], fast=False)


def test_what_needs_hosts_runs_beside_what_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Each waits for the other's file: one after the other they would never end.
    def meets(name: str, other: str) -> run.Stage:
        script = f"touch {tmp_path}/{name}; until [ -e {tmp_path}/{other} ]; do :; done"
        return run.Stage(f"{name}/stage", ("sh", "-c", script), limit_seconds=0)

    results = run.run_all([meets("lint", "molecule"), meets("molecule", "lint"), sh("exit 1")])
    assert [(result.stage.group, result.passed, result.failed) for result in results] == [
        ("lint", 1, 0),
        ("molecule", 1, 0),
        ("group", 0, 1),
    ]
    said = capsys.readouterr().out
    assert said.count(" ok ") == 2
    assert said.count("FAILED") == 1


@pytest.mark.parametrize("name", run.SLOW)
def test_a_slow_scenario_runs_only_when_it_is_named(name: str) -> None:
    stage = f"molecule/{name}"
    assert stage not in {one.name for one in run.chosen([], fast=False)}
    assert stage not in {one.name for one in run.chosen(["molecule"], fast=False)}
    assert [one.name for one in run.chosen([stage], fast=False)] == [stage]
