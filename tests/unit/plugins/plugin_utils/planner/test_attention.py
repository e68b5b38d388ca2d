# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which attention backend serves a GPU, and what it cannot do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.attention import backends
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.attention import BACKENDS, ORDER
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, releases
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples

Model = Callable[[str], dict[str, Any]]
DATA = Path(__file__).resolve().parents[5] / "tests" / "data"
GPUS = {
    "6.1": ("Tesla P40", 24576),
    "7.0": ("Tesla V100-SXM2-32GB", 32768),
    "7.2": ("Jetson AGX Xavier", 32768),
    "7.5": ("Quadro RTX 8000", 49152),
    "8.0": ("NVIDIA A100-SXM4-80GB", 81920),
    "9.0": ("NVIDIA H100 80GB HBM3", 81559),
}


def start(config: dict[str, Any], capability: str, version: str, **settings: Any) -> dict[str, Any]:
    name, memory = GPUS[capability]
    gpu = {"name": name, "memory_mib": memory, "compute_capability": capability}
    asked = {"vllm_version": version, "dtype": "half", "max_model_len": 2048, **settings}
    predicted: dict[str, Any] = predict_start(config, [gpu], asked)
    return predicted


@pytest.mark.parametrize(
    ("engine", "kind", "version", "capability", "expected"),
    [
        ("V0", "gqa", "0.3.3", (8, 0), ["XFORMERS"]),
        ("V0", "gqa", "0.8.5.post1", (6, 1), ["XFORMERS"]),
        ("V0", "gqa", "0.8.5.post1", (7, 2), ["XFORMERS"]),
        ("V0", "gqa", "0.8.5.post1", (8, 6), ["FLASH_ATTN", "XFORMERS"]),
        ("V0", "mla", "0.8.5.post1", (7, 0), []),
        ("V0", "mla", "0.7.0", (8, 0), []),
        ("V1", "gqa", "0.10.2", (7, 5), ["FLEX_ATTENTION"]),
        ("V1", "gqa", "0.12.0", (7, 0), ["TRITON_ATTN", "FLEX_ATTENTION"]),
        ("V1", "gqa", "0.12.0", (7, 5), ["FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION"]),
        ("V1", "gqa", "0.24.0", (7, 5), ["TRITON_ATTN", "FLEX_ATTENTION"]),
        ("V1", "gqa", "0.33.0", (10, 0), ["FLASHINFER", "FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION"]),
        ("V1", "mla", "0.12.0", (9, 0), ["FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA"]),
    ],
)
def test_the_order_in_which_backends_are_tried(
    engine: str, kind: str, version: str, capability: tuple[int, int], expected: list[str]
) -> None:
    assert [one.name for one in backends(engine, kind, release_key(version), capability)] == expected


def test_every_release_has_a_backend_for_every_gpu_that_its_engine_serves() -> None:
    for version in releases():
        key = release_key(version)
        for capability in ((6, 0), (6, 1), (7, 0), (7, 2), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0)):
            assert backends("V0", "gqa", key, capability)
            assert key < release_key("0.10.2") or backends("V1", "gqa", key, capability)


def test_every_backend_that_is_tried_is_described() -> None:
    named = {
        (name, since) for rows in ORDER.values() for since, order in rows for _dummy, names in order for name in names
    }
    assert {name for name, _dummy in named} == set(BACKENDS)
    assert all(release_key(BACKENDS[name][0][0]) <= release_key(since) for name, since in named)


CASES: list[tuple[str, str, str, dict[str, Any], str, dict[str, Any]]] = [
    # model, compute capability, release, options, the code, what starts instead
    ("Qwen__Qwen2.5-7B-Instruct", "7.0", "0.8.5.post1", {"block_size": 64}, "value_not_allowed", {"block_size": None}),
    ("Qwen__Qwen2.5-7B-Instruct", "8.0", "0.8.5.post1", {"block_size": 8}, "value_not_allowed", {"block_size": None}),
    (
        "Qwen__Qwen2.5-7B-Instruct",
        "7.0",
        "0.11.0",
        {"kv_cache_dtype": "fp8"},
        "value_not_allowed",
        {"kv_cache_dtype": None},
    ),
    (
        "Qwen__Qwen2.5-7B-Instruct",
        "7.0",
        "0.6.6.post1",
        {"enable_chunked_prefill": True},
        "feature_not_supported",
        {"enable_chunked_prefill": None},
    ),
    (
        "Qwen__Qwen2.5-7B-Instruct",
        "7.0",
        "0.6.6.post1",
        {"enable_prefix_caching": True},
        "feature_not_supported",
        {"enable_prefix_caching": None},
    ),
    (
        "deepseek-ai__DeepSeek-V2-Lite-Chat",
        "7.0",
        "0.8.5.post1",
        {"trust_remote_code": True},
        "feature_not_supported",
        {"environment": {"VLLM_MLA_DISABLE": "1"}, "dtype": "float32"},
    ),
]


@pytest.mark.parametrize(("name", "capability", "version", "settings", "code", "change"), CASES)
def test_what_no_backend_can_do_is_refused(
    model: Model, name: str, capability: str, version: str, settings: dict[str, Any], code: str, change: dict[str, Any]
) -> None:
    config = model(name)
    if "DeepSeek" in name:  # so that 32 GB hold it
        config = {**config, "num_hidden_layers": 8}
    refused = start(config, capability, version, **settings)
    assert refused["error"]["code"] == code
    assert refused["change"] == change
    assert start(config, capability, version, **{**settings, **change})["ok"]


@pytest.mark.parametrize(
    ("capability", "version", "settings"),
    [
        ("8.0", "0.8.5.post1", {"block_size": 64}),
        ("7.5", "0.6.6.post1", {"enable_chunked_prefill": True, "enable_prefix_caching": True}),
        ("8.0", "0.10.2", {"kv_cache_dtype": "fp8_e5m2"}),  # the V0 engine, xFormers
        ("7.5", "0.12.0", {"kv_cache_dtype": "fp8"}),  # FlashInfer
        ("9.0", "0.12.0", {"dtype": "float32"}),  # Triton
        ("8.0", "0.6.3.post1", {"block_size": 8}),  # xFormers
    ],
)
def test_the_next_backend_does_what_the_first_cannot(
    model: Model, capability: str, version: str, settings: dict[str, Any]
) -> None:
    assert start(model("Qwen__Qwen2.5-7B-Instruct"), capability, version, **settings)["error"] is None


@pytest.mark.parametrize(("version", "capability", "ok"), [("0.6.6.post1", "7.0", False), ("0.6.6.post1", "8.0", True)])
def test_head_sizes_are_those_of_the_backend(model: Model, version: str, capability: str, ok: bool) -> None:
    """xFormers decodes with kernels for some sizes; FlashAttention has others."""
    config = {**model("Qwen__Qwen2.5-1.5B-Instruct"), "head_dim": 224, "architectures": ["LlamaForCausalLM"]}
    config["model_type"] = "llama"
    predicted = start(config, capability, version)
    assert predicted["ok"] is ok
    if not ok:
        assert predicted["error"]["message"].endswith("takes 32, 64, 80, 96, 112, 120, 128, 192, 256")


@pytest.mark.parametrize(
    ("version", "capability", "ok"),
    [("0.5.4", "7.5", False), ("0.5.4", "8.0", True), ("0.6.6.post1", "7.5", True), ("0.11.0", "7.5", False)],
)
def test_soft_capped_logits_need_a_backend_that_caps(version: str, capability: str, ok: bool) -> None:
    config = json.loads((DATA / "planner" / "measured_starts.json").read_text(encoding="utf-8"))["configs"][
        "gemma-2-9b"
    ]
    config = {**config, "attn_logit_softcapping": 50.0, "sliding_window": None}
    predicted = start(config, capability, version, dtype="float32" if version == "0.11.0" else "half")
    assert predicted["ok"] is ok, predicted["error"]
    assert ok or "cannot cap" in predicted["error"]["message"]


def report(name: str) -> dict[str, Any]:
    reports = json.loads((DATA / "planner" / "reports.json").read_text(encoding="utf-8"))
    return dict(next(one for one in reports if one["id"] == name)["overrides"])


@pytest.mark.parametrize(
    ("version", "capability", "said"),
    [
        ("0.10.2", "8.0", ""),  # FLASH_ATTN passes on to TRITON_ATTN
        ("0.12.0", "8.0", ""),
        ("0.12.0", "9.0", ""),
    ],
)
def test_attention_sinks_are_passed_on(version: str, capability: str, said: str) -> None:
    config = json.loads((DATA / "models" / "openai__gpt-oss-20b.json").read_text(encoding="utf-8"))
    found = start(config, capability, version, max_model_len=4096, dtype="bfloat16")
    assert (found["error"] or {"message": ""})["message"] == said


def test_a_named_backend_without_sinks_is_refused() -> None:
    config = json.loads((DATA / "models" / "openai__gpt-oss-20b.json").read_text(encoding="utf-8"))
    predicted = start(config, "8.0", "0.19.0", dtype="bfloat16", attention_backend="FLASH_ATTN")
    assert "FLASH_ATTN" in predicted["error"]["message"]
    assert predicted["change"] == {"attention_backend": None}


def test_sparse_attention_needs_hopper_or_the_datacenter_blackwell() -> None:
    config = json.loads((DATA / "models" / "deepseek-ai__DeepSeek-V3.2.json").read_text(encoding="utf-8"))
    for version, capability, refused in (("0.13.0", "8.0", True), ("0.13.0", "9.0", False), ("0.33.0", "8.0", True)):
        predicted = start(config, capability, version, max_model_len=4096)
        assert any("sparse" in error["message"] for error in predicted["errors"]) is refused


def test_wide_heads_need_shared_memory() -> None:
    config = report("gemma3-4b-t4-float32")
    assert "shared memory" in start(config, "7.5", "0.17.0", dtype="float32")["error"]["message"]
    assert start(config, "7.0", "0.17.0", dtype="float32")["ok"]
    assert start(config, "8.0", "0.17.0", dtype="float32")["ok"]


def test_volta_reads_earlier_keys_in_float32() -> None:
    config = {**json.loads((DATA / "models" / "Qwen__Qwen3-0.6B.json").read_text(encoding="utf-8"))}
    chunked = {"enable_chunked_prefill": True, "max_model_len": 4096}
    assert start(config, "7.0", "0.8.5.post1", dtype="float32", **chunked)["ok"]
    assert not start(config, "7.0", "0.8.5.post1", dtype="half", **chunked)["ok"]


WIDER = ({"head_dim": 512}, {"architectures": ["GptOssForCausalLM"], "num_local_experts": 8, "num_experts_per_tok": 2})


@examples(40)
@given(st.sampled_from(releases()), st.sampled_from(["7.0", "7.5", "8.0", "9.0"]), st.sampled_from(WIDER))
def test_a_feature_never_cures(version: str, capability: str, more: dict[str, Any]) -> None:
    """What a model asks of attention beside others only ever adds a reason why it does not start."""
    plain = json.loads((DATA / "models" / "Qwen__Qwen3-0.6B.json").read_text(encoding="utf-8"))
    settings = {"dtype": "half", "max_model_len": 2048, "enable_chunked_prefill": False}
    if start({**plain, **more}, capability, version, **settings)["ok"]:
        said = {error["code"] for error in start(plain, capability, version, **settings)["errors"]}
        assert not said - {"architecture_not_supported"}
