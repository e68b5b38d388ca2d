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
holds other verdicts of the same form. fresh_verdicts.json holds random cases of another seed, made when the planner agreed with all but two of the
verdicts before: of the first 1,015 it agreed with 94.5 percent and promised eight starts that the release refuses. It was mended since, and agreed with
98.3 percent of the 117 of a third seed, with one such promise, which is mended as well; then with 99.2 percent of 125 more, without one.
Those of later_verdicts.json are of releases that no rule had been compared with, 0.7.3 and 0.11.2: of the first 185 the planner agreed with
98.9 percent and promised none that the release refuses; one block size that it had refused is mended.
newest_verdicts.json is of 0.13.0, random cases of one more seed, made after the registries, the memory models of models that see and the rules of
their kinds: of its 170 the planner agreed at first with 98.2 percent. It had promised a LoRA rank that the parser refuses, which is mended; the other two
were memory under another name. Left out of it is MiniMax-M2.5, whose repository's own code the release reads.
recent_verdicts.json asks 0.20.2 and 0.33.0 the same questions, which no rule had been compared with: the planner agreed with all at first. Left out is
what stopped at the harness: an accelerator, FlashInfer, or the code of a repository, that is not there.

The models that the releases built without memory are a second check, of the weights of a rank: release_weights.json holds the bytes of the
parameters and buffers of the first rank. Its cases are those of fresh_verdicts.json, and the planner was mended by them as well. Left out are starts
whose weights change while they load (CPU offload, LoRA, bitsandbytes) and what kernels repack.
"""

from __future__ import annotations

import functools
import json
import re
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.allocator import Allocator  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import read_gpus  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.layers import Build, layers_of  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.loading import load  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import predict  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import resolve  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import shards  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.validity import (  # noqa: E402
    effective_quantization,
    resolve_dtype,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.weights import DTYPE_BYTES  # noqa: E402

DATA = ROOT / "tests" / "data"
VERDICTS = DATA / "planner" / "release_verdicts.json"
NEW_VERDICTS = DATA / "planner" / "new_verdicts.json"
FRESH_VERDICTS = DATA / "planner" / "fresh_verdicts.json"
LATER_VERDICTS = DATA / "planner" / "later_verdicts.json"
NEWEST_VERDICTS = DATA / "planner" / "newest_verdicts.json"
RECENT_VERDICTS = DATA / "planner" / "recent_verdicts.json"
WEIGHTS = DATA / "planner" / "release_weights.json"
FILES = [VERDICTS, NEW_VERDICTS, FRESH_VERDICTS, LATER_VERDICTS, NEWEST_VERDICTS, RECENT_VERDICTS]

# The GPUs that the releases were given: nvidia-smi's name and MiB by compute capability.
GPUS = {
    "7.0": ("Tesla V100-SXM2-32GB", 32768),
    "7.5": ("Quadro RTX 8000", 49152),
    "8.0": ("NVIDIA A100-SXM4-80GB", 81920),
    "9.0": ("NVIDIA H100 80GB HBM3", 81559),
}

# Errors of which a verdict says nothing: the releases ran without a GPU.
MEMORY = (
    "free_memory_below_utilization",
    "no_cache_blocks",
    "out_of_memory_loading",
    "out_of_memory_cudagraph",
    "start_length",
)

# What only kernels decide, when they run, or only loading shows: the code of a release accepts it, and that is no verdict.
KERNELS = re.compile(
    r"start_feature_\w+|start_attention_(?:block|fp8|latent|shared_memory)|start_rope_ignored|start_lora_\w+|start_offload_loses"
)

# Why the planner stays apart from a release, by the option that it refuses.
REASONS = {
    "distributed_executor_backend": "may be the name of a class, which the release looks for later; of classes the planner knows nothing",
    "max_num_seqs": "the release does not look at 0 before it serves; it would serve nobody",
    # Of experts on a V100.
    "dtype": "kernels decide: three reports saw such a start end in one that is not compiled for a V100",
}
# The largest part by which weights may be off.
WEIGHTS_OFF = 0.006

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


def configuration(name: str) -> dict[str, Any]:
    """A model's config.json."""
    found: dict[str, Any] = json.loads((DATA / "models" / f"{name}.json").read_text(encoding="utf-8"))
    return found


class Bytes(Allocator):
    """Sums what is allocated, without the blocks that torch's allocator rounds to."""

    def __init__(self) -> None:
        super().__init__(None)

    def allocate(self, size: int) -> int:
        self.allocated += size
        return size

    def free(self, block: int) -> None:
        self.allocated -= block


def weights(rows: list[list[Any]]) -> dict[str, list[float]]:
    """By release: how far the planner's parameters and buffers of the first rank are off those of the release, as a part of these."""
    found: dict[str, list[float]] = {}
    for name, overrides, capability, count, release, options, real in rows:
        gpu = {"name": GPUS[capability][0], "memory_mib": GPUS[capability][1], "compute_capability": capability}
        model, gpus = read_model({**configuration(name), **overrides}), read_gpus([gpu] * count)
        settings = resolve(model, gpus, {**options, "vllm_version": release})
        key, (dtype, *_rest) = settings.release.key, resolve_dtype(model, settings, gpus)
        stage = shards(len(model.layers), settings.tp, settings.pp, key, settings.layer_partition)[0]
        model = model._replace(quantization=effective_quantization(model, settings))
        store = Bytes()
        experts = settings.tp * settings.dp if settings.expert_parallel else 1
        # Without the kernels: what they repack comes after loading.
        build = Build(model, stage, DTYPE_BYTES[dtype], key, experts, gpus[0].capability)
        load(build, layers_of(build), store)
        found.setdefault(release, []).append((store.allocated - real) / real)
    return found


def compare(verdicts: list[list[Any]]) -> list[Row]:
    """Ask the planner about each, but for what a release accepts and the planner refuses for the sake of its kernels."""
    models: dict[str, dict[str, Any]] = {}
    rows = []
    for number, verdict in enumerate(verdicts):
        name, overrides, capability, count, release, options, accepted, _message = verdict
        if name not in models:
            models[name] = configuration(name)
        gpu = {"name": GPUS[capability][0], "memory_mib": GPUS[capability][1], "compute_capability": capability}
        planned: bool | None
        try:
            model = read_model({**models[name], **overrides})
            start = predict(model, read_gpus([gpu] * count), {**options, "vllm_version": release})
            refused = next(
                (error for error in start.errors if error.code not in MEMORY and error.message.code not in MEMORY), None
            )
            if accepted and refused is not None and KERNELS.fullmatch(refused.message.code):
                continue
            planned, said = refused is None, refused.message.say() if refused else ""
        except ValueError as error:
            planned, said = False, str(error)
        except Exception as error:  # whatever else it is, it is a defect of the planner
            planned, said = None, repr(error)
        rows.append(Row(number, verdict, accepted, planned, said))
    return rows


@functools.cache
def compared(file: Path) -> list[Row]:
    """What the planner says of the verdicts of a file."""
    return compare(json.loads(file.read_text(encoding="utf-8")))


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


def page() -> str:
    """What docs/reference/planner-accuracy.md says of the verdicts: how many agree, each that does not with its reason, and the weights."""
    lines = [
        "| Verdicts | Cases | Agree | Refused by the release, promised by the planner |",
        "| --- | --- | --- | --- |",
    ]
    apart = []
    for file in FILES:
        rows = compared(file)
        lines.append(f"| `{file.name}` | {len(rows):,} | {agreement(rows):.2%} | {sum(row.promises for row in rows)} |")
        apart += [row for row in rows if not row.agrees]
    lines += [
        "",
        "| Accepted by the release, refused by the planner | vLLM | Option | Why it stays |",
        "| --- " * 4 + "|",
    ]
    for row in apart:
        name, _overrides, capability, count, release, options, _accepted, _message = row.verdict
        option = next(one for one in REASONS if one in options)
        lines.append(
            f"| {name.partition('__')[2]} on {count} x {capability} | {release} | `{option} {options[option]}` | {REASONS[option]} |"
        )
    lines += ["", "| vLLM | Models built | Weights of a rank off, median % | worst % |", "| --- " * 4 + "|"]
    for release, parts in _by_release():
        sizes = sorted(abs(part) * 100 for part in parts)
        lines.append(f"| {release} | {len(sizes)} | {statistics.median(sizes):.3f} | {sizes[-1]:.3f} |")
    return "\n".join(lines)


def _by_release() -> list[tuple[str, list[float]]]:
    off = weights(json.loads(WEIGHTS.read_text(encoding="utf-8")))
    return sorted(off.items(), key=lambda item: release_key(item[0]))


def main() -> int:
    files = [Path(name) for name in sys.argv[1:]] or FILES
    rows = compare([verdict for file in files for verdict in json.loads(file.read_text(encoding="utf-8"))])
    report(rows)
    print(f"\n{'weights of a rank, by release':<28} {'cases':>6} {'median %':>9} {'worst %':>8}")
    off = _by_release()
    for release, parts in off:
        sizes = sorted(abs(part) * 100 for part in parts)
        print(f"{release:<28} {len(sizes):>6} {statistics.median(sizes):>9.3f} {sizes[-1]:>8.3f}")
    worst = max(abs(part) for _release, parts in off for part in parts)
    return int(agreement(rows) < 0.99 or any(row.promises for row in rows) or worst > WEIGHTS_OFF)


if __name__ == "__main__":
    sys.exit(main())
