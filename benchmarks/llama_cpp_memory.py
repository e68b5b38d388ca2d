# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What llama.cpp prints of its memory, for the planner to be compared with.

usage: python benchmarks/llama_cpp_memory.py PYTHON [MODEL ...]

PYTHON is that of an environment with xllamacpp, which holds llama.cpp for CPUs. Models of zeros are made (tests/support/gguf_models.py), each is started in
each of the ways there, and what is logged is written into tests/data/llama_cpp/memory.json. It takes some minutes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / ".collections")]

from tests.support.gguf_models import DRAFTED, MODELS, STARTS, write_model  # noqa: E402

# All pairs of a model and its draft model, where models are named.
DRAFTS = "drafts"
TARGET = ROOT / "tests/data/llama_cpp/memory.json"
NAMES = {
    "context": "n_ctx",
    "requests": "n_parallel",
    "batch": "n_ubatch",
    "unified": "kv_unified",
    "whole_window": "swa_full",
}
# repacked copies of weights are an affair of CPUs, and the warm-up computes something.
FIXED = {"warmup": False, "fit_params": False, "verbosity": 4, "port": 0, "cache_ram_mib": 0, "no_extra_bufts": True}
PROGRAM = """
import json, os, sys
import xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[2]
if len(sys.argv) > 3:
    parameters.speculative.draft.mparams.path = sys.argv[3]
    parameters.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
for name, value in json.loads(sys.argv[1]).items():
    kind = {"c": xllamacpp.ggml_type, "f": xllamacpp.llama_flash_attn_type}.get(name[0] if isinstance(value, str) else "")
    setattr(parameters, name, getattr(kind, value) if kind else value)
server = xllamacpp.Server(parameters)
print("version", xllamacpp.__version__, flush=True)
os._exit(0)
"""


def options(start: Mapping[str, Any]) -> dict[str, Any]:
    found = {**FIXED, **{NAMES[name]: value for name, value in start.items() if name in NAMES}}
    for name in ("key", "value"):
        if f"{name}_type" in start:
            found[f"cache_type_{name[0]}"] = "GGML_TYPE_" + start[f"{name}_type"].upper()
    if start.get("flash") is False:
        found["flash_attn_type"] = "LLAMA_FLASH_ATTN_TYPE_DISABLED"
    return found


def figures(log: str) -> dict[str, float]:
    """MiB, summed over what is logged apart."""
    words = {"weights": "model buffer size", "cache": "KV buffer size", "compute": "compute buffer size"}
    return {
        name: round(sum(map(float, re.findall(word + r" = +([\d.]+) MiB", log))), 2) for name, word in words.items()
    }


def starts(wanted: Sequence[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each model with its draft model, if any, and how it is started; with ``wanted`` those of these models alone, and ``drafts`` are all pairs."""
    for name, shape in MODELS.items():
        for start in STARTS:
            if (not wanted or name in wanted) and ("whole_window" not in start or shape.window):
                yield name, "", start
    if not wanted or DRAFTS in wanted:
        yield from DRAFTED


def main() -> int:
    python, *wanted = sys.argv[1:]
    known = json.loads(TARGET.read_text(encoding="utf-8"))["rows"] if TARGET.exists() and wanted else []
    rows = [row for row in known if (DRAFTS if "draft" in row else row["model"]) not in wanted]
    version = ""
    with tempfile.TemporaryDirectory() as folder:
        for name, draft, start in starts(wanted):
            paths = [write_model(Path(folder) / f"{one}.gguf", MODELS[one]) for one in (name, draft) if one]
            done = subprocess.run(
                [python, "-c", PROGRAM, json.dumps(options(start)), *map(str, paths)],
                capture_output=True,
                text=True,
                timeout=600,
            )
            said = re.search(r"^version (\S+)$", done.stdout, re.MULTILINE)
            for path in paths:
                path.unlink()
            if not said:
                print(f"{name} {draft} {start}: did not start\n{done.stderr[-800:]}", file=sys.stderr)
                continue
            version = said[1]
            rows.append({"model": name, **({"draft": draft} if draft else {}), "start": start})
            rows[-1] |= figures(done.stdout + done.stderr)
            print(rows[-1], flush=True)
    made = (
        f"benchmarks/llama_cpp_memory.py with xllamacpp {version}, whose llama.cpp ran on a CPU; MiB as its log prints"
    )
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    TARGET.write_text(f'{{"made": {json.dumps(made)},\n "rows": [\n  {lines}\n ]}}\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
