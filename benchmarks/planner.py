# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How well the planner predicts what real engines logged, and how fast it is.

usage: python benchmarks/planner.py [--json FILE] [--all] [--page]

Measured starts are held against every figure. Published starts (logs and reports of other people) are held against KV tokens
where the facts suffice, and against the outcome. Two parts are scored apart: "fitted" are the starts whose figures chose a constant
of the planner's tables (named in FITTED), "held out" are all others. The rules themselves come from the engine's source, and every
start was looked at in search of mistakes: the held-out part shows that the constants carry over, not that nobody saw it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / ".collections")]

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.plan import plan_deployment  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import plan as planning  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.registry import registry  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.uncertainty import GENERATIONS  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu, known  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import (  # noqa: E402
    generation,
    uncertainty,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key  # noqa: E402

from benchmarks.verdicts import page  # noqa: E402

DATA = ROOT / "tests" / "data"
MIB_PER_GIB = 1024
PAGE = ROOT / "docs" / "reference" / "planner-accuracy.md"
PREFACE = """# How accurate the planner is

`make bench-planner` prints what follows; `python benchmarks/planner.py --page` writes this page.

Two kinds of starts are compared. *Measured* starts are real engines (vLLM 0.25.1 on H200, dummy weights): every figure that the engine
logged is held against the prediction. *Published* starts are logs and reports of other people, from vLLM 0.2 to 0.25 on GPUs from a GTX
to an H200: KV tokens are compared where the facts suffice, and the outcome (it starts, or fails with that kind of error). Facts that a
publication leaves out are unknown: a release that is not named is guessed from the log's format or the date of the issue.

*Fitted* are the starts whose figures chose one of the few constants (memory of libraries and communicators, the share that older
allocators reserve); *held out* are all others. The rules themselves (weights, activation, blocks, checks) are read from the engine's
source and have no constant to fit. *Blind* are the measured starts that were made after their prediction had been written down; scored
is that old prediction, whatever was mended since. Misses are listed one by one: most stand for options that were not published, the rest are starts
that the planner does not explain.

One outcome of the published starts is not the predicted one, and stays so: `8xv100-llama2-70b-oom` (vllm-project/vllm, issue 2348). The
report names no release, and its options went through another program, which in those days may have kept `gpu_memory_utilization=1` to itself.
Its message, `CUDA error: out of memory`, is not that of torch's allocator, so the memory that ran out may have been pinned memory of
the host. With `gpu_memory_utilization` 1.0 the planner refuses such a start; with the default its 16 GiB of weights on 32 GB leave room.

What is not exact, and is said so by a warning or in the guide: CUDA graphs (an estimate), memory of communicators over more than two ranks, releases
between the examined ones.

## Where coverage is thin

A prediction is only as good as what is known of the architecture, the GPU and the release:

- Which release has which architecture is read from its registry, and of most of them the planner has no memory model. Those are `not_verified`, as are
  models that run through the Transformers library and text models that a release makes into one for embeddings. MiniCPM-V is among them. So are, on GPUs
  before Ampere, encoders (BERT, XLM-RoBERTa) and the encoders of InternVL, Llama 3.2 Vision, Llama 4, Mistral 3, Pixtral and Whisper, and experts on a V100
  with 0.8.
- Of models that see or hear, the weights of the encoder are counted for Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5, Gemma 3, Gemma 4, InternVL, Llama 3.2
  Vision, Llama 4, Mistral 3, Pixtral and Whisper. Compared with a log were those of Qwen2.5-VL and of Llama 3.2 Vision; of the others with the number of
  parameters that the makers name. What the encoder takes in the profile run is an estimate, for Llama 3.2 Vision from one log, and the uncertainty contains
  it once more; `limit_mm_per_prompt: {image: 0, video: 0}` does without. No start of one of them was measured.
- Which models need the Python code of their repository (`trust_remote_code`) is a list; a model type outside it is taken for one that needs none.
- Rules about kernels (shared memory, sinks, sparse attention, zero points, CPU offload on V0) are those that reports or sources name. Of Turing, Volta and
  the consumer cards of Blackwell no start was measured here: the margin of the table below is the largest of any GPU.
- Forks of vLLM (`vllm_flavour`) are `not_verified`; images of a site's own are planned as the release that they are said to be.

`tests/data/planner/reports.json` holds 23 public reports of starts that failed or surprised. They were written down before the rules were: the
planner then said 5 of them right, and all of them now. `later_reports.json` holds 38 more. Of the first 33, written down before the rules of
their kinds, it said 25 right; of a second round of 5 it said 4. All are right now, one of them with another error first than the release's.
`make bench-requests` asks for random starts and plans: of 30,000 no remedy fails, and no plan lacks the longest context that fits.

## Starts


```text
"""

VERDICTS_HEADING = """## What the releases say themselves

`make bench-verdicts` holds the planner against the Python code of twelve vLLM releases: its option parser, the checks of its configuration and the
construction of the whole model run on a CPU when only the answers of the hardware are given to them. Random options make the cases. What only
kernels, memory or loading decide is no part of it. The parameters and buffers of the models that seven of them build that way are a second check, of the
weights of the first rank; the largest difference is that of Mixtral in GPTQ with act-order on four ranks.

"""

# memory.total that nvidia-smi prints, for published starts that name the GPU and not its memory.
MEMORY_MIB = {
    "RTX 3080 20GB": 20480,
    "RTX 3090": 24576,
    "RTX 4090 48GB": 49140,
    "RTX 4090": 24564,
    "4060 Ti 8GB": 8188,
    "RTX 5090": 32607,
    "RTX 5080": 16303,
    "RTX 3060 12GB": 12288,
    "T4": 15360,
    "A100 80GB": 81920,
    "A100 40GB": 40960,
    "A100": 81920,
    "A10G": 23028,
    "A10": 23028,
    "L40S": 46068,
    "L40": 46068,
    "L4": 23034,
    "V100-PCIE-16GB": 16384,
    "V100 16GB": 16384,
    "V100 32GB": 32768,
    "V100-SXM2-32GB": 32768,
    "PRO 6000": 97887,
    "H100 80GB": 81559,
}

# (issue number, newest release when it was opened): for published starts that do not name their release.
ISSUES: tuple[tuple[int, str], ...] = (
    (500, "0.2.0"),
    (1500, "0.2.1"),
    (1900, "0.2.4"),
    (2100, "0.2.6"),
    (2300, "0.2.7"),
    (2700, "0.3.0"),
    (3100, "0.3.3"),
    (3800, "0.4.0.post1"),
    (4400, "0.4.1"),
    (4600, "0.4.2"),
    (5200, "0.4.3"),
    (5500, "0.5.0.post1"),
    (6200, "0.5.1"),
    (6500, "0.5.2"),
    (6800, "0.5.3.post1"),
    (7200, "0.5.4"),
    (7900, "0.5.5"),
    (8300, "0.6.0"),
    (8600, "0.6.1.post2"),
    (8900, "0.6.2"),
    (9500, "0.6.3.post1"),
    (10500, "0.6.4.post1"),
    (11300, "0.6.5"),
    (11600, "0.6.6.post1"),
    (12500, "0.7.0"),
    (12700, "0.7.1"),
    (12900, "0.7.2"),
    (13600, "0.7.3"),
    (15100, "0.8.0"),
    (15500, "0.8.2"),
    (16200, "0.8.4"),
    (17400, "0.8.5.post1"),
    (18800, "0.9.0.1"),
    (19500, "0.9.1"),
    (20600, "0.9.2"),
    (21600, "0.10.0"),
    (23100, "0.10.1.1"),
    (24900, "0.10.2"),
    (26200, "0.11.0"),
    (29000, "0.11.2"),
    (30200, "0.12.0"),
    (31000, "0.13.0"),
    (32700, "0.14.1"),
    (33800, "0.15.1"),
    (35500, "0.16.0"),
    (36400, "0.17.0"),
)

# What an observed outcome is in the planner's words.
OUTCOMES: dict[str, set[str]] = {
    "ok": {"ok"},
    "ok_then_runtime_oom": {"ok"},
    "hang_after_kv": {"ok"},
    "bf16_autocast_warning": {"ok"},
    "no_cache_blocks": {"no_cache_blocks"},
    "oom_loading": {"out_of_memory_loading"},
    "oom": {"out_of_memory_loading", "no_cache_blocks"},
    "oom_profile": {"no_cache_blocks", "out_of_memory_loading"},
    "oom_cudagraph": {"out_of_memory_cudagraph"},
    "oom_kv_alloc": {"out_of_memory_cudagraph"},
    "not_divisible_vocab": {"vocab_not_divisible"},
    "heads_not_divisible": {"heads_not_divisible"},
    "moe_quant_not_divisible": {"quant_group_not_divisible"},
    "unsupported_arch": {"architecture_not_supported"},
    "bf16_unsupported": {"dtype_not_supported"},
    "unsupported_gpu": {"gpu_not_supported"},
    "max_seq_len_exceeds_kv": {"max_model_len_exceeds_kv_cache"},
    "max_model_len_exceeds_derived": {"max_model_len_exceeds_kv_cache"},
    "free_memory_check": {"free_memory_below_utilization"},
}
# Starts whose outcome does not follow from what was published: which, and why.
NOT_JUDGED = {
    "attention_backend": "a kernel's crash",
    "kernel": "a kernel's crash",
    "cuda_p2p": "the driver",
    "failed": "the reason was not published",
}


# Starts whose figures chose a constant.
FITTED = {
    # overhead.SINGLE, GATHERS, AMONG_OTHERS
    "qwen2.5-7b-u0.9-e-4096-max_num_batc16384",
    "qwen2.5-7b-u0.9-e-4096-tensor_paral2-disable_custTrue",
    "qwen2.5-14b-u0.9-e-4096-pipeline_par2",
    "llmd-llama31-8b",
    "48g-qwen25-math-1.5b",
    "t4-qwen25-0.5b-066post1",
    # profile.COMPILED_EXTRA and the estimate of graphs
    "qwen2.5-7b-u0.9-g-4096",
    "qwen2.5-7b-u0.9-g-4096-max_num_seqs64",
    "llama-2-7b-u0.9-g-4096",
    # overhead.COMMUNICATORS, CONTEXT
    "seed-qwen25-1.5b-tp2-3090",
    "2x4090-r1-distill-qwen-14b-131k-fail",
    "2080ti-r1-0528-qwen3-8b-tp4",
    "deepseek-v2-lite-tp8-a100-40g",
    "3090-llama31-8b-29k-fail",
    "8g-opt125m",
    # version_changes.RESERVED_OVER_ALLOCATED
    "l4x2-codellama13b-default-fail",
    "2xl40-deepseek-coder-v2-lite-163840-fail",
    "v100x2-llama31-8b-0.6.3.post1",
    # version_changes.MXFP4_PADDING on Hopper, profile.MOE_FREED
    "llmd-gpt-oss-20b",
    "gpt-oss-20b-u0.9-e-4096--bfloat16",
    # profile.COMPILE_COPIES_EMBEDDING
    "qwen2.5-7b-u0.1128-g-2048-max_num_seqs16-max_num_batc2048",
    # what lives beside 8-bit products
    "qwen3-8b-fp8-u0.9-g-4096",
    "qwen3-8b-fp8-u0.9-e-4096-tensor_paral2-disable_custTrue",
    # version_changes.FP8_KV_WANTS_BFLOAT16
    "qwen2.5-7b-u0.9-e-4096-kv_cache_dtyfp8",
}

# Options that a case does not print and that its other figures imply (see its notes).
INFERRED: dict[str, dict[str, Any]] = {
    "seed-qwen3-8b-rtx3080-ok4096": {"cpu_offload_gb": 5},
    "seed-qwen3-8b-rtx3080-util012-fail": {"cpu_offload_gb": 16},
    "8g-4060ti-qwen25-0.5b-second-fail": {"free_memory_mib": 8188 - 3578},  # the first instance holds the rest
    "2xa10-mixtral-awq-oom": {"dtype": "float16"},  # it got past the check that refuses bfloat16 with AWQ
}


# Outcomes that a model and its sizes decide on any GPU.
ANY_GPU = {"heads_not_divisible", "not_divisible_vocab", "moe_quant_not_divisible"}
# Models that a case names in words and whose config is here.
NAMED_MODELS = {"v100note-qwen3-on-0.3.0-fail": "Qwen__Qwen3-14B"}
# Printed tokens that are no truth for the start as published, and why.
TOKENS_NOT_COMPARED = {
    "seed-qwen3-8b-rtx3080-ok4096": "its utilization was not published, and the default contradicts the figures",
    "seed-qwen3-8b-rtx3080-len1024-ok": "options were not published (offload, utilization); the figures contradict the defaults",
    "2xl40-deepseek-coder-v2-lite-30720-ok": "the figure is another start's (max_model_len 163840)",
}
# Starts whose figures say nothing of how good a prediction is, and why.
UNKNOWN_FACTS = {
    "a100-40g-llama3-8b-act9": "its options were not published, and its activation is seven times that of the same model elsewhere",
    "llama2-70b-tp4-a100-before": "a state between two releases",
    "llama2-70b-tp4-a100-after": "a state between two releases",
}


class Score(NamedTuple):
    name: str
    value: float
    limit: float
    unit: str

    @property
    def met(self) -> bool:
        return self.value <= self.limit


def part(identity: str) -> str:
    return "fitted" if identity in FITTED else "held out"


def load(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


# -- measured ------------------------------------------------------------------------------------------------------------
def measured() -> list[dict[str, Any]]:
    rows = []
    source = load("planner/measured_starts.json")
    gpu = {"name": "NVIDIA H200", "memory_mib": 143771, "compute_capability": "9.0"}
    for start in source["starts"]:
        settings = dict(start["args"], vllm_version=start["vllm"])
        engine = start.get("engine") or {}
        # These starts used the LLM class, whose defaults are not the server's: give what it chose.
        for name in ("max_num_batched_tokens", "max_num_seqs"):
            if engine.get(name):
                settings.setdefault(name, engine[name])
        world = settings.get("tensor_parallel_size", 1) * settings.get("pipeline_parallel_size", 1)
        predicted = predict_start(source["configs"][start["model"]], [gpu] * world, settings)
        row: dict[str, Any] = {
            "id": start["id"],
            "family": start["model"],
            "half": part(start["id"]),
            "predicted": predicted,
        }
        row["outcome"] = bool(start["ok"]) == predicted["ok"]
        if start["ok"] and predicted["ranks"]:
            row.update(measured_errors(start, predicted))
        rows.append(row)
    return rows


def blind() -> list[dict[str, Any]]:
    """The starts that were made after their prediction, held against that prediction."""
    rows = []
    for start in load("planner/measured_starts.json")["starts"]:
        before = start.get("predicted_before")
        if not before:
            continue
        row: dict[str, Any] = {"id": start["id"], "family": start["model"], "outcome": before["ok"] == start["ok"]}
        if start["ok"]:
            ranks = [
                {"weights_gib": weights, "activation_gib": 0.0, "kv_cache_gib": before["kv_cache_gib"]}
                for weights in before["weights_gib"]
            ]
            row.update(measured_errors(start, {**before, "ranks": ranks}))
        rows.append(row)
    return rows


def measured_errors(start: dict[str, Any], predicted: dict[str, Any]) -> dict[str, Any]:
    logged = sorted((rank["weights_gib"], rank["peak_activation_gib"]) for rank in start["ranks"])
    ours = sorted((rank["weights_gib"], rank["activation_gib"]) for rank in predicted["ranks"])
    weights = max(abs(mine[0] - real[0]) / real[0] for mine, real in zip(ours, logged, strict=True))
    smallest = min(
        rank["budget_gib"] - rank["weights_gib"] - rank["peak_activation_gib"] - rank["non_torch_gib"]
        for rank in start["ranks"]
    )
    if len(start["ranks"]) == 1:
        smallest = start["available_kv_gib"]
    kv = abs(min(rank["kv_cache_gib"] for rank in predicted["ranks"]) - smallest)
    tokens = abs(predicted["kv_cache_tokens"] - start["kv_tokens"]) / start["kv_tokens"]
    return {"weights": weights, "kv_gib": kv, "tokens": tokens}


# -- published -----------------------------------------------------------------------------------------------------------
def config_of(case: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any] | None:
    reference = case.get("config")
    if not reference:
        return None
    base = reference["base"]
    config = dict(extra[base]) if base in extra else dict(load(f"models/{base}.json"))
    config.update(reference.get("overrides") or {})
    if case.get("rope_scaling") == "yarn x4":
        config["rope_scaling"] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    return config


def issue_release(source: str) -> str | None:
    """The newest release when an issue or pull request of vllm-project/vllm was opened, by its number."""
    found = re.search(r"github\.com/vllm-project/vllm/(?:issues|pull)/(\d+)", source)
    if not found:
        return None
    release = None
    for number, version in ISSUES:
        if int(found.group(1)) >= number:
            release = version
    return release


def version_of(case: dict[str, Any]) -> str | None:
    """The release, or one that prints such a log when the case does not say it."""
    text = str(case.get("vllm_version") or "")
    if text[:1].isdigit():
        return text
    seen = case.get("observed") or {}
    if "main 2023-12" in text:
        return "0.2.7"
    if "latest" in text:
        return "0.25.1"
    dated = issue_release(str(case.get("source")))
    if dated:
        return dated
    if case.get("engine") == "V1":
        return "0.11.2" if "non_torch_gib" in seen or case.get("gpu_name", "").startswith("NVIDIA H100") else "0.9.0.1"
    if "peak_torch_gib" in seen:
        return "0.6.4.post1"
    if "activation_peak_gib" in seen:
        return "0.7.2"
    return "0.6.3.post1" if case.get("engine") == "V0" else None


def known_to(version: str, case: dict[str, Any], config: dict[str, Any]) -> str:
    """A guessed release is at least the first one that has the architecture."""
    if str(case.get("vllm_version") or "")[:1].isdigit():
        return version
    rows = registry().get(config["architectures"][0], ())
    since = rows[0].since if rows else "0.0"
    return version if release_key(version) >= release_key(since) else since


def gpus_of(case: dict[str, Any]) -> list[dict[str, Any]] | None:
    name = str(case.get("gpu_name") or "")
    found = known(name)
    compute = found[0] if found else (8, 0)
    count = int(case.get("gpu_count") or (case.get("tp") or 1) * (case.get("pp") or 1))
    if case.get("gpu_mem_gib"):
        # CUDA's figure, which the planner tells from nvidia-smi's.
        entry = {"name": name or "GPU", "memory_mib": case["gpu_mem_gib"] * MIB_PER_GIB}
    else:
        memory = next((mib for key, mib in MEMORY_MIB.items() if key in name), None)
        if memory is None:
            return None
        entry = {"name": name, "memory_mib": memory}
    entry["compute_capability"] = "{}.{}".format(*compute)
    return [entry] * count


def settings_of(
    case: dict[str, Any], version: str, config: dict[str, Any], capability: tuple[int, int]
) -> dict[str, Any]:
    names = {
        "tp": "tensor_parallel_size",
        "pp": "pipeline_parallel_size",
        "dtype": "dtype",
        "gpu_memory_utilization": "gpu_memory_utilization",
        "max_model_len": "max_model_len",
        "max_num_seqs": "max_num_seqs",
        "max_num_batched_tokens": "max_num_batched_tokens",
        "enforce_eager": "enforce_eager",
        "kv_cache_dtype": "kv_cache_dtype",
        "chunked_prefill": "enable_chunked_prefill",
        "enable_lora": "enable_lora",
        "enable_expert_parallel": "enable_expert_parallel",
        "cpu_offload_gb": "cpu_offload_gb",
    }
    settings = {ours: case[theirs] for theirs, ours in names.items() if case.get(theirs) is not None}
    settings["trust_remote_code"] = True  # no publication says so, and what loaded a model could read its config.json
    settings["vllm_version"] = version
    if case.get("engine"):
        settings["engine"] = case["engine"]
    early = case["observed"]["outcome"] in ("bf16_unsupported", "bf16_autocast_warning")
    if "dtype" not in settings and capability < (8, 0) and not early:
        settings["dtype"] = "half"  # not published; the start got past the check that refuses bfloat16
    settings.update(INFERRED.get(case["id"], {}))
    quantization = str(case.get("quantization") or "")
    if quantization and "quantization_config" not in config and quantization in ("fp8", "bitsandbytes", "awq", "gptq"):
        settings["quantization"] = quantization
    world = settings.get("tensor_parallel_size", 1) * settings.get("pipeline_parallel_size", 1)
    nodes = int(case.get("nodes") or 1)
    if nodes > 1 and world >= nodes:
        settings["nodes"] = [world // nodes] * nodes
        if release_key(version) >= release_key("0.4.3"):
            settings.setdefault("distributed_executor_backend", "ray")
    return settings


def tokens_of(case: dict[str, Any]) -> float | None:
    seen = case["observed"]
    if seen.get("kv_tokens"):
        return float(seen["kv_tokens"])
    if seen.get("num_gpu_blocks"):
        return float(seen["num_gpu_blocks"]) * 16
    if seen.get("max_concurrency") and case.get("max_model_len"):
        return float(seen["max_concurrency"]) * case["max_model_len"]
    return None


def published() -> list[dict[str, Any]]:
    extra = load("planner/extra_configs.json")
    named = load("planner/named_configs.json")["configs"]
    rows = []
    for case in load("planner/published_starts.json"):
        row: dict[str, Any] = {"id": case["id"], "half": part(case["id"]), "outcome": None, "tokens": None}
        rows.append(row)
        config, version, gpus = config_of(case, extra), version_of(case), gpus_of(case)
        observed = str(case["observed"]["outcome"])
        row["family"] = (config or {}).get("model_type", "unknown")
        if gpus is None and observed in ANY_GPU:
            world = int(case.get("tp") or 1) * int(case.get("pp") or 1)
            gpus = [{"name": "NVIDIA A100 80GB", "memory_mib": 81920, "compute_capability": "8.0"}] * world
        if config is None and case["id"] in NAMED_MODELS:
            config = load(f"models/{NAMED_MODELS[case['id']]}.json")
        config = config or named.get(str(case.get("model")))
        if version is None and observed in ANY_GPU:
            version = "0.8.5.post1"
        missing = [name for name, value in (("model", config), ("release", version), ("GPU", gpus)) if value is None]
        if missing:
            row["why"] = "not published: " + ", ".join(missing)
            continue
        assert config is not None
        assert version is not None
        assert gpus is not None
        version = known_to(version, case, config)
        major, minor = gpus[0]["compute_capability"].split(".")
        compute = (int(major), int(minor))
        try:
            predicted = predict_start(config, gpus, settings_of(case, version, config, compute))
        except ValueError as error:
            row["why"] = str(error)
            row["outcome"] = False
            continue
        row["predicted"] = predicted
        row["observed"] = case["observed"]
        code = "ok" if predicted["ok"] else predicted["error"]["code"]
        if observed in NOT_JUDGED:
            row["why"] = NOT_JUDGED[observed]
        else:
            row["outcome"] = code in OUTCOMES[observed]
            row["said"], row["was"] = code, observed
        real = tokens_of(case)
        if real and predicted["kv_cache_tokens"] is not None and case["id"] not in TOKENS_NOT_COMPARED:
            row["real_tokens"] = real
            row["tokens"] = abs(predicted["kv_cache_tokens"] - real) / real
            row["signed"] = (predicted["kv_cache_tokens"] - real) / real
            smallest = min(rank["kv_cache_gib"] for rank in predicted["ranks"])
            row["kv_off_gib"] = abs(predicted["kv_cache_tokens"] - real) / predicted["kv_cache_tokens"] * smallest
            row["engine"], row["generation"] = case["engine"], generation(compute) if case.get("gpu_name") else ""
        if case["observed"].get("weights_gib") and predicted["ranks"]:
            weight = case["observed"]["weights_gib"]
            row["weights"] = min(abs(rank["weights_gib"] - weight) / weight for rank in predicted["ranks"])
    return rows


# -- uncertainty ---------------------------------------------------------------------------------------------------------
def differences(real: list[dict[str, Any]], public: list[dict[str, Any]]) -> dict[str, dict[str, tuple[int, float]]]:
    """By engine and GPU generation: how many starts show the KV cache of a rank, and its largest difference from the prediction, GiB.

    The generation is empty where the GPU's name was not published.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for row in real:
        if "kv_gib" in row:
            found.setdefault("V1", {}).setdefault("Hopper", []).append(row["kv_gib"])
    for row in public:
        if "kv_off_gib" in row and row["id"] not in UNKNOWN_FACTS:
            found.setdefault(row["engine"], {}).setdefault(row["generation"], []).append(row["kv_off_gib"])
    return {
        engine: {name: (len(values), max(values)) for name, values in rows.items()} for engine, rows in found.items()
    }


def margins(real: list[dict[str, Any]], public: list[dict[str, Any]]) -> None:
    print("\nKV cache of a rank off the prediction, by engine and GPU generation: what a plan has to leave to spare")
    print(f"  {'engine':<7} {'generation':<12} {'starts':>6} {'worst GiB':>10} {'margin GiB':>11}")
    found = differences(real, public)
    for engine in sorted(found):
        for least, name in GENERATIONS:
            count, worst = found[engine].get(name, (0, 0.0))
            margin = uncertainty(engine, [Gpu("any", 1, least)]).size / 1024**3
            print(f"  {engine:<7} {name:<12} {count:>6} {f'{worst:.3f}' if count else '-':>10} {margin:>11.3f}")
        count, worst = found[engine].get("", (0, 0.0))
        if count:
            print(f"  {engine:<7} {'not named':<12} {count:>6} {worst:>10.3f} {'-':>11}")


# -- speed ---------------------------------------------------------------------------------------------------------------
def speed() -> tuple[float, float]:
    gpu = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}
    nodes = [{"host": f"gpu{index:02}", "gpus": [gpu] * 8} for index in range(8)]
    model = load("models/meta-llama__Meta-Llama-3.1-70B.json")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        planning._ANSWERS.clear()  # equal questions are answered once
        plan_deployment(model, nodes, {"vllm_version": "0.8.5.post1"})
        times.append(time.perf_counter() - start)
    code = (
        "import time; t = time.perf_counter(); "
        "import ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan; print(time.perf_counter() - t)"
    )
    imports = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(ROOT / ".collections")},
            capture_output=True,
            text=True,
            check=True,
        )
        imports.append(float(done.stdout))
    return min(times) * 1000, min(imports) * 1000


# -- report --------------------------------------------------------------------------------------------------------------
def median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def measured_scores(real: list[dict[str, Any]]) -> list[Score]:
    figures = [row for row in real if "tokens" in row]
    return [
        Score("measured: weights, worst rank", max((row["weights"] for row in figures), default=0) * 100, 0.5, "%"),
        Score(
            "measured: KV memory of the smallest rank, median", median([row["kv_gib"] for row in figures]), 0.05, "GiB"
        ),
        Score(
            "measured: KV memory of the smallest rank, worst",
            max((row["kv_gib"] for row in figures), default=0),
            0.25,
            "GiB",
        ),
        Score("measured: KV tokens, median", median([row["tokens"] for row in figures]) * 100, 0.05, "%"),
        Score("measured: KV tokens, worst", max((row["tokens"] for row in figures), default=0) * 100, 1, "%"),
        Score(
            f"measured: outcomes wrong of {len(real)}",
            100 * sum(not row["outcome"] for row in real) / max(len(real), 1),
            5,
            "%",
        ),
    ]


def published_scores(public: list[dict[str, Any]]) -> list[Score]:
    tokens = [row["tokens"] for row in public if row["tokens"] is not None]
    compared = [row for row in public if row["outcome"] is not None]
    wrong = [row for row in compared if not row["outcome"]]
    return [
        Score(f"published: KV tokens, median of {len(tokens)}", median(tokens) * 100, 4, "%"),
        Score(f"published: outcomes wrong of {len(compared)}", 100 * len(wrong) / max(len(compared), 1), 2, "%"),
    ]


def table(rows: list[dict[str, Any]], title: str) -> None:
    print(f"\n{title}")
    print(
        f"  {'family':<18} {'starts':>6} {'weights %':>10} {'KV GiB':>8} {'tokens %':>9} {'outcome':>9}   (worst of each)"
    )
    for family in sorted({row["family"] for row in rows}):
        mine = [row for row in rows if row["family"] == family]
        compared = [row for row in mine if row["outcome"] is not None]
        cells = []
        for name, scale in (("weights", 100), ("kv_gib", 1), ("tokens", 100)):
            values = [row[name] * scale for row in mine if row.get(name) is not None]
            cells.append(f"{max(values):.2f}" if values else "-")
        right = f"{sum(bool(row['outcome']) for row in compared)}/{len(compared)}"
        print(f"  {family:<18} {len(mine):>6} {cells[0]:>10} {cells[1]:>8} {cells[2]:>9} {right:>9}")


def misses(real: list[dict[str, Any]], public: list[dict[str, Any]]) -> None:
    print("\nMisses")
    for row in real:
        if (
            not row["outcome"]
            or row.get("weights", 0) > 0.005
            or row.get("kv_gib", 0) > 0.25
            or row.get("tokens", 0) > 0.04
        ):
            print(
                f"  measured  {row['id']}: "
                + ", ".join(f"{k} {row[k]:.4f}" for k in ("weights", "kv_gib", "tokens") if k in row)
            )
    for row in public:
        if row["outcome"] is False:
            print(f"  published {row['id']}: said {row.get('said')}, was {row.get('was')} {row.get('why', '')}")
        if row["tokens"] is not None and row["tokens"] > 0.04:
            print(
                f"  published {row['id']}: tokens {row['predicted']['kv_cache_tokens']} against {row['real_tokens']:.0f} ({row['signed']:+.1%})"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write every row to this file")
    parser.add_argument("--all", action="store_true", help="also list what could not be compared")
    parser.add_argument(
        "--page", action="store_true", help="write docs/reference/planner-accuracy.md from what is printed"
    )
    options = parser.parse_args()
    if not options.page:
        return report(options)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        status = report(options)
    PAGE.write_text(
        PREFACE + text.getvalue().strip() + "\n```\n\n" + VERDICTS_HEADING + page() + "\n", encoding="utf-8"
    )
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return status


def report(options: argparse.Namespace) -> int:
    real, public, unseen = measured(), published(), blind()
    table(real, "Measured starts (vLLM 0.25.1 on H200), by model")
    table(public, "Published starts, by family")
    misses(real, public)
    if options.all:
        print("\nNot compared")
        for row in public:
            if row["outcome"] is None:
                print(f"  {row['id']}: {row.get('why')}")
    margins(real, public)
    table(unseen, "Blind: predictions that were written down before the start")
    parts = {
        name: [
            *measured_scores([row for row in real if name in ("all", row["half"])]),
            *published_scores([row for row in public if name in ("all", row["half"])]),
        ]
        for name in ("all", "fitted", "held out")
    }
    parts["blind"] = measured_scores(unseen)
    for name, scores in parts.items():
        print(f"\nScore, {name}")
        for score in scores:
            print(
                f"  {'ok  ' if score.met else 'MISS'} {score.name:<58} {score.value:8.3f} {score.unit:<4} (at most {score.limit})"
            )
    failed = not all(score.met for score in parts["all"])
    plan_ms, import_ms = speed()
    print(
        "\nSpeed (best of five: other work on the machine is no part of it)\n"
        f"  plan for 64 GPUs {plan_ms:.1f} ms (at most 50), import {import_ms:.1f} ms (at most 50)"
    )
    if options.json:
        options.json.write_text(json.dumps({"measured": real, "published": public}, indent=1), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
