"""Triton goes through every decision as any engine does: the check of the inventory, the plan, the decision, the records, gateways and monitoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.capabilities import engines
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.recommend import formats_of, recommend
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.triton.arguments import (
    OWN,
    engine_arguments,
    facts,
    frontend_arguments,
    table,
    vllm_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import recording_rules
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import targets
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.counterparts import counterpart
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.start_progress import start_progress
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import resolve_release
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_html, plan_report

from tests.support.lone_engines import LoneSite

ENGINE = engine("triton")
SAID: dict[str, Any] = {
    "triton_model": "lab/large",
    "triton_version": "26.08",
    "triton_served_model_name": "large",
}
MODELS = Path(__file__).parents[5] / "data/models"
CONFIG: dict[str, Any] = json.loads((MODELS / "Qwen__Qwen3-32B.json").read_text(encoding="utf-8"))
A100 = {"name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920, "compute_capability": "8.0"}
A10 = {"name": "NVIDIA A10", "memory_mib": 23028, "compute_capability": "8.6"}
V100 = {"name": "Tesla V100-SXM2-32GB", "memory_mib": 32768, "compute_capability": "7.0"}
RECORDS = [{"path": "models/lab--large/config.json", "kind": "model", "model": "lab/large", "sha256": "1"}]
IMAGE = {"id": "sha256:1", "reference": "nvcr.io/nvidia/tritonserver:26.10-vllm-python-py3"}
SITE = LoneSite("triton", "large", SAID, RECORDS, lambda path: CONFIG, gpus=[A100, A100])


def with_image(**contents: Any) -> LoneSite:
    """A site whose bundle has looked into the image of a release that the collection does not know."""
    image = {"path": "images.tar", "kind": "image", "images": [{**IMAGE, **contents}]}
    said = {**SAID, "triton_version": "26.10"}
    return LoneSite("triton", "large", said, [*RECORDS, image], lambda path: CONFIG, gpus=[A100, A100])


# -- the inventory -------------------------------------------------------------------------------------------------------
def test_its_inventory_is_checked() -> None:
    found = SITE.checked()
    assert (found["problems"], found["names"]["gpu1"]["server"]) == ([], "llm-triton")
    assert '"26.08"' in SITE.checked(triton_version=None)["problems"][0]["allowed"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a release of another engine": ({"triton_version": "0.27.1"}, "triton_version"),
    "26.10 without quotes": ({"triton_version": "26.1"}, "triton_version"),
    "no GPU": ({"triton_tensor_parallel_size": 0}, "triton_tensor_parallel_size"),
    "a context of nothing": ({"triton_max_model_len": 0}, "triton_max_model_len"),
    "more than a GPU": ({"triton_gpu_memory_utilization": 1.5}, "triton_gpu_memory_utilization"),
    "no request": ({"triton_max_num_seqs": 0}, "triton_max_num_seqs"),
    "a volume without a place": ({"triton_extra_volumes": ["here"]}, "triton_extra_volumes"),
    "paths without a key": ({"triton_environment": {"LLM_API_PATHS": "/"}}, "LLM_API_PATHS"),
    "an option with a variable": ({"triton_options": {"max_model_len": 1024}}, "triton_max_model_len"),
    "a variable of vLLM": ({"triton_dtype": "half"}, "triton_dtype"),
}


def test_wrong_values_are_refused_before_a_host_is_touched() -> None:
    SITE.checks_values(WRONG)


# -- the plan ------------------------------------------------------------------------------------------------------------
def test_its_plan_is_that_of_the_vllm_in_the_image() -> None:
    plan = SITE.plan()
    assert (plan["ok"], plan["engine"], plan["triton_version"]) == (True, "triton", "26.08")
    inside = facts()["vllm"]["releases"]["26.08"]
    wishes = {"vllm_version": inside, "compute_capabilities": facts()["capabilities"]["names"]}
    of_vllm: Any = plan_deployment(CONFIG, [{"host": "gpu1", "gpus": [A100, A100]}], wishes)
    assert plan["verdict"] == of_vllm["verdict"] == "starts"
    assert plan["predicted"]["ranks"] == of_vllm["predicted"]["ranks"]
    assert plan["predicted"]["kv_cache_tokens"] == of_vllm["predicted"]["kv_cache_tokens"]
    settings = plan["settings"]
    assert (settings["tensor_parallel_size"], settings["max_model_len"]) == (2, CONFIG["max_position_embeddings"])
    # As from vLLM itself, an answer is as long as the context allows, where nobody says how long.
    assert settings["default_max_tokens"] == settings["max_model_len"]
    assert plan["reasons"][0].startswith(f"Triton 26.08 runs vLLM {inside}")
    assert "the facts of 0.27.1 stand for it" in plan["predicted"]["warnings"][0]
    assert "large: Triton 26.08" in plan_report({"large": plan}, "table")
    assert "default-max-tokens" in plan_html({"large": plan}, day="2026-01-01")
    assert "运行的是" in SITE.plan(language="zh")["reasons"][0]


def test_every_release_in_the_table_is_planned_by_facts_of_that_vllm() -> None:
    known = facts()["vllm"]["releases"]
    assert (min(known), max(known)) == (facts()["releases"]["oldest"], facts()["releases"]["newest"])
    for release, inside in known.items():
        assert resolve_release(inside).examined == inside.partition("+")[0]
        plan = SITE.plan(triton_version=release)
        assert (plan["ok"], plan["vllm_version"]) == (True, inside), release


def test_wishes_reach_the_plan() -> None:
    said = {"triton_tensor_parallel_size": 1, "triton_max_model_len": 4096, "triton_kv_cache_dtype": "fp8"}
    options = {"enforce_eager": True, "default_max_tokens": 256, "pipeline_parallel_size": 1}
    plan = SITE.plan(**said, triton_gpu_memory_utilization=0.95, triton_options=options)
    wanted = {"tensor_parallel_size": 1, "max_model_len": 4096, "kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.95}
    assert {name: plan["settings"][name] for name in wanted} == wanted
    assert {name: plan["settings"][name] for name in options} == options
    # The other GPU stays free.
    assert plan["nodes"] == [{"host": "gpu1", "ranks": [0]}]


def test_where_nobody_knows_the_vllm_the_plan_says_so_and_starts_all_the_same() -> None:
    plan = SITE.plan(triton_version="26.10")
    assert (plan["ok"], plan["verdict"], plan["nodes"]) == (True, "unknown", [{"host": "gpu1", "ranks": [0, 1]}])
    assert plan["settings"] == {"tensor_parallel_size": 2, "default_max_tokens": CONFIG["max_position_embeddings"]}
    assert "The vLLM in the image of Triton 26.10 is not known" in plan["predicted"]["warnings"][0]
    assert "No release of Triton after 26.08" in plan["predicted"]["warnings"][-1]
    assert "4 does not go with 2 GPUs" in SITE.refused(triton_version="26.10", triton_tensor_parallel_size=4)


def test_what_the_bundle_found_in_the_image_counts() -> None:
    plan = with_image(vllm_version="0.31.0+5013de39.nv26.10").plan()
    assert (plan["verdict"], plan["vllm_version"]) == ("starts", "0.31.0+5013de39.nv26.10")
    # Newer than all that the planner knows, or none of its releases.
    assert [vllm_of("26.10", found) for found in ("0.99.0", "0.99.0+nv27.1", "")] == ["", "", ""]
    assert with_image(vllm_version="0.99.0").plan()["verdict"] == "unknown"
    refused = with_image(vllm_version="0.31.0", compute_capabilities=["9.0"]).refused()
    assert "sm_90" in refused


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a GPU without code": (
        {"gpus": [V100]},
        "no code for Tesla V100-SXM2-32GB (compute capability 7.0), the first is 7.5",
    ),
    "those that have it": ({"gpus": [V100]}, "vLLM, llama.cpp, LMDeploy (TurboMind), Ollama"),
    "too small": ({"gpus": [A10]}, "weights take 61.03 GiB"),
    "too many GPUs": ({"triton_tensor_parallel_size": 4}, "needs 4 GPUs, and there are 2"),
    "an old release": ({"triton_version": "25.07"}, "from 25.08 on"),
    "a name with a slash": ({"triton_served_model_name": None}, "for example large"),
    "a type of the cache that there is not": ({"triton_kv_cache_dtype": "q8_0"}, "vLLM 0.27.1"),
    "LMDeploy's option": (
        {"triton_options": {"session_len": 1024}},
        "session_len is an option of lmdeploy; Triton has triton_max_model_len",
    ),
    "an option with nothing like it": ({"triton_options": {"reasoning_format": "none"}}, "nothing of the kind"),
    "KServe": ({"triton_options": {"enable_kserve_frontends": True}}, "ask nobody for a key"),
    "adapters": ({"triton_options": {"enable_lora": True}}, "without adapters"),
    "models that come and go": ({"triton_options": {"model_control_mode": "explicit"}}, "one model"),
    "several hosts": ({"triton_options": {"nnodes": 2}}, "of one host"),
    "a key": ({"triton_options": {"openai_restricted_api": "x"}}, "list of processes"),
    "vLLM's own server": ({"triton_options": {"enable_auto_tool_choice": True}}, "vLLM's own API server"),
    "TLS": ({"triton_options": {"ssl_keyfile": "/key"}}, "vLLM's own API server"),
    "what is set": ({"triton_options": {"disable_log_stats": True}}, "set by the collection itself"),
    "a hub": ({"triton_options": {"revision": "main"}}, "internet"),
    "a newer option of the frontend": (
        {"triton_version": "26.05", "triton_options": {"http_max_input_size": 8}},
        "came with Triton 26.06",
    ),
    "a gone option of vLLM": ({"triton_options": {"swap_space": 4}}, "the last release that has it is 0.17.1"),
    "a misspelt option": ({"triton_options": {"enable_prefix_cashing": True}}, "enable_prefix_caching"),
    "a parser that there is not": ({"triton_options": {"tool_call_parser": "hermes"}}, "takes llama3, mistral"),
    "a switch with a number": ({"triton_options": {"enforce_eager": 1}}, "true or false"),
    "a word for a number": ({"triton_options": {"max_loras": "many"}}, "triton_options.max_loras"),
    "embeddings before there is a path": (
        {"triton_version": "25.10", "triton_options": {"runner": "pooling"}},
        "no path for a model that answers with: embedding",
    ),
    "scores": ({"triton_options": {"task": "score"}, "triton_version": "25.08"}, "answers with: score"),
}


def test_what_triton_and_its_vllm_do_not_take_is_refused() -> None:
    SITE.refuses(REFUSED)


# -- options -------------------------------------------------------------------------------------------------------------
def test_the_frontend_is_told_its_options_and_vllm_its_own() -> None:
    options = {"default_max_tokens": 64, "max_model_len": 4096, "chat_template": "/x", "host": "127.0.0.1"}
    words = frontend_arguments(options, "26.08")
    assert words[0:2] == ["python3", "/opt/tritonserver/python/openai/openai_frontend/main.py"]
    assert words[2:] == ["--host", "127.0.0.1", "--chat-template", "/x", "--default-max-tokens", "64"]
    assert engine_arguments("/m", options) == {"model": "/m", "disable_log_stats": False, "max_model_len": 4096}


def test_vllm_gets_values_of_their_kind_since_nothing_reads_texts_there() -> None:
    settings = {
        "cpu_offload_gb": "2",
        "seed": "-1",
        "enforce_eager": True,
        "hf_overrides": '{"a": 1}',
        "limit_mm_per_prompt": {"image": 2},
        "quantization": "awq",
        "environment": {"A": "1"},
    }
    assert engine_arguments("/m", settings) == {
        "model": "/m",
        "disable_log_stats": False,
        "cpu_offload_gb": 2.0,
        "seed": -1,
        "enforce_eager": True,
        "hf_overrides": {"a": 1},
        "limit_mm_per_prompt": {"image": 2},
        "quantization": "awq",
    }


def test_every_option_has_one_reason_or_one_kind() -> None:
    found = table()
    assert not set(found.never) & {*found.names(), *OWN}
    assert all(name in found.names() for name, variable in OWN.items() if not variable)
    kinds = [set(names) for names in found.first.values()]
    assert sum(map(len, kinds)) == len(set().union(*kinds))


def test_options_of_other_engines_are_named_with_their_counterpart() -> None:
    assert counterpart("ctx_size", "triton") == ("llama_cpp", "max_model_len")
    assert counterpart("openai_port", "sglang") == ("triton", "port")


def test_the_recommendation_leaves_out_what_runs_vllm() -> None:
    [row] = [one for one in engines() if one.name == "triton"]
    assert (row.inside, row.no_code_below) == ("vllm", (7, 5))
    found = recommend(formats_of("Qwen/Qwen3-8B"), [("gpu1", [A100])])
    assert "triton" not in {choice.engine for choice in found}


# -- the decision --------------------------------------------------------------------------------------------------------
def test_its_decision_starts_it_and_nothing_of_another_engine() -> None:
    section = SITE.section()
    assert not {"vllm", "ray"} & set(section)
    assert (section["roles"], section["measures"]) == (["triton"], False)
    assert section["image"] == "nvcr.io/nvidia/tritonserver:26.08-vllm-python-py3"
    found = section["triton"]
    container = found["container"]
    assert container["command"] == [
        *(
            "python3",
            "/opt/tritonserver/python/openai/openai_frontend/main.py",
            "--model-repository",
            "/var/lib/triton",
        ),
        *("--tokenizer", "/opt/llm/models/lab--large", "--host", "0.0.0.0", "--openai-port", "8000"),
        *("--default-max-tokens", "40960"),
    ]
    assert container["entrypoint"] == ["python3", "/llm/start_triton.py", "keyed"]
    # Every Triton gives its shared memory the same names, so that no two of a host may see each other's.
    assert ("ipc_mode" in container, container["shm_size"]) == (False, "16g")
    assert "/opt/llm/secrets:/run/secrets:ro" in container["volumes"]
    assert "/opt/llm/models:/opt/llm/models:ro" in container["volumes"]
    environment = container["environment"]
    assert (environment["HF_HUB_OFFLINE"], environment["VLLM_NO_USAGE_STATS"]) == ("1", "1")
    assert (environment["VLLM_HOST_IP"], environment["VLLM_CACHE_ROOT"]) == ("10.0.0.1", "/var/cache/llm/vllm")
    probe = found["probe"]["command"]
    assert probe[-2:] == ["--key", "/opt/llm/secrets/triton_api_key"]
    assert "--inner" in probe, "the filter of paths answers there"
    assert (found["url"], found["restarts_for_keys"]) == ("http://10.0.0.1:8000", False)


def test_the_model_repository_is_files_of_the_host_that_the_container_sees() -> None:
    found = SITE.server(triton_max_model_len=8192)
    files = {file["path"]: file["content"] for file in found["files"]}
    places = dict(
        volume.removesuffix(":ro").split(":") for volume in found["container"]["volumes"] if "/var/lib" in volume
    )
    assert places == {
        "/opt/llm/scripts/triton-config.pbtxt": "/var/lib/triton/large/config.pbtxt",
        "/opt/llm/scripts/triton-model.json": "/var/lib/triton/large/1/model.json",
    }
    assert set(files) == set(places)
    assert json.loads(files["/opt/llm/scripts/triton-model.json"]) == {
        "model": "/opt/llm/models/lab--large",
        "disable_log_stats": False,
        "gpu_memory_utilization": 0.92,
        "max_model_len": 8192,
        "pipeline_parallel_size": 1,
        "tensor_parallel_size": 2,
    }
    config = files["/opt/llm/scripts/triton-config.pbtxt"]
    assert all(part in config for part in ('backend: "vllm"', "kind: KIND_MODEL", 'key: "REPORT_CUSTOM_METRICS"'))


def test_where_gpus_do_not_reach_each_other_vllms_own_all_reduce_is_off() -> None:
    facts_of_host = {**SITE.variables["ansible_facts"], "llm_gpu_p2p": {"0": {"1": False}, "1": {"0": False}}}
    mine = LoneSite("triton", "large", SAID, RECORDS, lambda path: CONFIG, gpus=[A100, A100])
    mine.variables["ansible_facts"] = facts_of_host
    told = json.loads(mine.server()["files"][1]["content"])
    assert told["disable_custom_all_reduce"] is True


def test_paths_are_those_of_the_release() -> None:
    assert "/v1/embeddings" in ENGINE.paths(["26.08", "25.11"])
    assert "/v1/embeddings" not in ENGINE.paths(["26.08", "25.10"])


def test_one_that_is_loaded_on_request_listens_behind_the_program_that_loads_it() -> None:
    found = SITE.server(llm_on_request=True, triton_port=8001)
    command = found["container"]["command"]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--openai-port") + 1] == "18001"
    assert found["on_request"]["settings"]["listen"] == ["0.0.0.0", 8001]


def test_without_a_key_it_listens_on_its_own_host_only() -> None:
    assert "127.0.0.1" in SITE.plan(triton_api_key_enabled=False)["predicted"]["warnings"][-1]
    found = SITE.server(triton_api_key_enabled=False)
    command = found["container"]["command"]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert (found["url"], found["container"]["entrypoint"][2]) == ("http://127.0.0.1:8000", "open")
    assert "--key" not in found["probe"]["command"]


def test_embeddings_are_asked_for_where_it_makes_them() -> None:
    command = SITE.server(triton_options={"runner": "pooling"})["probe"]["command"]
    assert command[command.index("--kind") + 1] == "embedding"


def test_a_start_that_nobody_can_promise_is_tried_where_that_is_accepted() -> None:
    tight = {"triton_gpu_memory_utilization": 0.396, "triton_max_model_len": 4096}
    found = SITE.decided(**tight)
    assert (found["plans"]["large"]["verdict"], len(found["problems"])) == ("starts_narrowly", 1)
    assert "triton_accept_narrow" in json.dumps(found["problems"])
    assert SITE.decided(**tight, triton_accept_narrow=True)["problems"] == []


def test_what_its_role_is_asked_for_has_a_digest_and_the_roles_of_others_have_nothing_to_do() -> None:
    assert SITE.roles_with_work() == {"network", "triton"}


# -- to clients ----------------------------------------------------------------------------------------------------------
def test_a_gateway_leads_to_it_and_counts_its_tokens() -> None:
    assert SITE.behind_a_gateway("/ready") == ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]
    SITE.behind_a_gateway("/health/ready", triton_probe_enabled=False)


def test_it_is_watched_under_the_common_names() -> None:
    said = {**SITE.said, **SITE.defaults, "triton_port": 8080, "ansible_host": "192.0.2.1"}
    found = targets(SITE.deployments, {"gpu1": said})
    assert found["triton"][0]["targets"] == ["192.0.2.1:8080"]
    rules = {rule["record"]: rule["expr"] for rule in recording_rules()}
    for ours, metric in ENGINE.metrics().items():
        [name] = [each["name"] for each in metric["names"]]
        [expr] = [rules[rule] for rule in rules if rule in (f"llm:{ours}:rate2m", f"llm:{ours}:p50")]
        # The same name as vLLM's: it is asked for once.
        assert expr.count(f"{name}[") == 1


LOG = """start_triton.py: starts --model-repository --tokenizer
I1129 10:00:00.000000 1 python_be.cc:2289] "TRITONBACKEND_ModelInstanceInitialize: large_0 (MODEL device 0)"
INFO 11-29 10:00:10 [gpu_model_runner.py:2392] Starting to load model /opt/llm/models/lab--large...
Loading safetensors checkpoint shards:  50% Completed | 7/14 [00:10<00:10,  1.4s/it]
"""


def test_its_log_says_how_far_a_start_is() -> None:
    reached = start_progress(LOG, None, ENGINE.start_phases)
    assert (reached.phase, reached.done, reached.total) == ("weights", 7, 14)
    assert start_progress(LOG + "INFO:     Started server process [1]\n", None, ENGINE.start_phases).phase == "api"
