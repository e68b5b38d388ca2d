"""Receivers that cannot get alerts, by the inventory alone."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import Unresolved
from hypothesis import given

from tests.support.inventories import JUNK, Inventory

GOOD = [
    {"name": "ops", "kind": "webhook", "url": "http://192.0.2.40:8080/hook"},
    {"name": "duty", "kind": "wecom", "url": "https://robot.example/send?key=secret"},
    {"name": "inner", "kind": "feishu", "url": "http://llm:secret@[2001:db8::1]:8080/x"},
    {"name": "mail", "kind": "email", "to": "a@example", "from": "b@example", "smarthost": "mail.example:587"},
]
KNOWN = {name: spec for name, spec in known_variables().items() if name == "monitoring_receivers"}


def watched(inventory: Inventory, receivers: Any) -> Inventory:
    inventory.groups["llm_monitoring"] = {"hosts": ["gpu01"], "children": []}
    return inventory.set("gpu01", monitoring_receivers=receivers)


def problems(inventory: Inventory) -> list[dict[str, str]]:
    """With the variables of the roles themselves."""
    found = check_inventory(inventory.hosts, inventory.groups, KNOWN)["problems"]
    return [entry for entry in found if "receiver" in entry["code"] or "monitoring" in str(entry)]


def test_every_kind_of_receiver_can_be_told(inventory: Inventory) -> None:
    assert problems(watched(inventory, GOOD)) == []


@pytest.mark.parametrize(
    ("receiver", "code", "part"),
    [
        ({"name": "x", "kind": "webhok", "url": "http://a/"}, "not_a_choice_near", "webhook"),
        ({"name": "x", "kind": "pager", "url": "http://a/"}, "not_a_choice", "feishu"),
        ({"kind": "webhook", "url": "http://a/"}, "missing_key", "name"),
        ({"name": "ops", "kind": "feishu", "url": "http://a/"}, "receiver_twice", "name of its own"),
        ({"name": "../x", "kind": "webhook", "url": "http://a/"}, "receiver_name", "letters"),
        ({"name": "x", "kind": "dingtalk"}, "receiver_incomplete", "url"),
        ({"name": "x", "kind": "email", "to": "a@example"}, "receiver_incomplete", "from, smarthost"),
        ({"name": "x", "kind": "webhook", "url": "robot.example/secret"}, "receiver_address", "https://HOST"),
        ({"name": "x", "kind": "webhook", "url": "http://robot.example:http/"}, "receiver_address", "port"),
    ],
)
def test_one_that_cannot_be_told_is_refused(
    inventory: Inventory, receiver: dict[str, str], code: str, part: str
) -> None:
    found = {entry["code"]: entry for entry in problems(watched(inventory, [*GOOD, receiver]))}
    assert code in found
    assert part in str(found[code])
    assert "secret" not in str(found), "an address may be one"


def test_what_is_not_known_yet_is_not_judged(inventory: Inventory) -> None:
    assert problems(watched(inventory, Unresolved())) == []
    assert problems(watched(inventory, [{"name": "x", "kind": "webhook", "url": "{{ vault_robot }}"}])) == []


@given(junk=JUNK)
def test_no_junk_ends_the_check(junk: Any) -> None:
    for receivers in (junk, [junk], [{"name": junk, "kind": junk, "url": junk}]):
        problems(watched(Inventory(), receivers))
