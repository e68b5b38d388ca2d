"""LMDeploy goes through every decision as any engine does: the check of the inventory, the plan, the decision, the records, gateways and monitoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.estimates import spread_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy.memory import estimate
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import recording_rules
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import targets
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.start_progress import start_progress
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_html, plan_report

from tests.support.lone_engines import LoneSite

ENGINE = engine("lmdeploy")
SAID: dict[str, Any] = {"lmdeploy_model": "lab/large", "lmdeploy_version": "0.18.0"}
MODELS = Path(__file__).parents[5] / "data/models"
CONFIG: dict[str, Any] = json.loads((MODELS / "Qwen__Qwen3-32B.json").read_text(encoding="utf-8"))
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
V100 = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}
P40 = {"name": "Tesla P40", "memory_mib": 24576, "compute_capability": "6.1"}
RECORDS = [{"path": "models/lab--large/config.json", "kind": "model", "model": "lab/large", "sha256": "1"}]


SITE = LoneSite(
    "lmdeploy",
    "large",
    SAID,
    RECORDS,
    lambda path: {**CONFIG, "quantization_config": AWQ},
    gpus=[V100, V100],
)


# -- the inventory -------------------------------------------------------------------------------------------------------
def test_its_inventory_is_checked() -> None:
    found = SITE.checked()
    assert (found["problems"], found["names"]["gpu1"]["server"]) == ([], "llm-lmdeploy")
    assert "0.18.0" in SITE.checked(lmdeploy_version=None)["problems"][0]["allowed"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a release of another engine": ({"lmdeploy_version": "b9603"}, "lmdeploy_version"),
    "no GPU": ({"lmdeploy_tp": 0}, "lmdeploy_tp"),
    "a context of nothing": ({"lmdeploy_session_len": 0}, "lmdeploy_session_len"),
    "a cache larger than what is there": ({"lmdeploy_cache_max_entry_count": 1.5}, "lmdeploy_cache_max_entry_count"),
    "a cache of bits that there are not": ({"lmdeploy_quant_policy": 6}, "lmdeploy_quant_policy"),
    "a volume without a place": ({"lmdeploy_extra_volumes": ["here"]}, "lmdeploy_extra_volumes"),
    "a variable of the collection's programs": ({"lmdeploy_environment": {"LLM_API_PATHS": "/"}}, "LLM_API_PATHS"),
    "an option with a variable": ({"lmdeploy_options": {"session_len": 1024}}, "lmdeploy_session_len"),
}


def test_wrong_values_are_refused_before_a_host_is_touched() -> None:
    SITE.checks_values(WRONG)


# -- the plan ------------------------------------------------------------------------------------------------------------
def test_its_plan_is_an_estimate_and_says_so() -> None:
    plan = SITE.plan()
    assert (plan["ok"], plan["verdict"], plan["engine"]) == (True, "unknown", "lmdeploy")
    settings = plan["settings"]
    assert (settings["tp"], settings["max_batch_size"], settings["cache_max_entry_count"]) == (2, 128, 0.8)
    assert settings["session_len"] == CONFIG["max_position_embeddings"]
    assert "an estimate" in plan["predicted"]["warnings"][0]
    assert len(plan["predicted"]["ranks"]) == 2
    assert 8.5 < plan["predicted"]["ranks"][0]["weights_gib"] < 9.5
    assert "large: LMDeploy 0.18.0" in plan_report({"large": plan}, "table")
    assert "session-len" in plan_html({"large": plan}, day="2026-01-01")
    assert "估计值" in SITE.plan(language="zh")["predicted"]["warnings"][0]


def test_a_cache_of_fewer_bits_has_room_for_more_tokens() -> None:
    model, gpus = read_model({**CONFIG, "quantization_config": AWQ}), read_gpus([V100, V100])
    spread = spread_of(model, 2)
    tokens = {policy: estimate(model, gpus, spread, 0.8, policy).tokens for policy in (0, 8, 4)}
    # A head of 128 values: 512 bytes, 256 and 8, 128 and 8.
    assert tokens[8] / tokens[0] == pytest.approx(512 / 264, rel=0.001)
    assert tokens[4] / tokens[0] == pytest.approx(512 / 136, rel=0.001)
    assert spread_of(model, 7) == 4


def test_wishes_reach_the_plan() -> None:
    said = {"lmdeploy_tp": 1, "lmdeploy_session_len": 4096, "lmdeploy_max_batch_size": 8, "lmdeploy_quant_policy": 8}
    plan = SITE.plan(**said, lmdeploy_options={"enable_prefix_caching": True})
    wanted = {"tp": 1, "session_len": 4096, "max_batch_size": 8, "quant_policy": 8, "enable_prefix_caching": True}
    assert {name: plan["settings"][name] for name in wanted} == wanted
    # The other GPU stays free.
    assert plan["nodes"] == [{"host": "gpu1", "ranks": [0]}]


def test_awq_of_the_catalogue_whose_version_nobody_knows_is_taken() -> None:
    said = {name: value for name, value in AWQ.items() if name != "version"}
    assert SITE.plan(config={**CONFIG, "quantization_config": said})["ok"]


def test_volta_and_turing_are_given_float16_in_so_many_words() -> None:
    a100 = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}
    assert SITE.plan(config=CONFIG, gpus=[V100] * 4)["settings"]["dtype"] == "float16"
    newer = SITE.plan(config=CONFIG, gpus=[a100, a100])["settings"]
    assert "dtype" not in newer
    assert newer["max_batch_size"] == 384


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a GPU without code": ({"gpus": [P40]}, "no code for Tesla P40 (compute capability 6.1)"),
    "those that have it": ({"gpus": [P40]}, "llama.cpp, Ollama"),
    "a model of PyTorch's engine": ({"config": {**CONFIG, "architectures": ["Gemma3ForCausalLM"]}}, "PyTorch engine"),
    "a model of other releases": (
        {"config": {**CONFIG, "architectures": ["MistralForCausalLM"]}},
        "releases that do: 0.10.0 - 0.13.0",
    ),
    "a format": ({"config": {**CONFIG, "quantization_config": {"quant_method": "bitsandbytes"}}}, "bitsandbytes"),
    "GPTQ in another order": (
        {"config": {**CONFIG, "quantization_config": {**GPTQ, "desc_act": True}}},
        "desc_act true",
    ),
    "AWQ of another kind": ({"config": {**CONFIG, "quantization_config": {**AWQ, "version": "gemv"}}}, "gemv"),
    "groups of another size": ({"config": {**CONFIG, "quantization_config": {**GPTQ, "group_size": 64}}}, "64"),
    "8 bits": ({"config": {**CONFIG, "quantization_config": {**GPTQ, "bits": 8}}}, "bits 8"),
    "too few GPUs": ({"lmdeploy_tp": 4}, "4 does not go with 2 GPUs"),
    "too small": ({"config": CONFIG, "gpus": [V100]}, "take AWQ or GPTQ weights"),
    "a cache of few bits with small heads": ({"config": {**CONFIG, "head_dim": 64}, "lmdeploy_quant_policy": 4}, "64"),
    "an old release": ({"lmdeploy_version": "0.7.3"}, "from 0.10.0 on"),
    "vLLM's option": (
        {"lmdeploy_options": {"max_model_len": 1024}},
        "max_model_len is an option of vllm; LMDeploy has lmdeploy_session_len",
    ),
    "an option with nothing like it": ({"lmdeploy_options": {"split_mode": "row"}}, "nothing of the kind"),
    "an option of PyTorch's engine": ({"lmdeploy_options": {"eager_mode": True}}, "PyTorch engine only"),
    "several hosts": ({"lmdeploy_options": {"nnodes": 2}}, "on one host"),
    "TLS": ({"lmdeploy_options": {"ssl": True}}, "set up the gateway"),
    "a hub": ({"lmdeploy_options": {"revision": "main"}}, "internet"),
    "a newer option": ({"lmdeploy_version": "0.12.3", "lmdeploy_options": {"generation_config": "vllm"}}, "0.15.0"),
    "a gone option": ({"lmdeploy_options": {"disable_vision_encoder": True}}, "after LMDeploy 0.14.0"),
    "a misspelt option": ({"lmdeploy_options": {"enable_prefix_cashing": True}}, "enable_prefix_caching"),
    "a switch with a number": ({"lmdeploy_options": {"enable_prefix_caching": 1}}, "true or false"),
}


def test_what_turbomind_does_not_take_is_refused() -> None:
    SITE.refuses(REFUSED)


def test_a_model_whose_memory_nobody_planned_starts_all_the_same() -> None:
    plan = SITE.plan(config={**CONFIG, "architectures": ["InternLM2ForCausalLM"]}, lmdeploy_tp=2)
    assert (plan["ok"], plan["verdict"], plan["settings"]["tp"]) == (True, "unknown", 2)
    assert "not planned" in plan["predicted"]["warnings"][0]


def test_what_nobody_has_seen_is_said() -> None:
    assert "No release of LMDeploy after 0.18.0" in SITE.plan(lmdeploy_version="0.19.0")["predicted"]["warnings"][-1]
    b200 = {"name": "NVIDIA B200", "memory_mib": 183359, "compute_capability": "10.0"}
    assert "is not known" in SITE.plan(gpus=[b200])["predicted"]["warnings"][1]


# -- the decision --------------------------------------------------------------------------------------------------------
def test_its_decision_starts_it_and_nothing_of_another_engine() -> None:
    section = SITE.decided(lmdeploy_served_model_name="large")["hosts"]["gpu1"]
    assert not {"vllm", "ray"} & set(section)
    assert (section["roles"], section["measures"]) == (["lmdeploy"], False)
    assert section["image"] == "openmmlab/lmdeploy:v0.18.0-cu12.8"
    found = section["lmdeploy"]
    assert found["container"]["command"] == [
        *("lmdeploy", "serve", "api_server", "/opt/llm/models/lab--large", "--model-name", "large"),
        *("--server-name", "0.0.0.0", "--server-port", "8000", "--backend", "turbomind", "--tp", "2"),
        *("--session-len", "40960", "--max-batch-size", "128", "--cache-max-entry-count", "0.8"),
    ]
    assert found["container"]["entrypoint"] == ["python3", "/llm/start_lmdeploy.py", "keyed"]
    assert found["container"]["ipc_mode"] == "host"
    assert "/opt/llm/secrets:/run/secrets:ro" in found["container"]["volumes"]
    environment = found["container"]["environment"]
    assert (environment["CUDA_DEVICE_ORDER"], environment["HF_HUB_OFFLINE"]) == ("PCI_BUS_ID", "1")
    assert (found["url"], found["probe"]["needed"]) == ("http://10.0.0.1:8000", True)
    probe = found["probe"]["command"]
    assert probe[-2:] == ["--key", "/opt/llm/secrets/lmdeploy_api_key"]
    assert "--server=llm-lmdeploy" in probe
    assert "--inner" in probe, "the filter of paths answers there"
    assert found["restarts_for_keys"] is False


def test_images_and_options_are_those_of_the_release() -> None:
    old = SITE.decided(lmdeploy_version="0.10.2")["hosts"]["gpu1"]
    assert old["image"] == "openmmlab/lmdeploy:v0.10.2-cu12"
    assert "--enable-metrics" in old["lmdeploy"]["container"]["command"]
    assert ENGINE.image("0.15.0") == "openmmlab/lmdeploy:v0.15.0-cu12"
    assert ENGINE.image("0.16.0") == "openmmlab/lmdeploy:v0.16.0-cu12.8"
    assert ENGINE.paths(["0.18.0", "0.12.3"]) == ["/v1/chat/completions", "/v1/completions"]
    assert "/v1/responses" in ENGINE.paths(["0.18.0"])


def test_one_that_is_loaded_on_request_listens_behind_the_program_that_loads_it() -> None:
    found = SITE.server(llm_on_request=True, lmdeploy_port=8001)
    command = found["container"]["command"]
    assert command[command.index("--server-name") + 1] == "127.0.0.1"
    assert command[command.index("--server-port") + 1] == "18001"
    settings = found["on_request"]["settings"]
    assert (settings["listen"], settings["inner"]) == (["0.0.0.0", 8001], ["127.0.0.1", 18001])
    assert (found["url"], settings["counted_seconds"]) == ("http://10.0.0.1:8001", 3)


def test_without_a_key_it_listens_on_its_own_host_only() -> None:
    assert "127.0.0.1" in SITE.plan(lmdeploy_api_key_enabled=False)["predicted"]["warnings"][-1]
    found = SITE.server(lmdeploy_api_key_enabled=False)
    command = found["container"]["command"]
    assert command[command.index("--server-name") + 1] == "127.0.0.1"
    assert (found["url"], found["container"]["entrypoint"][2]) == ("http://127.0.0.1:8000", "open")
    assert "--key" not in found["probe"]["command"]


def test_what_its_role_is_asked_for_has_a_digest_and_the_roles_of_others_have_nothing_to_do() -> None:
    assert SITE.roles_with_work() == {"network", "lmdeploy"}


# -- to clients ----------------------------------------------------------------------------------------------------------
def test_a_gateway_leads_to_it_and_counts_its_tokens() -> None:
    assert "/v1/messages" in SITE.behind_a_gateway("/ready")


def test_it_is_watched_under_the_common_names() -> None:
    said = {**SITE.said, **SITE.defaults, "lmdeploy_port": 8080, "ansible_host": "192.0.2.1"}
    found = targets(SITE.deployments, {"gpu1": said})
    assert found["lmdeploy"][0]["targets"] == ["192.0.2.1:8080"]
    rules = {rule["record"]: rule["expr"] for rule in recording_rules()}
    assert "lmdeploy:num_requests_running" in rules["llm:requests_running"]
    assert "rate(lmdeploy:generation_tokens_total[2m])" in rules["llm:generation_tokens:rate2m"]
    assert "lmdeploy:gpu_cache_usage_perc" in rules["llm:kv_cache_usage_ratio"]


LOG = """start_lmdeploy.py: starts --model-name --tp
[TM][WARNING] something
Loading:  50%|#####     | 32/64 [00:10<00:10,  3.2it/s]
"""


def test_its_log_says_how_far_a_start_is() -> None:
    reached = start_progress(LOG, None, ENGINE.start_phases)
    assert (reached.phase, reached.done, reached.total) == ("weights", 32, 64)
    assert start_progress(LOG + "HINT:    Please open http://0.0.0.0:8000\n", None, ENGINE.start_phases).phase == "api"
