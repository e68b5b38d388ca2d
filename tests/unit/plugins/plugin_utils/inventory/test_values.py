"""What values say."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import cidr_fault, is_true
from hypothesis import given
from hypothesis import strategies as st


def test_truth() -> None:
    assert [is_true(value) for value in (True, "yes", "True", 1, "1")] == [True] * 5
    assert [is_true(value) for value in (False, "no", "", None, 0, 2, [1])] == [False] * 7


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_a_suggested_network_is_a_network(address: object, length: int) -> None:
    fault, suggestion = cidr_fault(f"{address}/{length}")
    assert not fault or cidr_fault(suggestion) == (False, "")
