# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Architectures that a release has, that it does not have, and of which the planner knows no memory."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.architectures import ARCHITECTURES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.registry import converted_from, registry
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, releases, within
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_table
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

H100 = {"name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "compute_capability": "9.0"}
SIZES = {
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 3072,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "torch_dtype": "bfloat16",
}
UNKNOWN = "architecture_not_supported"


def start(name: str, version: str, **settings: Any) -> dict[str, Any]:
    return predict_start({**SIZES, "architectures": [name]}, [H100], {"vllm_version": version, **settings})


def codes(found: dict[str, Any]) -> list[str]:
    return [error["code"] for error in found["errors"]]


@examples(60)
@given(st.sampled_from(sorted(registry())), st.sampled_from(releases()))
def test_a_release_starts_only_what_it_has(name: str, version: str) -> None:
    found = start(name, version)
    rows = registry()[name]
    key = release_key(version)
    text, since = converted_from(name) or ("", version)
    made = key >= release_key(since) and any(within(key, row.since, row.last) for row in registry().get(text, ()))
    if made or any(within(key, row.since, row.last) for row in rows):
        assert UNKNOWN not in codes(found)
        assert found["verdict"] != "starts" or {name, text} & set(ARCHITECTURES)
    else:
        assert UNKNOWN in codes(found)
        assert found["change"].get("vllm_version") in (
            None,
            *(row.since for row in rows),
            *(row.last for row in rows),
            "0.8.5.post1",
        )


@examples(30)
@given(st.text("abcdefgh", min_size=3, max_size=12), st.sampled_from(releases()))
def test_what_no_release_has_is_refused(word: str, version: str) -> None:
    found = start(word.capitalize() + "ForCausalLM", version)
    assert not found["ok"]
    assert found["error"]["code"] == UNKNOWN
    assert found["change"] == {}


def test_every_architecture_with_a_memory_model_is_in_a_release() -> None:
    assert not set(ARCHITECTURES) - set(registry())


@pytest.mark.parametrize(
    ("name", "version", "verdict", "said"),
    [
        ("FooBarForCausalLM", "0.33.0", "does_not_start", "no vLLM release"),
        ("Qwen2_5_VLForConditionalGeneration", "0.3.0", "does_not_start", "0.7.2"),
        ("BertForMaskedLM", "0.10.2", "does_not_start", "0.26.0"),
        ("ArcticForCausalLM", "0.10.2", "not_verified", "ArcticForCausalLM"),
        ("ArcticForCausalLM", "0.30.0", "does_not_start", "0.28.0"),
        ("Qwen3ForSequenceClassification", "0.10.0", "starts", ""),
        ("Qwen3ForCausalLM", "0.12.0", "starts", ""),
    ],
)
def test_what_is_said(name: str, version: str, verdict: str, said: str) -> None:
    found = start(name, version)
    assert found["verdict"] == verdict
    assert said in (found["error"] or {}).get("message", found["margin"]["reason"])


def test_the_transformers_library_is_not_verified() -> None:
    found = start("FooBarForCausalLM", "0.12.0", model_impl="transformers")
    assert (found["ok"], found["verdict"]) == (True, "not_verified")
    assert "model_impl transformers" in start("FooBarForCausalLM", "0.12.0")["error"]["remedy"]


def test_an_architecture_of_the_options_counts() -> None:
    for name, verdict in (("FooBarForCausalLM", "does_not_start"), ("ArcticForCausalLM", "not_verified")):
        found = start("Qwen3ForCausalLM", "0.12.0", hf_overrides={"architectures": [name]})
        assert found["verdict"] == verdict


def test_of_several_architectures_the_known_one_counts() -> None:
    config = {**SIZES, "architectures": ["FooBarModel", "ArcticForCausalLM"]}
    found = predict_start(config, [H100], {"vllm_version": "0.12.0"})
    assert found["verdict"] == "not_verified"
    assert "ArcticForCausalLM" in found["margin"]["reason"]


# BAAI/bge-m3 as its config.json has it.
BGE_M3 = {
    "architectures": ["XLMRobertaModel"],
    "model_type": "xlm-roberta",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "max_position_embeddings": 8194,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "vocab_size": 250002,
    "torch_dtype": "float32",
}


def test_an_encoder_has_no_cache() -> None:
    found = predict_start(BGE_M3, [H100], {"vllm_version": "0.12.0", "dtype": "half"})
    assert (found["verdict"], found["kv_cache_tokens"], found["longest_context"]) == ("starts", None, 8194)
    parameters = 250002 * 1024 + 8194 * 1024 + 24 * 12 * 1024 * 1024  # embeddings and layers, without biases and norms
    assert found["ranks"][0]["weights_gib"] == pytest.approx(parameters * 2 / 1024**3, rel=0.005)
    small = {"name": "NVIDIA A2", "memory_mib": 2048, "compute_capability": "8.6"}
    assert not predict_start(BGE_M3, [small], {"vllm_version": "0.12.0", "dtype": "half"})["ok"]
    plan = plan_deployment(BGE_M3, [{"host": name, "gpus": [H100]} for name in "ab"], {"vllm_version": "0.12.0"})
    assert plan["ok"]
    assert plan_table(plan)
    turing = {"name": "Tesla T4", "memory_mib": 15360, "compute_capability": "7.5"}
    assert predict_start(BGE_M3, [turing], {"vllm_version": "0.12.0", "dtype": "half"})["verdict"] == "not_verified"


# model_type, what auto_map says, release, options; the code of the error, and a change that cures it
REMOTE = (
    (
        "internlm2",
        {"AutoConfig": "configuration_internlm2.InternLM2Config"},
        "0.10.2",
        {},
        "remote_code_needed",
        {"trust_remote_code": True},
    ),
    (
        "internlm2",
        {"AutoConfig": "configuration_internlm2.InternLM2Config"},
        "0.10.2",
        {"trust_remote_code": True},
        None,
        {},
    ),
    (
        "deepseek_v3",
        {"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
        "0.8.2",
        {},
        "remote_code_needed",
        {"trust_remote_code": True},
    ),
    ("deepseek_v3", {"AutoConfig": "configuration_deepseek.DeepseekV3Config"}, "0.8.5", {}, None, {}),
    ("deepseek_v3", {"AutoConfig": "org/code--configuration.Config"}, "0.8.5", {}, None, {}),
    (
        "deepseek_v3",
        {"AutoConfig": "org/code--c.C"},
        "0.8.5",
        {"trust_remote_code": True},
        "file_not_in_bundle",
        {"trust_remote_code": None},
    ),
    ("qwen2", {"AutoModel": "org/code--c.C"}, "0.10.2", {"trust_remote_code": True}, "file_not_in_bundle", {}),
    ("qwen2", {"AutoModel": "modeling.Own"}, "0.10.2", {}, None, {}),
    (
        "qwen2",
        {"AutoModel": "org/c--c.C"},
        "0.10.2",
        {"trust_remote_code": True, "environment": {"HF_HUB_OFFLINE": "0"}},
        None,
        {},
    ),
)


def test_code_of_a_repository_is_allowed_and_on_the_hosts() -> None:

    for model_type, auto_map, version, options, code, change in REMOTE:
        model = {**SIZES, "architectures": ["Qwen2ForCausalLM"], "model_type": model_type, "auto_map": auto_map}
        found = predict_start(model, [H100], {"vllm_version": version, **options})
        assert (found["error"] or {}).get("code") == code, (model_type, version, options)
        assert not code or found["change"] == change, (model_type, version, options)
        assert code != "file_not_in_bundle" or "org/code" in found["error"]["remedy"]
