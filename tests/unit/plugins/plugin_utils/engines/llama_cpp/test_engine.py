"""llama.cpp goes through every decision as any engine does: the check of the inventory, the plan, the decision, the records, gateways and monitoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._served import RELEASE
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import served
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.arguments import OWN
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import (
    known_variables,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.rules import recording_rules
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.targets import targets
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.plan import plan_html, plan_report

from tests.support.gguf_models import MODELS, Shape
from tests.support.lone_engines import GgufSite, LoneSite

ENGINE = engine("llama_cpp")
SAID: dict[str, Any] = {"llama_cpp_model": "lab/tiny", "llama_cpp_version": "b11549"}
FILE = "tiny.gguf"


# What is said of the inventory needs no file.
SITE = LoneSite("llama_cpp", "small", SAID)


def site_in(folder: Path) -> GgufSite:
    return GgufSite("llama_cpp", SAID, folder)


@pytest.fixture
def site(tmp_path: Path) -> GgufSite:
    return site_in(tmp_path).add(FILE)


# -- the inventory -------------------------------------------------------------------------------------------------------
def test_its_inventory_is_checked() -> None:
    found = SITE.checked()
    assert (found["problems"], found["names"]["gpu1"]["server"]) == ([], "llm-llama_cpp")
    assert "b9603" in SITE.checked(llama_cpp_version=None)["problems"][0]["allowed"]


def test_several_may_take_turns_on_the_gpus_of_a_machine() -> None:
    mine = {"llm_engine": "llama_cpp", "llm_offline": False, "ansible_host": "10.0.0.1", "llm_on_request": True, **SAID}
    hosts = {"gpu1": mine, "gpu1_b": {**mine, "llama_cpp_port": 8001}}
    children = {"small": {"hosts": ["gpu1"], "children": []}, "other": {"hosts": ["gpu1_b"], "children": []}}
    groups = {"llm_deployments": {"hosts": list(hosts), "children": list(children)}, **children}

    def codes(**more: Any) -> list[str]:
        found = check_inventory({**hosts, "gpu1_b": {**hosts["gpu1_b"], **more}}, groups, known_variables())
        return [each["code"] for each in found["problems"]]

    assert codes() == []
    assert codes(llm_on_request=False) == ["gpu_claimed_twice"]
    assert codes(llama_cpp_port=18000) == ["ports_of_two_deployments"], "where the other server listens"
    vllm = {"llm_engine": "vllm", "vllm_model": "lab/tiny", "vllm_version": "0.8.5.post1", "vllm_port": 8001}
    assert codes(**vllm) == []
    assert codes(**vllm, vllm_executor="ray") == ["on_request_of_more"]
    assert "on_request_of_more" in codes(**vllm, vllm_runtime="venv")
    ollama = {"llm_engine": "ollama", "ollama_model": "lab/tiny", "ollama_version": "0.12.3", "ollama_port": 8001}
    assert codes(**ollama) == ["engine_not_on_request"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a release of another engine": ({"llama_cpp_version": "0.8.5"}, "llama_cpp_version"),
    "a path out of the model's folder": ({"llama_cpp_file": "../other.gguf"}, "llama_cpp_file"),
    "a draft out of its folder": ({"llama_cpp_draft_file": "../other.gguf"}, "llama_cpp_draft_file"),
    "no GGUF file": ({"llama_cpp_file": "model.safetensors"}, "llama_cpp_file"),
    "a context of nothing": ({"llama_cpp_ctx_size": 0}, "llama_cpp_ctx_size"),
    "no request at once": ({"llama_cpp_parallel": 0}, "llama_cpp_parallel"),
    "a cache of a type that there is not": ({"llama_cpp_cache_type_k": "fp8"}, "llama_cpp_cache_type_k"),
    "a volume without a place": ({"llama_cpp_extra_volumes": ["here"]}, "llama_cpp_extra_volumes"),
    "an option as a variable": ({"llama_cpp_environment": {"LLAMA_ARG_TOOLS": "all"}}, "llama_cpp_environment"),
}


def test_wrong_values_are_refused_before_a_host_is_touched() -> None:
    SITE.checks_values(WRONG)


# -- the plan ------------------------------------------------------------------------------------------------------------
def test_its_plan_is_that_of_the_file(site: GgufSite) -> None:
    plan = site.plan()
    assert (plan["ok"], plan["verdict"], plan["engine"]) == (True, "starts", "llama_cpp")
    settings = plan["settings"]
    # All layers and the words, spread over both GPUs; the model's own context, which all requests share.
    assert (settings["file"], settings["gpu_layers"], settings["ctx_size"]) == (FILE, 3, 2048)
    assert (settings["parallel"], settings["kv_unified"], settings["fit"]) == (4, True, "off")
    assert sum(settings["tensor_split"]) == 3
    ranks = plan["predicted"]["ranks"]
    assert len(ranks) == 2
    assert sum(rank["kv_cache_gib"] for rank in ranks) == pytest.approx(2 * 2048 * 2 * 4 * 64 * 2 / 2**30, abs=0.001)
    assert "small: llama.cpp b11549" in plan_report({"small": plan}, "table")
    assert "tensor-split" in plan_html({"small": plan}, day="2026-01-01")


def test_wishes_reach_the_plan(site: GgufSite) -> None:
    said = {"llama_cpp_ctx_size": 1024, "llama_cpp_parallel": 2, "llama_cpp_cache_type_k": "q8_0"}
    options = {"kv_unified": False, "ubatch_size": 128, "threads": 2}
    settings = site.plan(**said, llama_cpp_options=options)["settings"]
    wanted = {"ctx_size": 1024, "parallel": 2, "cache_type_k": "q8_0", "cache_type_v": "f16", **options}
    assert {name: settings[name] for name in wanted} == wanted


def test_a_model_that_is_too_large_stays_on_the_host_in_part_or_is_refused(tmp_path: Path) -> None:
    large = Shape(**{**MODELS["Llama-3.1-8B"].__dict__, "layers": 32})
    site = site_in(tmp_path).add("large.gguf", large)
    [card] = [{"name": "GPU", "memory_mib": 4096, "compute_capability": "6.1"}]
    plan = site.plan(gpus=[card])
    assert 0 < plan["settings"]["gpu_layers"] < 33
    assert "of 33 layers fit" in plan["predicted"]["warnings"][0]
    tiny = {**card, "memory_mib": 1280}
    assert "fewer bits" in site.refused(gpus=[tiny], llama_cpp_ctx_size=131072)


def test_the_longest_context_is_what_the_gpus_hold(tmp_path: Path) -> None:
    site = site_in(tmp_path).add(
        "model.gguf", Shape(**{**MODELS["Llama-3.1-8B"].__dict__, "layers": 32, "context": 131072})
    )
    card = {"name": "GPU", "memory_mib": 8192, "compute_capability": "7.5"}
    found = site.plan(gpus=[card])["settings"]
    assert 1024 < found["ctx_size"] < 131072
    assert found["gpu_layers"] == 33
    more = site.plan(gpus=[card], llama_cpp_cache_type_k="q8_0", llama_cpp_cache_type_v="q8_0")["settings"]
    assert more["ctx_size"] > 1.5 * found["ctx_size"]
    beyond = site.plan(gpus=[card], llama_cpp_ctx_size=found["ctx_size"] * 5 // 4)
    assert beyond["settings"]["gpu_layers"] < 33


# -- a draft model -------------------------------------------------------------------------------------------------------
DRAFT = "lab/smaller"


def drafted(folder: Path, served: Shape = MODELS["Llama-3.1-8B"], draft: Shape = MODELS["llama f16"]) -> GgufSite:
    site = site_in(folder).add(FILE, served).add("draft.gguf", draft, DRAFT)
    site.said["llama_cpp_draft_model"] = site.variables["llama_cpp_draft_model"] = DRAFT
    return site


def test_a_draft_model_lies_on_the_first_gpu_and_counts_there(tmp_path: Path) -> None:
    site = drafted(tmp_path)
    alone, both = site.plan(llama_cpp_draft_model="", llama_cpp_ctx_size=4096), site.plan(llama_cpp_ctx_size=4096)
    wanted = {"spec_type": "draft-simple", "gpu_layers_draft": "all", "device_draft": "CUDA0"}
    assert {name: both["settings"][name] for name in wanted} == wanted
    assert not set(wanted) & set(alone["settings"])
    shape = MODELS["llama f16"]
    cache = shape.layers * 4096 * 2 * shape.kv_heads * shape.head * 2 / 2**30
    rows = [plan["predicted"]["ranks"] for plan in (alone, both)]
    total = [sum(rank["kv_cache_gib"] for rank in ranks) for ranks in rows]
    assert total[1] - total[0] == pytest.approx(cache, abs=0.002)
    assert sum(rank["weights_gib"] for rank in rows[1]) > sum(rank["weights_gib"] for rank in rows[0])
    assert both["settings"]["tensor_split"][0] <= alone["settings"]["tensor_split"][0]


def test_the_server_is_told_of_the_draft_model(tmp_path: Path) -> None:
    argv = drafted(tmp_path).server()["container"]["command"]
    assert argv[argv.index("--model-draft") + 1].endswith("/models/lab--smaller/draft.gguf")
    assert argv[argv.index("--model") + 1].endswith(f"/models/lab--tiny/{FILE}")
    assert argv[argv.index("--spec-type") + 1] == "draft-simple"
    assert "--draft-file" not in argv


def test_a_draft_may_lie_beside_the_served_file(tmp_path: Path) -> None:
    site = site_in(tmp_path).add(FILE).add("draft.gguf")
    argv = site.server(llama_cpp_file=FILE, llama_cpp_draft_file="draft.gguf")["container"]["command"]
    assert argv[argv.index("--model-draft") + 1].endswith("/models/lab--tiny/draft.gguf")


def test_the_longest_context_leaves_room_for_the_draft(tmp_path: Path) -> None:
    served = Shape(**{**MODELS["Llama-3.1-8B"].__dict__, "layers": 32, "context": 131072})
    site = drafted(tmp_path, served)
    card = {"name": "GPU", "memory_mib": 8192, "compute_capability": "7.5"}
    alone, both = site.plan(gpus=[card], llama_cpp_draft_model=""), site.plan(gpus=[card])
    assert both["settings"]["gpu_layers"] == 33
    assert 512 < both["settings"]["ctx_size"] < alone["settings"]["ctx_size"]


def test_a_draft_that_cannot_be_is_refused(tmp_path: Path) -> None:
    site = drafted(tmp_path)
    assert "b11549" in site.refused(llama_cpp_version="b9603")
    assert "llama_cpp_draft_file" in site.refused(llama_cpp_draft_file="../draft.gguf")
    assert "draft.gguf" in site.refused(llama_cpp_draft_file="other.gguf")
    assert "llama_cpp_draft_model" in site.refused(llama_cpp_options={"model_draft": "/m.gguf"})
    site.add("second.gguf", MODELS["llama f16"], DRAFT)
    assert "llama_cpp_draft_file" in site.refused()
    (tmp_path / "models/lab--smaller/draft.gguf").write_bytes(b"GGUF" * 10)
    assert "draft.gguf" in site.refused(llama_cpp_draft_file="draft.gguf")


def test_a_draft_of_another_family_is_named(tmp_path: Path) -> None:
    other = Shape(**{**MODELS["llama f16"].__dict__, "vocabulary": 50000})
    assert drafted(tmp_path).plan()["predicted"]["warnings"] == []
    assert "50000 words" in drafted(tmp_path, draft=other).plan()["predicted"]["warnings"][0]


def test_without_the_draft_here_nothing_is_planned(tmp_path: Path) -> None:
    site = drafted(tmp_path)
    for record in site.records:
        if record["model"] == DRAFT:
            record["urls"] = ["https://hub.example/draft.gguf"]
    plan = site.plan()
    assert "draft.gguf" in plan["predicted"]["warnings"][0]
    assert plan["settings"]["draft_file"] == "draft.gguf"
    assert plan["settings"]["spec_type"] == "draft-simple"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "vLLM's option": (
        {"llama_cpp_options": {"max_model_len": 1024}},
        "max_model_len is an option of vllm; llama.cpp has llama_cpp_ctx_size for it",
    ),
    "vLLM's option with nothing like it": ({"llama_cpp_options": {"quantization": "awq"}}, "nothing of the kind"),
    "Ollama's option": ({"llama_cpp_options": {"OLLAMA_NUM_PARALLEL": 2}}, "parallel"),
    "what a variable decides": ({"llama_cpp_options": {"port": 1}}, "llama_cpp_port"),
    "a shell for all": ({"llama_cpp_options": {"tools": "all"}}, "act on the host"),
    "another file": (
        {"llama_cpp_file": "other.gguf"},
        "the bundle holds no other.gguf of this model; it holds: tiny.gguf",
    ),
}


def test_what_the_server_does_not_take_is_refused(site: GgufSite) -> None:
    site.refuses(REFUSED)
    assert set(OWN) >= {"model", "host", "port", "api_key_file"}


def test_of_several_files_one_has_to_be_named(site: GgufSite) -> None:
    site.add("tiny-q8.gguf")
    assert "tiny-q8.gguf" in site.refused()
    assert site.plan(llama_cpp_file="tiny-q8.gguf")["settings"]["file"] == "tiny-q8.gguf"


def test_a_damaged_file_is_refused(site: GgufSite) -> None:
    path = site.bundle / site.records[0]["path"]
    path.write_bytes(path.read_bytes()[:-64])
    assert FILE in site.refused()


def test_without_the_file_here_llama_cpp_fits_it_itself(site: GgufSite) -> None:
    site.records[0]["urls"] = ["https://hub.example.org/tiny.gguf"]
    plan = site.plan()
    assert plan["verdict"] == "unknown"
    assert "does not lie on the controller" in plan["predicted"]["warnings"][0]
    assert not {"gpu_layers", "fit"} & set(plan["settings"])
    placed = site_in(site.bundle).add(FILE).plan(llama_cpp_options={"gpu_layers": 1})
    assert "gpu_layers" in placed["predicted"]["warnings"][0]


# -- the decision --------------------------------------------------------------------------------------------------------
def test_its_decision_starts_it_and_nothing_of_another_engine(site: GgufSite) -> None:
    section = site.decided(llama_cpp_served_model_name="tiny")["hosts"]["gpu1"]
    assert not {"vllm", "ray"} & set(section)
    assert section["image"] == "ghcr.io/ggml-org/llama.cpp:server-cuda12-b11549"
    server = section["llama_cpp"]
    command = server["container"]["command"]
    assert command[:9] == [
        *("/app/llama-server", "--model", "/opt/llm/models/lab--tiny/tiny.gguf", "--alias", "tiny"),
        *("--host", "0.0.0.0", "--port", "8000"),
    ]
    assert command[command.index("--api-key-file") + 1] == "/var/tmp/llm-llama.keys"
    assert "--metrics" in command
    start = server["container"]["entrypoint"]
    assert start == ["/bin/bash", "/llm/start-llama.sh", "/run/secrets/llama_cpp_api_key", "/var/tmp/llm-llama.keys"]
    environment = server["container"]["environment"]
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["CUDA_CACHE_PATH"] == "/var/cache/llm/cuda"
    assert (server["url"], server["probe"]["needed"]) == ("http://10.0.0.1:8000", True)
    assert server["probe"]["command"][-2:] == ["--key", "/opt/llm/secrets/llama_cpp_api_key"]
    assert "--server=llm-llama_cpp" in server["probe"]["command"]
    assert "--inner" not in server["probe"]["command"], "nobody would answer there"


def test_without_a_key_it_listens_on_its_own_host_only(site: GgufSite) -> None:
    plan = site.plan(llama_cpp_api_key_enabled=False)
    assert "127.0.0.1" in plan["predicted"]["warnings"][-1]
    server = site.server(llama_cpp_api_key_enabled=False)
    command = server["container"]["command"]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert "--api-key-file" not in command
    assert (server["url"], server["container"]["entrypoint"][2]) == ("http://127.0.0.1:8000", "")
    assert "--key" not in server["probe"]["command"]


def test_another_file_with_the_same_name_is_another_container(site: GgufSite) -> None:
    before = site.server()["reads"]
    site.records[0]["sha256"] = "other"
    assert site.server()["reads"] != before


def test_what_its_role_is_asked_for_has_a_digest_and_the_roles_of_others_have_nothing_to_do(site: GgufSite) -> None:
    assert site.roles_with_work() == {"network", "llama_cpp"}


# -- another version, and back ---------------------------------------------------------------------------------------------
IMAGE_ID = "sha256:0123456789abcdef"


def noted(section: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """What a host keeps of a version that served, as the module served writes it."""
    serves: dict[str, Any] = json.loads(json.dumps(served.serves_with(section, plan, "b11549")))
    assert (serves["container"], serves["environment"]) == ("llm-llama_cpp", "")
    models = [
        {**{name: model[name] for name in ("model", "folder", "revision")}, "kept": ""} for model in serves["models"]
    ]
    kept = {name: serves[name] for name in ("version", RELEASE, "section", "plan")}
    return {
        **kept,
        "since": "2026-11-28T12:00:00Z",
        "image": {"reference": serves["image"], "id": IMAGE_ID},
        "models": models,
    }


CHANGES: dict[str, dict[str, Any]] = {
    "another build": {"llama_cpp_version": "b11600"},
    "another image": {"llama_cpp_image": "registry.example.com/llama.cpp:mine"},
    "a longer context": {"llama_cpp_ctx_size": 1024},
    "an option": {"llama_cpp_options": {"threads": 4}},
    "another name in the API": {"llama_cpp_served_model_name": "other"},
}


@pytest.mark.parametrize("change", [*CHANGES, "another revision of the file"])
def test_what_is_changed_is_another_version_that_goes_back_as_it_was(site: GgufSite, change: str) -> None:
    """Image, settings and file of the former version come from the notes of the host, whatever the inventory asks for by now."""
    before = site.decided()
    old = before["hosts"]["gpu1"]
    assert site.decided()["hosts"]["gpu1"]["version"] == old["version"], "the same is no other version"
    if change not in CHANGES:
        site.records[0] |= {"sha256": "other", "revision": "0123456789abcdef"}
    after = site.decided(**CHANGES.get(change, {}))
    new = after["hosts"]["gpu1"]
    assert (before["problems"], after["problems"]) == ([], [])
    assert new["version"] != old["version"]

    states = [noted(old, before["plans"]["small"])]
    found = served.served_of({"llm_served": {"states": states, "returned": None, "begun": None}})
    deployments: Any = {"small": {"hosts": ["gpu1"], "head": "gpu1"}}
    asked = {"work": {"serve": {"gpu1": [{"role": "llama_cpp", "code": "work_other_settings", "what": ""}]}}}
    decision = {**after, **asked, "turns": {"hosts": ["gpu1"]}}
    plan = served.upgrade_plan(deployments, {"gpu1": found}, decision, {"small": "b11600"})
    assert plan["problems"] == []
    assert "llama_cpp (" in plan["lines"][-1]
    assert f"becomes: {new['image']}, llama.cpp b11600, lab/tiny" in " ".join(plan["lines"])

    begun: Any = {**found, "begun": {"version": new["version"], "image": new["image"]}}
    for stack in (begun, {**found, "states": [noted(new, after["plans"]["small"]), *states]}):
        assert served.version_before({"gpu1": stack}) == old["version"]
    left = served.left_by(begun, old["version"])
    looked = served.looked_for({"served": states[0], "present": True, "moved": False, "lacking": [], "left": left})
    back = served.rollback_plan(deployments, {"gpu1": looked})
    assert (back["problems"], len(back["lines"])) == ([], 1)
    assert back["lines"][0].count(old["image"]) >= 1
    again = served.served_decision({"gpu1": looked}, "code", after)
    restored = again["hosts"]["gpu1"]  # type: ignore[index]
    assert restored["llama_cpp"] == json.loads(json.dumps(old["llama_cpp"]))
    assert (restored["engine"], restored["roles"], restored["image"]) == ("llama_cpp", ["llama_cpp"], old["image"])
    assert again["plans"]["small"] == json.loads(json.dumps(before["plans"]["small"]))  # type: ignore[index]


def test_an_image_that_moved_on_serves_by_its_kept_name(site: GgufSite) -> None:
    found = site.decided()
    state = noted(found["hosts"]["gpu1"], found["plans"]["small"])
    looked: Any = {"gpu1": {"served": state, "present": True, "moved": True, "lacking": [], "left": {}}}
    section: Any = served.served_decision(looked, "code", {})["hosts"]
    assert section["gpu1"]["image"] == section["gpu1"]["llama_cpp"]["container"]["image"] == "llm-kept:0123456789ab"
    assert found["hosts"]["gpu1"]["image"] not in json.dumps(section)


def test_a_file_that_is_gone_or_an_image_hinders_a_return(site: GgufSite) -> None:
    found = site.decided()
    state = noted(found["hosts"]["gpu1"], found["plans"]["small"])
    lacking = ["/opt/llm/models/lab--tiny/tiny.gguf"]
    looked: Any = {
        "gpu1": {"served": state, "present": False, "moved": False, "lacking": lacking, "left": {"image": ""}}
    }
    deployments: Any = {"small": {"hosts": ["gpu1"], "head": "gpu1"}}
    assert [each["code"] for each in served.rollback_plan(deployments, looked)["problems"]] == [
        "back_no_image",
        "back_no_model",
    ]


# -- to clients ----------------------------------------------------------------------------------------------------------
def test_a_gateway_leads_to_it() -> None:
    assert "/v1/messages" in SITE.behind_a_gateway("/health")
    assert "/v1/messages" not in SITE.behind_a_gateway("/health", llama_cpp_version="b9603")


def test_embeddings_are_asked_for_where_it_makes_them(site: GgufSite) -> None:
    command = site.server(llama_cpp_options={"embedding": True})["probe"]["command"]
    assert command[command.index("--kind") + 1] == "embedding"


def test_it_is_watched_under_the_common_names() -> None:
    found = targets(
        SITE.deployments, {"gpu1": {**SITE.said, **SITE.defaults, "llama_cpp_port": 8080, "ansible_host": "192.0.2.1"}}
    )
    assert found["llama_cpp"] == [], "its page asks for the key, which the probe has"
    assert found["api"][0]["targets"] == ["http://192.0.2.1:8080/health"]
    rules = {rule["record"]: rule["expr"] for rule in recording_rules()}
    assert "llamacpp:requests_processing" in rules["llm:requests_running"]
    assert "rate(llamacpp:tokens_predicted_total[2m])" in rules["llm:generation_tokens:rate2m"]
