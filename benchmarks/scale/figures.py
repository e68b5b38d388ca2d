# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what was measured to tables, coefficients and what more hosts would cost. Pure: no file is read, nothing is run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# What is run, and how the tables call it.
KINDS = {"pings": "20 pings", "first": "first run", "again": "no change", "added": "one host added"}
# How long ssh keeps a connection that nobody uses: ControlPersist of the inventory.
PERSIST_SECONDS = 60


@dataclass(frozen=True)
class Run:
    """What one playbook cost on a number of hosts. ``added`` works on one host more than that, and on no other."""

    hosts: int
    kind: str
    wall_s: float
    cpu_s: float  # user and system, of ansible-playbook and all that it starts
    peak_mib: float  # of the same processes
    load: float  # of the machine, before
    calls: int  # commands and file transfers that came to the hosts by ssh
    calls_most: int  # of them, to the host with most
    results: int  # tasks that ended well, summed over the hosts
    changed: int

    @property
    def worked_on(self) -> int:
        """How many hosts the playbook worked on."""
        return 1 if self.kind == "added" else self.hosts


@dataclass(frozen=True)
class Machine:
    """Where it was measured, and with what."""

    cpu: str
    cores: int
    memory_gib: float
    python: str
    ansible: str
    forks: int
    commit: str


@dataclass(frozen=True)
class Cost:
    """fixed + each * hosts + square * hosts**2, none of them negative."""

    fixed: float
    each: float
    square: float

    def at(self, hosts: float) -> float:
        """For so many hosts."""
        return self.fixed + self.each * hosts + self.square * hosts * hosts

    def reaches(self, limit: float) -> float:
        """How many hosts it takes to reach a limit; infinite if no number does."""
        rest = limit - self.fixed
        if rest <= 0:
            return 0.0
        if self.square:
            return (math.sqrt(self.each**2 + 4 * self.square * rest) - self.each) / (2 * self.square)
        return rest / self.each if self.each else math.inf


def fit(points: Sequence[tuple[float, float]]) -> Cost:
    """The cost that fits the points (hosts, value above 0) best, by relative error. ValueError for fewer than two numbers of hosts.

    More terms than numbers of hosts would fit anything, so a square and three terms need four of those: of three, noise makes a square.
    """
    numbers = {hosts for hosts, _value in points}
    if len(numbers) < 2:
        raise ValueError("a trend needs measurements on at least two numbers of hosts")
    most = 3 if len(numbers) > 3 else 2
    best: tuple[float, Cost] | None = None
    for count in range(1, most + 1):
        for powers in itertools.combinations(range(most), count):
            rows = [[hosts**power / value for power in powers] for hosts, value in points]
            found = _least_squares(rows)
            if found is None or min(found) < 0:
                continue
            terms = dict(zip(powers, found, strict=True))
            cost = Cost(terms.get(0, 0.0), terms.get(1, 0.0), terms.get(2, 0.0))
            error = sum((cost.at(hosts) / value - 1) ** 2 for hosts, value in points)
            if best is None or error < best[0] - 1e-12:
                best = (error, cost)
    assert best is not None  # a single term always has a positive coefficient
    return best[1]


def _least_squares(rows: list[list[float]]) -> list[float] | None:
    """The x for which each row times x is as close to 1 as can be; None where that is not one x."""
    size = len(rows[0])
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in range(size)] + [sum(row[i] for row in rows)] for i in range(size)
    ]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(matrix[row][column]))
        if abs(matrix[pivot][column]) < 1e-15:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for row in range(size):
            if row != column:
                factor = matrix[row][column] / matrix[column][column]
                matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[column], strict=True)]
    return [matrix[row][size] / matrix[row][row] for row in range(size)]


def costs(runs: Sequence[Run], kind: str) -> dict[str, Cost]:
    """Wall time and CPU in s, memory in MiB and calls, as functions of the number of hosts, for one kind of run."""
    chosen = [run for run in runs if run.kind == kind]
    values: dict[str, Callable[[Run], float]] = {
        "wall_s": lambda run: run.wall_s,
        "cpu_s": lambda run: run.cpu_s,
        "peak_mib": lambda run: run.peak_mib,
        "calls": lambda run: float(run.calls),
    }
    return {name: fit([(run.hosts, value(run)) for run in chosen]) for name, value in values.items()}


def limits(runs: Sequence[Run], machine: Machine) -> list[tuple[float, str]]:
    """From how many hosts on something goes wrong, the first one first; what no number of hosts reaches is left out."""
    first, again, pings = (costs(runs, kind) for kind in ("first", "again", "pings"))
    tasks = 20
    found = [
        (
            again["wall_s"].reaches(3600),
            "a run that has nothing to change takes an hour: too long to be run as a check before each change",
        ),
        (first["wall_s"].reaches(8 * 3600), "a first run takes a working day (8 hours)"),
        (
            pings["wall_s"].reaches(tasks * PERSIST_SECONDS),
            f"one task on all hosts takes longer than ssh keeps an idle connection ({PERSIST_SECONDS} s): each task logs in anew",
        ),
        (
            first["peak_mib"].reaches(machine.memory_gib * 1024),
            f"the controller needs all of this machine's {machine.memory_gib:.0f} GiB of memory",
        ),
    ]
    return sorted((hosts, what) for hosts, what in found if math.isfinite(hosts))


def _of(runs: Sequence[Run], kind: str, hosts: int) -> Run | None:
    return next((run for run in runs if run.kind == kind and run.hosts == hosts), None)


def _hosts(number: int) -> str:
    return "1 host" if number == 1 else f"{number} hosts"


def ratios(runs: Sequence[Run]) -> list[tuple[str, float, float]]:
    """What is compared within one measurement: the name, the ratio, and what it should be at most."""
    numbers = sorted({run.hosts for run in runs})
    found = []
    for hosts in numbers:
        pings, again, added = (_of(runs, kind, hosts) for kind in ("pings", "again", "added"))
        alone, half = _of(runs, "first", 1), _of(runs, "again", hosts // 2)
        if pings and again:
            found += [
                (f"no change, {_hosts(hosts)}: remote calls a host", again.calls / hosts, 20),
                (f"no change, {_hosts(hosts)}: CPU by that of 20 pings", again.cpu_s / pings.cpu_s, 1.5),
                (f"no change, {_hosts(hosts)}: wall time by that of 20 pings", again.wall_s / pings.wall_s, 2),
            ]
        if again and half and hosts % 2 == 0:
            found.append(
                (f"no change, {_hosts(hosts)}: wall time by that of {hosts // 2}", again.wall_s / half.wall_s, 2.2)
            )
        if added and alone and hosts > 1:
            found.append(
                (f"one host added to {hosts}: wall time by a first run on 1", added.wall_s / alone.wall_s, 1.5)
            )
    return found


COLUMNS = (
    "hosts",
    "run",
    "wall",
    "CPU",
    "CPU a host",
    "calls a host",
    "peak memory",
    "results",
    "changed",
    "load before",
)


def cells(run: Run) -> tuple[str, ...]:
    """A run as the tables show it."""
    return (
        f"{run.hosts} + 1" if run.kind == "added" else str(run.hosts),
        KINDS[run.kind],
        f"{run.wall_s:.0f} s",
        f"{run.cpu_s:.1f} s",
        f"{run.cpu_s / run.worked_on:.2f} s",
        # Of a run with --limit the other hosts are looked at, too.
        f"{run.calls / run.worked_on:.1f}",
        f"{run.peak_mib:.0f} MiB",
        str(run.results),
        str(run.changed),
        f"{run.load:.1f}",
    )


def table(runs: Sequence[Run]) -> str:
    """All runs, as text and as Markdown at the same time."""
    return _markdown([COLUMNS, *(cells(run) for run in runs)])


def ratio_table(runs: Sequence[Run]) -> str:
    """The ratios, each with what it should be at most."""
    rows = [(name, f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}", f"{most:g}") for name, ratio, most in ratios(runs)]
    return _markdown([("what", "measured", "goal: at most"), *rows])


def cost_table(runs: Sequence[Run], hosts: int) -> str:
    """What so many hosts would cost, with the coefficients that this follows from."""
    rows = [("run", "wall", "CPU", "peak memory", "remote calls", "wall time in s for n hosts", "CPU in s for n hosts")]
    for kind in ("pings", "again", "first"):
        found = costs(runs, kind)
        rows.append(
            (
                KINDS[kind],
                duration(found["wall_s"].at(hosts)),
                f"{found['cpu_s'].at(hosts) / 3600:.1f} core hours",
                f"{found['peak_mib'].at(hosts) / 1024:.1f} GiB",
                f"{found['calls'].at(hosts):,.0f}",
                formula(found["wall_s"]),
                formula(found["cpu_s"]),
            )
        )
    return _markdown(rows)


def cpu_table(runs: Sequence[Run], hosts: int) -> str:
    """What is left of it where all hosts were worked on at once: wall time and memory are those of the forks then."""
    rows = [("run", "CPU", "remote calls", "CPU in s for n hosts")]
    for kind in ("pings", "again", "first"):
        found = costs(runs, kind)
        cpu, calls = found["cpu_s"], found["calls"].at(hosts)
        rows.append((KINDS[kind], f"{cpu.at(hosts) / 3600:.1f} core hours", f"{calls:,.0f}", formula(cpu)))
    return _markdown(rows)


def cpu_limits(runs: Sequence[Run], machine: Machine) -> list[tuple[float, str]]:
    """From how many hosts on the CPU time alone is too much, on all cores of this machine; the first one first."""
    found = [
        (costs(runs, kind)["cpu_s"].reaches(seconds * machine.cores), what)
        for kind, seconds, what in (
            ("again", 3600, "a run that has nothing to change takes an hour"),
            ("first", 8 * 3600, "a first run takes a working day (8 hours)"),
        )
    ]
    return sorted((hosts, what) for hosts, what in found if math.isfinite(hosts))


def formula(cost: Cost) -> str:
    """As a reader writes it: 12 + 3.4 n."""
    terms = [(cost.fixed, ""), (cost.each, " n"), (cost.square, " n²")]
    return " + ".join(f"{value:.3g}{name}" for value, name in terms if value) or "0"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whatever is read most easily."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(
        f"| {line} |" for line in [lines[0], " | ".join("-" * max(3, width) for width in widths), *lines[1:]]
    )
