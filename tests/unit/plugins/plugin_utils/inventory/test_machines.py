"""Two deployments on one machine: what they cannot both have is refused, all of it at once, before a host is touched."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.inventories import V100, Inventory

# Ports of Ray and of the all-reduce, of which the second deployment needs others.
MOVED = {"vllm_port": 8001, "vllm_collective_port": 29602}


@pytest.fixture
def shared(inventory: Inventory) -> Inventory:
    """gpu03 is another name for gpu01, and its deployment has GPUs and ports of its own."""
    inventory.set("gpu01", "gpu03", ansible_host="10.0.0.1").set("gpu02", ansible_host="10.0.0.2")
    return inventory.set("gpu01", llm_gpu_indices=[0, 1]).set("gpu03", llm_gpu_indices=["2"], **MOVED)


def test_two_deployments_can_share_a_machine(shared: Inventory) -> None:
    found = shared.check()
    assert found["problems"] == []
    names = found["names"]
    assert {host: each["vllm"] for host, each in names.items()} == {
        "gpu01": "llm-vllm-qwen",
        "gpu02": "llm-vllm",
        "gpu03": "llm-vllm-tiny",
    }
    assert names["gpu01"]["sharing"] == names["gpu03"]["sharing"] == ["gpu01", "gpu03"]
    assert names["gpu01"]["models"] == ["Qwen/Qwen2.5-14B-Instruct", "lab/tiny-qwen2"]
    assert names["gpu02"]["models"] == []


def test_all_clashes_are_told_at_once(shared: Inventory) -> None:
    shared.set("gpu03", llm_gpu_indices=[1], vllm_port=8000, docker_version="28.5.1")
    problems = {entry["code"]: entry for entry in shared.problems()}
    assert list(problems) == ["gpu_claimed_twice", "machine_settings_differ", "ports_of_two_deployments"]
    assert (
        "gpu01, gpu03 are one machine, and each of their deployments would take the whole of GPU 1."
        in (problems["gpu_claimed_twice"]["what"])
    )
    assert problems["gpu_claimed_twice"]["value"] == 'gpu01: llm_gpu_indices: ["0", "1"]; gpu03: llm_gpu_indices: ["1"]'
    assert problems["ports_of_two_deployments"]["value"] == "vllm_port: 8000"
    assert problems["ports_of_two_deployments"]["where"] == "group_vars/qwen.yml, group_vars/tiny.yml"
    assert "docker_version" in problems["machine_settings_differ"]["what"]


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ({}, {"llm_gpu_indices": [2]}, "gpu_claimed_twice"),
        ({}, {"llm_gpu_count": 1}, "gpu_claimed_twice"),
        ({}, {}, "gpu_claimed_twice"),
        ({"llm_gpu_count": 2}, {"llm_gpu_count": 2}, ""),
        ({"llm_gpu_count": 2}, {"llm_gpu_indices": [0]}, ""),
        ({"vllm_gpu_memory_utilization": 0.5}, {}, "gpu_claimed_twice"),
        ({"vllm_gpu_memory_utilization": 0.5}, {"vllm_gpu_memory_utilization": 0.6}, "gpu_shares_too_large"),
        ({"vllm_gpu_memory_utilization": 0.3}, {"vllm_gpu_memory_utilization": 0.7}, ""),
    ],
)
def test_who_has_which_gpus(inventory: Inventory, first: Any, second: Any, code: str) -> None:
    inventory.set("gpu01", "gpu03", ansible_host="10.0.0.1").set("gpu03", **MOVED)
    inventory.set("gpu01", **first).set("gpu03", **second)
    assert inventory.codes() == ([code] if code else [])


@pytest.mark.parametrize(
    ("first", "second", "code", "said"),
    [
        ({"llm_gpu_indices": [4]}, {"llm_gpu_indices": [0]}, "gpu_not_there", "it has 4."),
        ({"llm_gpu_indices": [0, 1]}, {"llm_gpu_count": 3}, "gpu_count_too_large", "leave 2."),
    ],
)
def test_what_a_declared_machine_does_not_have(
    inventory: Inventory, first: Any, second: Any, code: str, said: str
) -> None:
    inventory.set("gpu01", "gpu03", ansible_host="10.0.0.1", llm_gpus=[V100] * 4).set("gpu03", **MOVED)
    entry = inventory.set("gpu01", **first).set("gpu03", **second).only()
    assert entry["code"] == code
    assert said in entry["what"]


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"llm_gpu_indices": []}, "gpu_indices_malformed"),
        ({"llm_gpu_indices": [1, "1"]}, "gpu_indices_malformed"),
        ({"llm_gpu_indices": ["first"]}, "gpu_index_malformed"),
        ({"llm_gpu_indices": [0], "llm_gpu_count": 1}, "gpus_said_twice"),
        ({"llm_gpu_count": 0}, "out_of_range"),
    ],
)
def test_malformed_wishes(inventory: Inventory, variables: dict[str, Any], code: str) -> None:
    assert inventory.set("gpu03", **variables).only()["code"] == code


def test_one_gpu_needs_no_port_for_an_all_reduce(shared: Inventory) -> None:
    shared.set("gpu03", vllm_collective_port=29502)
    assert shared.codes() == []
    shared.set("gpu03", llm_gpu_indices=[2, 3])
    assert shared.only()["value"] == "vllm_collective_port: 29502"


def test_fewer_gpus_than_the_declared_ones_are_counted(inventory: Inventory) -> None:
    inventory.set("gpu03", llm_gpus=[V100] * 4, llm_gpu_count=2, vllm_tensor_parallel_size=4)
    entry = inventory.only()
    assert entry["code"] == "too_few_gpus"
    assert "gpu03: 2" in entry["allowed"]
