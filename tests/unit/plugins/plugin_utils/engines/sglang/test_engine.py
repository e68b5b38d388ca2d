"""SGLang goes through every decision as any engine does: the check of the inventory, the plan, the decision, the records, gateways and monitoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang.arguments import (
    OWN,
    sglang_arguments,
    table,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang.memory import estimate, share_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import recording_rules
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import targets
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.counterparts import counterpart
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.start_progress import start_progress
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_html, plan_report

from tests.support.lone_engines import LoneSite

ENGINE = engine("sglang")
SAID: dict[str, Any] = {"sglang_model": "lab/large", "sglang_version": "0.5.23"}
MODELS = Path(__file__).parents[5] / "data/models"
CONFIG: dict[str, Any] = json.loads((MODELS / "Qwen__Qwen3-32B.json").read_text(encoding="utf-8"))
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}
A100 = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}
A10 = {"name": "NVIDIA A10", "memory_mib": 23028, "compute_capability": "8.6"}
T4 = {"name": "Tesla T4", "memory_mib": 15360, "compute_capability": "7.5"}
RECORDS = [{"path": "models/lab--large/config.json", "kind": "model", "model": "lab/large", "sha256": "1"}]
SITE = LoneSite("sglang", "large", SAID, RECORDS, lambda path: CONFIG, gpus=[A100, A100])


def quantised(**how: Any) -> dict[str, Any]:
    return {**CONFIG, "quantization_config": how}


# -- the inventory -------------------------------------------------------------------------------------------------------
def test_its_inventory_is_checked() -> None:
    found = SITE.checked()
    assert (found["problems"], found["names"]["gpu1"]["server"]) == ([], "llm-sglang")
    assert "0.5.23" in SITE.checked(sglang_version=None)["problems"][0]["allowed"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a release of another engine": ({"sglang_version": "b9603"}, "sglang_version"),
    "no GPU": ({"sglang_tp_size": 0}, "sglang_tp_size"),
    "a context of nothing": ({"sglang_context_length": 0}, "sglang_context_length"),
    "a share larger than what is there": ({"sglang_mem_fraction_static": 1.5}, "sglang_mem_fraction_static"),
    "a type of the cache that there is not": ({"sglang_kv_cache_dtype": "q8_0"}, "sglang_kv_cache_dtype"),
    "a volume without a place": ({"sglang_extra_volumes": ["here"]}, "sglang_extra_volumes"),
    "another program as the server": ({"sglang_environment": {"SGLANG_HTTP_SERVER_APP_PATH": "x:y"}}, "APP_PATH"),
    "an option with a variable": ({"sglang_options": {"context_length": 1024}}, "sglang_context_length"),
}


def test_wrong_values_are_refused_before_a_host_is_touched() -> None:
    SITE.checks_values(WRONG)


# -- the plan ------------------------------------------------------------------------------------------------------------
def test_its_plan_is_an_estimate_and_says_so() -> None:
    plan = SITE.plan()
    assert (plan["ok"], plan["verdict"], plan["engine"]) == (True, "unknown", "sglang")
    settings = plan["settings"]
    kept = 512 + 1.5 * 8192 + 2 * 128 + 2 * 256 + 464
    assert settings["mem_fraction_static"] == pytest.approx(1 - kept / 81920, abs=0.005)
    assert (settings["tp_size"], settings["context_length"]) == (2, CONFIG["max_position_embeddings"])
    assert "an estimate" in plan["predicted"]["warnings"][0]
    assert len(plan["predicted"]["ranks"]) == 2
    assert 30 < plan["predicted"]["ranks"][0]["weights_gib"] < 31.5
    assert "large: SGLang 0.5.23" in plan_report({"large": plan}, "table")
    assert "context-length" in plan_html({"large": plan}, day="2026-01-01")
    assert "估计值" in SITE.plan(language="zh")["predicted"]["warnings"][0]


def test_the_share_of_a_gpu_is_what_sglang_takes_by_its_size() -> None:
    gib = 1024**3
    # handle_gpu_memory_settings() of 0.5.23, in MiB.
    assert share_of(24 * gib, 1, {}) == round(1 - (512 + 1.5 * 4096 + 128 + 2 * 48 + 464) / (24 * 1024), 3)
    assert share_of(24 * gib, 4, {}) == round(1 - (512 + 1.5 * 4096 + 512 + 2 * 160 + 464) / (24 * 1024), 3)
    assert share_of(24 * gib, 1, {"chunked_prefill_size": 2048, "cuda_graph_max_bs": 8}) > share_of(24 * gib, 1, {})
    assert share_of(80 * gib, 1, {"chunked_prefill_size": 2048}) == round(1 - 10 / 80, 3)
    model, gpus = read_model(CONFIG), read_gpus([A100, A100])
    full, half = (estimate(model, gpus, 2, 0.85, kind) for kind in ("auto", "fp8_e5m2"))
    assert half.tokens == pytest.approx(2 * full.tokens, abs=2)


def test_wishes_reach_the_plan() -> None:
    said = {"sglang_tp_size": 1, "sglang_context_length": 4096, "sglang_max_running_requests": 8}
    plan = SITE.plan(**said, sglang_mem_fraction_static=0.9, sglang_options={"schedule_policy": "fcfs"})
    wanted = {"tp_size": 1, "context_length": 4096, "max_running_requests": 8, "mem_fraction_static": 0.9}
    assert {name: plan["settings"][name] for name in wanted} == wanted
    assert plan["settings"]["schedule_policy"] == "fcfs"
    # The other GPU stays free.
    assert plan["nodes"] == [{"host": "gpu1", "ranks": [0]}]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a GPU without code": ({"gpus": [T4]}, "no code for Tesla T4 (compute capability 7.5), the first is 8.0"),
    "those that have it": ({"gpus": [T4]}, "LMDeploy (TurboMind)"),
    "a format": ({"config": quantised(quant_method="aqlm")}, "aqlm"),
    "a format of newer GPUs": ({"config": quantised(quant_method="modelopt")}, "from compute capability 8.9 on"),
    "GPTQ without symmetry": ({"config": quantised(**{**GPTQ, "sym": False})}, "sym false"),
    "GPTQ of 3 bits": ({"config": quantised(**{**GPTQ, "bits": 3})}, "bits 3"),
    "too many GPUs": ({"sglang_tp_size": 4}, "4 does not go with 2 GPUs"),
    "too small": ({"gpus": [A10]}, "take AWQ, GPTQ or FP8 weights"),
    "an old release": ({"sglang_version": "0.4.10"}, "from 0.5.3.post3 on"),
    "vLLM's option": (
        {"sglang_options": {"max_model_len": 1024}},
        "max_model_len is an option of vllm; SGLang has sglang_context_length",
    ),
    "an option with nothing like it": ({"sglang_options": {"split_mode": "row"}}, "SGLang has pp_size"),
    "several hosts": ({"sglang_options": {"nnodes": 2}}, "of one host"),
    "another door": ({"sglang_options": {"tokenizer_worker_num": 2}}, "filter of paths"),
    "a key": ({"sglang_options": {"admin_api_key": "x"}}, "list of processes"),
    "what is set": ({"sglang_options": {"enable_metrics": False}}, "set by the collection itself"),
    "TLS": ({"sglang_options": {"ssl_keyfile": "/key"}}, "set up the gateway"),
    "a hub": ({"sglang_options": {"revision": "main"}}, "internet"),
    "a newer option": (
        {"sglang_version": "0.5.10.post1", "sglang_options": {"cuda_graph_max_bs_decode": 8}},
        "came with SGLang 0.5.14",
    ),
    "a gone option": ({"sglang_options": {"cuda_graph_max_bs": 8}}, "after SGLang 0.5.19"),
    "a misspelt option": ({"sglang_options": {"disable_radix_cash": True}}, "disable_radix_cache"),
    "a switch with a number": ({"sglang_options": {"disable_radix_cache": 1}}, "true or false"),
    "a list for a value": ({"sglang_options": {"dtype": ["half"]}}, "a word or a number"),
}


def test_what_sglang_does_not_take_is_refused() -> None:
    SITE.refuses(REFUSED)


def test_what_was_read_before_is_read_by_those_releases() -> None:
    assert SITE.plan(config=quantised(**{**GPTQ, "bits": 3}), sglang_version="0.5.19")["ok"]
    assert "auto-round" in SITE.refused(config=quantised(quant_method="auto-round"), sglang_version="0.5.3.post3")


def test_a_model_whose_memory_nobody_planned_starts_all_the_same() -> None:
    for said in (
        {"config": {**CONFIG, "architectures": ["OtherForCausalLM"]}},
        {"sglang_options": {"enable_lora": True}},
    ):
        plan = SITE.plan(**said)
        assert (plan["ok"], plan["verdict"], plan["settings"]["tp_size"]) == (True, "unknown", 2)
        assert "not planned" in plan["predicted"]["warnings"][0]
        assert "mem_fraction_static" not in plan["settings"]


def test_what_nobody_has_seen_is_said() -> None:
    assert "No release of SGLang after 0.5.23" in SITE.plan(sglang_version="0.6.0")["predicted"]["warnings"][-1]
    b200 = {"name": "NVIDIA B200", "memory_mib": 183359, "compute_capability": "10.0"}
    assert "is not known" in SITE.plan(gpus=[b200])["predicted"]["warnings"][1]


# -- options -------------------------------------------------------------------------------------------------------------
def test_options_are_words_of_their_kind() -> None:
    options = {
        "disable_radix_cache": True,
        "log_requests": False,
        "enable_tf32_matmul": False,
        "lora_paths": ["a=/models/a", "b=/models/b"],
        "json_model_override_args": {"a": 1},
        "schedule_conservativeness": -1,
        "chat_template": None,
    }
    words = sglang_arguments("/m", options, "0.5.23")
    assert words == [
        *("python3", "-m", "sglang.launch_server", "--model-path", "/m", "--disable-radix-cache"),
        *("--no-enable-tf32-matmul", "--json-model-override-args", '{"a":1}'),
        *("--lora-paths", "a=/models/a", "b=/models/b", "--schedule-conservativeness=-1"),
    ]


def test_every_option_has_one_reason_or_one_kind() -> None:
    found = table()
    assert not set(found.never) & {*found.names(), *(name for name in OWN if name != "api_key")}
    assert set(found.until) <= set(found.names())
    assert all(name in found.names() for name, variable in OWN.items() if not variable)


def test_options_of_other_engines_are_named_with_their_counterpart() -> None:
    assert counterpart("max_model_len", "sglang") == ("vllm", "context_length")
    assert counterpart("mem_fraction_static", "vllm") == ("sglang", "gpu_memory_utilization")
    assert counterpart("session_len", "sglang") == ("lmdeploy", "context_length")


# -- the decision --------------------------------------------------------------------------------------------------------
def test_its_decision_starts_it_and_nothing_of_another_engine() -> None:
    section = SITE.section(sglang_served_model_name="large")
    assert not {"vllm", "ray"} & set(section)
    assert (section["roles"], section["measures"]) == (["sglang"], False)
    assert section["image"] == "lmsysorg/sglang:v0.5.23"
    found = section["sglang"]
    assert found["container"]["command"] == [
        *("python3", "-m", "sglang.launch_server", "--model-path", "/opt/llm/models/lab--large"),
        *("--served-model-name", "large", "--host", "0.0.0.0", "--port", "8000", "--tp-size", "2"),
        *("--context-length", "40960", "--mem-fraction-static", "0.827", "--enable-metrics", "--skip-server-warmup"),
    ]
    assert found["container"]["entrypoint"] == ["python3", "/llm/start_sglang.py", "keyed"]
    assert found["container"]["ipc_mode"] == "host"
    assert "/opt/llm/secrets:/run/secrets:ro" in found["container"]["volumes"]
    environment = found["container"]["environment"]
    assert (environment["CUDA_DEVICE_ORDER"], environment["HF_HUB_OFFLINE"]) == ("PCI_BUS_ID", "1")
    assert environment["SGLANG_DG_CACHE_DIR"] == "/var/cache/llm/deep_gemm"
    assert (found["url"], found["probe"]["needed"]) == ("http://10.0.0.1:8000", True)
    probe = found["probe"]["command"]
    assert probe[-2:] == ["--key", "/opt/llm/secrets/sglang_api_key"]
    assert "--server=llm-sglang" in probe
    assert "--inner" in probe, "the filter of paths answers there"
    assert found["restarts_for_keys"] is False


def test_images_and_paths_are_those_of_the_release() -> None:
    tags = {"0.5.10.post1": "v0.5.10.post1", "0.5.11": "v0.5.11-cu129", "0.5.19": "v0.5.19-cu129", "0.5.20": "v0.5.20"}
    assert {release: ENGINE.image(release) for release in tags} == {
        release: f"lmsysorg/sglang:{tag}" for release, tag in tags.items()
    }
    assert "/v1/messages" in ENGINE.paths(["0.5.23"])
    assert "/v1/messages" not in ENGINE.paths(["0.5.23", "0.5.7"])


def test_one_that_is_loaded_on_request_listens_behind_the_program_that_loads_it() -> None:
    found = SITE.server(llm_on_request=True, sglang_port=8001)
    command = found["container"]["command"]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == "18001"
    settings = found["on_request"]["settings"]
    assert (settings["listen"], settings["inner"]) == (["0.0.0.0", 8001], ["127.0.0.1", 18001])
    assert (found["url"], settings["counted_seconds"]) == ("http://10.0.0.1:8001", 3)


def test_without_a_key_it_listens_on_its_own_host_only() -> None:
    assert "127.0.0.1" in SITE.plan(sglang_api_key_enabled=False)["predicted"]["warnings"][-1]
    found = SITE.server(sglang_api_key_enabled=False)
    command = found["container"]["command"]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert (found["url"], found["container"]["entrypoint"][2]) == ("http://127.0.0.1:8000", "open")
    assert "--key" not in found["probe"]["command"]


def test_embeddings_are_asked_for_where_it_makes_them() -> None:
    command = SITE.server(sglang_options={"is_embedding": True})["probe"]["command"]
    assert command[command.index("--kind") + 1] == "embedding"


def test_what_its_role_is_asked_for_has_a_digest_and_the_roles_of_others_have_nothing_to_do() -> None:
    assert SITE.roles_with_work() == {"network", "sglang"}


# -- to clients ----------------------------------------------------------------------------------------------------------
def test_a_gateway_leads_to_it_and_counts_its_tokens() -> None:
    assert "/v1/responses" in SITE.behind_a_gateway("/ready")


def test_it_is_watched_under_the_common_names() -> None:
    said = {**SITE.said, **SITE.defaults, "sglang_port": 8080, "ansible_host": "192.0.2.1"}
    found = targets(SITE.deployments, {"gpu1": said})
    assert found["sglang"][0]["targets"] == ["192.0.2.1:8080"]
    rules = {rule["record"]: rule["expr"] for rule in recording_rules()}
    assert "sglang:num_running_reqs" in rules["llm:requests_running"]
    assert "rate(sglang:generation_tokens_total[2m])" in rules["llm:generation_tokens:rate2m"]
    assert "sglang:token_usage" in rules["llm:kv_cache_usage_ratio"]


LOG = """start_sglang.py: starts --model-path --tp-size
[2026-11-28 10:00:00 TP0] Load weight begin. avail mem=78.50 GB
Loading safetensors checkpoint shards:  50% Completed | 7/14 [00:10<00:10,  1.4s/it]
"""


def test_its_log_says_how_far_a_start_is() -> None:
    reached = start_progress(LOG, None, ENGINE.start_phases)
    assert (reached.phase, reached.done, reached.total) == ("weights", 7, 14)
    assert start_progress(LOG + "INFO:     Started server process [1]\n", None, ENGINE.start_phases).phase == "api"
