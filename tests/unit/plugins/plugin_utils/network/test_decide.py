"""Which network a deployment uses, who remembers it, and what each host and each listener gets."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.decide import Network, turns

from tests.support.connectivity import cut, good
from tests.support.deployments import INFINIBAND, host

FAST, SLOW = "10.0.0.0/24", "192.168.0.0/24"
ZONES = {"default_zone": "public", "zones": "public\n  target: default\n  interfaces: eth1\n"}


def network(
    hosts: int = 2,
    members: tuple[str, ...] = (),
    found: dict[str, dict[str, Any]] | None = None,
    results: dict[str, Any] | None = None,
    **more: Any,
) -> Network:
    """Of hosts gpu1, gpu2, ...; ``found`` holds facts by host, ``results`` what the connectivity check brought."""
    variables = {f"gpu{n}": host(n, found=(found or {}).get(f"gpu{n}"), **more) for n in range(1, hosts + 1)}
    for name, result in (results or {}).items():
        variables[name]["llm_connectivity"] = result
    names = list(variables)
    variables["gate"] = {"ansible_host": "gate.example"}
    return Network(
        "tiny",
        "gpu1",
        names,
        members or names,
        "ray",
        variables,
        {"clients": ["gate"]},
        lambda name: ["203.0.113.9"] if name == "gate.example" else [],
    )


def remembers(*networks: str) -> dict[str, dict[str, Any]]:
    return {f"gpu{n}": {"llm_network_state": {"network": one} if one else {}} for n, one in enumerate(networks, 1)}


# -- which network ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("members", "states", "previous"),
    [
        (("gpu1", "gpu2"), ["", ""], ""),
        (("gpu1", "gpu2"), [SLOW, SLOW], SLOW),
        (("gpu1", "gpu2"), ["", SLOW], SLOW),  # the head was rebuilt
        (("gpu1",), ["", SLOW], SLOW),  # the other one is outside of this run
        (("gpu2",), [FAST, SLOW], SLOW),  # those of this run know better
    ],
)
def test_whoever_remembers_the_network_tells_it(members: tuple[str, ...], states: list[str], previous: str) -> None:
    assert network(members=members, found=remembers(*states)).previous == previous


def test_before_the_check_nothing_is_verified() -> None:
    assert network().connectivity is None
    assert network(results={"gpu1": good(FAST, hosts=2)["gpu1"]}).connectivity is None
    half = {name: {"port": 4, "held": {}} for name in ("gpu1", "gpu2")}  # they listen, and that is all
    assert network(results=half).connectivity is None
    found = network(found=remembers(SLOW, SLOW))
    assert found.interfaces["gpu1"]["interface"] == "eth1"
    assert (found.section("gpu1")["is_new"], found.section("gpu1")["state"]["network"]) == (False, SLOW)
    assert found.section("gpu1")["problems"] == ""


def test_the_best_network_that_works_is_used() -> None:
    found = network(results=good(FAST, SLOW, hosts=2))
    assert found.connectivity is not None
    assert found.connectivity["network"] == FAST
    assert found.interfaces["gpu2"] == {
        "network": FAST,
        "interface": "eth1",
        "address": "10.0.0.2",
        "mtu": 1500,
        "speed_mbps": 10000,
        "rdma": False,
    }
    section = found.section("gpu2")
    assert section["is_new"]
    assert section["state"]["network"] == FAST
    assert section["problems"] == ""


def test_a_network_that_works_is_kept() -> None:
    found = network(found=remembers("", SLOW), results=good(FAST, SLOW, hosts=2))
    assert found.connectivity is not None
    assert found.connectivity["network"] == SLOW
    assert found.interfaces["gpu1"]["interface"] == "eth0"
    assert [found.section(name)["is_new"] for name in ("gpu1", "gpu2")] == [True, False]


def test_a_host_alone_has_nobody_to_reach() -> None:
    found = network(1)
    assert found.connectivity is not None
    assert (found.connectivity["network"], found.section("gpu1")["problems"]) == (FAST, "")


def test_hosts_outside_of_the_run_have_their_part_of_the_network() -> None:
    found = network(3, members=("gpu1", "gpu2"), results=good(FAST, SLOW, hosts=2))
    assert found.interfaces["gpu3"]["address"] == "10.0.0.3"
    assert list(found.sections()) == ["gpu1", "gpu2"]
    assert "10.0.0.2/31" in found.section("gpu1")["rules"]["members"]["v4"]  # gpu2 and gpu3


def test_a_host_that_did_not_answer_is_not_part_of_it() -> None:
    found = network(3, members=("gpu1", "gpu2"), results=good(FAST, SLOW, hosts=2))
    del found.variables["gpu3"]["llm_interface"]
    assert found.known == ["gpu1", "gpu2"]
    assert list(found.interfaces) == ["gpu1", "gpu2"]


def test_the_inventory_may_name_network_and_interface() -> None:
    assert [entry["network"] for entry in network().candidates] == [FAST, SLOW]
    assert [entry["network"] for entry in network(llm_cluster_network=SLOW).candidates] == [SLOW]
    (found,) = network(llm_cluster_interface="eth0").candidates
    assert found["interfaces"]["gpu2"]["interface"] == "eth0"


def apart() -> dict[str, Any]:
    """What is found where no network carries anything."""
    results = good(FAST, SLOW, hosts=2)
    for one in (FAST, SLOW):
        cut(results, one, "gpu1", "gpu2")
        cut(results, one, "gpu2", "gpu1")
    return results


@pytest.mark.parametrize(("lang", "text"), [("en", "Nothing has been started"), ("zh", "未启动")])
def test_hosts_that_do_not_reach_each_other(lang: str, text: str) -> None:
    found = dataclasses.replace(network(results=apart()), lang=lang)
    first, second = (found.section(name)["problems"] for name in ("gpu1", "gpu2"))
    assert text in first
    assert "gpu1 - gpu2" in first
    # The first host says it for all, and the others name that host.
    assert "gpu1 - gpu2" not in second
    assert "gpu1" in second


def test_a_check_that_leaves_firewalls_as_they_are_blames_no_network() -> None:
    """They would be opened before the hosts reach each other."""
    found = network(results=apart())
    found.variables["gpu2"]["llm_firewall_unchanged"] = True
    assert found.section("gpu1")["problems"] == ""


def test_the_ports_of_rdma_are_the_links() -> None:
    rdma = {name: {"llm_rdma_found": [INFINIBAND]} for name in ("gpu1", "gpu2")}
    found = network(found=rdma, results=good(FAST, SLOW, hosts=2))
    assert found.interfaces["gpu1"]["speed_mbps"] == 100000


# -- firewalls --------------------------------------------------------------------------------------------------------
UFW = {"rule": "allow", "from": "10.9.9.9", "ports": "8000"}
RICH = {"zone": "public", "rule": "rule family=ipv4 accept"}
FIREWALLS: dict[str, Any] = {
    "nftables": {"firewalld": {"running": False}, "ufw": {"enabled": False}},
    "ufw": {"firewalld": {"running": False}, "ufw": {"enabled": True}},
    "firewalld": {"firewalld": {"running": True, **ZONES}, "ufw": {"enabled": True}},
}


@pytest.mark.parametrize("backend", FIREWALLS)
def test_the_firewall_of_the_host_is_used(backend: str) -> None:
    section = network(found={"gpu1": {"llm_firewall": FIREWALLS[backend]}}).section("gpu1")
    assert section["backend"] == backend
    assert section["table"] is (backend == "nftables")
    assert section["ufw"]["runs"] is FIREWALLS[backend]["ufw"]["enabled"]
    assert section["firewalld"]["runs"] is (backend == "firewalld")
    for program in ("ufw", "firewalld"):
        assert bool(section[program]["add"]) is section[program]["runs"]
        assert section["state"][program] == section[program]["add"]
    if backend == "firewalld":
        assert {rule["zone"] for rule in section["firewalld"]["add"]} == {"public"}


@pytest.mark.parametrize(("policy", "notes"), [("ACCEPT", 1), ("DROP", 0), ("", 0)])
def test_a_firewall_that_is_open_by_default_is_told(policy: str, notes: int) -> None:
    for enabled in (True, False):
        firewall = {**FIREWALLS["ufw"], "ufw": {"enabled": enabled, "default_input": policy}}
        found = network(found={"gpu1": {"llm_firewall": firewall}}).section("gpu1")["rules"]["notes"]
        assert len(found) == (notes if enabled else 0)
        assert all(policy in note for note in found)


def test_nothing_is_asked_of_a_host_that_was_not_looked_at() -> None:
    found = network()
    found.variables["gpu1"]["ansible_facts"].pop("llm_firewall")
    found.variables["gpu1"]["ansible_facts"].pop("llm_network_state")
    assert found.section("gpu1")["backend"] == "nftables"


def test_a_firewall_that_is_not_in_use_keeps_what_it_has() -> None:
    state = {"network": FAST, "ufw": [UFW], "firewalld": [RICH]}
    section = network(found={"gpu1": {"llm_network_state": state}}).section("gpu1")
    for program, kept in (("ufw", UFW), ("firewalld", RICH)):
        assert section[program] == {"runs": False, "remove": [], "add": [kept]}
        assert section["state"][program] == [kept]


def test_rules_that_are_not_wanted_any_more_are_taken_back() -> None:
    facts = {"llm_firewall": FIREWALLS["firewalld"], "llm_network_state": {"ufw": [UFW], "firewalld": [RICH]}}
    section = network(found={"gpu1": facts}, llm_firewall_enabled="no").section("gpu1")
    assert section["enabled"] is False
    assert section["table"] is False
    assert (section["ufw"]["add"], section["ufw"]["remove"]) == ([], [UFW])
    assert (section["firewalld"]["add"], section["firewalld"]["remove"]) == ([], [RICH])


def test_clients_of_the_gateway_are_let_in() -> None:
    rules = network().section("gpu1")["rules"]
    assert "203.0.113.9" in rules["clients"]["v4"]
    assert rules["clients"]["ports"] == ["8000"]
    assert "203.0.113.9" not in rules["members"]["v4"]


def test_a_first_run_that_lacks_a_member_protects_the_others() -> None:
    found = network(3, members=("gpu1", "gpu2"))
    found.variables["gpu3"].update(ansible_facts={}, llm_interface=None)
    section = found.section("gpu1")
    assert section["rules"]["unknown"] == ["gpu3"]
    assert (section["table"], section["rules"]["members"]["v4"][0]) == (True, "10.0.0.1")
    assert section["rules"]["dynamic"]
    assert section["state"]["members"]["gpu3"] == []


@pytest.mark.parametrize("backend", FIREWALLS)
@pytest.mark.parametrize("forgetful", ["", "gpu1"])
def test_a_member_that_died_changes_no_rules(backend: str, forgetful: str) -> None:
    """Whether this host or only another one remembers it, as after this one was rebuilt."""
    facts = {f"gpu{n}": {"llm_firewall": FIREWALLS[backend]} for n in (1, 2, 3)}
    states = {name: section["state"] for name, section in network(3, found=facts).sections().items()}
    now = {name: {**facts[name], "llm_network_state": {} if name == forgetful else states[name]} for name in facts}
    found = network(3, members=("gpu1", "gpu2"), found=now)
    found.variables["gpu3"].update(ansible_facts={}, llm_interface=None)
    assert found.section("gpu1")["state"] == states["gpu1"]
    assert found.section("gpu1")["rules"]["unknown"] == []
    again = [command for program in ("ufw", "firewalld") for command in found.section("gpu2")[program]["remove"]]
    assert again == []


@pytest.mark.parametrize("wanted", [True, False])
def test_the_ports_that_the_kernel_chooses(wanted: bool) -> None:
    found = network(
        found={"gpu1": {"llm_foreign_ports": [111, 49152], "llm_network_state": {"open_ports": [40000]}}},
        results=good(FAST, SLOW, hosts=2),
        llm_firewall_dynamic_ports_enabled=wanted,
    ).section("gpu1")
    if wanted:
        assert found["rules"]["dynamic"]["open"] == [40000, 49152]
        assert found["state"]["open_ports"] == found["rules"]["dynamic"]["open"]
    else:
        assert found["rules"]["dynamic"] is None
        assert found["state"]["open_ports"] == [40000]


# -- the connectivity check -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("hosts", "forks", "seconds"), [(2, 5, 600), (5, 5, 600), (6, 5, 900), (64, 5, 4200), (64, 1, 19500), (1, 0, 600)]
)
def test_listeners_wait_for_the_last_host(hosts: int, forks: int, seconds: int) -> None:
    """Ansible takes as many hosts at once as it has forks."""
    found = dataclasses.replace(network(), turns=turns(hosts, forks))
    assert found.check("gpu1", "token")["lifetime_seconds"] == seconds


def test_what_a_listener_is_told() -> None:
    found = network(3, members=("gpu1", "gpu2"), vllm_port=8001)
    head, worker = (section["check"] for section in found.sections().values())
    assert head["token"] == worker["token"]
    assert head["token"] != network().sections()["gpu1"]["check"]["token"]
    assert head["members"] == ["gpu1", "gpu2"]
    assert head["addresses"] == {FAST: "10.0.0.1", SLOW: "192.168.0.1"}
    assert [entry["network"] for entry in head["candidates"]] == [FAST, SLOW]
    ports = {port["variable"]: (port["first"], port["last"]) for port in head["ports"]}
    assert ports["vllm_port"] == (8001, 8001)
    assert ports["ray_min_worker_port"] == (10002, 10999)
    # A worker answers on no port of the head, and nobody from outside connects to a dashboard of the host itself.
    assert set(ports) - {port["variable"] for port in worker["ports"]} >= {"ray_port", "vllm_port"}
    assert "ray_dashboard_port" not in ports


def test_sections_are_plain_data() -> None:
    sections = network(results=good(FAST, SLOW, hosts=2)).sections()
    assert json.loads(json.dumps(sections)) == sections
