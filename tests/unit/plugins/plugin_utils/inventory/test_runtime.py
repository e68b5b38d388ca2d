"""Deployments from a Python environment of their host: what is refused before a host is touched."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.inventories import Inventory

VENV = {"vllm_runtime": "venv", "vllm_python": "/opt/vllm/bin/python3"}


def test_a_deployment_of_one_host_can_be_served_so(inventory: Inventory) -> None:
    found = inventory.set("gpu03", **VENV).check()
    assert found["problems"] == []
    assert {host: each["engine"] for host, each in found["names"].items()} == {
        "gpu01": True,
        "gpu02": True,
        "gpu03": False,
    }


@pytest.mark.parametrize(
    ("variables", "code", "value"),
    [
        ({"vllm_python": None}, "venv_without_python", "vllm_python: "),
        (
            {"vllm_base_python": "/root/python/bin/python3"},
            "venv_path_hidden",
            "vllm_base_python: /root/python/bin/python3",
        ),
        ({"vllm_python": "/home/me/bin/python3"}, "venv_path_hidden", "vllm_python: /home/me/bin/python3"),
        ({"vllm_tokenizer": "/root/tokenizer"}, "venv_path_hidden", "vllm_tokenizer: /root/tokenizer"),
        ({"vllm_image": "lab/vllm:1"}, "venv_container_setting", "vllm_image: lab/vllm:1"),
        ({"llm_container_uid": 0}, "venv_container_setting", "llm_container_uid: 0"),
        ({"vllm_runtime": "container"}, "venv_setting_unused", "vllm_python: /opt/vllm/bin/python3"),
    ],
)
def test_what_it_cannot_have(inventory: Inventory, variables: dict[str, Any], code: str, value: str) -> None:
    problem = inventory.set("gpu03", **{**VENV, **variables}).only()
    assert problem["code"] == code
    assert problem["value"].replace('"', "").startswith(value)


def test_all_is_told_at_once(inventory: Inventory) -> None:
    inventory.set("gpu03", vllm_runtime="venv", vllm_image="lab/vllm:1", vllm_extra_volumes=["/data:/data"])
    assert inventory.codes() == ["venv_without_python", "venv_container_setting", "venv_container_setting"]


def test_several_hosts_can_be_served_so(inventory: Inventory) -> None:
    assert inventory.set("gpu01", "gpu02", **VENV, vllm_executor="ray").check()["problems"] == []


def test_hosts_of_one_deployment_are_served_in_the_same_way(inventory: Inventory) -> None:
    problem = inventory.set("gpu01", **VENV).only()
    assert (problem["code"], problem["value"].replace('"', "")) == ("settings_differ", "gpu01: venv; gpu02: container")


def test_what_is_wrong_on_several_hosts_is_told_once(inventory: Inventory) -> None:
    problem = inventory.set("gpu01", "gpu02", vllm_runtime="venv").only()
    assert problem["code"] == "venv_without_python"
    assert "gpu01, gpu02" in problem["what"]


def test_a_machine_of_several_deployments_is_not_supported(inventory: Inventory) -> None:
    inventory.set("gpu01", "gpu03", ansible_host="10.0.0.1").set("gpu02", ansible_host="10.0.0.2")
    inventory.set("gpu01", llm_gpu_indices=[0]).set(
        "gpu03", llm_gpu_indices=["1"], vllm_port=8001, vllm_collective_port=29602, **VENV
    )
    assert "venv_shared_machine" in inventory.codes()
