"""Journals that would be sent to nobody, by the inventory alone."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory

from tests.support.inventories import Inventory

CENTRAL = "monitoring_journal_central_enabled"


def problems(inventory: Inventory, lang: str = "en") -> list[dict[str, str]]:
    said = {name: spec for name, spec in known_variables().items() if name.startswith("monitoring_")}
    found = check_inventory(inventory.hosts, inventory.groups, said, lang=lang)["problems"]
    return [entry for entry in found if entry["code"].startswith("journal_")]


def sending(inventory: Inventory, watching: str = "gpu01", **more: Any) -> Inventory:
    for host in ("gpu01", "gpu02"):
        inventory.set(host, **{CENTRAL: True})
    inventory.groups["llm_monitoring"] = {"hosts": [watching] if watching else [], "children": []}
    return inventory.set("gpu01", **more) if more else inventory


def test_journals_that_have_somewhere_to_go_are_accepted(inventory: Inventory) -> None:
    assert problems(inventory) == []
    assert problems(sending(inventory)) == []


def test_without_a_host_that_watches_nobody_collects(inventory: Inventory) -> None:
    (problem,) = problems(sending(inventory, watching=""))
    assert (problem["code"], problem["value"]) == ("journal_nowhere", "gpu01, gpu02")


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ({CENTRAL: False}, f"{CENTRAL}: false"),
        ({CENTRAL: "no"}, f"{CENTRAL}: no"),
        ({"monitoring_mode": "rules_only"}, "monitoring_mode: rules_only"),
        ({"monitoring_exporter_enabled": False}, "monitoring_exporter_enabled: false"),
    ],
    ids=str,
)
def test_the_host_that_collects_has_to_be_set_up_for_it(inventory: Inventory, said: Any, value: str) -> None:
    (problem,) = problems(sending(inventory, **said))
    assert (problem["code"], problem["value"]) == ("journal_server", value)
    assert "gpu01" in str(problem)


def test_a_host_on_which_nothing_is_installed_cannot_send(inventory: Inventory) -> None:
    sending(inventory).set("gpu02", monitoring_exporter_enabled=False)
    (problem,) = problems(inventory)
    assert (problem["code"], problem["value"]) == ("journal_no_exporter", "gpu02")
    assert problems(inventory, "zh") != [problem]
