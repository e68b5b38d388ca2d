# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine measured, read from its log: V0 and V1 formats of all examined releases."""

from __future__ import annotations

import re

# The process that logged a line: one record for each, in the order in which they first logged.
WORKER = re.compile(
    r"\((?P<name>(?:Worker|VllmWorker|VllmWorkerProcess|RayWorkerWrapper|RayWorkerProc|EngineCore|APIServer|ApiServer)[^)]*)\)"
)
NUMBER = r"(-?[\d.]+)"
RANK_FIGURES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("weights_gib", r"(?:Model loading took|Loading model weights took) " + NUMBER + r" ?G"),
        ("weights_gib", r"model weights take " + NUMBER + r"GiB"),
        ("non_torch_gib", r"non_torch_memory takes " + NUMBER + r"GiB"),
        ("activation_gib", r"PyTorch activation peak memory takes " + NUMBER + r"GiB"),
        ("kv_cache_gib", r"memory reserved for KV Cache is " + NUMBER + r"GiB"),
        ("non_torch_gib", r"non_torch_memory=" + NUMBER + r"GiB"),
        ("kv_cache_gib", r"kv_cache_size=" + NUMBER + r"GiB"),
        ("peak_torch_gib", r"peak_torch_memory=" + NUMBER + r"GiB"),
        ("kv_cache_gib", r"Available KV cache memory: " + NUMBER + r" GiB"),
        ("cudagraph_gib", r"Graph capturing finished in .*?took " + NUMBER + r" GiB"),
        ("weights_gib", r"Actual usage is " + NUMBER + r" ?GiB for weight"),
        ("activation_gib", NUMBER + r" ?GiB for peak activation"),
        ("non_torch_gib", NUMBER + r" ?GiB for non-torch memory"),
        ("cudagraph_gib", NUMBER + r" ?GiB for CUDAGraph memory"),
        ("free_gib", r"Free memory on device \(" + NUMBER + r"/"),
        ("total_gib", r"Free memory on device \([\d.]+/" + NUMBER + r" ?GiB\)"),
        ("total_gib", r"total_gpu_memory \(" + NUMBER + r"GiB\)"),
        ("total_gib", r"total_gpu_memory=" + NUMBER + r"GiB"),
    )
)
ENGINE_FIGURES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("kv_cache_tokens", re.compile(r"KV cache size: ([\d,]+) tokens")),
    ("num_gpu_blocks", re.compile(r"# (?:GPU|cuda|CUDA) blocks: ([\d,]+)")),
    ("num_cpu_blocks", re.compile(r"# CPU blocks: ([\d,]+)")),
    ("max_concurrency", re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")),
    ("max_model_len", re.compile(r"Maximum concurrency for ([\d,]+) tokens per request")),
    ("loading_seconds", re.compile(r"Model loading took [\d.]+ ?G\S*(?: memory)? and ([\d.]+) s")),
    ("block_size", re.compile(r"\bblock_size=(\d+)")),
)
VERSION = re.compile(r"(?:API server version|LLM engine \(v)\s*([0-9][\w.+]*)")
ENGINE = re.compile(r"Initializing a (V[01]) LLM engine")
DEFAULT_BLOCK = 16


def parse_engine_log(text: object) -> dict[str, object]:
    """Figures of a start. Missing ones are left out; `complete` says whether the KV cache was sized."""
    lines = str(text or "").splitlines()
    order: list[str] = []
    workers: dict[str, dict[str, float]] = {}
    result: dict[str, object] = {}
    smallest: dict[str, float] = {}
    for line in lines:
        found = WORKER.search(line)
        name = found.group("name") if found else ""
        for figure, pattern in RANK_FIGURES:
            match = pattern.search(line)
            if match:
                if name not in workers:
                    workers[name] = {}
                    order.append(name)
                value = float(match.group(1))
                # The first line about weights has four decimals, later ones two.
                workers[name][figure] = workers[name].get(figure, value) if figure == "weights_gib" else value
        for figure, pattern in ENGINE_FIGURES:
            match = pattern.search(line)
            if match:
                value = float(match.group(1).replace(",", ""))
                # Every rank of V1 prints its own capacity; the smallest one counts.
                smallest[figure] = min(value, smallest.get(figure, value)) if figure == "kv_cache_tokens" else value
        match = VERSION.search(line)
        if match:
            result["vllm_version"] = match.group(1).rstrip(")")
        match = ENGINE.search(line)
        if match:
            result["engine"] = match.group(1)
    for figure, value in smallest.items():
        result[figure] = value if figure in ("max_concurrency", "loading_seconds") else int(value)
    if "num_gpu_blocks" in result:
        result.setdefault("engine", "V0")
        blocks, size = smallest["num_gpu_blocks"], smallest.get("block_size", DEFAULT_BLOCK)
        result.setdefault("kv_cache_tokens", int(blocks) * int(size))
    elif "kv_cache_tokens" in result:
        result.setdefault("engine", "V1")
    ranks = []
    for name in order:
        figures = workers[name]
        record: dict[str, object] = {**figures}
        if "peak_torch_gib" in figures and "weights_gib" in figures:
            record.setdefault("activation_gib", round(figures["peak_torch_gib"] - figures["weights_gib"], 4))
        if name:
            record["worker"] = name
        ranks.append(record)
    result["ranks"] = _real_ranks(ranks)
    result["complete"] = "kv_cache_tokens" in result
    return result


def _real_ranks(ranks: list[dict[str, object]]) -> list[dict[str, object]]:
    """Workers that hold weights: the engine's own process logs for them and is none, unless it is alone."""
    holding = [rank for rank in ranks if "weights_gib" in rank]
    rest = [rank for rank in ranks if "weights_gib" not in rank]
    if len(holding) == 1:
        for rank in rest:
            for figure, value in rank.items():
                holding[0].setdefault(figure, value)
        return holding
    return holding or rest
