# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines, releases, logs and reports."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import TEXTS, reason
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.arguments import vllm_arguments
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.failures import FAILURES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import OPTIONS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import diagnose_log, explain_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.engine_log import parse_engine_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import recommended_release
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.remedies import predict_start
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_html, plan_report, plan_table

from tests.support.each import check_each

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


LOGS = {
    "bf16_unsupported": "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has 7.5.",
    "heads_not_divisible": "ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (3).",
    "not_divisible": "AssertionError: 151936 is not divisible by 3",
    "no_cache_blocks": "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    "max_model_len_exceeds_kv_cache": "ValueError: The model's max seq len (29000) is larger than the maximum number of tokens that can be "
    "stored in KV cache (23648).",
    "out_of_memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has 15.77 GiB",
    "free_memory": "ValueError: Free memory on device (14.55/15.92 GiB) on startup is less than desired GPU memory utilization (0.92, 14.65 GiB).",
    # vllm-project/vllm issue 19185 (torch/cuda/__init__.py).
    "gpu_too_old_for_torch": "The minimum cuda capability supported by this library is 7.5.",
    # torch/cuda/__init__.py
    "driver_too_old": "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver",
    # opendatalab/MinerU issue 3416
    "sglang_gpu_too_old": "RuntimeError: SGLang only supports sm75 and above.",
    # transformers/models/auto/configuration_auto.py
    "transformers_too_old": "has model type `qwen3` but Transformers does not recognize this architecture",
    # vllm/executor/gpu_executor.py of 0.5.4
    "no_gpu_blocks": "INFO 08-11 10:00:00 gpu_executor.py:102] # GPU blocks: 0, # CPU blocks: 2048",
    # vllm/model_executor/layers/quantization/bitsandbytes.py of 0.6.6 reads this attribute
    "bitsandbytes_state": "AttributeError: 'Parameter' object has no attribute 'bnb_quant_state'",
    # vllm/executor/ray_utils.py of 0.8.5.post1
    "placement_group_waiting": "INFO ray_utils.py:233] Waiting for creating a placement group of specs for 20 seconds. specs=[{'GPU': 1.0}]",
    # torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
    "nccl_watchdog": "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.",
    # vllm-project/vllm issue 17386
    "terminated_while_loading": "KeyboardInterrupt: terminated",
    # vllm/v1/executor/multiproc_executor.py of 0.12.0
    "worker_died": "ERROR Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
    # vllm-project/vllm issue 20465
    "engine_failed_to_start": "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
    # LMCache/LMCache issue 411
    "engine_dead": "vllm.engine.multiprocessing.MQEngineDeadError: Engine loop is not running. Inspect the stacktrace to find the original error",
    # vllm/distributed/device_communicators/custom_all_reduce.py of 0.5.4
    "custom_all_reduce_off": "WARNING custom_all_reduce.py:118] Custom allreduce is disabled because it's not supported on more than two "
    "PCIe-only GPUs. To silence this warning, specify disable_custom_all_reduce=True explicitly.",
    # torch/_inductor/scheduler.py
    "gpu_too_old": "RuntimeError: Found Tesla P100-PCIE-16GB which is too old to be supported by the triton GPU compiler, which is used as the "
    "backend. Triton only supports devices of CUDA Capability >= 7.0, but your device is of CUDA capability 6.0",
    # CUDA's error 222 (cudaErrorUnsupportedPtxVersion)
    "ptx_toolchain": "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
    # nvidia-smi after an update of the driver
    "driver_mismatch": "Failed to initialize NVML: Driver/library version mismatch",
    # vllm/config.py of 0.8.5.post1
    "no_gpu_in_container": "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`",
    # vllm/config/__init__.py of 0.10.2
    "float16_refused": "ValueError: The model type 'gemma2' does not support float16. Reason: Numerical instability.",
    # vllm/config.py of 0.8.5.post1
    "quantization_unsupported": "ValueError: The quantization method awq is not supported for the current GPU. Minimum capability: 75. "
    "Current capability: 70.",
    # vllm/model_executor/models/registry.py of 0.8.5.post1
    "architecture_unsupported": "ValueError: Model architectures ['Qwen3NextForCausalLM'] are not supported for now. Supported architectures: []",
    # vllm/config.py of 0.8.5.post1
    "pp_unsupported": "NotImplementedError: Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP`",
    # vllm/v1/worker/gpu_worker.py of 0.10.2
    "memory_profiling": "AssertionError: Error in memory profiling. Initial free memory 38.9 GiB, current free memory 39.2 GiB.",
    # vllm/executor/ray_utils.py of 0.8.5.post1
    "ray_no_resources": "ValueError: The number of required GPUs exceeds the total number of available GPUs in the placement group.",
    # ray/_private/utils.py
    "ray_version_mismatch": "RuntimeError: Version mismatch: The cluster was started with:",
    "ray_missing": "ModuleNotFoundError: No module named 'ray'",
    # torch/csrc/distributed/c10d/NCCLUtils.hpp
    "nccl": "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, unhandled system error (run with NCCL_DEBUG=INFO for details)",
    # gloo/transport/tcp/pair.cc, as torch hands it on
    "gloo": "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
    # torch/utils/data/_utils/signal_handling.py
    "shared_memory": "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
    # CUDA's error 217 (cudaErrorPeerAccessUnsupported)
    "peer_access": "RuntimeError: CUDA error: peer access is not supported between these two devices",
    # the errno of Linux, as Python prints it
    "port_in_use": "OSError: [Errno 98] Address already in use",
    # vllm/envs.py of 0.10.2
    "vllm_port_is_uri": "ValueError: VLLM_PORT 'tcp://10.96.12.7:8000' appears to be a URI. This may be caused by a Kubernetes service discovery",
    # vllm/model_executor/model_loader/default_loader.py of 0.12.0
    "model_missing": "RuntimeError: Cannot find any model weights with `/models/Qwen2.5-7B`",
    # safetensors/src/tensor.rs
    "corrupt_weights": "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
    # transformers/dynamic_module_utils.py
    "remote_code": "ValueError: The repository contains custom code. Please pass the argument `trust_remote_code=True` to allow custom code to be run.",
    # vllm/v1/engine/core_client.py of 0.17.0
    "ready_timeout": "TimeoutError: Timed out waiting for engine core processes to start. This is often caused by slow weight loading",
    # NVIDIA's list of Xid errors
    "xid": "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    # mm/oom_kill.c of Linux
    "host_out_of_memory": "Out of memory: Killed process 4711 (python3) total-vm:98304000kB, anon-rss:65536000kB",
    "no_kernel_image": "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    "unknown_option": "api_server.py: error: unrecognized arguments: --enable-prometheus",
    "driver_too_old_for_image": "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4, please update your driver",
    "quant_group_not_divisible": "RuntimeError: Worker failed with error 'size_k must divisible by BLOCK_SIZE_K'",
    "max_model_len_too_long": "User-specified max_model_len (131072) is greater than the derived max_model_len (32768)",
}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_diagnosis(lang: str) -> None:
    def check(code: str) -> None:
        found = {finding["code"]: finding for finding in diagnose_log("INFO all is well\n" + LOGS[code], lang)}
        assert code in found
        assert found[code]["line"] == 2
        assert found[code]["evidence"] == LOGS[code]
        assert "?" not in found[code]["cause"]

    check_each({code: code for code in LOGS}, check)


def test_heads_are_told_without_the_size() -> None:
    """SGLang and some forks print less."""
    for line in (
        "ValueError: attention heads (32) must be divisible by tensor parallel size",
        "    assert self.total_num_heads % tp_size == 0",
    ):
        assert [finding["code"] for finding in diagnose_log(line)] == ["heads_not_divisible"]


def test_the_root_comes_before_what_follows_from_it() -> None:
    order = ("engine_dead", "engine_failed_to_start", "worker_died", "no_kernel_image", "gpu_too_old_for_torch")
    log = "\n".join(LOGS[code] for code in order)
    assert [finding["code"] for finding in diagnose_log(log)] == list(reversed(order))


def test_every_failure_has_an_excerpt_and_a_remedy_that_names_a_variable() -> None:
    """In both languages, and the variables are those of the roles."""
    variables: set[str] = set()
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            variables.update(entry.get("options") or {})
    assert {code for code, _ in FAILURES} == set(LOGS)
    for code, _ in FAILURES:
        for lang in ("en", "zh"):
            named = set(re.findall(r"[a-z]+(?:_[a-z0-9]+)+", TEXTS[lang][f"failure_{code}_remedy"]))
            assert named & variables, (code, lang)


def test_every_failure_has_a_cause_and_a_remedy() -> None:
    codes = [code for code, _ in FAILURES]
    assert len(codes) == len(set(codes))
    for code, pattern in FAILURES:
        groups = {name.rstrip("0123456789") for name in re.compile(pattern).groupindex}
        for text in (f"failure_{code}", f"failure_{code}_remedy"):
            assert {field for _, field, _, _ in string.Formatter().parse(TEXTS["en"][text]) if field} <= groups
    assert diagnose_log("INFO Application startup complete.") == []
    with pytest.raises(InputError, match="lang"):
        diagnose_log("", "fr")


@pytest.mark.parametrize(("lang", "nearest"), [("en", "the nearest other plan: "), ("zh", "最接近的其他计划：")])
def test_a_start_that_failed_gets_cause_evidence_remedy_and_the_nearest_plan(
    lang: str, nearest: str, model: Callable[[str], dict[str, Any]], v100: dict[str, Any]
) -> None:
    asked = {"vllm_version": "0.8.5.post1"}
    plan = plan_deployment(model("Qwen__Qwen2.5-7B-Instruct"), [{"host": "a", "gpus": [v100] * 2}], asked)
    log = f"INFO starting\n{LOGS['no_cache_blocks']}\n"
    (finding,) = diagnose_log(log, lang)
    said = explain_log(log, lang, plan)
    other = next(each for each in plan["alternatives"] if each["ok"])
    for part in (*(finding[key] for key in ("cause", "evidence", "remedy")), nearest + other["change"]):
        assert part in said
    assert nearest not in explain_log(log, lang)


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
