# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines, releases, logs and reports."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.arguments import vllm_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.engine_log import parse_engine_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import reason
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import OPTIONS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import recommended_release
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_html, plan_report, plan_table

Model = Callable[[str], dict[str, Any]]
ROOT = Path(__file__).resolve().parents[5]


def test_arguments() -> None:
    assert vllm_arguments(
        {"tensor_parallel_size": 2, "dtype": "half", "enforce_eager": True, "swap_space": 4.0}, "0.8.5.post1"
    ) == [
        "--tensor-parallel-size",
        "2",
        "--dtype",
        "half",
        "--enforce-eager",
        "--swap-space",
        "4",
    ]
    assert (
        vllm_arguments({"enforce_eager": False, "quantization": None, "vllm_version": "x", "nodes": [1]}, "0.3.0") == []
    )
    assert vllm_arguments({"enable_prefix_caching": False}, "0.10.2") == ["--no-enable-prefix-caching"]
    assert vllm_arguments({"enable_chunked_prefill": False}, "0.8.0") == ["--enable-chunked-prefill=False"]
    assert vllm_arguments({"model": "/models/x"}, "0.8.5.post1") == ["--model", "/models/x"]
    assert vllm_arguments({"model": "/models/x"}, "0.12.0") == ["/models/x"]
    assert vllm_arguments({"served_model_name": ["a", "b"]}, "0.8.5.post1") == ["--served-model-name", "a", "b"]
    for version in ("0.3.0", "0.33.0"):  # read with json.loads, other than lists of the engine
        assert vllm_arguments({"allowed_origins": ["https://a"]}, version) == ["--allowed-origins", '["https://a"]']
    assert vllm_arguments({"compilation_config": {"level": 3}}, "0.8.5.post1") == [
        "--compilation-config",
        '{"level":3}',
    ]
    assert vllm_arguments({"--max-model-len": 10}, "0.8.5.post1") == ["--max-model-len", "10"]


@pytest.mark.parametrize(
    ("options", "version", "said"),
    [
        ({"nnodes": 2}, "0.8.5.post1", "first release that has it is 0.11.1"),
        ({"swap_space": 4}, "0.33.0", "last release that has it is 0.17.1"),
        ({"worker_use_ray": True}, "0.8.5.post1", "distributed-executor-backend ray"),
        ({"worker_use_ray": True}, "0.32.0", "last release that has it is 0.6.6"),
        ({"worker_use_ray": True}, "0.32.0", "use --distributed-executor-backend ray"),
        ({"enable_prometheus": True}, "0.8.5.post1", "no vLLM release ever had"),
        ({"max_modle_len": 1}, "0.8.5.post1", "did you mean max_model_len"),
        ({"ctx_size": 1}, "0.8.5.post1", "an option of llama_cpp; vLLM has max_model_len for it"),
        ({"tensor_parallel_size": True}, "0.8.5.post1", "takes a value"),
        ({"reasoning_parser": "x"}, "0.3.0", "0.7.1"),
    ],
)
def test_unknown_options(options: dict[str, Any], version: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        vllm_arguments(options, version)


def test_option_releases_are_releases() -> None:
    for _, since, last, _ in OPTIONS.values():
        assert since is None or release_key(since)
        assert last is None or release_key(last)


@pytest.mark.parametrize(
    "gpu", ["Tesla V100-PCIE-16GB", "7.0", {"name": "Tesla V100-SXM2-32GB"}, {"compute_capability": 7.0}]
)
def test_a_v100_gets_the_last_release_that_serves_it_well(gpu: Any) -> None:
    advice = recommended_release(gpu)
    assert advice["vllm_version"] == "0.8.5.post1"
    assert advice["driver_branch_last"] == "580"
    assert advice["kernel_modules"] == "proprietary"
    assert advice["cuda_last"].startswith("12")
    assert advice["last_official_image"] == "0.19.1"
    assert advice["dtype"] == "half"


def test_newer_gpus_get_the_newest() -> None:
    assert recommended_release("NVIDIA H200")["vllm_version"] == "0.33.0"
    with pytest.raises(InputError, match=r"6\.0"):
        recommended_release("Tesla P100-PCIE-16GB")


def test_engine_logs_of_several_ranks() -> None:
    log = """(EngineCore_0 pid=1) INFO Initializing a V1 LLM engine (v0.25.1) with config: x
(Worker_TP0 pid=5) INFO Model loading took 7.16 GiB and 2.123 seconds
(Worker_TP1 pid=6) INFO Model loading took 7.16 GiB and 2.1 seconds
(Worker_TP0 pid=5) INFO Available KV cache memory: 116.68 GiB
(EngineCore_0 pid=1) INFO GPU KV cache size: 4,369,536 tokens
(EngineCore_0 pid=1) INFO GPU KV cache size: 4,369,520 tokens
(EngineCore_0 pid=1) INFO Maximum concurrency for 4,096 tokens per request: 1066.78x"""
    truth = parse_engine_log(log)
    assert len(truth["ranks"]) == 2
    assert truth["kv_cache_tokens"] == 4369520
    assert truth["max_concurrency"] == 1066.78
    assert truth["vllm_version"] == "0.25.1"
    assert parse_engine_log("")["complete"] is False


def test_reports(model: Model, v100: dict[str, Any]) -> None:
    nodes = [{"host": "gpu<1>", "gpus": [v100]}, {"host": "gpu02", "gpus": [v100]}]
    plan = plan_deployment(model("Qwen__Qwen2.5-14B"), nodes, {"vllm_version": "0.8.5.post1", "max_model_len": 2048})
    page = plan_html({"qwen": plan})
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert "http" not in page
    assert "gpu&lt;1&gt;" in page
    assert "--max-model-len 2048" in page
    table = plan_table(plan)
    assert "weights" in table
    assert "--max-model-len 2048" in table
    assert json.loads(plan_report({"qwen": plan}, "json"))["qwen"]["ok"] is True
    with pytest.raises(InputError, match="format"):
        plan_report(plan, "pdf")


def chinese(text: str) -> bool:
    return bool(re.search("[\u4e00-\u9fff]", text))


@pytest.mark.parametrize("length", [2048, 131072], ids=["fits", "does not fit"])
def test_a_plan_in_chinese(length: int, model: Model, v100: dict[str, Any]) -> None:
    nodes = [{"host": "gpu01", "gpus": [v100]}, {"host": "gpu02", "gpus": [v100]}]
    past = {"gpu": v100["name"], "prediction": {"kv_cache_gib": 2}, "truth": {"kv_cache_gib": 1}}
    request = {"max_model_len": length, "observations": [past]}
    plan = plan_deployment(model("Qwen__Qwen2.5-14B"), nodes, request, language="zh")
    english = plan_deployment(model("Qwen__Qwen2.5-14B"), nodes, request)
    texts = [*plan["reasons"], *plan["predicted"]["warnings"]]
    for one in plan["alternatives"]:
        texts += [text for text in (one["cost"], one["gain"]) if text]
        texts += [one["error"]["message"], one["error"]["remedy"]] if one["error"] else []
    assert len(texts) > 8
    assert [text for text in texts if not chinese(text) and not text.startswith("max_model_len")] == []
    assert plan["settings"] == english["settings"], "the language changes no decision"
    assert not any(chinese(reason) for reason in english["reasons"])


def test_a_refused_start_in_chinese(model: Model, v100: dict[str, Any]) -> None:
    settings = {
        "vllm_version": "0.8.5.post1",
        "dtype": "bfloat16",
        "tensor_parallel_size": 3,
        "enable_prometheus": True,
    }
    predicted = predict_start(model("Qwen__Qwen2.5-14B"), [v100] * 3, settings, "zh")
    assert len(predicted["errors"]) > 3
    assert [
        error for error in predicted["errors"] if not chinese(error["message"]) or not chinese(error["remedy"])
    ] == []
    assert recommended_release("7.0", "zh")["reason"].startswith("最后一个官方镜像")


def test_wrong_input_in_chinese(model: Model) -> None:
    with pytest.raises(InputError) as caught:
        plan_deployment(model("Qwen__Qwen2.5-14B"), [])
    assert str(caught.value) == "nodes: holds no host"
    assert reason(caught.value, "zh") == "nodes：不含任何主机"
