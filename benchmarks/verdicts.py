# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often the planner says of a start what the release itself says.

usage: python benchmarks/verdicts.py [FILE ...]

A verdict is what the Python code of a vLLM release (its option parser, the checks of its configuration, the construction of the whole
model without memory) said of options, with the answers of the hardware given to it: [model, what its config.json has else, compute
capability, GPUs, release, options, accepted, message]. Kernels, memory and what only loading shows are no part of it. The verdicts of
tests/data/planner/release_verdicts.json were made so for 0.3.3, 0.4.2, 0.5.4, 0.6.6, 0.8.5.post1, 0.10.2 and 0.12.0, each with the
release of transformers of its time. Those of new_verdicts.json were made in the same way of random options, after the rules had been written: of
the first 248 the planner agreed with 97.2 percent, and was mended since. Left out of both is what a release accepts and its kernels decide. FILE
holds other verdicts of the same form.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import read_gpus  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import predict  # noqa: E402

DATA = ROOT / "tests" / "data"
VERDICTS = DATA / "planner" / "release_verdicts.json"
NEW_VERDICTS = DATA / "planner" / "new_verdicts.json"

# The GPUs that the releases were told of: nvidia-smi's name and MiB by compute capability.
GPUS = {
    "7.0": ("Tesla V100-SXM2-32GB", 32768),
    "7.5": ("Quadro RTX 8000", 49152),
    "8.0": ("NVIDIA A100-SXM4-80GB", 81920),
    "9.0": ("NVIDIA H100 80GB HBM3", 81559),
}

CAUSES = (
    ("option unknown", r"unrecognized arguments"),
    (
        "value outside the domain",
        r"invalid choice|invalid \w+ value|Unknown (?:quantization|RoPE)|must be one of|must be less|GPU memory util",
    ),
    ("no quantised checkpoint", r"Cannot find the config file|only support 'bitsandbytes'"),
    ("another quantisation", r"does not match the quant"),
    (
        "quantisation and GPU",
        r"not supported for\b.*GPU|Min capability|Marlin does not|bitblas|\.9 or newer|BitAndBytes",
    ),
    ("dtype", r"Supported dtypes|[Bb]float16 is only"),
    ("model unknown", r"does not recognize|are not supported for now|rope_scaling|rope_type"),
    ("parallelism", r"divisible|Pipeline|world size|Worker|integer modulo"),
    ("context", r"max_model_len|max_num_batched"),
    ("combination", r""),
)


class Row(NamedTuple):
    """One verdict beside the planner's."""

    number: int
    verdict: list[Any]
    accepted: bool
    planned: bool | None  # None: the planner ended with an error of its own
    said: str

    @property
    def agrees(self) -> bool:
        return self.accepted == self.planned

    @property
    def promises(self) -> bool:
        """The release refuses, and the planner says that it starts."""
        return not self.accepted and self.planned is True

    @property
    def cause(self) -> str:
        if self.accepted:
            return "accepted"
        return next(name for name, pattern in CAUSES if re.search(pattern, self.verdict[7]))


def compare(verdicts: list[list[Any]]) -> list[Row]:
    """Ask the planner about each."""
    models: dict[str, dict[str, Any]] = {}
    rows = []
    for number, verdict in enumerate(verdicts):
        name, overrides, capability, count, release, options, accepted, _message = verdict
        if name not in models:
            models[name] = json.loads((DATA / "models" / f"{name}.json").read_text(encoding="utf-8"))
        gpu = {"name": GPUS[capability][0], "memory_mib": GPUS[capability][1], "compute_capability": capability}
        planned: bool | None
        try:
            model = read_model({**models[name], **overrides})
            start = predict(model, read_gpus([gpu] * count), {**options, "vllm_version": release})
            planned, said = start.ok, start.error.message.say() if start.error else ""
        except ValueError as error:
            planned, said = False, str(error)
        except Exception as error:  # whatever else it is, it is a defect of the planner
            planned, said = None, repr(error)
        rows.append(Row(number, verdict, accepted, planned, said))
    return rows


def agreement(rows: list[Row]) -> float:
    return sum(row.agrees for row in rows) / len(rows)


def report(rows: list[Row]) -> None:
    print(f"{'what the release says':<28} {'cases':>6} {'agreed':>7}")
    cases = Counter(row.cause for row in rows)
    agreed = Counter(row.cause for row in rows if row.agrees)
    for cause in ["accepted", *[name for name, _pattern in CAUSES]]:
        if cases[cause]:
            print(f"{cause:<28} {cases[cause]:>6} {agreed[cause]:>7}")
    print()
    for row in rows:
        if not row.agrees:
            name, overrides, capability, count, release, options, _accepted, message = row.verdict
            print(
                f"{row.number}: {name} {json.dumps(overrides)} on {count} x {capability}, {release}, {json.dumps(options)}"
            )
            print(f"    the release: {message.strip()[:240] or 'accepts it'}")
            print(f"    the planner: {row.said[:240] or 'starts'}")
    print(
        f"{len(rows)} verdicts: {agreement(rows):.2%} agree, "
        f"{sum(row.promises for row in rows)} refused by the release and promised by the planner"
    )


def main() -> int:
    files = [Path(name) for name in sys.argv[1:]] or [VERDICTS, NEW_VERDICTS]
    rows = compare([verdict for file in files for verdict in json.loads(file.read_text(encoding="utf-8"))])
    report(rows)
    return int(agreement(rows) < 0.99 or any(row.promises for row in rows))


if __name__ == "__main__":
    sys.exit(main())
