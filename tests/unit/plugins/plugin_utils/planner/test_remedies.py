# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A remedy is a start that the planner predicts to work."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.domains import choices
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import applied, predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import unknown_option
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.values import WITH_LORA, domain
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import releases, resolve_release

from tests.support.each import check_each

Model = Callable[[str], dict[str, Any]]

# PLANNER_CASES=10000 asks for more of them.
CASES = int(os.environ.get("PLANNER_CASES", "300"))
GPUS = [("6.1", 24576), ("7.0", 16384), ("7.0", 32768), ("7.5", 15360), ("8.0", 40960), ("8.0", 81920), ("9.0", 81559)]
MODELS = (
    "Qwen__Qwen2-0.5B",
    "Qwen__Qwen2.5-7B-Instruct",
    "Qwen__Qwen2.5-14B",
    "meta-llama__Llama-3.1-8B",
    "Qwen__Qwen3-30B-A3B",
    "mistralai__Mixtral-8x7B-v0.1",
    "deepseek-ai__DeepSeek-V2-Lite-Chat",
)
OPTIONS: dict[str, list[Any]] = {
    "dtype": ["auto", "half", "bfloat16", "float32", "fp16"],
    "max_model_len": [512, 4096, 32768, 131072, 10**6, "4k"],
    "max_num_seqs": [1, 16, 256, 4096],
    "max_num_batched_tokens": [64, 2048, 8192, 131072],
    "gpu_memory_utilization": [0.3, 0.9, 0.98, 1.0],
    "quantization": ["gptq", "awq", "fp8", "bitsandbytes", "nonsense"],
    "kv_cache_dtype": ["fp8", "fp8_e5m2", "int3"],
    "load_format": ["dummy", "xyz", "bitsandbytes"],
    "block_size": [5, 7, 8, 32, 64],
    "enable_chunked_prefill": [True, False],
    "enable_prefix_caching": [True],
    "enable_lora": [True],
    "max_lora_rank": [17, 64],
    "enable_expert_parallel": [True],
    "enable_eplb": [True],
    "cpu_offload_gb": [4, -1],
    "enforce_eager": [True],
    "num_scheduler_steps": [8],
    "tensor_parallel_size": [1, 2, 3, 4, 8],
    "pipeline_parallel_size": [1, 2, 3],
    "decode_context_parallel_size": [2],
    "rope_scaling": [{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}],
    "enable_prometheus": [True],
    "swap_space": [4],
}
SECTIONS = [
    None,
    None,
    {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
    {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": False},
    {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    {"quant_method": "fp8", "activation_scheme": "dynamic"},
]


def test_no_remedy_fails(model: Model) -> None:
    """Random starts, sound and unsound: no error of the planner's own, and every remedy that it names is a start."""
    chance = random.Random(20260111)
    cured = failed = refused = 0
    for _ in range(CASES):
        config = dict(model(chance.choice(MODELS)))
        if section := chance.choice(SECTIONS):
            config["quantization_config"] = section
        capability, memory = chance.choice(GPUS)
        gpus = [{"name": "GPU", "memory_mib": memory, "compute_capability": capability}] * chance.choice([1, 2, 4])
        settings = {name: chance.choice(OPTIONS[name]) for name in chance.sample(sorted(OPTIONS), chance.randint(1, 5))}
        settings["vllm_version"] = chance.choice(releases())
        try:
            predicted = predict_start(config, gpus, settings)
        except InputError:
            refused += 1
            continue
        if predicted["ok"]:
            assert predicted["change"] == {}
            continue
        failed += 1
        assert predicted["error"]["remedy"]
        if predicted["change"]:
            cured += 1
            then = predict_start(config, gpus, applied(settings, predicted["change"]))
            assert then["ok"], (settings, predicted["change"], then["error"])
            for name in predicted["change"]:
                assert name in predicted["error"]["remedy"]
    assert refused < CASES / 10
    assert cured > failed / 3


def test_no_remedy_names_what_the_release_lacks(model: Model) -> None:
    v100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
    predicted = predict_start(model("Qwen__Qwen2.5-14B"), [v100], {"vllm_version": "0.3.0", "dtype": "half"})
    assert predicted["error"]["code"] == "out_of_memory_loading"
    for option in ("cpu_offload_gb", "enable_chunked_prefill"):
        assert option not in predicted["error"]["remedy"]


def test_the_cure_is_named_and_not_a_dead_end(model: Model) -> None:
    """A batch of the whole context leaves no cache: a smaller batch would be refused, the shorter context is the cure."""
    v100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
    settings = {
        "vllm_version": "0.8.5.post1",
        "dtype": "half",
        "max_model_len": 131072,
        "enable_chunked_prefill": False,
    }
    predicted = predict_start(model("Qwen__Qwen2.5-7B"), [v100], settings)
    assert not predicted["ok"]
    assert "max_model_len" in predicted["change"]
    assert predict_start(model("Qwen__Qwen2.5-7B"), [v100], applied(settings, predicted["change"]))["ok"]


GPTQ, AWQ = SECTIONS[2], SECTIONS[4]
V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}


@pytest.mark.parametrize(
    ("name", "section", "version", "code", "change"),
    [
        # 0.9.2 holds no code for a V100; 0.6.6 knows no Qwen3; 0.3.0 reads no rope_scaling of Llama 3.1.
        ("Qwen__Qwen2.5-7B-Instruct", None, "0.9.2", "gpu_not_supported", "vllm_version 0.8.5.post1"),
        ("Qwen__Qwen3-4B", None, "0.6.6", "architecture_not_supported", "vllm_version 0.8.5.post1"),
        ("meta-llama__Llama-3.2-3B", None, "0.3.0", "architecture_not_supported", "vllm_version 0.8.5.post1"),
        # AWQ and FP8 do not run on a V100.
        ("Qwen__Qwen2.5-14B", AWQ, "0.8.5.post1", "quantization_not_supported", "a GPTQ 4-bit checkpoint"),
        ("Qwen__Qwen3-32B-FP8", None, "0.8.5.post1", "quantization_not_supported", None),
        # Both.
        (
            "Qwen__Qwen2.5-14B",
            AWQ,
            "0.9.2",
            "quantization_not_supported",
            "vllm_version 0.8.5.post1 and a GPTQ 4-bit checkpoint",
        ),
    ],
)
def test_another_release_or_checkpoint_is_the_remedy(
    model: Model, name: str, section: dict[str, Any] | None, version: str, code: str, change: str | None
) -> None:
    config = {**model(name), **({"quantization_config": section} if section else {})}
    nodes = [{"host": "gpu01", "gpus": [V100]}]
    found = plan_deployment(config, nodes, {"vllm_version": version})
    error = found["predicted"]["error"]
    assert error["code"] == code
    if change is None:  # nothing starts on one GPU of 16 GB, in whichever format
        assert not any(one["ok"] for one in found["alternatives"])
        return
    assert f"take {change}:" in error["remedy"]
    # And it is one: the plan with that release and checkpoint starts.
    if "GPTQ" in change:
        config["quantization_config"] = GPTQ
    wanted = {"vllm_version": "0.8.5.post1" if "vllm_version" in change else version}
    assert plan_deployment(config, nodes, wanted)["ok"]


def test_another_release_is_no_remedy_for_too_little_memory(model: Model) -> None:
    found = plan_deployment(model("Qwen__Qwen2.5-14B"), [{"host": "gpu01", "gpus": [V100]}], {"vllm_version": "0.6.6"})
    assert found["predicted"]["error"]["code"] == "out_of_memory_loading"
    assert not [one for one in found["alternatives"] if "vllm_version" in one["change"]]


def test_weights_on_the_host_are_the_least_and_the_last_remedy(model: Model) -> None:
    config = model("Qwen__Qwen2.5-14B")
    settings = {"vllm_version": "0.8.5.post1", "dtype": "half", "max_model_len": 4096}
    change = predict_start(config, [V100], settings)["change"]
    size = change["cpu_offload_gb"]
    assert predict_start(config, [V100], applied(settings, {**change, "cpu_offload_gb": size}))["ok"]
    less = predict_start(config, [V100], applied(settings, {**change, "cpu_offload_gb": size - 1}))
    assert less["verdict"] != "starts"
    # A plan has better ones, and none that the host's memory does not hold.
    section = {**config, "quantization_config": GPTQ, "num_hidden_layers": 320}
    for memory, offered in ((256 * 1024, True), (24 * 1024, False)):
        node = {"host": "gpu01", "gpus": [V100], "memory_mib": memory}
        said = plan_deployment(section, [node], {"vllm_version": "0.8.5.post1"})["predicted"]["error"]["remedy"]
        assert ("cpu_offload_gb" in said) is offered
    said = plan_deployment(config, [node], {"vllm_version": "0.8.5.post1"})["predicted"]["error"]["remedy"]
    assert "a GPTQ 4-bit checkpoint" in said


def test_a_value_outside_its_domain_is_refused_with_the_domain(model: Model) -> None:
    config = model("Qwen__Qwen2-0.5B")
    gpu = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}

    def check(name: str) -> None:
        seen = 0
        for version in releases():
            release = resolve_release(version)
            allowed = domain(name, release)
            if allowed is None or unknown_option(name, release) is not None:
                continue
            seen += 1
            wrong = 7 if allowed[0].isdigit() else "nonsense"
            settings = {"vllm_version": version, name: wrong, **({"enable_lora": True} if name in WITH_LORA else {})}
            said = refusal_of(config, gpu, settings)
            assert [value for value in allowed if value not in said] == [], version
        assert seen

    check_each({name: name for name in choices()}, check)


def refusal_of(config: dict[str, Any], gpu: dict[str, Any], settings: dict[str, Any]) -> str:
    """What is said of a wrong value, as bad input or as a start that is refused."""
    try:
        predicted = predict_start(config, [gpu], settings)
    except InputError as error:
        return str(error)
    return next(str(error["message"]) for error in predicted["errors"] if error["code"] == "value_not_allowed")


@pytest.mark.parametrize(("memory_mib", "capability"), [(8192, "8.6"), (16384, "7.0"), (24576, "8.6"), (32768, "7.0")])
def test_70b_starts_on_one_small_gpu_with_weights_on_the_host(model: Model, memory_mib: int, capability: str) -> None:
    """4 bits, 2048 tokens: cpu_offload_gb is the one thing that has to be said, in one step."""
    section = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
    config = {**model("meta-llama__Meta-Llama-3.1-70B"), "quantization_config": section}
    gpu = {"name": "GPU", "memory_mib": memory_mib, "compute_capability": capability}
    settings = {"vllm_version": "0.8.5.post1", "max_model_len": 2048, "dtype": "half", "quantization": "gptq"}
    predicted = predict_start(config, [gpu], settings)
    assert set(predicted["change"]) == {"cpu_offload_gb"}
