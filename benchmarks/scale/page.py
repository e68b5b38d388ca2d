# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures as docs/performance.md shows them: tables in Markdown and a plot in SVG. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from benchmarks.scale import figures
from benchmarks.scale.figures import KINDS, Machine, Run

MANY = 1000
BEGIN, END = "<!-- figures: make bench-scale -->", "<!-- end of the figures -->"
PLOT = "images/scale.svg"
COLOURS = {"pings": "#6e7781", "again": "#0969da", "first": "#cf222e", "added": "#1a7f37"}
# A panel of the plot, in pixels.
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 420, 300, 58, 44, 44


TITLE = "What site.yml costs, by the number of hosts"


def section(runs: Sequence[Run], machine: Machine) -> str:
    """The part of the page that is generated."""
    about = (
        f"Measured on {machine.cpu}, {machine.cores} cores, {machine.memory_gib:.0f} GiB, which ran the hosts, too; ansible-core "
        f"{machine.ansible}, Python {machine.python}, {machine.forks} forks, at commit {machine.commit}. The load of the machine before "
        "each run is in the table: where it is high, the wall time tells more about the other work than about this collection."
    )
    parts = [
        about,
        figures.table(runs),
        f"![Wall time, and controller CPU a host, by the number of hosts]({PLOT})",
        "### Against the yardstick\n\n" + figures.ratio_table(runs),
    ]
    # Two points make a line whatever they are.
    if all(len({run.hosts for run in runs if run.kind == kind}) > 2 for kind in ("pings", "first", "again")):
        parts.append(f"## What {MANY:,} hosts would cost\n\n" + extrapolation(runs, machine))
    else:
        parts.append(f"These are too few numbers of hosts to say from them what {MANY:,} would cost: that takes three.")
    return "\n\n".join(parts) + "\n"


def extrapolation(runs: Sequence[Run], machine: Machine) -> str:
    """What many hosts would cost, and what breaks first."""
    numbers = sorted({run.hosts for run in runs})
    if numbers[-1] <= machine.forks:
        lines = [f"- about {_rounded(hosts):,} hosts: {what}." for hosts, what in figures.cpu_limits(runs, machine)]
        return (
            f"Ansible worked on all of these hosts at the same time, since it had {machine.forks} forks. So their wall time and memory say nothing "
            f"about more hosts than that, and only the CPU time and the calls are continued to {MANY:,}. The coefficients are those that fit best; "
            f"beyond {numbers[-1]} hosts nothing was measured.\n\n{figures.cpu_table(runs, MANY)}\n\n### What breaks first\n\n"
            f"As far as the CPU time alone goes, on {machine.cores} cores that have nothing else to do:\n\n"
            + "\n".join(lines)
        )
    lines = [f"- about {_rounded(hosts):,} hosts: {what}." for hosts, what in figures.limits(runs, machine)]
    return (
        f"From the measurements on {', '.join(map(str, numbers))} hosts, continued to {MANY:,}. The coefficients are those that fit best, none of them "
        f"negative; beyond {numbers[-1]} hosts nothing was measured.\n\n"
        f"{figures.cost_table(runs, MANY)}\n\n### What breaks first\n\n" + "\n".join(lines)
    )


def _rounded(hosts: float) -> int:
    """Two digits are more than such an estimate holds."""
    if hosts < 100:
        return round(hosts)
    unit = 10 ** (math.floor(math.log10(hosts)) - 1)
    return int(round(hosts / unit) * unit)


def plot(runs: Sequence[Run]) -> str:
    """Two panels: wall time, and controller CPU a host."""
    panels: list[tuple[str, Callable[[Run], float]]] = [
        ("wall time in s", lambda run: run.wall_s),
        ("controller CPU a host in s", lambda run: run.cpu_s / run.worked_on),
    ]
    legend = "".join(
        f'<rect x="{LEFT + 130 * place}" y="{HEIGHT + 14}" width="12" height="12" fill="{COLOURS[kind]}"/>'
        f'<text x="{LEFT + 130 * place + 18}" y="{HEIGHT + 24}">{escape(name)}</text>'
        for place, (kind, name) in enumerate(KINDS.items())
    )
    drawn = "".join(_panel(runs, title, value, place * WIDTH) for place, (title, value) in enumerate(panels))
    size = f'width="{2 * WIDTH}" height="{HEIGHT + 40}" viewBox="0 0 {2 * WIDTH} {HEIGHT + 40}"'
    style = 'font-family="sans-serif" font-size="12" fill="#57606a"'
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><title>{TITLE}</title>{ground}{drawn}{legend}</svg>\n'
    )


def _panel(runs: Sequence[Run], title: str, value: Callable[[Run], float], shift: int) -> str:
    most_hosts, most = max(run.hosts for run in runs), _ceiling(max(value(run) for run in runs))
    inner = (WIDTH - LEFT - 20, HEIGHT - TOP - BOTTOM)

    def at(hosts: float, amount: float) -> tuple[float, float]:
        return shift + LEFT + inner[0] * hosts / most_hosts, TOP + inner[1] * (1 - amount / most)

    parts = [f'<text x="{shift + LEFT}" y="{TOP - 16}" font-weight="bold">{escape(title)}</text>']
    for step in range(5):
        left, height = at(0, most * step / 4)
        parts.append(f'<path d="M{left:.1f} {height:.1f}h{inner[0]}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{left - 8:.1f}" y="{height + 4:.1f}" text-anchor="end">{most * step / 4:g}</text>')
    for hosts in sorted({run.hosts for run in runs}):
        left, height = at(hosts, 0)
        parts.append(f'<text x="{left:.1f}" y="{height + 18:.1f}" text-anchor="middle">{hosts}</text>')
    left, height = at(most_hosts / 2, 0)
    parts.append(f'<text x="{left:.1f}" y="{height + 34:.1f}" text-anchor="middle">hosts</text>')
    for kind, colour in COLOURS.items():
        points = [at(run.hosts, value(run)) for run in sorted(runs, key=lambda run: run.hosts) if run.kind == kind]
        way = " ".join(f"{left:.1f},{height:.1f}" for left, height in points)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{left:.1f}" cy="{height:.1f}" r="3" fill="{colour}"/>' for left, height in points]
    return "".join(parts)


def _ceiling(value: float) -> float:
    """The next number that divides well: 1, 2, 4 or 8 times a power of ten."""
    unit = 10.0 ** math.floor(math.log10(value))
    return next(unit * step for step in (1, 2, 4, 8, 10) if unit * step >= value * (1 - 1e-9))


def replaced(text: str, new: str) -> str:
    """The page with new figures. ValueError where it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{new}{END}{after}"
