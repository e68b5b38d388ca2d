"""Addresses of Loki and Elasticsearch that are none, by the inventory alone."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory

from tests.support.inventories import Inventory

URL = "https://logs.example:3100"


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        (URL, False),
        ("http://[2001:db8::9]:9200", False),
        ("", True),
        ("logs.example:3100", True),
        ("https://llm:secret-of-the-site@logs.example", True),
    ],
)
def test_an_address_that_is_none_is_refused_with_the_inventory(inventory: Inventory, url: str, refused: bool) -> None:
    inventory.set("gpu01", monitoring_logs_kind="loki", monitoring_logs_url=url)
    known = {name: spec for name, spec in known_variables().items() if name.startswith("monitoring_")}
    found = [
        entry
        for entry in check_inventory(inventory.hosts, inventory.groups, known)["problems"]
        if entry["code"] == "logs_url"
    ]
    assert len(found) == refused
    assert "secret-of-the-site" not in str(found)
