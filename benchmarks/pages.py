# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of docs/ that are printed: by the planner docs/guides/v100.md, low-memory.md and recipes.md, and docs/reference/releases.md; from the argument
specs of the roles docs/reference/variables.md and docs/zh/reference/variables.md; from the table of failures docs/reference/diagnosis.md; from the systems
of bundles docs/support.md and docs/zh/support.md; from the alerts of monitoring docs/runbooks/alerts.md and docs/zh/runbooks/alerts.md.

usage: python benchmarks/pages.py [PAGE ...]

Each page holds its tables between two marks, and this program writes what stands between them. A test compares the two.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / ".collections")]

from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import code_for, named  # noqa: E402
from ansible_collections.baremetal.llm.plugins.module_utils._gpu_generations import architecture  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.packages import SYSTEMS  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.capabilities import engines, runs  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.recommend import (  # noqa: E402
    NARROW,
    Choice,
    formats_of,
    recommend,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.plan import plan_deployment  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, spoken  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import alerts  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.attention import backends, spoken_sizes  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.cards import cards  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.version_changes import MLA_LATENT  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.fits import (  # noqa: E402
    FORMATS,
    Fit,
    Kind,
    what_fits,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import image_serves  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import choose_engine  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import NARROWLY  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import at, releases, resolve_release  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.engines import WITH_FIGURES  # noqa: E402

MARKS = ("<!-- printed by benchmarks/pages.py -->", "<!-- end -->")
# The GPU generations of the table of attention backends: a name, a compute capability of each, and the first release that knows it.
GENERATIONS = (
    ("Pascal (6.0, 6.1)", (6, 0), "0.2.7"),
    ("Volta (7.0, 7.2)", (7, 0), "0.2.7"),
    ("Turing (7.5)", (7, 5), "0.2.7"),
    ("Ampere (8.0, 8.6)", (8, 0), "0.2.7"),
    ("Ada (8.9)", (8, 9), "0.2.7"),
    ("Hopper (9.0)", (9, 0), "0.2.7"),
    ("Blackwell (10.0)", (10, 0), "0.9.0.1"),
)
MODELS = (
    ("Qwen2.5-7B", "Qwen__Qwen2.5-7B-Instruct"),
    ("Qwen2.5-14B", "Qwen__Qwen2.5-14B"),
    ("Qwen2.5-32B", "Qwen__Qwen2.5-32B"),
    ("Qwen3-8B", "Qwen__Qwen3-8B"),
    ("Qwen3-14B", "Qwen__Qwen3-14B"),
    ("Qwen3-32B", "Qwen__Qwen3-32B"),
    ("R1-Distill-Qwen-7B", "r1-distill-qwen-7b"),
    ("R1-Distill-Qwen-14B", "r1-distill-qwen-14b"),
    ("Llama-3.1-8B", "meta-llama__Llama-3.1-8B"),
    ("Llama-3.1-70B", "meta-llama__Meta-Llama-3.1-70B"),
)
EXTRA = ROOT / "tests" / "data" / "planner" / "extra_configs.json"
PCIE = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
NVLINK = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}
HOSTS: tuple[tuple[str, dict[str, Any], tuple[int, ...]], ...] = (
    ("1 x 16 GB", PCIE, (1,)),
    ("2 x 16 GB", PCIE, (2,)),
    ("4 x 16 GB", PCIE, (4,)),
    ("3 hosts of 2 x 16 GB", PCIE, (2, 2, 2)),
    ("1 x 32 GB, NVLink", NVLINK, (1,)),
    ("2 x 32 GB, NVLink", NVLINK, (2,)),
    ("4 x 32 GB, NVLink", NVLINK, (4,)),
    ("3 hosts of 2 x 32 GB, NVLink", NVLINK, (2, 2, 2)),
)
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
# What a reader knows already: the sizes stand in a column, and half is said above the table.
SAID = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "distributed_executor_backend",
    "dtype",
    "max_model_len",
    "gpu_memory_utilization",
)


# The words of the V100 page in Chinese.
V100_ZH = {
    "### 16-bit checkpoints": "### 16 位权重",
    "### 4-bit GPTQ checkpoints": "### 4 位 GPTQ 权重",
    "| Model | GPUs | TP x PP | Context | KV tokens | Utilization | More options |": "| 模型 | GPU | TP x PP | 上下文 | KV token 数 | 利用率 | 其他选项 |",
    "| 3 hosts of 2 x ": "| 3 台主机，各 2 x ",
    " GB, NVLink |": " GB，NVLink |",
    ", narrowly |": "（余量很小） |",
    "| does not fit |": "| 装不下 |",
}


def v100_zh() -> str:
    """The same in Chinese."""
    text = v100()
    for english, chinese in V100_ZH.items():
        text = text.replace(english, chinese)
    return text


@functools.cache
def v100() -> str:
    """What fits on V100s with 0.8.5.post1, at which length, and with which options."""
    parts = []
    for title, section in (("16-bit checkpoints", None), ("4-bit GPTQ checkpoints", GPTQ)):
        lines = [f"### {title}", "", "| Model | GPUs | TP x PP | Context | KV tokens | Utilization | More options |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        for name, file in MODELS:
            config = _config(file)
            if section:
                config["quantization_config"] = section
            lines += [row for hosts in HOSTS if (row := _row(name, config, *hosts))]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _config(name: str) -> dict[str, Any]:
    """A model's config.json: a file of its own, or one of those that the published starts brought."""
    path = ROOT / "tests" / "data" / "models" / f"{name}.json"
    if not path.exists():
        found: dict[str, Any] = dict(json.loads(EXTRA.read_text(encoding="utf-8"))[name])
        return found
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config


def _row(name: str, config: dict[str, Any], title: str, gpu: dict[str, Any], counts: tuple[int, ...]) -> str:
    nodes = [{"host": f"gpu{index}", "gpus": [gpu] * count} for index, count in enumerate(counts)]
    plan = plan_deployment(config, nodes, {"vllm_version": "0.8.5.post1"})
    if not plan["ok"]:
        return f"| {name} | {title} | | does not fit | | | |"
    settings, found = plan["settings"], plan["predicted"]
    more = ", ".join(
        f"`{option} {str(value).lower()}`"
        for option, value in settings.items()
        if option not in SAID and value is not None
    )
    sizes = f"{settings['tensor_parallel_size']} x {settings['pipeline_parallel_size']}"
    length, tokens = f"{settings['max_model_len']:,}", found["kv_cache_tokens"]
    if plan["verdict"] == NARROWLY:
        length += ", narrowly"
    return f"| {name} | {title} | {sizes} | {length} | {tokens:,} | {settings['gpu_memory_utilization']} | {more} |"


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
# GPU, memory as nvidia-smi prints it (MiB), capability, checkpoint, and the bandwidth of its PCIe slot with 16 lanes (GB/s, generations 3 and 4).
SMALL_GPUS = (
    ("NVIDIA GeForce RTX 3070", 8192, "8.6", AWQ, 31.5),
    ("NVIDIA GeForce RTX 3060", 12288, "8.6", AWQ, 31.5),
    ("Tesla T4", 15360, "7.5", AWQ, 15.8),
    ("Tesla V100-PCIE-16GB", 16384, "7.0", GPTQ, 15.8),
    ("NVIDIA GeForce RTX 3090", 24576, "8.6", AWQ, 31.5),
    ("Tesla V100-PCIE-32GB", 32768, "7.0", GPTQ, 15.8),
)
# What the page's second table changes, one at a time.
STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("as it is", {}),
    ("`cpu_offload_gb 24`", {"cpu_offload_gb": 24}),
    ("`enforce_eager true`", {"enforce_eager": True}),
    ("`max_num_seqs 16`", {"max_num_seqs": 16}),
    ("`max_num_batched_tokens 1024`", {"max_num_batched_tokens": 1024}),
    ("`gpu_memory_utilization 0.95`", {"gpu_memory_utilization": 0.95}),
    ("`max_model_len 2048`", {"max_model_len": 2048}),
    ("`dtype bfloat16`", {"dtype": "bfloat16"}),
    ("`dtype float32`", {"dtype": "float32"}),
    ("`kv_cache_dtype fp8_e5m2`", {"kv_cache_dtype": "fp8_e5m2"}),
)


def _llama70b(quantization: dict[str, Any]) -> dict[str, Any]:
    path = ROOT / "tests" / "data" / "models" / "meta-llama__Meta-Llama-3.1-70B.json"
    return {**json.loads(path.read_text(encoding="utf-8")), "quantization_config": quantization}


def low_memory() -> str:
    """70B in 4 bits on one small GPU: the combination that the planner finds, and what each step costs and gains."""
    lines = [
        "| GPU | Checkpoint | What the planner finds | KV tokens | Seconds a step, at least |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, memory, capability, quantization, bandwidth in SMALL_GPUS:
        gpu = {"name": name, "memory_mib": memory, "compute_capability": capability}
        node = {"host": "gpu01", "gpus": [gpu], "memory_mib": 64 * 1024}
        plan = plan_deployment(_llama70b(quantization), [node], {"vllm_version": "0.8.5.post1"})
        found = next(one for one in plan["alternatives"] if "cpu_offload_gb" in one["settings"])
        seconds = found["settings"]["cpu_offload_gb"] * 1024**3 / bandwidth / 1e9
        change = ", ".join(f"`{step}`" for step in found["change"].split(", "))
        method = str(quantization["quant_method"]).upper()
        lines.append(f"| {name} | {method} | {change} | {found['kv_cache_tokens']:,} | {seconds:.1f} |")
    steps = ["| Change | Verdict | Weights GiB | Activation GiB | KV cache GiB | KV tokens |", "| --- " * 6 + "|"]
    gpu = {"name": "NVIDIA GeForce RTX 3090", "memory_mib": 24576, "compute_capability": "8.6"}
    base = {"vllm_version": "0.8.5.post1", "max_model_len": 4096, "cpu_offload_gb": 20}
    for name, change in STEPS:
        found = predict_start(_llama70b(AWQ), [gpu], {**base, **change})
        said = found["error"]["code"] if found["error"] else found["verdict"].replace("_", " ")
        rank = found["ranks"][0]
        figures = " | ".join(f"{rank[key]:.2f}" for key in ("weights_gib", "activation_gib", "kv_cache_gib"))
        steps.append(f"| {name} | {said} | {figures} | {found['kv_cache_tokens']:,} |")
    heading = (
        "### What each step gives\n\nFor the RTX 3090, vLLM 0.8.5.post1, `cpu_offload_gb 20`, `max_model_len 4096`:"
    )
    return "\n\n".join(("\n".join(lines), heading, "\n".join(steps)))


def releases_table() -> str:
    """What each official image is made of, and what it does on a V100."""
    lines = [
        "| vLLM | Date | Engine | From capability | CUDA | Lowest driver | torch | Ray | On a V100 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for version in releases():
        row = RELEASES[version]
        verdict = row.v100.replace("_", " ")
        lines.append(
            f"| {version} | {row.date} | {row.engine} | {row.least} | {row.cuda} | {row.driver} | {row.torch} "
            f"| {row.ray or 'none'} | {verdict} |"
        )
    return "\n".join(lines)


def generations_table() -> str:
    """From a GPU generation to the driver branch, the CUDA and the official images that serve it."""
    lines = [
        "| GPU generation | Last driver branch | Last CUDA | Images with code for it | CUDA of these images | On the V0 engine by default |",
        "| --- " * 6 + "|",
    ]
    for name, capability, _since in GENERATIONS:
        card = architecture(capability)
        served = [version for version in releases() if _holds_code(version, capability)]
        spans = ", ".join(_spans(served)) or "none: build one"
        cudas = [RELEASES[version].cuda for version in served]
        before = [
            one
            for one in served
            if choose_engine(resolve_release(one), {}, [Gpu("any", 1, capability)], {}, "") == "V0"
        ]
        lines.append(
            f"| {name} | {card.last_branch or 'the newest'} | {'12.9' if capability < (7, 5) else 'the newest'} | {spans} "
            f"| {' to '.join(dict.fromkeys((cudas[0], cudas[-1]))) if cudas else '-'} | {f'to `v{before[-1]}`' if before else 'none'} |"
        )
    return "\n".join(lines)


def _holds_code(version: str, capability: tuple[int, int]) -> bool:
    row = RELEASES[version]
    least = tuple(int(part) for part in row.least.split("."))
    built = [named_code for entry in row.architectures.split() for named_code in named(entry)]
    return (
        capability >= least
        and code_for(built, capability) == "sm"
        and not (capability == (7, 0) and row.v100 == "fails")
    )


def _spans(versions: list[str]) -> list[str]:
    """Runs of releases, as tags of vllm/vllm-openai."""
    every, found = releases(), []
    for version in versions:
        if found and every.index(version) == every.index(found[-1][-1]) + 1:
            found[-1].append(version)
        else:
            found.append([version])
    return [f"`v{span[0]}`" if len(span) == 1 else f"`v{span[0]}` to `v{span[-1]}`" for span in found]


def attention_table() -> str:
    """Which attention backends a release tries on a GPU generation, and what the first of them cannot do."""
    lines = [
        "| GPU generation | vLLM | Engine | Backends in order | With MLA | The first lacks | Block sizes | Head sizes |",
        "| --- " * 8 + "|",
    ]
    for name, capability, since in GENERATIONS:
        spans: list[tuple[tuple[str, ...], list[str]]] = []
        for version in releases()[releases().index(since) :]:
            cells = _attention(version, capability)
            if not spans or spans[-1][0] != cells:
                spans.append((cells, []))
            spans[-1][1].append(version)
        for (engine, *cells), versions in spans:
            span = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
            lines.append(f"| {name} | {span} | {engine} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _attention(version: str, capability: tuple[int, int]) -> tuple[str, ...]:
    release = resolve_release(version)
    engine = choose_engine(release, {}, [Gpu("any", 1, capability)], {}, "")
    tried, latent = (backends(engine, kind, release.key, capability) for kind in ("gqa", "mla"))
    mla = ", ".join(one.name for one in latent)
    if not mla:
        mla = "as keys and values" if engine == "V0" and not at(MLA_LATENT, release.key) else "none"
    if not tried:
        return (engine, "none", mla, "", "", "")
    first = tried[0]
    lacks = {
        "chunked prefill, prefix caching": first.earlier_keys is None or capability < first.earlier_keys,
        "fp8 cache": first.fp8 is None or capability < first.fp8,
        "sliding window": not first.window,
        "soft-capped logits": not first.soft_cap,
        "float32": "f" not in first.dtypes,
    }
    said = ", ".join(name for name, lacking in lacks.items() if lacking)
    sizes = (spoken(spoken_sizes(text)) for text in (first.blocks, first.heads))
    return (engine, ", ".join(one.name for one in tried), mla, said, *sizes)


def reference() -> str:
    """The tables of docs/reference/releases.md."""
    heading = (
        "## Attention backends\n\nWhat each release tries on a GPU generation with its default engine. What the first backend lacks, some releases leave to "
        "the\nnext one, and others refuse: the planner knows which. Below the capability of the image all of it takes an image of your own."
    )
    by_release = "## By release\n\n*Lowest driver* is what the CUDA of the image starts with in its compatibility mode; what preflight recommends is newer."
    return "\n\n".join((generations_table(), by_release, releases_table(), heading, attention_table()))


def recipes() -> str:
    """Launches that people ask for, by release."""
    from benchmarks.recipes import page  # it needs the paths above

    return page()


def variables(language: str) -> str:
    """The variables of all roles."""
    from benchmarks.variables import page  # it needs the paths above

    return page(language)


def failures() -> str:
    """The failures that the diagnosis knows."""
    from benchmarks.diagnosis import page  # it needs the paths above

    return page()


# The cards of the page 'what fits', each with the counts of GPUs that machines have.
FITTED: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("Tesla V100-PCIE-16GB", (1, 2, 4, 8)),
    ("Tesla V100-SXM2-32GB", (1, 2, 4, 8)),
    ("Tesla T4", (1, 2, 4)),
    ("NVIDIA GeForce RTX 3090", (1, 2, 4, 8)),
    ("NVIDIA GeForce RTX 4090", (1, 2, 4, 8)),
    ("NVIDIA RTX A6000", (1, 2, 4, 8)),
    ("NVIDIA A100-SXM4-40GB", (1, 2, 4, 8)),
    ("NVIDIA A100-SXM4-80GB", (1, 2, 4, 8)),
    ("NVIDIA L40S", (1, 2, 4, 8)),
    ("NVIDIA H100 80GB HBM3", (1, 2, 4, 8)),
)
# Its models. The catalogue has more, some with the configuration of one of these.
SHOWN = (
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-14B-Instruct",
    "Qwen/Qwen2.5-14B-Instruct-AWQ",
    "Qwen/Qwen2.5-14B-Instruct-GPTQ-Int4",
    "Qwen/Qwen2.5-32B-Instruct",
    "Qwen/Qwen2.5-32B-Instruct-AWQ",
    "Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4",
    "Qwen/Qwen2.5-72B-Instruct",
    "Qwen/Qwen2.5-72B-Instruct-AWQ",
    "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-32B-FP8",
    "Qwen/Qwen3-235B-A22B-FP8",
    "Qwen/Qwen3.5-27B",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
    "deepseek-ai/DeepSeek-R1",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "google/gemma-2-9b-it",
    "google/gemma-2-27b-it",
    "microsoft/phi-4",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
)


@cache
def _fitted() -> list[list[Kind]]:
    """For each card what fits one host with each count of it."""
    found = []
    for name, counts in FITTED:
        card = next(one for one in cards() if one.name == name).as_gpu()
        found.append([what_fits([("host", [card] * count)], SHOWN)[0] for count in counts])
    return found


def what_fits_page(language: str) -> str:
    """A table for each card: a row for each model, a column for each count of GPUs."""
    parts = []
    for (name, counts), columns in zip(FITTED, _fitted(), strict=True):
        head = [message("fits_model", language), message("fits_weights", language)]
        head += [f"{count} x GPU" for count in counts]
        lines = [f"## {name}, vLLM {columns[0].release}", "", f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
        by_name = [{fit.model: fit for fit in column.fits} for column in columns]
        for fit in sorted(by_name[0].values(), key=lambda one: (one.weights, one.model)):
            cells = [_fits_cell(each[fit.model], language) for each in by_name]
            if any(each[fit.model].ok for each in by_name):
                weights = f"{fit.weights / 1024**3:.0f} GiB"
                lines.append(f"| {fit.model} | {weights} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _fits_cell(fit: Fit, language: str) -> str:
    """32,768 x 4: the context, and how many such conversations at once."""
    if not fit.ok:
        return "-"
    whole = fit.context >= fit.most
    text = f"**{fit.context:,}** x {fit.conversations:,}" if whole else f"{fit.context:,} x {fit.conversations:,}"
    return message("fits_narrowly", language, context=text) if fit.verdict == NARROWLY else text


# Cards before Ampere, with the numbers of them in a host; and models, the smallest first.
OLD_CARDS = (
    ("Tesla P40", (1, 2, 4)),
    ("Tesla V100-PCIE-16GB", (1, 2, 4)),
    ("Tesla V100-SXM2-32GB", (1, 2, 4)),
    ("Tesla T4", (1, 2, 4)),
    ("NVIDIA GeForce RTX 2080 Ti", (1, 2, 4)),
)
SERVED = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.3-70B-Instruct",
)
TITLES = {"vllm": "vLLM", "llama_cpp": "llama.cpp", "lmdeploy": "LMDeploy (TurboMind)"}


def engines_page(language: str) -> str:
    """Which engine has code for which generation, and for each old card a table: a row for each model and number of GPUs, a column for each engine."""
    parts = [_code_table(language)]
    for name, counts in OLD_CARDS:
        card = next(one for one in cards() if one.name == name).as_gpu()
        head = [message("fits_model", language), "GPU", *TITLES.values()]
        lines = [f"### {name}", "", f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
        for model in SERVED:
            for count in counts:
                choices = recommend(formats_of(model), [("host", [card] * count)])
                cells = [_engine_cell(choices, engine, language) for engine in TITLES]
                if any(cell != "-" for cell in cells):
                    lines.append(f"| {model} | {count} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _engine_cell(choices: list[Choice], engine: str, language: str) -> str:
    """Q8_0: 40,960 x 4; the best format with the longest context, and how many requests of 8,192 tokens at once."""
    found = next((one for one in choices if one.engine == engine and one.verdict in WITH_FIGURES), None)
    if found is None:
        return "-"
    context = f"{found.context:,} x {found.requests:,}"
    if found.verdict == NARROW:
        context = message("fits_narrowly", language, context=context)
    return f"{FORMATS.get(found.form, found.form)}: {context}"


def _code_table(language: str) -> str:
    """By generation what each engine has code for."""
    head = [
        message("engines_generation", language),
        "vLLM",
        *(engine.title for engine in engines() if not engine.inside),
    ]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for name, capability, _first in GENERATIONS:
        text = "{}.{}".format(*capability)
        served = [version for version in releases() if image_serves(version, capability)]
        cells = [f"{served[0]} - {served[-1]}" if served else "-"]
        for engine in (each for each in engines() if not each.inside):
            forms = [
                form
                for form in ("gguf", "16-bit", "awq", "gptq", "fp8", "mxfp4")
                if runs(engine.name, form, capability)
            ]
            unknown = message("loss_unknown", language) if capability >= engine.no_code_below else "-"
            cells.append(
                ", ".join(FORMATS.get(form, form.upper() if form == "gguf" else form) for form in forms) or unknown
            )
        lines.append(f"| {name if text in name else text} | {' | '.join(cells)} |")
    return "\n".join(lines)


def systems(comma: str) -> str:
    """What ``bundle_systems`` takes."""
    return comma.join(f"`{name}`" for name in SYSTEMS)


def alert_sections(lang: str) -> str:
    """The sections of the runbook about alerts."""
    return "\n\n".join(f"## {alert['name']}\n\n{alert['runbook'][lang]}" for alert in alerts())


PAGES: dict[str, Callable[[], str]] = {
    "docs/guides/engines.md": lambda: engines_page("en"),
    "docs/guides/low-memory.md": low_memory,
    "docs/guides/recipes.md": recipes,
    "docs/guides/v100.md": v100,
    "docs/guides/what-fits.md": lambda: what_fits_page("en"),
    "docs/reference/diagnosis.md": failures,
    "docs/reference/releases.md": reference,
    "docs/reference/variables.md": lambda: variables("en"),
    "docs/runbooks/alerts.md": lambda: alert_sections("en"),
    "docs/support.md": lambda: systems(", "),
    "docs/zh/guides/engines.md": lambda: engines_page("zh"),
    "docs/zh/guides/v100.md": v100_zh,
    "docs/zh/guides/what-fits.md": lambda: what_fits_page("zh"),
    "docs/zh/reference/variables.md": lambda: variables("zh"),
    "docs/zh/runbooks/alerts.md": lambda: alert_sections("zh"),
    "docs/zh/support.md": lambda: systems("、"),
}


def written(page: str, text: str) -> str:
    """The page with what is printed between its marks."""
    start, end = map(re.escape, MARKS)
    pattern = re.compile(f"({start}\n).*?(\n{end})", re.S)
    if not pattern.search(text):
        raise ValueError(f"{page} has no place for what is printed")
    return pattern.sub(lambda found: found.group(1) + "\n" + PAGES[page]() + "\n" + found.group(2), text)


def main() -> int:
    for page in sys.argv[1:] or PAGES:
        path = ROOT / page
        path.write_text(written(page, path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
