# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Laws that hold for every model, GPU and release."""

from __future__ import annotations

from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import (
    valid_pp_sizes,
    valid_tp_sizes,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import releases
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

DIVISIBILITY = {
    "heads_not_divisible",
    "kv_heads_not_divisible",
    "vocab_not_divisible",
    "intermediate_not_divisible",
    "quant_group_not_divisible",
    "experts_not_divisible",
}
ARCHITECTURES = (
    "LlamaForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3MoeForCausalLM",
    "MixtralForCausalLM",
    "Gemma2ForCausalLM",
)
CAPABILITIES = {"7.0": "V100", "7.5": "T4", "8.0": "A100", "9.0": "H100"}
VERSIONS = st.sampled_from(releases())


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.sampled_from([4, 8, 12, 14, 16, 28, 32, 40, 64]))
    kv = draw(st.sampled_from([one for one in (1, 2, 4, 7, 8, 14, 16, 32) if heads % one == 0]))
    config: dict[str, Any] = {
        "architectures": [draw(st.sampled_from(ARCHITECTURES))],
        "hidden_size": heads * draw(st.sampled_from([64, 128])),
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "num_hidden_layers": draw(st.integers(1, 40)),
        "intermediate_size": draw(st.sampled_from([1024, 4864, 11008, 13824, 18944])),
        "vocab_size": draw(st.sampled_from([32000, 50272, 128256, 151936])),
        "max_position_embeddings": 32768,
        "torch_dtype": "float16",
        "tie_word_embeddings": draw(st.booleans()),
    }
    if "Mo" in config["architectures"][0] or "Mixtral" in config["architectures"][0]:
        config.update(num_experts=8, num_local_experts=8, num_experts_per_tok=2, moe_intermediate_size=768)
    if draw(st.booleans()):
        config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    return config


def gpu(memory_mib: int, capability: str) -> dict[str, Any]:
    return {"name": CAPABILITIES[capability], "memory_mib": memory_mib, "compute_capability": capability}


FIXED = {"max_model_len": 4096, "max_num_batched_tokens": 4096, "max_num_seqs": 64, "dtype": "half"}


@examples(80)
@given(
    models(),
    VERSIONS,
    st.sampled_from(sorted(CAPABILITIES)),
    st.integers(8, 140),
    st.integers(0, 60),
    st.sampled_from([1, 2]),
)
def test_more_memory_never_fewer_tokens(
    model: dict[str, Any], version: str, capability: str, memory: int, more: int, tp: int
) -> None:
    small = predict_start(
        model, [gpu(memory * 1024, capability)] * tp, dict(FIXED, vllm_version=version, tensor_parallel_size=tp)
    )
    large = predict_start(
        model,
        [gpu((memory + more) * 1024, capability)] * tp,
        dict(FIXED, vllm_version=version, tensor_parallel_size=tp),
    )
    assert (large["kv_cache_tokens"] or 0) >= (small["kv_cache_tokens"] or 0)


@examples(80)
@given(models(), VERSIONS, st.integers(64, 32768), st.integers(0, 32768))
def test_longer_context_never_more_concurrency(model: dict[str, Any], version: str, length: int, more: int) -> None:
    wishes = {"max_num_batched_tokens": 65536, "max_num_seqs": 64, "dtype": "half", "vllm_version": version}
    short = predict_start(model, [gpu(80 * 1024, "8.0")], dict(wishes, max_model_len=length))
    long = predict_start(model, [gpu(80 * 1024, "8.0")], dict(wishes, max_model_len=min(length + more, 32768)))
    assert (long["max_concurrency"] or 0) <= (short["max_concurrency"] or 0) or length + more > 32768 > length


@examples(60)
@given(models(), VERSIONS)
def test_valid_tp_sizes_are_those_that_pass(model: dict[str, Any], version: str) -> None:
    valid = valid_tp_sizes(model, 16, version)
    for size in range(1, 17):
        predicted = predict_start(
            model,
            [gpu(80 * 1024, "8.0")] * size,
            {"vllm_version": version, "tensor_parallel_size": size, "dtype": "half"},
        )
        refused = any(error["code"] in DIVISIBILITY for error in predicted["errors"])
        assert (size in valid) != refused


@examples(40)
@given(models(), VERSIONS)
def test_valid_pp_sizes_are_those_that_pass(model: dict[str, Any], version: str) -> None:
    valid = valid_pp_sizes(model, 6, version)
    for size in range(1, 7):
        predicted = predict_start(
            model,
            [gpu(80 * 1024, "8.0")] * size,
            {"vllm_version": version, "pipeline_parallel_size": size, "dtype": "half"},
        )
        refused = any(
            error["code"] in ("pp_not_supported", "layers_fewer_than_stages") for error in predicted["errors"]
        )
        assert (size in valid) != refused


@examples(25)
@given(
    models(), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from(["throughput", "latency", "context"])
)
def test_plans_are_reproducible(model: dict[str, Any], counts: list[int], objective: str) -> None:
    nodes = [{"host": f"gpu{index}", "gpus": [gpu(32768, "7.0")] * count} for index, count in enumerate(counts)]
    request = {"vllm_version": "0.8.5.post1", "objective": objective}
    first, second = plan_deployment(model, nodes, request), plan_deployment(model, nodes, request)
    assert first == second
    ranks = [rank for node in first["nodes"] for rank in node["ranks"]]
    assert ranks == list(range(len(ranks)))
    if first["ok"]:
        assert len(ranks) == first["settings"]["tensor_parallel_size"] * first["settings"]["pipeline_parallel_size"]


@examples(40)
@given(models(), VERSIONS, st.integers(1, 8), st.integers(1, 8))
def test_a_prediction_never_raises_on_sound_input(model: dict[str, Any], version: str, tp: int, pp: int) -> None:
    predicted = predict_start(
        model,
        [gpu(16384, "7.0")] * 4,
        {"vllm_version": version, "tensor_parallel_size": tp, "pipeline_parallel_size": pp},
    )
    assert predicted["ok"] is (predicted["error"] is None)
