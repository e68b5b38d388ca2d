"""Places that models shall come from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.inventories import Inventory


@pytest.mark.parametrize(
    "source",
    [
        "",
        "host:/data/model",
        "controller:/data/model",
        "rsync://store.example/models/a",
        "rclone:s3:models/a",
        {"org/a": "host:/data/a", "org/b": "rclone:s3:b"},
    ],
)
def test_a_place_that_models_come_from(source: Any, inventory: Inventory) -> None:
    inventory.groups["llm_deployments"] = {"hosts": ["gpu03"], "children": ["tiny"]}
    assert inventory.set("gpu03", models_source=source).codes() == []


@pytest.mark.parametrize(
    "source", ["/data/model", "host:data", "s3://bucket/a", "rsync://store", 7, {"org/a": "nfs:/a"}]
)
def test_what_is_none(source: Any, inventory: Inventory) -> None:
    inventory.groups["llm_deployments"] = {"hosts": ["gpu03"], "children": ["tiny"]}
    assert inventory.set("gpu03", models_source=source).codes() == ["models_source_malformed"]


def test_a_bundle_has_the_model_itself(inventory: Inventory) -> None:
    inventory.groups["llm_deployments"] = {"hosts": ["gpu03"], "children": ["tiny"]}
    inventory.set("gpu03", models_source="controller:/data/model", llm_bundle_dir="/srv/bundle", llm_offline=False)
    assert inventory.codes() == ["models_source_and_bundle"]
