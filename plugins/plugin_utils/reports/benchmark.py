# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine's benchmark measured of a deployment: beside the time before, and beside the plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, number, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

# By the names that the benchmark of the default engine writes (benchmark.py of its folder). Of rates there is one figure, of times the median and the
# 99th percentile.
RATES = {"report_benchmark_output": "output_throughput", "report_benchmark_requests": "request_throughput"}
TIMES = {
    "report_benchmark_ttft": ("median_ttft_ms", "p99_ttft_ms"),
    "report_benchmark_itl": ("median_itl_ms", "p99_itl_ms"),
}


def latest_benchmarks(folder: Path, most: int = 2) -> list[dict[str, object]]:
    """The last runs in the folder of a deployment, the newest first, each with the time of its file as ``measured``."""
    found = ((path, _read(path)) for path in sorted(folder.glob("*.json"), reverse=True))
    return [{**run, "measured": path.stem} for path, run in itertools.islice(((p, r) for p, r in found if r), most)]


def _read(path: Path) -> dict[str, object]:
    """What a run measured; nothing of a file that was damaged, or that a run without an answer has left."""
    try:
        run = read_json(path.read_text(encoding="utf-8"))
        figures = [run[name] for name in (*RATES.values(), *itertools.chain(*TIMES.values()))]
        # math.isfinite raises a TypeError for a number in quotes, which could be compared with no other.
        return dict(run) if all(map(math.isfinite, [*figures, *load_of(run).values()])) else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return {}


def benchmark_lines(
    runs: Sequence[Mapping[str, object]], plan: Mapping[str, object], language: str = "en"
) -> list[str]:
    """The newest of ``runs`` with what the one before it measured of the same load, and how many such requests the plan has room for."""
    if not runs:
        return []
    newest, former = runs[0], next((run for run in runs[1:] if load_of(run) == load_of(runs[0])), None)
    load = load_of(newest)
    lines = [message("report_benchmark", language, measured=newest["measured"], **load, failed=failed_requests(newest))]
    for code, figure in RATES.items():
        lines.append(_figure(code, f"{newest[figure]:.1f}", figure, newest, former, language))
    for code, (median, p99) in TIMES.items():
        said = message("report_benchmark_median", language, median=f"{newest[median]:.1f}", p99=f"{newest[p99]:.1f}")
        lines.append(_figure(code, said, median, newest, former, language))
    if room := room_of(plan, load["input"] + load["output"]):
        lines.append(message("report_benchmark_room", language, room=room))
    return ["  " + lines[0], *(f"    {line}" for line in lines[1:])]


def room_of(plan: Mapping[str, object], tokens: int) -> int:
    """How many requests of that many tokens the plan has room for at a time; 0 where it says nothing of it."""
    if not tokens:  # no request was answered
        return 0
    predicted, settings = mapping(plan.get("predicted")), mapping(plan.get("settings"))
    room = whole(predicted.get("kv_cache_tokens") or 0) // tokens
    return min(room, whole(settings.get("max_num_seqs") or room))


def load_of(run: Mapping[str, object]) -> dict[str, int]:
    """What was asked for: runs of another load are not compared."""
    requests, completed = whole(run["num_prompts"]), max(whole(run["completed"]), 1)
    return {
        "requests": requests,
        "input": round(number(run["total_input_tokens"]) / completed),
        "output": round(number(run["total_output_tokens"]) / completed),
        "concurrency": whole(run.get("max_concurrency") or requests),
    }


def failed_requests(run: Mapping[str, object]) -> int:
    """How many requests of a run got no answer."""
    return whole(run["num_prompts"]) - whole(run["completed"])


def _figure(
    code: str, said: str, name: str, newest: Mapping[str, object], former: Mapping[str, object] | None, language: str
) -> str:
    if former and former[name]:
        change = f"{100 * (number(newest[name]) / number(former[name]) - 1):+.0f} %"
        values = {"measured": former["measured"], "former": f"{former[name]:.1f}", "change": change}
        said = message("report_benchmark_former", language, figures=said, **values)
    return message("report_benchmark_figure", language, name=message(code, language), figures=said)
