"""Every check and test of the collection, side by side: what `make test` runs.

A stage is a session of noxfile.py or one molecule scenario. What needs no hosts runs in one lane, one after the other; beside it the
scenarios run in one or two, each with a lab of its own. The first lab begins with the scenario that walks the whole road and keeps the hosts
at its end, and with the state in which images are loaded: scenarios that begin with either wait for that.
A stage's output goes to build/logs/, and its last lines are shown when it fails; the others run all the same. The last line is the sum,
alone: `N passed, N failed`. A test case counts as one, and so does a stage that is no suite of tests; a scenario is one, plus its
testinfra tests. A suite without a test is a failure.

    python -m tests.run --list                        what there is
    python -m tests.run --only lint,molecule/ray      some groups or stages
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import datetime
import fcntl
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

from tests.support import fatal, processes
from tests.support.processes import MINUTE, say

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
DURATIONS = ROOT / "tests" / "durations.json"
NOX = str(ROOT / ".tools" / "bin" / "nox")
SHOWN_LINES = 60
# Two labs run only where this much memory is free: each may take 6 GiB while it serves a model, what runs beside them 2.
SECOND_LAB_KIB = 14 * 1024 * 1024
IMAGES, STATES = "lab/images", "lab/states"
# It keeps its hosts as the state that others begin with; without it the state is made for them.
WALK = "molecule/cluster"
# The output of these holds this, with a number above zero in the group, which shows that they looked at something.
PROOFS = {
    "lint/ansible-lint": r"in (\d+) files processed",
    "lint/mypy": r"in (\d+) source files",
    "sanity": r"Running sanity test .*()",
}


@dataclasses.dataclass
class Stage:
    """One thing to run, `group` or `group/what`, and what came of it."""

    name: str
    command: tuple[str, ...]
    # What hangs is ended. On a slow machine a stage takes three times as long as on a fast one.
    limit_seconds: int = 45 * MINUTE
    # It runs pytest, whose cases are counted.
    suite: bool = False
    # That it succeeded counts as one.
    itself: bool = True
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    why: str = ""
    # There was no time for it: it counts as skipped.
    left_out: bool = False

    def __post_init__(self) -> None:
        self.group = self.name.partition("/")[0]
        self.log = BUILD / "logs" / (self.name.replace("/", "-") + ".log")
        self.results = self.log.with_suffix(".junit")


def scenarios() -> list[str]:
    return sorted(path.parent.name for path in ROOT.glob("molecule/*/molecule.yml"))


def serves(stage: Stage) -> bool:
    """Whether it begins with hosts that serve: a state that holds addresses, so each lab would need one of its own."""
    return _begins(stage, "serving")


def loads(stage: Stage) -> bool:
    """Whether it begins with hosts that have the image and the weights."""
    return _begins(stage, "loaded")


def _begins(stage: Stage, state: str) -> bool:
    settings = ROOT / stage.name / "molecule.yml"
    return settings.exists() and f"LAB_STATE: {state}" in settings.read_text()


def stages() -> list[Stage]:
    """What nox selects by default, and every scenario."""
    listed = subprocess.run((NOX, "--list", "--json"), cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    found = []
    for session in json.loads(listed):
        suite, name = "suite" in session["tags"], session["session"].replace("(", "/").rstrip(")")
        found.append(Stage(name, (NOX, "--session", session["session"]), suite=suite, itself=not suite))
    command = (NOX, "--session", "molecule", "--")
    return found + [Stage(f"molecule/{name}", (*command, name), suite=True) for name in scenarios()]


def chosen(everything: list[Stage], only: list[str], fast: bool) -> list[Stage]:
    wanted = {name for names in only for name in names.split(",") if name}
    there = {stage.name for stage in everything} | {stage.group for stage in everything}
    if unknown := ", ".join(sorted(wanted - there)):
        sys.exit(f"no stage or scenario is named {unknown}; there are: {' '.join(sorted(there))}")
    picked = [stage for stage in everything if not wanted or {stage.name, stage.group} & wanted]
    if fast or not any(stage.group == "molecule" for stage in picked):
        return [stage for stage in picked if stage.group != "molecule"]
    # What several scenarios need is there before them, so that none is blamed for the time that it takes.
    lab = (str(ROOT / ".venv" / "bin" / "python"), "-m", "lab")
    walked = any(stage.name == WALK for stage in picked)
    state = "serving" if any(map(serves, picked)) and not walked else "loaded" if any(map(loads, picked)) else ""
    return [
        *picked,
        Stage(IMAGES, (*lab, "images"), itself=False),
        *([Stage(STATES, (*lab, "state", "make", state), itself=False)] if state else []),
    ]


def environment(stage: Stage, lab: int) -> dict[str, str]:
    # What the person who runs this has set for Ansible, Python, pytest or nox must not decide what the tests say.
    own = ("ANSIBLE_", "MOLECULE_", "PYTEST_", "PYTHON", "NOX", "LLM_LAB")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    # testinfra runs somewhere below molecule: options for pytest reach it only through the environment.
    if stage.suite:
        kept["PYTEST_ADDOPTS"] = "-p count_cases"
        kept["PYTHONPATH"] = str(ROOT / "tests" / "support")
        kept["COUNT_CASES_IN"] = str(stage.results)
    if lab > 1:  # the first one has no number
        kept["LLM_LAB"] = str(lab)
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    fixed = {"PATH": path, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "ANSIBLE_NOCOLOR": "1", "PYTHONUNBUFFERED": "1"}
    return kept | fixed


def count_cases(stage: Stage) -> None:
    for path in sorted(stage.results.glob("*.xml")):
        try:
            root = xml.etree.ElementTree.parse(path).getroot()
        except xml.etree.ElementTree.ParseError:  # pytest was ended before it wrote its report
            stage.failed += 1
            continue
        for suite in root.iter("testsuite"):
            tests, failures, errors, skipped = (
                int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")
            )
            stage.failed += failures + errors
            stage.skipped += skipped
            stage.passed += tests - failures - errors - skipped


def run(stage: Stage, lab: int = 0) -> Stage:
    stage.log.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(stage.results, ignore_errors=True)
    started = time.monotonic()
    stage.why = processes.run(stage.name, stage.command, environment(stage, lab), stage.log, stage.limit_seconds)
    stage.seconds = time.monotonic() - started
    if stage.name in PROOFS and not stage.why:
        found = re.search(PROOFS[stage.name], stage.log.read_text(errors="replace"))
        if not found or found.group(1) == "0":
            stage.why = "it looked at nothing"
    if stage.suite:
        count_cases(stage)
        if not stage.why and stage.failed:
            stage.why = "failed cases"
        if not stage.why and not stage.passed:
            stage.why = "not one test passed or none was found"
    if stage.why and (stage.itself or not stage.failed):
        stage.failed += 1
    elif not stage.why and stage.itself:
        stage.passed += 1
    return stage


def report(stage: Stage, number: str) -> None:
    cases = f"  {stage.passed} passed, {stage.failed} failed, {stage.skipped} skipped" if stage.suite else ""
    outcome = "FAILED" if stage.why else "no time" if stage.left_out else "ok"
    text = [f"{number} {stage.name:34} {outcome:7} {stage.seconds:5.0f} s{cases}"]
    if stage.why:
        lines = stage.log.read_text(errors="replace").splitlines()
        shown = [line for line in lines[:-SHOWN_LINES] if fatal.ERROR.match(line)][-SHOWN_LINES:] + lines[-SHOWN_LINES:]
        text += [f"          {stage.why}; from {os.path.relpath(stage.log, ROOT)}:"]
        text += [f"          | {line}" for line in shown]
    say("\n".join(text))


def recorded() -> dict[str, Any]:
    """For each stage the seconds and the day of its last recorded run, and how fast the machine was (P: see --record)."""
    known: dict[str, Any] = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    return known


def ordered(found: list[Stage], order: str) -> list[Stage]:
    """The longest first, so that none is left alone at the end; of those of which nothing is known, the longest is expected."""
    if order.startswith("shuffle:"):
        return random.Random(order).sample(found, len(found))
    known = recorded()
    longest = sorted(found, key=lambda stage: -known.get(stage.name, {"seconds": float("inf")})["seconds"])
    return longest[::-1] if order == "reverse" else longest


def labs() -> int:
    free = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return 2 if free and int(free.group(1)) >= SECOND_LAB_KIB else 1


def expected_seconds(stage: Stage, done: list[Stage]) -> float:
    """How long the stage takes by its record, on a machine that is as fast as it was until now; 0 if nothing is known of it.

    What makes the lab's images and states says nothing of the machine: it takes a second where they are there, and many minutes elsewhere.
    """
    known = recorded()
    alike = [one for one in done if one.name in known and one.group != "lab" and not one.left_out and not one.why]
    then = sum(known[one.name]["seconds"] for one in alike)
    now = sum(one.seconds for one in alike)
    pace = now / then if then else 1.0
    return float(known.get(stage.name, {"seconds": 0})["seconds"]) * pace


def run_all(picked: list[Stage], lanes: int, order: str, limit_seconds: float = float("inf")) -> None:
    done: list[Stage] = []
    started = time.monotonic()

    def following(queues: tuple[collections.deque[Stage], ...]) -> Stage | None:
        while True:
            with processes.GATE:
                left = [queue for queue in queues if queue]
                ready = [queue for queue in left if made.is_set() or queue is not loaded]
                if ready or not left:
                    return ready[0].popleft() if ready else None
            made.wait()

    def lane(lab: int, *queues: collections.deque[Stage]) -> None:
        while stage := following(queues):
            # Without the walk, the next scenario would have to make the state that the walk keeps.
            may_be_left_out = stage.group == "molecule" and stage.name != WALK
            if may_be_left_out and time.monotonic() - started + expected_seconds(stage, done) > limit_seconds:
                stage.left_out = True
            else:
                run(stage, lab)
            with processes.GATE:
                done.append(stage)
                report(stage, f"[{len(done):2}/{len(picked)}]")
            if stage.name == last:
                made.set()

    images = collections.deque(stage for stage in picked if stage.name == IMAGES)
    first = collections.deque(stage for name in (WALK, STATES) for stage in picked if stage.name == name)
    last = first[-1].name if first else ""
    scenarios = ordered([stage for stage in picked if stage.group == "molecule" and stage.name != WALK], order)
    serving = collections.deque(stage for stage in scenarios if serves(stage))
    # An image on its way into three hosts takes 25 GB of disk, and most of what the disk can do: one lab at a time, and not beside the scenario
    # that measures how fast faults heal.
    loaded = collections.deque(stage for stage in scenarios if loads(stage))
    made = threading.Event()
    hosts = collections.deque(stage for stage in scenarios if not serves(stage) and not loads(stage))
    others = collections.deque(stage for stage in picked if stage.group not in ("lab", "molecule"))
    with concurrent.futures.ThreadPoolExecutor(lanes + 1) as pool:
        work = [pool.submit(lane, 0, others)]
        pool.submit(lane, 1, images).result()
        if not first:
            made.set()
        work.append(pool.submit(lane, 1, first, serving, loaded, hosts))
        work += [pool.submit(lane, number, loaded, hosts) for number in range(2, lanes + 1)]
        for one in work:
            one.result()


def compare(picked: list[Stage], recording: float | None) -> None:
    """The slowest stages beside what they took when they were last recorded, and a new record where one is asked for."""
    known = recorded()
    say(f"\n{'the slowest':34} {'seconds':>9}  recorded")
    for stage in sorted(picked, key=lambda stage: -stage.seconds)[:10]:
        then = known.get(stage.name)
        say(f"{stage.name:34} {stage.seconds:9.0f}  " + (f"{then['seconds']} on {then['date']}" if then else "-"))
    if recording is not None:
        now = {"date": datetime.date.today().isoformat(), "P": recording or None}
        ran = [stage for stage in picked if not stage.why and not stage.left_out]
        known |= {stage.name: {"seconds": round(stage.seconds), **now} for stage in ran}
        DURATIONS.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


def failures(picked: list[Stage]) -> None:
    """What failed, once more and in short: the last lines are often all that a CI keeps."""
    for stage in (stage for stage in picked if stage.why):
        say(f"\nFAILED {stage.name}: {stage.why}")
        lines = stage.log.read_text(errors="replace").splitlines()
        for line in fatal.shown(lines):
            say(f"  | {line}")


def lock() -> Any:
    """One run at a time: a second would write over the logs, and use the labs of the first. The kernel unlocks it when we end."""
    BUILD.mkdir(exist_ok=True)
    held = (BUILD / "run.lock").open("a+")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.seek(0)
        sys.exit(f"tests already run in this checkout: {held.read().strip() or 'started just now'}")
    held.truncate(0)
    held.write(f"process {os.getpid()}, since {datetime.datetime.now():%Y-%m-%d %H:%M:%S}\n")
    held.flush()
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME[,NAME]", help="these groups or stages")
    parser.add_argument("--fast", action="store_true", help="all but the scenarios")
    parser.add_argument("--list", action="store_true", help="name the stages and stop")
    parser.add_argument("--lanes", type=int, metavar="N", help="labs for scenarios; 2 where there is memory for it")
    parser.add_argument("--order", default="longest", help="of the scenarios: longest, reverse or shuffle:SEED")
    what = (
        "leave out scenarios that would not be done this long after the start, by what they took when it was recorded"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="N", help=what)
    what = "write the times to tests/durations.json, with P, the speed of this machine (make bench-lab)"
    parser.add_argument("--record", type=float, nargs="?", const=0.0, metavar="P", help=what)
    arguments = parser.parse_args()
    if not re.fullmatch("longest|reverse|shuffle:.+", arguments.order):
        parser.error("--order is longest, reverse or shuffle:SEED")
    picked = chosen(stages(), arguments.only, arguments.fast)
    if arguments.list:
        for stage in picked:
            say(f"{stage.name:32} {' '.join(stage.command)}")
        return 0
    held = lock()
    processes.end_at_signals()
    os.chdir(ROOT)
    started = time.monotonic()
    run_all(picked, arguments.lanes or labs(), arguments.order, arguments.minutes * MINUTE)
    compare(picked, arguments.record)
    failures(picked)
    passed, failed = sum(stage.passed for stage in picked), sum(stage.failed for stage in picked)
    say(f"\n{len(picked)} stages in {(time.monotonic() - started) / MINUTE:.1f} minutes; logs in build/logs/\n")
    left_out = [stage.name for stage in picked if stage.left_out]
    if left_out:
        say(f"not run, for want of time: {', '.join(left_out)}\n")
    skipped = f", {len(left_out)} skipped" if left_out else ""
    say(f"{passed} passed, {failed} failed{skipped}")
    held.close()
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
