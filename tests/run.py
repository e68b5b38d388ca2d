#!/usr/bin/env python3
"""Every check and test of the collection: what `make test` runs.

A stage is a name and a command; they are listed in `stages()`. What needs hosts and what does not run side by side, each kind one
stage after the other: hosts mostly wait. A stage's output goes to build/logs/ and its last lines are shown
when it fails; the others run all the same. The last line is the sum, alone: `N passed, N failed`. A test case counts as one, and so
does a stage that is no suite of tests; a molecule scenario is one, plus its testinfra tests. A suite without a test is a failure.

    tests/run.py --list                 what there is
    tests/run.py --only lint            one group
    tests/run.py --only unit,next/unit  some stages
    tests/run.py --fast                 all but molecule
    tests/run.py --only molecule/default,molecule/driver_packages     a slow one, which runs only when it is named
    tests/run.py --format               rewrite the Python files as ruff wants them
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
MAIN = ROOT / ".venv"
NEXT = ROOT / ".venv-next"

# In the order in which they run: `default` makes the hosts that all of them use, the last ones leave them in pieces.
SCENARIOS = (
    "default",
    "bundle",
    "preflight",
    "inspect",
    "nvidia_driver",
    "driver_packages",
    "docker",
    "nvidia_container_toolkit",
    "docker_packages",
    "images",
    "models",
    "network",
    "prepare",
    "cluster",
    "ray",
    "vllm",
    "failure",
    "rebuild",
)

# Of these the ones that take long: they run only when they are named.
SLOW = ("driver_packages", "failure")

MINUTE = 60
HEARTBEAT_SECONDS = 60
SHOWN_LINES = 60
# Of what stands above the last lines, these are shown too.
ERROR = re.compile(r"^(ERROR|FAILED|FATAL|fatal:)")


@dataclasses.dataclass(frozen=True)
class Stage:
    """One thing to run. Its name is `group` or `group/what`."""

    name: str
    command: tuple[str, ...]
    venv: Path = MAIN
    limit_seconds: int = 10 * MINUTE
    # Its output must hold this, with a number above zero in the group: proof that it looked at something.
    counted: str = ""
    # It runs pytest, whose cases are counted.
    suite: bool = False
    # The stage itself counts as one as well.
    itself: bool = True
    # Set-up or tear-down: only a failure counts.
    silent: bool = False
    # Runs only when it is named.
    slow: bool = False

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]

    @property
    def log(self) -> Path:
        return LOGS / (self.name.replace("/", "-") + ".log")

    @property
    def results(self) -> Path:
        return LOGS / (self.name.replace("/", "-") + "-junit")


@dataclasses.dataclass
class Result:
    stage: Stage
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    why: str = ""


def playbooks() -> tuple[str, ...]:
    return tuple(sorted(str(path.relative_to(ROOT)) for path in (ROOT / "playbooks").glob("*.yml")))


def scripts(interpreter: str) -> tuple[str, ...]:
    """The files of the checkout whose first line starts this interpreter, whatever their name ends in."""
    git = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    found = []
    for name in subprocess.run(git, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file():
            with path.open("rb") as file:
                first = file.readline(100).split()
            if first and first[0].startswith(b"#!") and Path(first[-1].decode()).name.startswith(interpreter):
                found.append(name)
    return tuple(sorted(found))


def lint(group: str, venv: Path, *exclude: str) -> Iterator[Stage]:
    """The checks that both supported releases of ansible-core get."""
    yield Stage(
        f"{group}/ansible-lint",
        ("ansible-lint", "--offline", "--profile", "production", "--nocolor", *exclude),
        venv=venv,
        counted=r"in (\d+) files processed",
    )
    yield Stage(
        f"{group}/syntax", ("ansible-playbook", "--syntax-check", "--inventory", "localhost,", *playbooks()), venv=venv
    )


def unit(name: str, venv: Path) -> Stage:
    return Stage(name, ("python", "-m", "pytest", "tests"), venv=venv, suite=True, itself=False)


def scenarios() -> Iterator[Stage]:
    found = {path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml")}
    destroy = ("molecule", "destroy", "--scenario-name", "default")
    if found:
        # Hosts that an earlier run left behind are no bare ones, and molecule would take them as they are.
        yield Stage("molecule/clear", destroy, silent=True)
    for name in sorted(found - set(SCENARIOS)):
        yield Stage(
            f"molecule/{name}",
            ("sh", "-c", f"echo 'molecule/{name} has no place in SCENARIOS of tests/run.py'; exit 1"),
        )
    for name in SCENARIOS:
        if name in found:
            yield Stage(
                f"molecule/{name}",
                # The hosts stay for the next scenario.
                ("molecule", "test", "--scenario-name", name, "--destroy", "never"),
                limit_seconds=45 * MINUTE,
                suite=True,
                slow=name in SLOW,
            )
    if found:
        yield Stage("molecule/destroy", destroy, silent=True)


def stages() -> list[Stage]:
    return [
        *lint("lint", MAIN),
        Stage("lint/yamllint", ("yamllint", "--strict", ".")),
        Stage("lint/shellcheck", ("shellcheck", *scripts("bash"), *scripts("sh"))),
        Stage("lint/ruff", ("ruff", "check", ".", *scripts("python"))),
        Stage("lint/ruff-format", ("ruff", "format", "--check", ".", *scripts("python"))),
        Stage(
            "lint/mypy",
            ("mypy", "-p", "ansible_collections.baremetal.llm.plugins", "-p", "lab", "-m", "tests.run"),
            counted=r"in (\d+) source files",
        ),
        Stage("lint/docs", ("tests/unpacked.sh", "antsibull-docs", "lint-collection-docs", "--plugin-docs", ".")),
        Stage("lint/changelog", ("antsibull-changelog", "lint")),
        Stage("sanity", ("tests/sanity/run.sh",), limit_seconds=15 * MINUTE, counted=r"Running sanity test .*()"),
        unit("unit", MAIN),
        unit("next/unit", NEXT),
        # The scenarios run on the other release only. They are half of what ansible-lint takes its time for.
        *lint("next", NEXT, "--exclude", "molecule"),
        Stage("package", ("tests/package.sh",)),
        *scenarios(),
    ]


def chosen(only: list[str], fast: bool) -> list[Stage]:
    everything = stages()
    wanted = {name for names in only for name in names.split(",") if name}
    # "default" finds bare hosts, whether its whole group runs or it alone.
    if "molecule/default" in wanted:
        wanted.add("molecule/clear")
    unknown = wanted - {stage.name for stage in everything} - {stage.group for stage in everything}
    if unknown:
        sys.exit(f"no stage or group is named {', '.join(sorted(unknown))}; --list names them")
    picked = [
        stage
        for stage in everything
        if stage.name in wanted or (not stage.slow and (not wanted or stage.group in wanted))
    ]
    return [stage for stage in picked if not (fast and stage.group == "molecule")]


def environment(stage: Stage) -> dict[str, str]:
    # What the person who runs this has set for Ansible, Python or pytest must not decide what the tests say.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANSIBLE_", "MOLECULE_", "PYTEST_", "PYTHON"))
    }
    # testinfra runs somewhere below molecule: options for pytest reach it only through the environment.
    if stage.suite:
        kept["PYTEST_ADDOPTS"] = "-p count_cases"
        kept["PYTHONPATH"] = str(ROOT / "tests" / "support")
        kept["COUNT_CASES_IN"] = str(stage.results)
    return kept | {
        "PATH": f"{stage.venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(stage.venv),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "ANSIBLE_NOCOLOR": "1",
        "PYTHONUNBUFFERED": "1",
    }


def say(line: str) -> None:
    """One write for a line, so that lines of stages that run side by side do not mix."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:100] if lines else ""


def run_command(stage: Stage) -> str:
    """Run it with its output in its log. Returns what went wrong, or nothing."""
    started = time.monotonic()
    with stage.log.open("w") as log:
        try:
            process = subprocess.Popen(
                stage.command,
                cwd=ROOT,
                env=environment(stage),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            log.write(f"{error}\n")
            return f"could not be started: {error}"
        try:
            while True:
                try:
                    status = process.wait(HEARTBEAT_SECONDS)
                    return f"exit status {status}" if status else ""
                except subprocess.TimeoutExpired:
                    seconds = time.monotonic() - started
                    if seconds > stage.limit_seconds:
                        return f"not done after {stage.limit_seconds // MINUTE} minutes"
                    say(f"{'':7} {stage.name:34} {seconds:12.0f} s  {last_line(stage.log)}")
        finally:
            # What it left behind when it ran out of time or was interrupted.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def count_cases(result: Result) -> None:
    for report in sorted(result.stage.results.glob("*.xml")):
        for suite in xml.etree.ElementTree.parse(report).getroot().iter("testsuite"):
            tests, failures, errors, skipped = (
                int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")
            )
            result.failed += failures + errors
            result.skipped += skipped
            result.passed += tests - failures - errors - skipped


def run(stage: Stage) -> Result:
    result = Result(stage)
    shutil.rmtree(stage.results, ignore_errors=True)
    started = time.monotonic()
    result.why = run_command(stage)
    result.seconds = time.monotonic() - started
    if stage.counted and not result.why:
        found = re.search(stage.counted, stage.log.read_text(errors="replace"))
        if not found or found.group(1) == "0":
            result.why = "it looked at nothing"
    if stage.suite:
        count_cases(result)
        if not result.why and result.failed:
            result.why = "failed cases"
        if not result.why and not result.passed:
            result.why = "not one test passed or none was found"
    if result.why and (stage.itself or not result.failed):
        result.failed += 1
    elif not result.why and stage.itself and not stage.silent:
        result.passed += 1
    return result


def failure(result: Result) -> str:
    lines = result.stage.log.read_text(errors="replace").splitlines()
    shown = [line for line in lines[:-SHOWN_LINES] if ERROR.search(line)][-SHOWN_LINES:] + lines[-SHOWN_LINES:]
    head = f"          {result.why}; from {os.path.relpath(result.stage.log, ROOT)}:"
    return "\n".join([head, *(f"          | {line}" for line in shown)])


def run_all(picked: list[Stage]) -> list[Result]:
    """The stages in two lanes. Results come back in the order in which the stages are listed."""
    done: dict[str, Result] = {}

    def lane(mine: list[Stage]) -> None:
        for stage in mine:
            result = done[stage.name] = run(stage)
            line = f"[{len(done):2}/{len(picked)}] {stage.name:34} {'FAILED' if result.why else 'ok':6} {result.seconds:5.0f} s"
            say(f"{line}\n{failure(result)}" if result.why else line)

    hosts = [stage for stage in picked if stage.group == "molecule"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        lanes = [pool.submit(lane, mine) for mine in ([stage for stage in picked if stage not in hosts], hosts)]
        for one in lanes:
            one.result()
    return [done[stage.name] for stage in picked]


def table(results: list[Result], seconds: float) -> None:
    width = max(len(result.stage.name) for result in results)
    print(f"\n{'stage':{width}}  {'passed':>6}  {'failed':>6}  {'skipped':>7}  {'seconds':>7}")
    for result in results:
        print(
            f"{result.stage.name:{width}}  {result.passed:6}  {result.failed:6}  {result.skipped:7}  {result.seconds:7.0f}"
            + (f"  {result.why}" if result.why else "")
        )
    print(f"\n{len(results)} stages in {seconds / MINUTE:.1f} minutes; logs in {LOGS.relative_to(ROOT)}/\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME[,NAME]", help="only these groups or stages"
    )
    parser.add_argument("--fast", action="store_true", help="all but the molecule scenarios")
    parser.add_argument("--list", action="store_true", help="name the stages and stop")
    parser.add_argument(
        "--format", action="store_true", help="let ruff rewrite the Python files instead of checking them"
    )
    arguments = parser.parse_args()
    if arguments.format:
        files = (".", *scripts("python"))
        fixed = subprocess.run((MAIN / "bin" / "ruff", "check", "--fix", *files), cwd=ROOT)
        return fixed.returncode or subprocess.run((MAIN / "bin" / "ruff", "format", *files), cwd=ROOT).returncode
    picked = chosen(arguments.only, arguments.fast)
    if arguments.list:
        for stage in picked:
            print(f"{stage.name:32} {' '.join(stage.command)}")
        return 0

    LOGS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    results = run_all(picked)
    table(results, time.monotonic() - started)
    passed, failed = (sum(getattr(result, key) for result in results) for key in ("passed", "failed"))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
