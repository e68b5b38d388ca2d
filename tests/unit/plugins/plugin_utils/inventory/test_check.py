"""What an inventory alone can tell: every kind of bad input is refused, and nothing that is good."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.inventories import JUNK, KNOWN, MANIFEST, Inventory


def test_a_good_inventory_gives_its_deployments(inventory: Inventory) -> None:
    found = inventory.set("gpu01", "gpu02", ray_head_host="gpu02").check()
    assert list(found.pop("names")) == ["gpu01", "gpu02", "gpu03"]
    assert found == {
        "problems": [],
        "deployments": {
            "qwen": {"hosts": ["gpu01", "gpu02"], "head": "gpu02"},
            "tiny": {"hosts": ["gpu03"], "head": "gpu03"},
        },
        "hosts": ["gpu01", "gpu02", "gpu03"],
    }


def test_everything_at_once_and_in_the_same_order(inventory: Inventory) -> None:
    inventory.set("gpu01", vllm_modle="x", vllm_port="many").set("gpu02", ansible_host="gpu01").set(
        "gpu03", vllm_executor="rai", llm_cluster_network="10.0.0.0"
    )
    codes = inventory.codes()
    assert codes == [
        "duplicate_address",
        "settings_differ",
        "not_a_choice_near",
        "unknown_variable",
        "wrong_type",
        "network_malformed",
    ]
    inventory.hosts = {host: dict(reversed(list(items.items()))) for host, items in inventory.hosts.items()}
    assert inventory.codes() == codes


@given(st.dictionaries(st.sampled_from(sorted(KNOWN)), JUNK, max_size=6))
def test_no_value_breaks_the_check(variables: dict[str, Any]) -> None:
    broken = Inventory().set("gpu01", **variables)
    broken.more = {"bundles": {"/srv/bundle": {"manifest": MANIFEST}}}
    assert all(all(entry.values()) for entry in broken.problems())
