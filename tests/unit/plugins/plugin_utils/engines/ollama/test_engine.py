"""Ollama goes through every decision as any engine does: the check of the inventory, the plan, the decision, the records and gateways."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.ollama.inputs import store_name
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import targets
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import deployment_ports
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_report

from tests.support.gguf_models import MODELS, Shape
from tests.support.lone_engines import GgufSite, LoneSite

SAID: dict[str, Any] = {"llm_engine": "ollama", "ollama_model": "lab/tiny", "ollama_version": "0.32.15"}
FILE, SHA256 = "tiny.gguf", "5" * 64
STORE = "/var/lib/ollama"
# What is said of the inventory needs no file.
SITE = LoneSite("ollama", "small", SAID)


def site_in(folder: Path) -> GgufSite:
    return GgufSite("ollama", SAID, folder)


@pytest.fixture
def site(tmp_path: Path) -> GgufSite:
    return site_in(tmp_path).add(FILE)


# -- the inventory -------------------------------------------------------------------------------------------------------
def test_its_inventory_is_checked() -> None:
    found = SITE.checked()
    assert (found["problems"], found["names"]["gpu1"]["server"]) == ([], "llm-ollama")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a release of another engine": ({"ollama_version": "b9603"}, "ollama_version"),
    "a path out of the model's folder": ({"ollama_file": "../other.gguf"}, "ollama_file"),
    "a context of nothing": ({"ollama_context_length": 0}, "ollama_context_length"),
    "no request at once": ({"ollama_num_parallel": 0}, "ollama_num_parallel"),
    "a cache of a type that there is not": ({"ollama_kv_cache_type": "fp8"}, "ollama_kv_cache_type"),
    "an option as a variable": ({"ollama_environment": {"OLLAMA_HOST": "0.0.0.0"}}, "ollama_environment"),
    "an option of what it starts": ({"ollama_environment": {"LLAMA_ARG_TOOLS": "all"}}, "ollama_environment"),
}


def test_wrong_values_are_refused_before_a_host_is_touched() -> None:
    SITE.checks_values(WRONG)


def test_its_ports_are_known_and_only_one_of_them_is_for_others() -> None:
    found = {port.variable: port for port in deployment_ports({**SITE.defaults, **SAID})}
    assert {name: (port.first, port.reached_by) for name, port in found.items()} == {
        "ollama_port": (8000, "clients"),
        "ollama_inner_port": (11434, "itself"),
    }


# -- the plan ------------------------------------------------------------------------------------------------------------
def test_its_plan_is_an_estimate_of_the_file(site: GgufSite) -> None:
    plan = site.plan()
    assert (plan["ok"], plan["verdict"], plan["engine"]) == (True, "unknown", "ollama")
    settings = plan["settings"]
    assert (settings["file"], settings["context_length"], settings["num_parallel"]) == (FILE, 2048, 4)
    assert settings["OLLAMA_SCHED_SPREAD"] is True
    assert "estimate" in plan["predicted"]["warnings"][0]
    # Each request has a context of its own: two layers of keys and values of 4 heads, in 16 bits.
    ranks = plan["predicted"]["ranks"]
    assert sum(rank["kv_cache_gib"] for rank in ranks) == pytest.approx(
        4 * 2048 * 2 * 2 * 4 * 64 * 2 / 2**30, abs=0.001
    )
    assert "small: Ollama 0.32.15" in plan_report({"small": plan}, "table")


def test_the_longest_context_is_what_the_gpus_hold(tmp_path: Path) -> None:
    large = Shape(**{**MODELS["Llama-3.1-8B"].__dict__, "layers": 32, "context": 131072})
    site = site_in(tmp_path).add("model.gguf", large)
    card = {"name": "GPU", "memory_mib": 8192, "compute_capability": "7.5"}
    four = site.plan(gpus=[card])["settings"]["context_length"]
    one = site.plan(gpus=[card], ollama_num_parallel=1)["settings"]["context_length"]
    assert 512 < four < one < 131072
    assert 3 * four < one
    assert site.plan(gpus=[card], ollama_kv_cache_type="q8_0")["settings"]["context_length"] > 1.5 * four
    beyond = site.plan(gpus=[card], ollama_context_length=2 * four)["predicted"]["warnings"]
    assert "of 33 layers fit" in beyond[1]
    assert "fewer bits" in site.refused(gpus=[{**card, "memory_mib": 1280}], ollama_context_length=131072)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a release before llama-server": ({"ollama_version": "0.24.0"}, "0.30.0"),
    "vLLM's option": ({"ollama_options": {"max_model_len": 1024}}, "Ollama has ollama_context_length for it"),
    "llama.cpp's option": ({"ollama_options": {"fit_target": 1}}, "Ollama has OLLAMA_GPU_OVERHEAD for it"),
    "vLLM's option with nothing like it": ({"ollama_options": {"quantization": "awq"}}, "nothing of the kind"),
    "what a variable decides": ({"ollama_options": {"OLLAMA_HOST": "0.0.0.0"}}, "ollama_port decides it"),
    "a slip": ({"ollama_options": {"OLLAMA_MAX_QEUE": 5}}, "did you mean OLLAMA_MAX_QUEUE?"),
    "nothing known": ({"ollama_options": {"temperature": 1}}, "has no option temperature"),
    "another file": ({"ollama_file": "other.gguf"}, "it holds: tiny.gguf"),
    "a name that Ollama does not take": ({"ollama_served_model_name": "a/b/c/d"}, "a/b/c/d"),
    "a model of ollama.com": ({"ollama_served_model_name": "tiny:cloud"}, "tiny:cloud"),
}


def test_what_it_does_not_take_is_refused(site: GgufSite) -> None:
    site.refuses(REFUSED)


def test_a_model_in_parts_is_refused_since_ollama_would_copy_it(tmp_path: Path) -> None:
    assert "--merge" in site_in(tmp_path).add("tiny-00001-of-00002.gguf").refused()


def test_without_the_file_here_ollama_fits_it_itself(site: GgufSite) -> None:
    site.records[0]["urls"] = ["https://hub.example.org/tiny.gguf"]
    plan = site.plan()
    assert "does not lie on the controller" in plan["predicted"]["warnings"][0]
    assert "context_length" not in plan["settings"]
    assert plan["settings"]["num_parallel"] == 1


NAMES = {
    "tiny": "registry.ollama.ai/library/tiny/latest",
    "Qwen/Qwen3-8B-GGUF": "registry.ollama.ai/Qwen/Qwen3-8B-GGUF/latest",
    "hub.example.org:5000/lab/tiny:q4": "hub.example.org:5000/lab/tiny/q4",
    "a.b/tiny": "",
    "/srv/models/tiny": "",
    "tiny:2b-cloud": "",
    "": "",
}


def test_names_are_those_of_ollamas_store() -> None:
    assert {name: store_name(name) for name in NAMES} == NAMES


# -- the decision --------------------------------------------------------------------------------------------------------
def test_its_container_has_the_model_of_the_bundle_in_its_store(site: GgufSite) -> None:
    section = site.section()
    assert section["image"] == "ollama/ollama:0.32.15"
    server = section["ollama"]
    made = server["container"]
    assert [*made["entrypoint"], *made["command"]] == ["/bin/ollama", "serve"]
    wanted = {
        "OLLAMA_HOST": "127.0.0.1:11434",
        "OLLAMA_MODELS": STORE,
        "OLLAMA_CONTEXT_LENGTH": "2048",
        "OLLAMA_NUM_PARALLEL": "4",
        "OLLAMA_KEEP_ALIVE": "-1",
        "OLLAMA_SCHED_SPREAD": "true",
        "OLLAMA_NO_CLOUD": "true",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert {name: made["environment"].get(name) for name in wanted} == wanted
    places = dict(volume.rsplit(":", 2)[1::-1] for volume in made["volumes"] if f":{STORE}/" in volume)
    assert places[f"{STORE}/blobs/sha256-{SHA256}"] == "/opt/llm/models/lab--tiny/tiny.gguf"
    written = {file["path"]: file["content"] for file in server["files"]}
    manifest = json.loads(written[places[f"{STORE}/manifests/registry.ollama.ai/lab/tiny/latest"]])
    [layer] = manifest["layers"]
    assert (layer["digest"], layer["size"]) == (f"sha256:{SHA256}", site.records[0]["size"])
    config = written[places[f"{STORE}/blobs/{manifest['config']['digest'].replace(':', '-')}"]]
    assert hashlib.sha256(config.encode()).hexdigest() == manifest["config"]["digest"].removeprefix("sha256:")
    assert (json.loads(config)["model_family"], manifest["config"]["size"]) == ("llama", len(config))


def test_another_file_with_the_same_name_is_another_container(site: GgufSite) -> None:
    before = site.section()["ollama"]["container"]
    site.records[0]["sha256"] = "6" * 64
    assert site.section()["ollama"]["container"] != before


def test_variables_that_may_be_secrets_reach_it_through_a_file(site: GgufSite) -> None:
    made = site.section(ollama_environment={"SOME_TOKEN": "hidden"})["ollama"]["container"]
    assert made["command"] == ["/bin/ollama", "serve"]
    assert made["environment"]["LLM_ENVIRONMENT_FILE"] == "/run/secrets/ollama.environment"
    assert "hidden" not in json.dumps(made)


def test_keys_are_asked_for_in_front_of_it(site: GgufSite) -> None:
    section = site.section()
    server = section["ollama"]
    assert section["units"] == ["llm-ollama"], "the container's name, so that both go with the engine"
    assert server["restarts_for_keys"] is False
    assert server["unit"]["path"] == "/etc/systemd/system/llm-ollama.service"
    assert " 11434 lab/tiny /run/llm-ollama/keys /opt/llm/secrets/ollama_api_key\n" in server["unit"]["text"]
    assert "bind *:8000\n" in server["door"]["content"]
    assert "127.0.0.1:11434" in server["door"]["content"]
    assert (server["url"], server["probe"]["needed"]) == ("http://10.0.0.1:8000", True)
    assert server["probe"]["command"][-2:] == ["--key", "/opt/llm/secrets/ollama_api_key"]


def test_without_a_key_only_the_host_itself_is_let_in(site: GgufSite) -> None:
    assert "127.0.0.1" in site.plan(ollama_api_key_enabled=False)["predicted"]["warnings"][-1]
    server = site.section(ollama_api_key_enabled=False)["ollama"]
    assert "bind 127.0.0.1:8000\n" in server["door"]["content"]
    assert "authorization" not in server["door"]["content"]
    assert "ollama_api_key" not in server["unit"]["text"]
    assert server["url"] == "http://127.0.0.1:8000"


def test_what_its_role_is_asked_for_has_a_digest_and_the_roles_of_others_have_nothing_to_do(site: GgufSite) -> None:
    assert site.roles_with_work() == {"network", "ollama"}


# -- to clients ----------------------------------------------------------------------------------------------------------
def test_a_gateway_leads_to_it() -> None:
    assert "/v1/responses" in SITE.behind_a_gateway("/health")


def test_it_has_no_metrics_and_its_api_is_watched() -> None:
    found = targets(
        SITE.deployments, {"gpu1": {**SITE.said, **SITE.defaults, "ollama_port": 8080, "ansible_host": "192.0.2.1"}}
    )
    assert found["api"][0]["targets"] == ["http://192.0.2.1:8080/health"]
    assert not found.get("ollama")
