"""Groups of deployments, machines and served names."""

from __future__ import annotations

from tests.support.inventories import Inventory


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


def test_two_names_for_one_machine_in_one_deployment(inventory: Inventory) -> None:
    inventory.set("gpu01", "gpu02", ansible_host="10.0.0.1")
    entry = inventory.only()
    assert entry["code"] == "duplicate_address"
    assert "gpu01, gpu02" in entry["what"]
    assert entry["value"] == "10.0.0.1"


def test_one_address_with_two_ports_is_two_machines(inventory: Inventory) -> None:
    inventory.set(ansible_host="127.0.0.1")
    for port, host in enumerate(inventory.hosts, start=2201):
        inventory.set(host, ansible_port=port)
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
