"""The GPUs that are declared, and how many a deployment wants."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.inventories import V100, Inventory


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
