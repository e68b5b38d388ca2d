# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only the controller knows, as metrics: plan against truth of the last start, and the age of the bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, number, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import table

GIB = 1024**3
# Where an observation has what was planned and what was measured.
SIDES = {"planned": "prediction", "measured": "truth"}
# What a rank holds, as the planner and the engine's log call it.
PARTS = ("weights", "activation", "non_torch", "cudagraph", "kv_cache")


def plan_metrics(observation: Mapping[str, object], deployment: str = "") -> str:
    """Both sides of an observation (tasks/observe.yml of the engine's role) in Prometheus's text format: tokens, and bytes by rank and part. Ranks are
    counted as the source names them. What a side does not say is left out; nothing at all of an empty observation. ``deployment`` is a label where
    the host has several."""
    found, label = "", f'deployment="{deployment}"' if deployment else ""
    for side, source in SIDES.items():
        said = mapping(observation.get(source))
        tokens = said.get("kv_cache_tokens")
        found += _metric(
            f"llm_{side}_kv_cache_tokens",
            [] if tokens is None else [f"{{{label}}} {whole(tokens)}" if label else f" {whole(tokens)}"],
        )
        found += _metric(f"llm_{side}_rank_bytes", list(_ranks(said, label)))
    return found


def bundle_metrics(written: float) -> str:
    """When the bundle was made, in seconds since 1970."""
    return _metric("llm_bundle_written_timestamp_seconds", [f" {round(written)}"])


def _metric(name: str, samples: Sequence[str]) -> str:
    lines = [f"# HELP {name} {table('figures.yml')[name]}", f"# TYPE {name} gauge", *(name + each for each in samples)]
    return "\n".join([*lines, ""]) if samples else ""


def together(*pages: str) -> str:
    """Several pages as one: the samples of a metric stand together, below its first description."""
    found: dict[str, list[str]] = {}
    for page in pages:
        for line in page.splitlines():
            name = line.split()[2] if line.startswith("# ") else line.partition("{")[0].split()[0]
            if line not in found.setdefault(name, []):
                found[name].append(line)
    return "".join(f"{line}\n" for lines in found.values() for line in lines)


def _ranks(said: Mapping[str, object], label: str) -> Iterator[str]:
    for index, rank in enumerate(mappings(said.get("ranks"))):
        for part in PARTS:
            gib = rank.get(f"{part}_gib")
            if gib is not None:
                more = f"{label}," if label else ""
                yield f'{{{more}rank="{index}",part="{part}"}} {round(number(gib) * GIB)}'
