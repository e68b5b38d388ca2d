"""What the hosts of a deployment set and agree on."""

from __future__ import annotations

import pytest

from tests.support.inventories import Inventory


@pytest.mark.parametrize("name", ["vllm_model", "vllm_version"])
def test_what_a_deployment_must_have(inventory: Inventory, name: str) -> None:
    del inventory.hosts["gpu01"][name], inventory.hosts["gpu02"][name]
    entry = inventory.only()
    assert entry["code"] == "missing_variable"
    assert entry["what"] == f"{name} is not set for the deployment qwen."
    assert entry["where"] == "group_vars/qwen.yml"


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


def test_the_containers_of_a_deployment_have_one_user(inventory: Inventory) -> None:
    """Ray's node and vLLM share folders and memory."""
    inventory.set("gpu02", llm_container_uid=2000)
    assert (inventory.only()["code"], inventory.only()["value"]) == ("settings_differ", "gpu01: (not set); gpu02: 2000")


def test_deployments_may_have_the_same_port(inventory: Inventory) -> None:
    assert inventory.set(vllm_port=8000).problems() == []


def test_an_engine_that_there_is_not_is_refused_with_those_that_there_are(inventory: Inventory) -> None:
    inventory.set("gpu01", "gpu02", llm_engine="novel")
    found = [entry for entry in inventory.problems() if entry["code"] == "unknown_engine"]
    assert [(entry["value"], entry["where"]) for entry in found] == [('"novel"', "group_vars/qwen.yml")]
    assert found[0]["allowed"].startswith("one of vllm")
    assert "missing_variable" not in inventory.codes(), "which variables it has is not known"


def test_the_hosts_of_a_deployment_have_one_engine(inventory: Inventory) -> None:
    assert inventory.set(llm_engine="vllm").codes() == []
    inventory.set("gpu02", llm_engine="novel")
    assert {"unknown_engine", "settings_differ"} <= set(inventory.codes())
