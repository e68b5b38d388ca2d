# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What llama.cpp takes of each GPU, for the planner to be compared with: tests/data/llama_cpp/gpu_memory.json.

usage: python benchmarks/llama_cpp_gpu_memory.py PROGRAM ABOUT

PROGRAM is benchmarks/llama_cpp_gpu_memory.cpp, linked with a build of llama.cpp for the GPUs of this machine; ABOUT says which build and what GPUs. Models of
zeros are made (tests/support/gguf_models.py); each is started in each of the ways there on one GPU, and on two where there are so many.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / ".collections")]

from tests.support.gguf_models import MODELS, STARTS, write_model  # noqa: E402

TARGET = ROOT / "tests/data/llama_cpp/gpu_memory.json"
WORDS = {"weights": r"model buffer", "cache": r"(?:KV|RS) buffer", "compute": r"compute buffer"}
# Long contexts and batches, with a cache of each kind.
LONG: tuple[dict[str, Any], ...] = (
    *(
        {"context": cells, **kind, **batch}
        for cells in (32768, 131072)
        for kind in ({}, {"key_type": "q8_0", "value_type": "q8_0"}, {"key_type": "q8_0"})
        for batch in ({}, {"batch": 2048})
    ),
    {"context": 16384, "flash": False},
)


def used() -> list[int]:
    """MiB of each GPU."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return [int(word) for word in subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()]


def words(path: Path, start: Mapping[str, Any], gpus: int) -> list[str]:
    numbers = (start["context"], start.get("requests", 1), start.get("batch", 512))
    types = (start.get("key_type", "f16"), start.get("value_type", "f16"))
    switches = (start.get("flash", True), start.get("unified", False), start.get("whole_window", False))
    return [str(path), *map(str, numbers), *types, *(str(int(one)) for one in switches), ",".join(["1"] * gpus)]


def measured(program: str, path: Path, start: Mapping[str, Any], gpus: int) -> dict[str, Any] | None:
    """MiB of each GPU, as the log says and as the GPUs do; None where it does not start."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))}
    with tempfile.TemporaryFile("w+") as log:
        done = subprocess.Popen(
            [program, *words(path, start, gpus)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert done.stdin
        assert done.stdout
        found: dict[str, list[int]] = {}
        for name in ("ready", "done"):
            if not done.stdout.readline():
                return None
            found[name] = used()[:gpus]
            done.stdin.write("\n")
            done.stdin.flush()
        done.wait()
        log.seek(0)
        text = log.read()
    for name, word in WORDS.items():
        found[name] = [
            round(sum(map(float, re.findall(rf"CUDA{gpu} +{word} size = +([\d.]+) MiB", text))), 2)
            for gpu in range(gpus)
        ]
    return dict(found)


def main() -> int:
    program, about = sys.argv[1:]
    models = {"Llama-3.1-8B, 32 layers": replace(MODELS["Llama-3.1-8B"], layers=32), **MODELS}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in models.items():
            path = write_model(Path(folder) / "m.gguf", shape)
            for start in (*STARTS, *(LONG if name in ("Llama-3.1-8B", "gpt-oss") else ())):
                if "whole_window" in start and not shape.window:
                    continue
                for gpus in range(1, min(2, len(used())) + 1):
                    found = measured(program, path, start, gpus)
                    if found:
                        rows.append({"model": name, "start": start, **found})
                        print(rows[-1], flush=True)
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    TARGET.write_text(f'{{"made": {json.dumps(about)},\n "rows": [\n  {lines}\n ]}}\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
