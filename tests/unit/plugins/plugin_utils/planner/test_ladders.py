# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random requests: a remedy starts, and what is planned or offered has the longest context that fits."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import entries
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import applied, predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import releases
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

GPUS = (
    ("Tesla V100-PCIE-16GB", 16384, "7.0"),
    ("Tesla V100-SXM2-32GB", 32768, "7.0"),
    ("Tesla T4", 15360, "7.5"),
    ("NVIDIA GeForce RTX 3090", 24576, "8.6"),
    ("NVIDIA A100-SXM4-80GB", 81920, "8.0"),
    ("NVIDIA GeForce RTX 4090", 24564, "8.9"),
    ("NVIDIA H100 80GB HBM3", 81559, "9.0"),
    ("NVIDIA GeForce RTX 5090", 32607, "12.0"),
)
CARDS = st.sampled_from(GPUS)
VERSIONS = st.sampled_from([one for one in releases() if one >= "0.3"])
MODELS = st.sampled_from(entries()).map(lambda entry: entry.config)
WISHES = st.fixed_dictionaries(
    {},
    optional={
        "max_model_len": st.sampled_from([2048, 16384, 131072]),
        "max_num_batched_tokens": st.sampled_from([2048, 16384, 131072]),
        "max_num_seqs": st.sampled_from([1, 64, 256]),
        "enable_chunked_prefill": st.booleans(),
        "enable_prefix_caching": st.booleans(),
        "cpu_offload_gb": st.sampled_from([4, 16]),
        "enforce_eager": st.just(True),
        "kv_cache_dtype": st.just("fp8"),
        "enable_lora": st.just(True),
        "tensor_parallel_size": st.sampled_from([1, 2, 3, 4]),
        "quantization": st.sampled_from(["awq", "gptq", "bitsandbytes", "fp8"]),
    },
)


def card(gpu: tuple[str, int, str]) -> dict[str, Any]:
    return {"name": gpu[0], "memory_mib": gpu[1], "compute_capability": gpu[2]}


@examples(400)
@given(MODELS, CARDS, st.integers(1, 4), VERSIONS, WISHES)
def test_a_remedy_starts(
    config: dict[str, Any], gpu: tuple[str, int, str], count: int, version: str, wishes: dict[str, Any]
) -> None:
    gpus, settings = [card(gpu)] * count, {"vllm_version": version, **wishes}
    try:
        found = predict_start(config, gpus, settings)
    except InputError:
        return
    if not found["change"]:
        return
    cured = applied(settings, found["change"])
    then = predict_start(config, gpus, cured)
    assert then["ok"]
    if then["verdict"] != "not_verified" and found["change"].get("max_model_len"):
        # A context longer by a part of it would not start as safely.
        length = int(found["change"]["max_model_len"])
        longer = predict_start(config, gpus, {**cured, "max_model_len": length + max(length // 16, 32)})
        assert not longer["ok"] or longer["verdict"] != then["verdict"]


@examples(150)
@given(MODELS, st.lists(st.lists(CARDS, min_size=1, max_size=3), min_size=1, max_size=2), VERSIONS, WISHES)
def test_what_is_offered_starts_with_the_longest_context(
    config: dict[str, Any], hosts: list[list[tuple[str, int, str]]], version: str, wishes: dict[str, Any]
) -> None:
    nodes = [{"host": f"h{index}", "gpus": [card(one) for one in gpus]} for index, gpus in enumerate(hosts)]
    try:
        plan = plan_deployment(config, nodes, {"vllm_version": version, **wishes})
    except InputError:
        return
    verdict, settings = plan["verdict"], plan["settings"]
    if verdict == "does_not_start":
        assert "leave out" not in plan["predicted"]["error"]["remedy"].partition("take ")[2]
        return
    gpus = [card(gpu) for node in plan["nodes"] for gpu in hosts[int(node["host"][1:])][: len(node["ranks"])]]
    counts = [len(node["ranks"]) for node in plan["nodes"]]
    start = {**settings, "vllm_version": version, "nodes": counts}
    if {gpu["name"] for gpu in gpus} != {gpu["name"] for gpu in plan["gpus"]}:
        return  # a part of a host's GPUs: which, the plan says
    assert predict_start(config, gpus, start)["ok"]
    if "max_model_len" in wishes or settings["max_model_len"] >= plan_context(config) or verdict == "not_verified":
        return
    offered = [
        one["max_model_len"]
        for one in plan["alternatives"]
        if one["verdict"] == verdict and "max_model_len" in one["change"]
    ]
    longest = max([settings["max_model_len"], *offered])
    longer = longest + max(longest // 8, 512)
    then = predict_start(config, gpus, {**start, "max_model_len": min(longer, plan_context(config))})
    assert then["verdict"] != verdict or longer > plan_context(config)


def plan_context(config: dict[str, Any]) -> int:
    from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model

    return read_model(config).context


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        pytest.param(8192, "cpu_offload_gb", marks=pytest.mark.slow),
        (24576, "cpu_offload_gb"),
        pytest.param(32607, "cpu_offload_gb", marks=pytest.mark.slow),
    ],
)
def test_seventy_billion_parameters_on_one_card(memory: int, said: str) -> None:
    """Nobody has to name bitsandbytes, or a checkpoint of four bits."""
    config = next(entry.config for entry in entries() if "3.3-70B" in entry.model)
    gpu = {"name": "NVIDIA GeForce RTX 3090", "memory_mib": memory, "compute_capability": "8.6"}
    nodes = [{"host": "a", "gpus": [gpu], "memory_mib": 65536}]
    plan = plan_deployment(config, nodes, {"vllm_version": "0.12.0"})
    assert said in plan["predicted"]["error"]["remedy"]
    assert [one["verdict"] for one in plan["alternatives"] if said in one["change"]].count("starts") >= 2


@examples(60)
@given(st.sampled_from(["Qwen2ForCausalLM", "ArcticForCausalLM"]), CARDS, VERSIONS, st.sampled_from([8192, 131072]))
def test_a_remedy_is_as_sure_as_what_is_known(name: str, gpu: tuple[str, int, str], version: str, length: int) -> None:
    """Nothing is 'predicted to start' that the planner does not call a start."""
    config = {"architectures": [name], "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32000}
    config.update(num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336, torch_dtype="bfloat16")
    config["max_position_embeddings"] = 131072
    settings = {"vllm_version": version, "max_model_len": length, "dtype": "bfloat16"}
    found = predict_start(config, [card(gpu)], settings)
    if found["ok"] or not found["change"]:
        return
    remedy, verdict = (
        found["error"]["remedy"],
        predict_start(config, [card(gpu)], applied(settings, found["change"]))["verdict"],
    )
    assert ("not verified" in remedy) is (verdict == "not_verified")
    assert ("less to spare" in remedy) is (verdict == "starts_narrowly")
