"""The checks and tests of the collection, side by side: what `make test` and `make test-all` run.

A stage is a session of noxfile.py or one molecule scenario. What needs no hosts runs in one lane, one after the other; beside it the
scenarios run in one or two, each with a lab of its own. The first lab begins with the scenario that walks the whole road and keeps the hosts
at its end, and with the state in which images are loaded: scenarios that begin with either wait for that.

The tier `gate` is the same each time, and what a change concerns: scenarios of the tier `full` that guard a path which differs from the commit of their
last pass, the shortest first, as far as eight minutes reach. The tier `full` is everything. It can run in parts, and go on where it stopped: each pass
is written into tests/full_run.json.

A stage's output goes to build/logs/, and its last lines are shown when it fails; the others run all the same. The last line is the sum,
alone: `N passed, N failed`. A test case counts as one, and so does a stage that is no suite of tests; a scenario is one, plus its
testinfra tests. A suite without a test is a failure.

    python -m tests.run --list                        what the gate runs
    python -m tests.run --only lint,molecule/venv     some groups or stages of either tier
    python -m tests.run --tier full --part 2/4        the second quarter of everything
    python -m tests.run --tier full --continue        what has not passed yet on the files that it stands for
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import datetime
import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests import scenarios
from tests.scenarios import Pass, Passes, Scenario
from tests.support import fatal, processes
from tests.support.processes import MINUTE, say

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
FULL_RUN = ROOT / "tests" / "full_run.json"
README = ROOT / "README.md"
SENTENCE = re.compile(r"^The last full run: .*$", re.MULTILINE)
NOX = str(ROOT / ".tools" / "bin" / "nox")
SHOWN_LINES = 60
# What hangs is ended. On a slow machine a stage takes three times as long as on a fast one.
LIMIT_SECONDS = {"gate": 35 * MINUTE, "full": 75 * MINUTE}
# So much time the gate has for scenarios that a change concerns, by what they took in the last full run.
CONCERNED_SECONDS = 8 * MINUTE
# A lab may take 6 GiB while it serves a model, what runs beside it 2, and its hosts, images and bundle this much of the disk.
LAB_KIB, BESIDE_KIB = 6 * 1024 * 1024, 2 * 1024 * 1024
DISK_GIB = 20
IMAGES, STATES = "lab/images", "lab/states"
# It keeps its hosts as the state that others begin with; without it the state is made for them.
WALK = "molecule/road"
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
    tiers: tuple[str, ...] = scenarios.TIERS
    # The state of the lab that a scenario begins in.
    begins: str = ""
    limit_seconds: int = LIMIT_SECONDS["full"]
    # It runs pytest, whose cases are counted.
    suite: bool = False
    # That it succeeded counts as one.
    itself: bool = True
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    why: str = ""

    def __post_init__(self) -> None:
        self.group = self.name.partition("/")[0]
        self.log = BUILD / "logs" / (self.name.replace("/", "-") + ".log")
        self.results = self.log.with_suffix(".junit")


def stages(known: Mapping[str, Scenario]) -> list[Stage]:
    """What nox selects by default, a session with the tag of a tier in that tier alone, and every scenario."""
    listed = subprocess.run((NOX, "--list", "--json"), cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    found = []
    for session in json.loads(listed):
        suite, name = "suite" in session["tags"], session["session"].replace("(", "/").rstrip(")")
        tiers = tuple(tier for tier in scenarios.TIERS if tier in session["tags"]) or scenarios.TIERS
        found.append(Stage(name, (NOX, "--session", session["session"]), tiers, suite=suite, itself=not suite))
    for one in known.values():
        tiers = scenarios.TIERS if one.tier == "gate" else ("full",)
        command = (NOX, "--session", "molecule", "--", one.name)
        found.append(Stage(f"molecule/{one.name}", command, tiers, begins=one.begins, suite=True))
    return found


def named(everything: list[Stage], only: list[str]) -> list[Stage]:
    """The stages and groups that --only names, of either tier."""
    wanted = {name for names in only for name in names.split(",") if name}
    there = {stage.name for stage in everything} | {stage.group for stage in everything}
    if unknown := ", ".join(sorted(wanted - there)):
        sys.exit(f"no stage or scenario is named {unknown}; there are: {' '.join(sorted(there))}")
    return [stage for stage in everything if {stage.name, stage.group} & wanted]


def part(found: list[Stage], which: str) -> list[Stage]:
    """The K-th of N parts: each stage is in one of them."""
    match = re.fullmatch(r"(\d+)/(\d+)", which)
    number, parts = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= parts:
        sys.exit(f"there is no part {which}; a part is K/N, from 1/N to N/N, such as 2/4")
    return found[number - 1 :: parts]


def with_lab(picked: list[Stage]) -> list[Stage]:
    """With what several scenarios need before them, so that none is blamed for the time that it takes."""
    begins = {stage.begins for stage in picked}
    if not any(begins):
        return picked
    lab = (str(ROOT / ".venv" / "bin" / "python"), "-m", "lab")
    walked = any(stage.name == WALK for stage in picked)
    state = "serving" if "serving" in begins and not walked else "loaded" if "loaded" in begins else ""
    return [
        *picked,
        Stage(IMAGES, (*lab, "images"), itself=False),
        *([Stage(STATES, (*lab, "state", "make", state), itself=False)] if state else []),
    ]


class Record:
    """The passes of the tier full. One counts as long as no file differs from its commit that the stage stands for: of a scenario the paths that it guards,
    of any other stage all files."""

    def __init__(self, known: Mapping[str, Scenario]) -> None:
        self.scenarios = {f"molecule/{one.name}": one for one in known.values()}
        self.passes = Passes.load(FULL_RUN)
        self.changed = functools.cache(scenarios.changed_files)
        head = subprocess.run(("git", "rev-parse", "HEAD"), cwd=ROOT, capture_output=True, text=True)
        self.head = head.stdout.strip()

    def differs(self, stage: str, commit: str, changed: Callable[[str], list[str] | None]) -> bool:
        """Whether what the stage stands for is another than at this commit, or nobody knows."""
        files = changed(commit)
        if files is None:
            return True
        files = [name for name in files if not self._is_own(name, commit)]
        one = self.scenarios.get(stage)
        return one.is_concerned(files) if one else bool(files)

    @staticmethod
    def _is_own(name: str, commit: str) -> bool:
        """Whether nothing but this record itself can have made the file another one."""
        if name != os.path.relpath(README, ROOT):
            return name == os.path.relpath(FULL_RUN, ROOT)
        then = subprocess.run(("git", "show", f"{commit}:{name}"), cwd=ROOT, capture_output=True, text=True)
        return then.returncode == 0 and SENTENCE.sub("", then.stdout) == SENTENCE.sub("", README.read_text())

    def is_current(self, stage: str) -> bool:
        last = self.passes.stages.get(stage)
        return last is not None and not self.differs(stage, last.commit, self.changed)

    def seconds(self, stage: str) -> float:
        """What the stage took then; endless where it never passed."""
        last = self.passes.stages.get(stage)
        return last.seconds if last else float("inf")

    def add(self, stage: Stage) -> None:
        """The stage has passed."""
        if self.differs(stage.name, self.head, scenarios.changed_files):
            say(
                f"{stage.name} passed, on files that the commit of this run's beginning does not hold: it is not recorded"
            )
            return
        today = datetime.date.today().isoformat()
        self.passes.stages[stage.name] = Pass(self.head, today, machine(), round(stage.seconds))
        self.passes.save()

    def say(self, full: list[Stage]) -> None:
        """In README.md and here."""
        sentence = self.passes.sentence([stage.name for stage in full])
        README.write_text(SENTENCE.sub(sentence, README.read_text()))
        say(f"{sentence} Commit {os.path.relpath(FULL_RUN, ROOT)} and README.md.")


def reached(concerned: list[Stage], record: Record) -> list[Stage]:
    """Those that the gate has time for: the shortest first, each with the state that nobody else makes."""
    left = float(CONCERNED_SECONDS)
    found: list[Stage] = []
    for stage in sorted(concerned, key=lambda stage: record.seconds(stage.name)):
        alone = stage.begins == "loaded" and all(one.begins != "loaded" for one in found)
        needed = record.seconds(stage.name) + (record.seconds(STATES) if alone else 0)
        if needed <= left:
            found.append(stage)
            left -= needed
    return found


def for_gate(everything: list[Stage], record: Record) -> tuple[list[Stage], str]:
    """The gate's stages, and what is said of the scenarios that a change concerns."""
    gate = [stage for stage in everything if "gate" in stage.tiers]
    concerned = [
        stage
        for stage in everything
        if stage.name in record.scenarios and "gate" not in stage.tiers and not record.is_current(stage.name)
    ]
    picked = reached(concerned, record)
    left_out = [stage.name for stage in concerned if stage not in picked]
    said = f"What guards paths that differ from its last pass: {', '.join(stage.name for stage in picked) or 'nothing'}"
    if left_out:
        said += f"; for want of time not {', '.join(left_out)}: make test-all"
    return [*gate, *picked], f"{said}."


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
    text = [f"{number} {stage.name:34} {'FAILED' if stage.why else 'ok':7} {stage.seconds:5.0f} s{cases}"]
    if stage.why:
        lines = stage.log.read_text(errors="replace").splitlines()
        shown = [line for line in lines[:-SHOWN_LINES] if fatal.ERROR.match(line)][-SHOWN_LINES:] + lines[-SHOWN_LINES:]
        text += [f"          {stage.why}; from {os.path.relpath(stage.log, ROOT)}:"]
        text += [f"          | {line}" for line in shown]
    say("\n".join(text))


def available_kib() -> int:
    free = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(free.group(1)) if free else 0


def labs() -> int:
    """How many labs there is memory and disk for, at most two."""
    by_memory = (available_kib() - BESIDE_KIB) // LAB_KIB
    by_disk = shutil.disk_usage(ROOT).free // (DISK_GIB * 2**30)
    return max(0, min(2, by_memory, by_disk))


def missing_for_labs() -> list[str]:
    """What the machine lacks for one lab, said before anything is made."""
    from lab import engine

    found = [lacks] if (lacks := engine.lacks()) else []
    if available_kib() < LAB_KIB + BESIDE_KIB:
        found.append(f"{available_kib() / 2**20:.1f} GiB of memory are free; scenarios need 8.")
    free = shutil.disk_usage(ROOT).free / 2**30
    if free < DISK_GIB:
        prune = ".venv/bin/python -m lab state prune --all"
        found.append(f"{free:.1f} GiB of disk are free; scenarios need {DISK_GIB}. {prune} removes kept states.")
    return found


def run_all(picked: list[Stage], lanes: int, passes: Any = None) -> None:
    """Run them; `passes` is called with each one that has passed."""
    done: list[Stage] = []

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
            run(stage, lab)
            with processes.GATE:
                done.append(stage)
                report(stage, f"[{len(done):2}/{len(picked)}]")
                if passes and not stage.why:
                    passes(stage)
            if stage.name == last:
                made.set()

    images = collections.deque(stage for stage in picked if stage.name == IMAGES)
    first = collections.deque(stage for name in (WALK, STATES) for stage in picked if stage.name == name)
    last = first[-1].name if first else ""
    found = [stage for stage in picked if stage.group == "molecule" and stage.name != WALK]
    # A state that serves holds addresses, so each lab would need one of its own.
    serving = collections.deque(stage for stage in found if stage.begins == "serving")
    # An image on its way into three hosts takes 25 GB of disk, and most of what the disk can do: one lab at a time, and not beside the scenario
    # that measures how fast faults heal.
    loaded = collections.deque(stage for stage in found if stage.begins == "loaded")
    made = threading.Event()
    hosts = collections.deque(stage for stage in found if stage.begins not in ("serving", "loaded"))
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


def machine() -> str:
    processor = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB ({processor.group(1) if processor else os.uname().machine})"


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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", choices=scenarios.TIERS, default="gate", help="gate, or full for everything")
    parser.add_argument("--only", action="append", default=[], metavar="NAME[,NAME]", help="these groups or stages")
    parser.add_argument("--part", metavar="K/N", help="of the tier full the K-th of N parts")
    what = "leave out stages of the tier full whose last pass was on the files that there are now"
    parser.add_argument("--continue", dest="goes_on", action="store_true", help=what)
    parser.add_argument("--list", action="store_true", help="name the stages and stop")
    parser.add_argument("--lanes", type=int, choices=(1, 2), help="labs for scenarios; 2 where there is room for them")
    found = parser.parse_args()
    if (found.part or found.goes_on) and (found.tier != "full" or found.only):
        parser.error("--part and --continue are for all of the tier full: --tier full, without --only")
    return found


def main() -> int:
    asked = arguments()
    known = scenarios.load()
    everything = stages(known)
    full = [stage for stage in everything if "full" in stage.tiers]
    record, said = Record(known), ""
    if asked.only:
        picked = named(everything, asked.only)
    elif asked.tier == "gate":
        picked, said = for_gate(everything, record)
        for stage in picked:
            stage.limit_seconds = LIMIT_SECONDS["gate"]
    else:
        picked = part(full, asked.part) if asked.part else full
        if asked.goes_on:
            picked = [stage for stage in picked if not record.is_current(stage.name)]
            if not picked:
                say(
                    f"Every stage of it has passed already on the files that it stands for: see {os.path.relpath(FULL_RUN, ROOT)}."
                )
                return 0
    picked = with_lab(picked)
    if asked.list:
        say("\n".join([*(f"{stage.name:32} {' '.join(stage.command)}" for stage in picked), *filter(None, [said])]))
        return 0
    held = lock()
    if lacks := missing_for_labs() if any(stage.begins for stage in picked) else []:
        sys.exit("\n".join(["This machine cannot run scenarios:", *lacks]))
    processes.end_at_signals()
    os.chdir(ROOT)
    started = time.monotonic()
    run_all(picked, asked.lanes or labs(), record.add if asked.tier == "full" else None)
    say(f"\n{'the slowest':34} {'seconds':>9}")
    for stage in sorted(picked, key=lambda stage: -stage.seconds)[:10]:
        say(f"{stage.name:34} {stage.seconds:9.0f}")
    failures(picked)
    minutes = (time.monotonic() - started) / MINUTE
    say(f"\n{len(picked)} stages in {minutes:.1f} minutes; logs in build/logs/\n")
    if said:
        say(f"{said}\n")
    succeeded, failed = sum(stage.passed for stage in picked), sum(stage.failed for stage in picked)
    if asked.tier == "full":
        record.say(full)
    say(f"{succeeded} passed, {failed} failed")
    held.close()
    return 1 if failed or not succeeded else 0


if __name__ == "__main__":
    sys.exit(main())
