"""The address that gateways share: what each of them gets, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.virtual import virtual_problems, virtual_section

SHARED = "10.0.0.50"


def gate(number: int, *more: str, address: str = SHARED, **variables: Any) -> dict[str, Any]:
    nics = [
        {"name": "lo", "addresses": ["127.0.0.1/8"]},
        {"name": f"ens{number}", "addresses": [f"10.0.0.{number}/24", *more]},
        {"name": "storage", "addresses": [f"192.168.0.{number}/24"]},
    ]
    facts = {"ansible_facts": {"llm_nics_found": nics}}
    return {"gateway_virtual_address": address, "gateway_address": "*", **facts, **variables}


PAIR = {"g1": gate(1), "g2": gate(2)}


def section(host: str, variables: dict[str, Any] = PAIR) -> dict[str, Any]:
    return virtual_section(list(variables), host, variables)


def why(variables: dict[str, Any], *members: str) -> str:
    """The reason of the one problem; empty where nothing is refused."""
    hosts = [host for host in variables if host.startswith("g")]
    found = virtual_problems(hosts, members, variables)
    assert [each["code"] for each in found] in ([], ["gateway_virtual"])
    assert all("group_vars/llm_gateway.yml" in each["where"] for each in found)
    return found[0]["what"] if found else ""


def test_each_is_told_of_the_others_and_its_own_interface() -> None:
    assert section("g1") == {
        "address": SHARED,
        "interface": "ens1",
        "own": "10.0.0.1",
        "peers": ["10.0.0.2"],
    }
    assert section("g2") == {
        "address": SHARED,
        "interface": "ens2",
        "own": "10.0.0.2",
        "peers": ["10.0.0.1"],
    }


def test_who_holds_it_changes_nothing() -> None:
    holding = {"g1": gate(1, f"{SHARED}/32"), "g2": gate(2)}
    assert [section(host, holding) for host in holding] == [section(host) for host in PAIR]
    assert not why(holding)


def test_nothing_is_said_of_peers_before_all_were_looked_at() -> None:
    blank = {"gateway_virtual_address": SHARED, "gateway_address": "*"}
    for variables in ({"g1": gate(1), "g2": blank}, {"g1": blank, "g2": blank}):
        assert not why(variables)
        assert section("g1", variables) == {"address": SHARED}


def test_without_one_there_is_nothing() -> None:
    alone = {"g1": gate(1, address=""), "g2": gate(2, address="")}
    assert section("g1", alone) == {}
    assert not why(alone)


@pytest.mark.parametrize(
    ("variables", "members", "expected"),
    [
        ({"g1": gate(1), "g2": gate(2, address="10.0.0.51")}, (), "not the same for g1"),
        ({"g1": gate(1), "g2": gate(2, address="")}, (), "not the same for g1"),
        ({"g1": gate(1, address="gate.lan"), "g2": gate(2, address="gate.lan")}, (), "not an IPv4 address"),
        ({"g1": gate(1, address="fd00::5"), "g2": gate(2, address="fd00::5")}, (), "not an IPv4 address"),
        ({"g1": gate(1)}, (), "g1 is the only host"),
        ({"g1": gate(1), "g2": gate(2, gateway_address="10.0.0.2")}, (), "gateway_address lets g2 listen"),
        ({"g1": gate(1), "g2": gate(50)}, (), "g2 already has this address"),
        ({"g1": gate(1), "g2": gate(2), "h1": gate(50)}, ("h1",), "h1 already has this address"),
        ({"g1": gate(1), "g2": gate(2), "h1": {"ansible_host": SHARED}}, ("h1",), "h1 already has this address"),
        ({"g1": gate(1, address="10.1.0.5"), "g2": gate(2, address="10.1.0.5")}, (), "g1 has no address in its"),
        ({"g1": gate(1, address="10.0.0.0"), "g2": gate(2, address="10.0.0.0")}, (), "g1 has no address in its"),
        ({"g1": gate(1, address="10.0.0.255"), "g2": gate(2, address="10.0.0.255")}, (), "g1 has no address in its"),
    ],
)
def test_an_address_that_they_cannot_share(variables: dict[str, Any], members: tuple[str, ...], expected: str) -> None:
    assert expected in why(variables, *members)
