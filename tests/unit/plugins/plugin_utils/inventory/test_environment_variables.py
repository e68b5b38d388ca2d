"""Environment variables of the inventory: what they are called, what they hold, and what they may not say."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.environment_variables import owned, per_host
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import Unresolved

from tests.support.inventories import Inventory


def test_names_and_values_of_all_sorts_are_taken(inventory: Inventory) -> None:
    said = {"HF_HUB_OFFLINE": 1, "_x": "", "VLLM_USE_V1": True, "lower": 0.5, "QUOTES": "a 'b' \"c\" %n $HOME \\"}
    assert inventory.set(vllm_environment=said, ray_environment=said).problems() == []


@pytest.mark.parametrize("name", ["", "A=B", "A B", "1A", "A-B", "A.B", "变量", "A\x00B", "A\nB", "A$B", " A"])
def test_a_name_that_no_program_reads_is_refused(inventory: Inventory, name: str) -> None:
    found = inventory.set(ray_environment={name: "x"}).problems()
    assert "environment_name" in [entry["code"] for entry in found]


def test_a_value_is_a_text_and_is_not_shown(inventory: Inventory) -> None:
    for value in (None, [], ["s3cret"], {}, {"a": "s3cret"}):
        found = inventory.set("gpu03", ray_environment={"MINE": value, "OTHER": "x"}).only()
        assert (found["code"], found["value"]) == ("environment_value", '"MINE"')
    assert inventory.set("gpu03", ray_environment={"MINE": "a\x00b"}).codes() == ["text_of_one_line"]


def test_what_the_collection_sets_is_not_set_twice(inventory: Inventory) -> None:
    for variable, names in owned().items():
        for name, instead in names.items():
            found = Inventory().set("gpu03", **{variable: {name.replace("*", "EMAIL_HEADER"): "x"}})
            entry = found.only()
            assert entry["code"] == "environment_owned", name
            assert instead in entry["allowed"]
    assert inventory.set("gpu03", vllm_environment={"RAY_AUTH_MODE": "disabled"}).codes() == ["environment_owned"]


def test_what_says_something_about_one_host_is_not_said_for_several() -> None:
    for name, instead in per_host().items():
        found = Inventory().set(vllm_environment={name: "eth1"}).only()
        assert found["code"] == "environment_per_host"
        assert "gpu01, gpu02" in found["what"]
        assert instead in found["allowed"]
    alone = Inventory().set("gpu03", vllm_environment={"VLLM_HOST_IP": "10.0.0.3"})
    assert alone.codes() == []
    own: list[tuple[str, Any]] = [("gpu01", "10.0.0.1"), ("gpu02", "10.0.0.2"), ("gpu03", "10.0.0.3")]
    for host, address in own:
        alone.set(host, vllm_environment={"VLLM_HOST_IP": address})
    assert alone.codes() == []


def test_what_is_not_known_yet_is_not_judged(inventory: Inventory) -> None:
    assert inventory.set(vllm_environment=Unresolved("later")).codes() == []
