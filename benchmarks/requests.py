# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether remedies start, and whether plans and what they offer have the longest context that fits, of many random requests.

usage: python benchmarks/requests.py [--count 10000] [--seed 1]

Half of the requests are starts, half are plans on one or two hosts with up to three cards each, which may differ. Models are those of the
catalogue: dense ones, mixtures of experts, hybrids, and those that see. Each miss is a line with the seed that makes it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import entries  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import applied, predict_start  # noqa: E402
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, releases  # noqa: E402

GPUS = (
    ("Tesla V100-PCIE-16GB", 16384, "7.0"),
    ("Tesla V100-SXM2-32GB", 32768, "7.0"),
    ("Tesla T4", 15360, "7.5"),
    ("NVIDIA GeForce RTX 2080 Ti", 22528, "7.5"),
    ("NVIDIA GeForce RTX 3090", 24576, "8.6"),
    ("NVIDIA RTX A6000", 49140, "8.6"),
    ("NVIDIA A100-SXM4-80GB", 81920, "8.0"),
    ("NVIDIA GeForce RTX 4090", 24564, "8.9"),
    ("NVIDIA L40S", 46068, "8.9"),
    ("NVIDIA H100 80GB HBM3", 81559, "9.0"),
    ("NVIDIA H200", 143771, "9.0"),
    ("NVIDIA GeForce RTX 5090", 32607, "12.0"),
)
CARDS = [{"name": name, "memory_mib": memory, "compute_capability": capability} for name, memory, capability in GPUS]
RELEASES = [release for release in releases() if release_key(release) >= release_key("0.3.0")]
WISHES: dict[str, list[Any]] = {
    "max_model_len": [2048, 16384, 131072],
    "max_num_batched_tokens": [2048, 16384, 131072],
    "max_num_seqs": [1, 64, 256],
    "enable_chunked_prefill": [True, False],
    "enable_prefix_caching": [True, False],
    "cpu_offload_gb": [4, 16],
    "enforce_eager": [True],
    "kv_cache_dtype": ["fp8"],
    "enable_lora": [True],
    "tensor_parallel_size": [1, 2, 3, 4],
    "quantization": ["awq", "gptq", "bitsandbytes", "fp8"],
}


def main() -> int:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1].split("\n")[0])
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    models = [dict(entry.config) for entry in entries()]
    found: Counter[str] = Counter()
    began = time.process_time()
    for number in range(options.count):
        seed = f"{options.seed}:{number}"
        draw = random.Random(seed)  # the same requests on every machine
        config, release = draw.choice(models), draw.choice(RELEASES)
        wishes = {name: draw.choice(values) for name, values in WISHES.items() if draw.random() < 0.12}
        kind, wrong = (start if number % 2 else plan)(config, {"vllm_version": release, **wishes}, draw)
        found[kind] += 1
        if wrong:
            found["misses"] += 1
            print(f"{seed}: {wrong}: {config['architectures'][0]} {release} {wishes}", flush=True)
    for kind, count in sorted(found.items()):
        print(f"{count:6,} {kind}")
    print(f"{options.count:6,} requests in {time.process_time() - began:.0f} CPU-s, {found['misses']} misses")
    return 1 if found["misses"] else 0


def start(config: dict[str, Any], settings: dict[str, Any], draw: random.Random) -> tuple[str, str]:
    """What became of a start, and what is wrong with its remedy."""
    gpus = [draw.choice(CARDS)] * draw.randint(1, 4)
    try:
        first = predict_start(config, gpus, settings)
    except InputError:
        return "starts whose input is refused", ""
    if not first["change"]:
        return "starts that need no remedy" if first["ok"] else "starts without a remedy", ""
    cured = applied(settings, first["change"])
    then = predict_start(config, gpus, cured)
    if not then["ok"]:
        return "starts with a remedy", f"the remedy {first['change']} on {len(gpus)} x {gpus[0]['name']} fails"
    length = int(first["change"].get("max_model_len") or 0)
    more, asked = length + max(length // 16, 32), int(settings.get("max_model_len") or read_model(config).context)
    if length and more <= asked and then["verdict"] != "not_verified":
        longer = predict_start(config, gpus, {**cured, "max_model_len": more})
        if longer["ok"] and longer["verdict"] == then["verdict"]:
            return "starts with a remedy", f"{first['change']} on {len(gpus)} x {gpus[0]['name']} is not the longest"
    return "starts with a remedy", ""


def plan(config: dict[str, Any], settings: dict[str, Any], draw: random.Random) -> tuple[str, str]:
    """What became of a plan, and whether it and what it offers reach the longest context."""
    hosts = [[draw.choice(CARDS) for _gpu in range(draw.randint(1, 3))] for _host in range(draw.randint(1, 2))]
    nodes: list[dict[str, Any]] = [{"host": f"h{index}", "gpus": gpus} for index, gpus in enumerate(hosts)]
    try:
        planned = plan_deployment(config, nodes, settings)
    except InputError:
        return "plans whose input is refused", ""
    verdict, chosen = planned["verdict"], planned["settings"]
    if verdict == "does_not_start":
        return "plans that find no start", ""
    by_host = {f"h{index}": gpus for index, gpus in enumerate(hosts)}
    gpus = [gpu for node in planned["nodes"] for gpu in by_host[node["host"]][: len(node["ranks"])]]
    if {gpu["name"] for gpu in gpus} != {gpu["name"] for gpu in planned["gpus"]}:
        return "plans on a part of a host's cards", ""  # which cards, the plan says
    begun = {
        **chosen,
        "vllm_version": settings["vllm_version"],
        "nodes": [len(node["ranks"]) for node in planned["nodes"]],
    }
    where = ", ".join(gpu["name"] for gpu in gpus)
    if not predict_start(config, gpus, begun)["ok"]:
        return "plans that start", f"the plan on {where} fails"
    context = read_model(config).context
    if "max_model_len" in settings or chosen["max_model_len"] >= context or verdict == "not_verified":
        return "plans that start", ""
    offered = [
        one["max_model_len"]
        for one in planned["alternatives"]
        if one["verdict"] == verdict and "max_model_len" in one["change"]
    ]
    longest = max([chosen["max_model_len"], *offered])
    longer = longest + max(longest // 8, 512)
    if longer <= context and predict_start(config, gpus, {**begun, "max_model_len": longer})["verdict"] == verdict:
        return "plans that start", f"{longest} on {where} is not the longest: {longer} starts, too"
    return "plans that start", ""


if __name__ == "__main__":
    sys.exit(main())
