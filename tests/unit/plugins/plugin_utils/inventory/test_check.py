"""What an inventory alone can tell: every kind of bad input is refused, and nothing that is good."""

from __future__ import annotations

import copy
import string
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.bundle import same_release
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.plain import COMMAND_LINE
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.spelling import looks_like, nearest_variable
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import (
    UNRESOLVED,
    Unresolved,
    cidr_fault,
    is_true,
    is_unresolved,
)
from hypothesis import given
from hypothesis import strategies as st

KNOWN: dict[str, dict[str, Any]] = {
    "llm_bundle_dir": {"type": "path"},
    "llm_offline": {"type": "bool", "default": False},
    "llm_cluster_network": {"type": "str"},
    "llm_gpus": {"type": "list", "elements": "dict"},
    "llm_language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
    "llm_foreign_variables": {"type": "list", "elements": "str"},
    "docker_version": {"type": "str"},
    "models_checks": {
        "type": "list",
        "elements": "dict",
        "options": {"name": {"type": "str", "required": True}, "count": {"type": "int"}},
    },
    "ray_head_host": {"type": "str"},
    "ray_environment": {"type": "dict"},
    "vllm_model": {"type": "str", "required": True},
    "vllm_version": {"type": "str", "required": True},
    "vllm_image": {"type": "str"},
    "vllm_served_model_name": {"type": "str"},
    "vllm_port": {"type": "int", "default": 8000},
    "vllm_start_timeout_seconds": {"type": "int"},
    "vllm_max_model_len": {"type": "int"},
    "vllm_gpu_memory_utilization": {"type": "float"},
    "vllm_tensor_parallel_size": {"type": "int"},
    "vllm_pipeline_parallel_size": {"type": "int"},
    "vllm_enforce_eager": {"type": "bool"},
    "vllm_executor": {"type": "str", "choices": ["auto", "ray", "mp", "uni"], "default": "auto"},
    "vllm_options": {"type": "dict", "default": {}},
    "vllm_api_key": {"type": "str", "no_log": True},
}
V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
MANIFEST = {
    "schema": 1,
    "files": [
        {"path": "models/tiny", "kind": "model", "model": "lab/tiny-qwen2", "revision": "1"},
        {
            "path": "images.tar",
            "kind": "image",
            "images": [{"reference": "lab/vllm:1", "id": "sha256:aa", "vllm_version": "0.32.0+cpu"}],
        },
    ],
}


class Inventory:
    """An inventory that is right, to be broken by a test: qwen on gpu01 and gpu02, tiny on gpu03."""

    def __init__(self) -> None:
        qwen = {"vllm_model": "Qwen/Qwen2.5-14B-Instruct", "vllm_version": "0.8.5.post1"}
        tiny = {"vllm_model": "lab/tiny-qwen2", "vllm_version": "0.32.0"}
        self.hosts: dict[str, dict[str, Any]] = {"gpu01": dict(qwen), "gpu02": dict(qwen), "gpu03": dict(tiny)}
        self.groups: dict[str, dict[str, list[str]]] = {
            "all": {"hosts": ["gpu01", "gpu02", "gpu03"], "children": ["ungrouped", "llm_deployments"]},
            "llm_deployments": {"hosts": ["gpu01", "gpu02", "gpu03"], "children": ["qwen", "tiny"]},
            "qwen": {"hosts": ["gpu01", "gpu02"], "children": []},
            "tiny": {"hosts": ["gpu03"], "children": []},
        }
        self.more: dict[str, Any] = {}

    def set(self, *hosts: str, **variables: Any) -> Inventory:
        for host in hosts or self.hosts:
            self.hosts[host].update(variables)
        return self

    def check(self) -> dict[str, Any]:
        before = copy.deepcopy(self.hosts)
        found = check_inventory(self.hosts, self.groups, KNOWN, **self.more)
        assert self.hosts == before, "the input is left alone"
        in_chinese = check_inventory(self.hosts, self.groups, KNOWN, **self.more, lang="zh")
        assert [entry["code"] for entry in in_chinese["problems"]] == [entry["code"] for entry in found["problems"]]
        return found

    def problems(self) -> list[dict[str, str]]:
        return list(self.check()["problems"])

    def codes(self) -> list[str]:
        return [entry["code"] for entry in self.problems()]

    def only(self) -> dict[str, str]:
        problems = self.problems()
        assert len(problems) == 1, problems
        return problems[0]


@pytest.fixture
def inventory() -> Inventory:
    return Inventory()


def test_a_good_inventory_gives_its_deployments(inventory: Inventory) -> None:
    assert inventory.set("gpu01", "gpu02", ray_head_host="gpu02").check() == {
        "problems": [],
        "deployments": {
            "qwen": {"hosts": ["gpu01", "gpu02"], "head": "gpu02"},
            "tiny": {"hosts": ["gpu03"], "head": "gpu03"},
        },
        "hosts": ["gpu01", "gpu02", "gpu03"],
    }


def test_everything_at_once_and_in_the_same_order(inventory: Inventory) -> None:
    inventory.set("gpu01", vllm_modle="x", vllm_port="many").set("gpu02", ansible_host="gpu01").set(
        "gpu03", vllm_executor="rai", llm_cluster_network="10.0.0.0"
    )
    codes = inventory.codes()
    assert codes == [
        "duplicate_address",
        "settings_differ",
        "not_a_choice_near",
        "unknown_variable",
        "wrong_type",
        "network_malformed",
    ]
    inventory.hosts = {host: dict(reversed(list(items.items()))) for host, items in inventory.hosts.items()}
    assert inventory.codes() == codes


# Deployments


def test_no_group_of_deployments(inventory: Inventory) -> None:
    inventory.groups = {"all": {"hosts": ["gpu01"], "children": ["web"]}, "web": {"hosts": ["gpu01"], "children": []}}
    assert inventory.only()["code"] == "no_deployments_group"
    assert inventory.only()["value"] == "web"


def test_a_misspelled_group_of_deployments(inventory: Inventory) -> None:
    inventory.groups["llm_deployment"] = inventory.groups.pop("llm_deployments")
    entry = inventory.only()
    assert entry["code"] == "no_deployments_group_near"
    assert "llm_deployment," in entry["what"]


def test_no_deployment(inventory: Inventory) -> None:
    inventory.groups["llm_deployments"]["children"] = []
    entry = inventory.only()
    assert (entry["code"], entry["value"]) == ("no_deployment", "gpu01, gpu02, gpu03")


def test_a_host_beside_the_deployments(inventory: Inventory) -> None:
    inventory.groups["tiny"]["hosts"] = []
    inventory.groups["llm_deployments"]["children"] = ["qwen"]
    entry = inventory.only()
    assert (entry["code"], entry["value"]) == ("hosts_outside_deployments", "gpu03")


def test_a_deployment_without_host(inventory: Inventory) -> None:
    inventory.groups["empty"] = {"hosts": [], "children": []}
    inventory.groups["llm_deployments"]["children"].append("empty")
    assert inventory.only()["code"] == "deployment_without_host"
    assert list(inventory.check()["deployments"]) == ["qwen", "tiny"]


def test_a_host_in_two_deployments_is_the_only_problem_that_is_told(inventory: Inventory) -> None:
    inventory.groups["tiny"]["hosts"].append("gpu02")
    entry = inventory.only()
    assert entry["code"] == "host_in_two_deployments"
    assert "gpu02" in entry["what"]
    assert entry["value"] == "qwen, tiny"


def test_two_names_for_one_machine(inventory: Inventory) -> None:
    inventory.set("gpu01", "gpu03", ansible_host="10.0.0.1")
    entry = inventory.only()
    assert entry["code"] == "duplicate_address"
    assert "gpu01, gpu03" in entry["what"]
    assert entry["value"] == "10.0.0.1"


def test_one_address_with_two_ports_is_two_machines(inventory: Inventory) -> None:
    inventory.set(ansible_host="127.0.0.1")
    for port, host in enumerate(inventory.hosts, start=2201):
        inventory.set(host, ansible_port=port)
    assert inventory.problems() == []


def test_the_head_is_one_of_the_hosts(inventory: Inventory) -> None:
    inventory.set("gpu01", "gpu02", ray_head_host="gpu03")
    entry = inventory.only()
    assert entry["code"] == "head_not_in_deployment"
    assert "gpu01, gpu02" in entry["allowed"]
    assert inventory.check()["deployments"]["qwen"]["head"] == "gpu01"


def test_the_hosts_of_a_deployment_have_one_setting(inventory: Inventory) -> None:
    inventory.set("gpu02", vllm_port=8001)
    entry = inventory.only()
    assert entry["code"] == "settings_differ"
    assert entry["value"] == "gpu01: 8000; gpu02: 8001"


def test_deployments_may_have_the_same_port(inventory: Inventory) -> None:
    assert inventory.set(vllm_port=8000).problems() == []


# Variables


@pytest.mark.parametrize("name", ["vllm_model", "vllm_version"])
def test_what_a_deployment_must_have(inventory: Inventory, name: str) -> None:
    del inventory.hosts["gpu01"][name], inventory.hosts["gpu02"][name]
    entry = inventory.only()
    assert entry["code"] == "missing_variable"
    assert entry["what"] == f"{name} is not set for the deployment qwen."
    assert entry["where"] == "group_vars/qwen.yml"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("vllm_modle", "vllm_model"),
        ("vllm_modell", "vllm_model"),
        ("llm_model", "vllm_model"),
        ("vllm_tensor_paralel_size", "vllm_tensor_parallel_size"),
        ("vllm_tp", "vllm_tensor_parallel_size"),
        ("vllm_gpu_memory_utilisation", "vllm_gpu_memory_utilization"),
        ("llm_ofline", "llm_offline"),
        ("ray_head", "ray_head_host"),
        ("docker_versoin", "docker_version"),
    ],
)
def test_an_unknown_variable_gets_the_nearest_name(inventory: Inventory, name: str, nearest: str) -> None:
    entry = inventory.set("gpu01", "gpu02", **{name: "x"}).only()
    assert entry["code"] == "unknown_variable"
    assert f"{name} on gpu01, gpu02. Did you mean {nearest}?" in entry["what"]
    assert entry["value"] == '"x"'


def test_an_engine_option_is_sent_to_the_options(inventory: Inventory) -> None:
    entry = inventory.set("gpu03", vllm_enable_prefix_caching=True).only()
    assert entry["code"] == "unknown_vllm_variable"
    assert "'enable_prefix_caching: true'" in entry["allowed"]


def test_a_name_that_nothing_is_near(inventory: Inventory) -> None:
    assert inventory.set(gateway_zzz=1).only()["code"] == "unknown_variable_no_hint"


@pytest.mark.parametrize(
    "name", ["vllm-model", "VLLM_MODEL", "vlm_model", "vlllm_model", "llm-offline", "docker-version"]
)
def test_a_name_that_only_looks_like_ours(inventory: Inventory, name: str) -> None:
    assert inventory.set("gpu01", **{name: "x"}).only()["code"] == "suspicious_variable"


@pytest.mark.parametrize(
    "name",
    [
        "model_checks",
        "dockerd_version",
        "my_vllm_model",
        "_vllm_model",
        "model",
        "port",
        "http_port",
        "ansible_user",
        "ansible_ray_head_host",
        "array_size",
        "group_names",
        "nvidia_smi_path",
        "dockerhub_user",
    ],
)
def test_other_peoples_names_are_left_alone(inventory: Inventory, name: str) -> None:
    assert inventory.set(**{name: "x"}).problems() == []


@pytest.mark.parametrize("listed", [["docker_users"], ["docker_*"]])
def test_foreign_names_can_be_listed(inventory: Inventory, listed: list[str]) -> None:
    inventory.set("gpu01", docker_users=["me"], docker_edition="ce") if listed == ["docker_*"] else inventory.set(
        "gpu01", docker_users=["me"]
    )
    assert inventory.codes() != []
    inventory.set("gpu03", llm_foreign_variables=listed)
    assert inventory.problems() == []
    inventory.hosts["gpu03"].pop("llm_foreign_variables")
    inventory.more = {"foreign": listed}
    assert inventory.problems() == []


def test_other_machines_of_the_inventory_are_not_ours(inventory: Inventory) -> None:
    inventory.hosts["web01"] = {"docker_users": ["www"], "vllm_modle": "x"}
    inventory.groups["web"] = {"hosts": ["web01"], "children": []}
    assert inventory.problems() == []
    inventory.groups["llm_gateway"] = {"hosts": ["web01"], "children": []}
    assert inventory.codes() == ["unknown_variable_no_hint", "unknown_variable"]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("vllm_port", "many", "wrong_type"),
        ("vllm_port", True, "wrong_type"),
        ("vllm_port", 80.5, "wrong_type"),
        ("vllm_port", [8000], "wrong_type"),
        ("vllm_port", 0, "out_of_range"),
        ("vllm_port", "70000", "out_of_range"),
        ("vllm_model", ["a"], "wrong_type"),
        ("vllm_model", True, "wrong_type"),
        ("vllm_model", "https://huggingface.co/Qwen/Qwen2.5-14B-Instruct", "model_is_url"),
        ("vllm_version", 0.1, "version_not_quoted"),
        ("vllm_version", 1, "version_not_quoted"),
        ("docker_version", 27.5, "version_not_quoted"),
        ("vllm_version", "v0.8.5", "version_malformed"),
        ("vllm_version", "latest", "version_malformed"),
        ("vllm_gpu_memory_utilization", 0, "out_of_range"),
        ("vllm_gpu_memory_utilization", 90, "out_of_range"),
        ("vllm_gpu_memory_utilization", "a lot", "wrong_type"),
        ("vllm_tensor_parallel_size", 0, "out_of_range"),
        ("vllm_max_model_len", -1, "out_of_range"),
        ("vllm_start_timeout_seconds", -1, "out_of_range"),
        ("vllm_executor", "dask", "not_a_choice"),
        ("vllm_executor", "Ray", "not_a_choice_near"),
        ("vllm_enforce_eager", "perhaps", "wrong_type"),
        ("vllm_options", "--swap-space 4", "wrong_type"),
        ("vllm_options", {"swap-space": 4}, "option_spelling"),
        ("vllm_options", {"tensor_parallel_size": 4}, "option_has_variable"),
        ("vllm_options", {"--max-model-len": 4}, "option_has_variable"),
        ("models_checks", "a,b", "wrong_type"),
        ("models_checks", ["a"], "wrong_type"),
        ("models_checks", [{"name": "a", "cuont": 1}], "unknown_key"),
        ("models_checks", [{"count": 1}], "missing_key"),
        ("models_checks", [{"name": "a", "count": "b"}], "wrong_type"),
        ("llm_cluster_network", "10.0.0.5/24", "network_malformed"),
        ("llm_cluster_network", "10.0.0.0", "network_malformed"),
        ("llm_cluster_network", "eth1", "network_malformed"),
        ("llm_cluster_network", ["10.0.0.0/24"], "network_malformed"),
        ("llm_gpus", 2, "gpus_malformed"),
        ("llm_gpus", ["V100"], "gpus_malformed"),
        ("llm_gpus", [{"name": "V100", "memory_mib": 16384}], "gpus_malformed"),
        ("llm_gpus", [{**V100, "memory_mib": 16}], "gpus_malformed"),
        ("llm_gpus", [{**V100, "memory_mib": "16 GiB"}], "gpus_malformed"),
        ("llm_gpus", [{**V100, "compute_capability": "sm_70"}], "gpus_malformed"),
        ("llm_gpus", [{**V100, "count": 2}], "gpus_malformed"),
        ("llm_gpus", [{**V100, "name": 100}], "gpus_malformed"),
    ],
)
def test_bad_values(inventory: Inventory, name: str, value: object, code: str) -> None:
    entry = inventory.set("gpu03", **{name: value}).only()
    assert entry["code"] == code
    assert all(entry.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vllm_port", "8001"),
        ("vllm_port", 8001.0),
        ("vllm_port", None),
        ("vllm_model", "/srv/models/tiny"),
        ("vllm_version", "0.8.5.post1"),
        ("vllm_version", "0.32.0+cpu"),
        ("vllm_version", "0.11.0rc2"),
        ("vllm_gpu_memory_utilization", "0.9"),
        ("vllm_gpu_memory_utilization", 1),
        ("vllm_enforce_eager", "yes"),
        ("vllm_enforce_eager", 0),
        ("vllm_options", {"swap_space": 4}),
        ("vllm_served_model_name", 7),
        ("models_checks", [{"name": "a", "count": "1"}]),
        ("llm_cluster_network", "10.0.0.0/24"),
        ("llm_cluster_network", "fd00::/64"),
        ("llm_cluster_network", ""),
        ("llm_gpus", []),
        ("llm_gpus", [{**V100, "compute_capability": 7.0}, V100]),
        ("vllm_api_key", {"any": "thing"}),
    ],
)
def test_good_values(inventory: Inventory, name: str, value: object) -> None:
    assert inventory.set("gpu03", **{name: value}).problems() == []


@pytest.mark.parametrize("value", ["{{ later }}", UNRESOLVED, Unresolved("undefined")])
@pytest.mark.parametrize("name", sorted([*KNOWN, "ansible_host"]))
def test_what_is_not_known_yet_is_not_judged(inventory: Inventory, name: str, value: object) -> None:
    assert inventory.set(**{name: value}).problems() == []


def test_parts_that_are_not_known_yet_are_not_judged(inventory: Inventory) -> None:
    assert is_unresolved([{"name": UNRESOLVED}])
    inventory.set(llm_gpus=[{"name": "{{ gpu }}"}], vllm_options={"{{ key }}": 1}, models_checks=[UNRESOLVED])
    assert inventory.problems() == []


def test_a_secret_is_never_shown(inventory: Inventory) -> None:
    inventory.set("gpu03", vllm_api_kye="hunter2", vllm_hf_token="hunter2", llm_ofline=Unresolved("vault"))
    problems = inventory.problems()
    assert [entry["value"] for entry in problems] == ["***"] * 3
    assert "hunter2" not in str(problems)


def test_an_origin_is_told(inventory: Inventory) -> None:
    inventory.more = {"origins": {"gpu03": {"vllm_port": "group_vars/tiny.yml:3", "vllm_modle": COMMAND_LINE}}}
    inventory.set("gpu03", vllm_port=0, vllm_modle=1)
    assert [entry["where"] for entry in inventory.problems()] == ["the command line (-e)", "group_vars/tiny.yml:3"]


def test_without_argument_specs_no_name_is_judged(inventory: Inventory) -> None:
    inventory.set(vllm_modle=1)
    assert check_inventory(inventory.hosts, inventory.groups, {})["problems"] == []


# GPUs and replicas


@pytest.mark.parametrize(
    ("settings", "good"),
    [
        ({"vllm_tensor_parallel_size": 2}, True),
        ({"vllm_tensor_parallel_size": "3"}, True),
        ({"vllm_pipeline_parallel_size": 3}, True),
        ({"vllm_tensor_parallel_size": 4}, False),
        ({"vllm_tensor_parallel_size": 2, "vllm_pipeline_parallel_size": 2}, False),
        ({}, True),
    ],
)
def test_no_more_ranks_than_declared_gpus(inventory: Inventory, settings: dict[str, Any], good: bool) -> None:
    inventory.set("gpu01", llm_gpus=[V100]).set("gpu02", llm_gpus=[V100, V100]).set("gpu01", "gpu02", **settings)
    if good:
        assert inventory.problems() == []
    else:
        entry = inventory.only()
        assert entry["code"] == "too_few_gpus"
        assert "gpu01: 1, gpu02: 2" in entry["allowed"]


def test_undeclared_gpus_are_not_counted(inventory: Inventory) -> None:
    inventory.set("gpu01", llm_gpus=[V100]).set("gpu01", "gpu02", vllm_tensor_parallel_size=8)
    assert inventory.problems() == []


def test_replicas_serve_one_model(inventory: Inventory) -> None:
    inventory.set(vllm_served_model_name="chat")
    entry = inventory.only()
    assert entry["code"] == "served_name_two_models"
    assert "qwen, tiny" in entry["what"]
    inventory.set(vllm_model="lab/tiny-qwen2")
    assert inventory.problems() == []


def test_a_served_name_that_is_another_ones_model(inventory: Inventory) -> None:
    inventory.set("gpu03", vllm_served_model_name="Qwen/Qwen2.5-14B-Instruct")
    assert inventory.only()["code"] == "served_name_two_models"


# Bundle


@pytest.fixture
def offline(inventory: Inventory) -> Inventory:
    inventory.groups["llm_deployments"] = {"hosts": ["gpu03"], "children": ["tiny"]}
    inventory.more = {"bundles": {"/srv/bundle": {"manifest": copy.deepcopy(MANIFEST), "error": None}}}
    return inventory.set("gpu03", llm_offline=True, llm_bundle_dir="/srv/bundle")


def test_a_bundle_that_holds_all(offline: Inventory) -> None:
    assert offline.problems() == []
    assert offline.set("gpu03", vllm_image="lab/vllm:1").problems() == []
    assert offline.set("gpu03", vllm_image="sha256:aa").problems() == []
    assert offline.set("gpu03", vllm_model="/srv/models/other").problems() == []


@pytest.mark.parametrize(
    ("settings", "code", "allowed"),
    [
        ({"llm_bundle_dir": None}, "bundle_dir_missing", "manifest.yml"),
        ({"llm_bundle_dir": "/nowhere"}, "bundle_missing", "bundle.yml"),
        ({"vllm_model": "lab/other"}, "bundle_without_model", "lab/tiny-qwen2"),
        ({"vllm_version": "0.31.0"}, "bundle_without_version", "0.32.0+cpu"),
        ({"vllm_version": "0.32.0+cu128"}, "bundle_without_version", "0.32.0+cpu"),
        ({"vllm_image": "lab/vllm:2"}, "bundle_without_image", "lab/vllm:1"),
        ({"vllm_image": "lab/vllm:1", "vllm_version": "0.31.0"}, "image_of_other_version", "0.32.0+cpu"),
    ],
)
def test_a_bundle_that_lacks_something(offline: Inventory, settings: dict[str, Any], code: str, allowed: str) -> None:
    entry = offline.set("gpu03", **settings).only()
    assert entry["code"] == code
    assert allowed in entry["allowed"]
    offline.more["bundle_required"] = False
    assert offline.problems() == []
    del offline.more["bundle_required"]
    assert offline.set("gpu03", llm_offline="no").problems() == []


@pytest.mark.parametrize(
    "bundle",
    [
        {"manifest": None, "error": "line 3: not YAML"},
        {"manifest": {}},
        {"manifest": ["a"]},
        {"manifest": {"schema": 2, "files": []}},
    ],
)
def test_a_manifest_that_is_of_no_use(offline: Inventory, bundle: dict[str, Any]) -> None:
    offline.more = {"bundles": {"/srv/bundle": bundle}}
    assert offline.only()["code"] == "bundle_unreadable"


CONTENTS = {"libraries": {name: {"built_for": ["sm_75", "sm_80"]} for name in ("vllm", "torch")}}


def held(offline: Inventory, **image: Any) -> Inventory:
    """With this in the image of the bundle, and a driver beside it."""
    manifest = copy.deepcopy(MANIFEST)
    manifest["files"][1]["images"][0].update(image)  # type: ignore[index]
    manifest["files"].append({"path": "driver.run", "kind": "driver", "version": "570.195.03"})  # type: ignore[attr-defined]
    offline.more = {"bundles": {"/srv/bundle": {"manifest": manifest}}}
    return offline


def test_an_image_without_code_for_the_gpus_is_refused(offline: Inventory) -> None:
    assert held(offline, contents=CONTENTS).codes() == [], "the GPUs are not known yet"
    problem = held(offline.set("gpu03", llm_gpus=[V100]), contents=CONTENTS).only()
    assert problem["code"] == "image_without_code"
    assert problem["where"] == "group_vars/tiny.yml"
    assert "0.19.1" in problem["allowed"]
    offline.set("gpu03", llm_gpus=[{**V100, "compute_capability": "8.0"}])
    assert held(offline, contents=CONTENTS, cuda_version="12.9").codes() == []
    assert held(offline, contents=CONTENTS, cuda_version="13.0").only()["code"] == "image_needs_driver"
    offline.set("gpu03", vllm_image="lab/vllm:1")
    assert held(offline, contents=CONTENTS, cuda_version="13.0").only()["code"] == "image_needs_driver"


@pytest.mark.parametrize("contents", [None, 1, [], {"libraries": 1}, {"libraries": {"vllm": 1}}])
def test_contents_that_are_none_are_survived(offline: Inventory, contents: Any) -> None:
    held(offline.set("gpu03", llm_gpus=[V100]), contents=contents, compute_capabilities=1).check()


def test_a_missing_bundle_is_told_once(inventory: Inventory) -> None:
    assert inventory.set(llm_offline=True).codes() == ["bundle_dir_missing"]
    assert inventory.set(llm_bundle_dir="/nowhere").codes() == ["bundle_missing"]


@pytest.mark.parametrize("manifest", [{"schema": 1}, {"schema": 1, "files": None}, {"schema": 1, "files": [1, {}]}])
def test_an_empty_manifest_does_not_break_the_check(offline: Inventory, manifest: dict[str, Any]) -> None:
    offline.more = {"bundles": {"/srv/bundle": {"manifest": manifest}}}
    assert offline.codes() == ["bundle_without_model", "bundle_without_version"]


# Parts


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("0.32.0", "0.32.0", True),
        ("0.32.0", "0.32.0+cpu", True),
        ("0.32.0+cpu", "0.32.0+cpu", True),
        ("0.32.0+cpu", "0.32.0", False),
        ("0.8.5", "0.8.5.post1", False),
    ],
)
def test_releases(wanted: str, found: str, same: bool) -> None:
    assert same_release(wanted, found) is same


def test_truth() -> None:
    assert [is_true(value) for value in (True, "yes", "True", 1, "1")] == [True] * 5
    assert [is_true(value) for value in (False, "no", "", None, 0, 2, [1])] == [False] * 7


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_a_suggested_network_is_a_network(address: object, length: int) -> None:
    fault, suggestion = cidr_fault(f"{address}/{length}")
    assert not fault or cidr_fault(suggestion) == (False, "")


@given(st.sampled_from(sorted(KNOWN)), st.data())
def test_one_wrong_letter_still_finds_the_name(name: str, data: st.DataObject) -> None:
    start = name.index("_") + 1
    position = data.draw(st.integers(start, len(name) - 1))
    letter = data.draw(st.sampled_from(string.ascii_lowercase))
    wrong = data.draw(
        st.sampled_from([name[:position] + name[position + 1 :], name[:position] + letter + name[position:]])
    )
    if wrong not in KNOWN:
        assert nearest_variable(wrong, KNOWN) == name


@given(st.text(max_size=40))
def test_any_name_is_answered(name: str) -> None:
    assert nearest_variable(name, KNOWN) in {"", *KNOWN}
    assert looks_like(name, KNOWN) in {"", *KNOWN}


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(KNOWN)), JUNK, max_size=6))
def test_no_value_breaks_the_check(variables: dict[str, Any]) -> None:
    broken = Inventory().set("gpu01", **variables)
    broken.more = {"bundles": {"/srv/bundle": {"manifest": MANIFEST}}}
    assert all(all(entry.values()) for entry in broken.problems())


@given(JUNK)
def test_no_manifest_breaks_the_check(content: Any) -> None:
    broken = Inventory().set(llm_offline=True, llm_bundle_dir="/srv/bundle")
    broken.more = {"bundles": {"/srv/bundle": {"manifest": {"schema": 1, "files": content}}}}
    assert broken.problems()
