"""What a host remembers of its network, whatever it says."""

from __future__ import annotations

from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import is_address
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.memory import memory_of
from hypothesis import given
from hypothesis import strategies as st

from tests.support.junk import JUNK, places, replaced

RIGHT = {
    "network": "10.0.0.0/24",
    "members": {"gpu01": ["10.0.0.1", "fd00::1"], "gpu02": ["10.0.0.2"]},
    "open_ports": [40000, 40001],
    "absent": {"turn": 1},
}


def test_what_a_run_wrote_is_remembered() -> None:
    assert memory_of({"llm_network_state": RIGHT}) == RIGHT
    assert memory_of({}) == {}


def test_no_address_of_everybody_and_no_line_gets_into_the_firewalls_of_others() -> None:
    said = {"gpu02": ["0.0.0.0/0", "10.0.0.2; flush ruleset", "10.0.0.2\n", 167772162, "10.0.0.2"], "gpu03": "10.0.0.3"}
    found = memory_of({"llm_network_state": {"members": said, "open_ports": [0, 70000, True, "22", 40000]}})
    assert found == {"members": {"gpu02": ["10.0.0.2"], "gpu03": []}, "open_ports": [40000]}


@given(st.data())
def test_nothing_else_is_understood(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(list(places(RIGHT))))
    found: dict[str, Any] = memory_of({"llm_network_state": replaced(RIGHT, place, data.draw(JUNK))})
    assert all(is_address(each) for known in found.get("members", {}).values() for each in known)
    assert all(type(port) is int for port in found.get("open_ports", ()))
