"""Who may connect where: members everywhere, clients to the API, nobody else; SSH is never among what is closed."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.network import firewall
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.firewall import (
    firewall_commands,
    firewalld_rules,
    firewalld_zones,
    ufw_rules,
)
from hypothesis import given
from hypothesis import strategies as st


def host(number: int, **more: Any) -> dict[str, Any]:
    nics = [
        {"name": "lo", "addresses": ["127.0.0.1/8"], "kind": "loopback"},
        {"name": "eth0", "addresses": [f"192.168.0.{number}/24"]},
        {"name": "eth1", "addresses": [f"10.0.0.{number}/24", f"fd00::{number}/64"]},
    ]
    facts = {
        "llm_nics_found": nics,
        "llm_dynamic_ports": {"first": 32768, "last": 60999},
        "llm_ssh_ports": [22],
        "llm_foreign_ports": [111, 49152],
    }
    return {"ansible_facts": facts, "llm_interface": {"interface": "eth1", "address": f"10.0.0.{number}"}, **more}


HOSTS = {"gpu01": host(1), "gpu02": host(2), "gate": host(9), "watch": {"ansible_host": "172.16.0.5"}}
OTHERS = {"clients": ["gate"], "collectors": ["watch"]}
CANDIDATES = [
    {"network": f"{net}.0/24", "interfaces": {f"gpu0{n}": {"interface": nic, "address": f"{net}.{n}"} for n in (1, 2)}}
    for net, nic in (("10.0.0", "eth1"), ("192.168.0", "eth0"))
]


def firewall_rules(
    host: str, members: list[str], others: Any, hostvars: Any, executor: str = "", lang: str = "en", **around: Any
) -> dict[str, Any]:
    return firewall.firewall_rules(host, members, others, hostvars, firewall.Surroundings(executor, **around), lang)


def rules(executor: str = "ray", facts: Any = None, **more: Any) -> dict[str, Any]:
    mine = {**HOSTS["gpu01"], **more}
    mine["ansible_facts"] = {**mine["ansible_facts"], **(facts or {})}
    return firewall_rules(
        "gpu01",
        ["gpu01", "gpu02"],
        OTHERS,
        {**HOSTS, "gpu01": mine},
        executor,
        candidates=CANDIDATES,
    )


def test_members_with_every_address_that_they_have() -> None:
    found = rules()
    members = [ipaddress.ip_network(text) for text in found["members"]["v4"] + found["members"]["v6"]]
    for address in ("10.0.0.1", "10.0.0.2", "192.168.0.2", "fd00::2"):
        assert any(ipaddress.ip_address(address) in network for network in members)
    for address in ("10.0.0.3", "10.0.0.0", "192.168.0.9", "127.0.0.1", "172.16.0.5"):
        assert not any(ipaddress.ip_address(address) in network for network in members)
    assert found["members"]["ports"] == ["6379-6384", "10001-10999", "29502"]
    assert found["dynamic"] == {"ports": "32768-60999", "open": [49152]}
    assert found["known"]["gpu02"] == ["10.0.0.2", "192.168.0.2", "fd00::2"]
    assert found["notes"] == []


def test_the_api_from_the_networks_of_the_hosts_unless_said() -> None:
    found = firewall_rules("gpu01", ["gpu01", "gpu02"], {"clients": []}, HOSTS)["clients"]
    assert found["ports"] == ["8000"]
    assert found["v4"] == ["10.0.0.0/24", "192.168.0.0/24"]
    said = rules(llm_firewall_api_sources=["203.0.113.0/24"])["clients"]["v4"]
    assert "203.0.113.0/24" in said
    assert "10.0.0.0/24" not in said
    assert "10.0.0.9" in said  # the gateway


def test_where_there_is_a_gateway_clients_come_to_it_alone() -> None:
    found = rules()["clients"]["v4"]
    assert {"10.0.0.1", "10.0.0.9"} <= set(found), "members and the gateway"
    assert not any("/24" in source for source in found)


def test_an_address_that_gateways_share_is_nobody_s_in_the_rules() -> None:
    """It moves, and each move would be other rules."""
    nics = [{"name": "eth1", "addresses": ["10.0.0.1/24", "10.0.0.50/32"]}]
    assert "10.0.0.50" in rules(facts={"llm_nics_found": nics})["members"]["v4"]
    found = rules(facts={"llm_nics_found": nics}, gateway_virtual_address="10.0.0.50")
    assert "10.0.0.50" not in json.dumps(found)


def test_metrics_for_those_who_watch() -> None:
    found = rules()["collectors"]
    assert found["ports"] == ["6385", "9100"]
    assert "172.16.0.5" in found["v4"]
    assert "172.16.0.5" not in rules()["members"]["v4"]
    assert "172.16.0.5" in rules()["clients"]["v4"], "vLLM has its metrics on the port of the API"


def test_an_exporter_of_somebody_else_stays_as_it_is() -> None:
    found = firewall_rules("gpu01", ["gpu01", "gpu02"], {"collectors": []}, HOSTS)
    assert "9100" not in found["closed"]
    assert found["collectors"]["ports"] == ["6385"]


def test_only_the_executor_s_ports() -> None:
    found = rules("mp")
    assert "6379-6384" not in found["members"]["ports"]
    assert any("29501" in ports for ports in found["members"]["ports"])


def test_an_open_dashboard_is_for_the_clients() -> None:
    assert "8265" in rules(ray_dashboard_enabled=True, ray_dashboard_host="0.0.0.0")["clients"]["ports"]
    assert "8265" not in rules(ray_dashboard_enabled=True)["clients"]["ports"]


def test_a_host_alone_protects_what_the_kernel_hands_out() -> None:
    """The ranks of one host meet there too, and listen on every address."""
    assert firewall_rules("gpu01", ["gpu01"], {}, HOSTS)["dynamic"] == {"ports": "32768-60999", "open": [49152]}


def test_what_the_kernel_hands_out_is_not_known_of_a_host_that_was_not_looked_at() -> None:
    assert firewall_rules("gate", ["gate"], {}, {"gate": {}})["dynamic"] is None


def test_what_was_open_once_stays_open() -> None:
    found = firewall_rules("gpu01", ["gpu01", "gpu02"], {}, HOSTS, open_ports=[50000, 49152, 22])
    assert found["dynamic"] == {"ports": "32768-60999", "open": [49152, 50000]}


def test_a_member_of_which_nothing_is_known_is_told() -> None:
    """What ansible_host says is one of its addresses, and maybe none of those that it comes with."""
    for nothing in ({}, {"ansible_host": "gpu02.lan"}, {"ansible_host": "192.168.0.2"}):
        found = firewall_rules("gpu01", ["gpu01", "gpu02"], {}, {**HOSTS, "gpu02": nothing})
        assert found["unknown"] == ["gpu02"]
        assert found["members"]["v4"] == ["10.0.0.1", "192.168.0.1"]  # the others are protected all the same
        (note,) = found["notes"]
        assert "gpu02" in note


def test_a_member_that_does_not_answer_comes_with_what_it_had() -> None:
    whole = firewall_rules("gpu01", ["gpu01", "gpu02"], {}, HOSTS, candidates=CANDIDATES)
    alone = {"gpu01": HOSTS["gpu01"], "gpu02": {}}
    found = firewall_rules("gpu01", ["gpu01", "gpu02"], {}, alone, remembered=whole["known"])
    assert {kind: found[kind] for kind in ("members", "collectors", "closed", "known", "unknown", "notes")} == {
        kind: whole[kind] for kind in ("members", "collectors", "closed", "known", "unknown", "notes")
    }
    # What is seen counts, and what a host keeps has to be an address.
    moved = firewall_rules(
        "gpu01", ["gpu01", "gpu02"], {}, HOSTS, remembered={"gpu02": ["10.0.0.77"], "gone": ["10.0.0.78"]}
    )
    assert moved["known"]["gpu02"] == ["10.0.0.2", "192.168.0.2", "fd00::2"]
    assert set(moved["known"]) == {"gpu01", "gpu02"}
    assert firewall_rules("gpu01", ["gpu02"], {}, alone, remembered={"gpu02": ["} accept"]})["unknown"] == ["gpu02"]


def test_members_come_from_the_network_that_was_asked_for_whatever_it_is() -> None:
    tunnel = {
        "network": "10.9.0.0/24",
        "interfaces": {f"gpu0{n}": {"interface": "wg0", "address": f"10.9.0.{n}"} for n in (1, 2)},
    }
    found = firewall_rules("gpu01", ["gpu01", "gpu02"], {}, HOSTS, candidates=[tunnel])
    members = [ipaddress.ip_network(text) for text in found["members"]["v4"]]
    for address in ("10.9.0.1", "10.9.0.2"):
        assert any(ipaddress.ip_address(address) in network for network in members)


def test_who_is_not_looked_at_comes_from_what_his_name_stands_for() -> None:
    asked: list[str] = []

    def resolve(name: str) -> list[str]:
        asked.append(name)
        return {"gate.lan": ["172.16.0.9", "127.0.1.1"], "watch": ["fd01::5"]}.get(name, [])

    others = {"clients": ["gate"], "collectors": ["watch", "lost"]}
    hostvars = {**HOSTS, "gate": {"ansible_host": "gate.lan"}, "watch": {}, "lost": {}}
    found = firewall_rules("gpu01", ["gpu01", "gpu02"], others, hostvars, resolve=resolve)
    assert "172.16.0.9" in found["clients"]["v4"]
    assert not any("127." in text for text in found["clients"]["v4"])
    assert "fd01::5" in found["collectors"]["v6"]
    assert asked == ["gate.lan", "watch", "lost"]
    (note,) = found["notes"]
    assert "lost" in note
    assert "gate" not in note.replace("llm_gateway", "")


@pytest.mark.parametrize(
    ("listening", "said", "ssh"),
    [
        ([22], None, [22]),
        ([50022], None, [22, 50022]),
        ([22], 2222, [22, 2222]),
        ([22], 6379, [22]),  # a router translates: that port is Ray's here
        ([], 6379, [22]),
    ],
)
def test_where_logins_come_in_is_open(listening: list[int], said: int | None, ssh: list[int]) -> None:
    found = rules(facts={"llm_ssh_ports": listening}, ansible_port=said)
    assert found["ssh"] == ssh
    assert found["clashes"] == []


def test_a_port_of_ssh_is_a_clash() -> None:
    assert rules(facts={"llm_ssh_ports": [6379]})["clashes"] == [["ray_port", "sshd"]]


@given(st.lists(st.ip_addresses(v=4).map(str) | st.just("10.0.0.0/8") | st.just("10.0.0.0/24"), max_size=6))
def test_sources_never_overlap(sources: list[str]) -> None:
    found = rules(llm_firewall_api_sources=sources)["clients"]
    networks = [ipaddress.ip_network(text) for text in found["v4"]]
    assert not any(one.overlaps(other) for i, one in enumerate(networks) for other in networks[i + 1 :])
    assert all(any(ipaddress.ip_network(source).subnet_of(net) for net in networks) for source in sources)


def test_ufw_lets_in_first_and_closes_last() -> None:
    found = ufw_rules(rules(llm_firewall_api_sources=["10.0.0.0/24"]))
    assert {"rule": "allow", "from": "10.0.0.0/24", "ports": "8000"} in found
    assert {"rule": "deny", "from": "any", "ports": "6379-6387"} in found
    assert {"rule": "deny", "from": "any", "ports": "8265"} in found  # the dashboard, wherever it listens
    kinds = [entry["rule"] for entry in found]
    assert kinds == sorted(kinds)  # allow before deny
    assert not any("22" in entry["ports"].split("-") for entry in found)


def rule(kind: str, source: str) -> dict[str, str]:
    return {"rule": kind, "from": source, "ports": ""}


def after(firewall: list[Any], commands: dict[str, list[Any]]) -> list[Any]:
    """As ufw does it: what is there already stays where it is, what is new comes last."""
    left = [entry for entry in firewall if entry not in commands["remove"]]
    return left + [entry for entry in commands["add"] if entry not in left]


def test_a_new_member_comes_before_the_refusals_of_the_last_run() -> None:
    alone = firewall_rules("gpu01", ["gpu01"], {}, HOSTS)
    both = firewall_rules("gpu01", ["gpu01", "gpu02"], {}, HOSTS)
    owner = [rule("allow", "192.0.2.1"), rule("deny", "192.0.2.0/24")]
    old = after(owner, firewall_commands("ufw", alone, []))
    commands = firewall_commands("ufw", both, old[2:])
    new = after(old, commands)
    assert new[:2] == owner
    assert sorted(new[2:], key=str) == sorted(ufw_rules(both), key=str)
    kinds = [entry["rule"] for entry in new[2:]]
    assert kinds == sorted(kinds)  # allow before deny
    again = firewall_commands("ufw", both, new[2:])
    assert again["remove"] == []
    assert after(new, again) == new
    # One that leaves needs no order: nothing is refused in between that was not before.
    assert all(entry["rule"] == "allow" for entry in firewall_commands("ufw", alone, new[2:])["remove"])
    assert after(new, firewall_commands("ufw", {}, new[2:])) == owner


ZONES = """\
cluster (active)
  target: ACCEPT
  ingress-priority: 0
  interfaces: eth1
  sources:
  services: ssh
  rich rules:
\trule family="ipv4" source address="10.0.0.1" accept

public (default, active)
  target: default
  icmp-block-inversion: no
  interfaces: ens9
  sources:
  ports: 25/tcp 1025-65535/udp

trusted
  target: ACCEPT
  interfaces:

wide
  target: default
  interfaces:
  sources: 203.0.113.0/24
  ports: 1025-65535/udp 49152/tcp 40000-40999/tcp 8000/tcp 1025-65535/tcp 30000-32767/tcp
"""


def test_the_zones_of_the_interfaces() -> None:
    zones = firewalld_zones("public\n", ZONES)
    assert zones["trusted"] == {"target": "ACCEPT", "interfaces": [], "sources": [], "ports": [], "default": False}
    found = firewall_rules("gpu01", ["gpu01", "gpu02"], {}, HOSTS, candidates=CANDIDATES, zones=zones)
    # eth0 is in none, so the default one is its. Sources come before interfaces.
    assert found["zones"] == ["cluster", "public", "wide"]
    accepts, opens = found["notes"]
    assert "cluster" in accepts
    assert "ACCEPT" in accepts
    # A single port of those that the kernel hands out is some program's, and 30000-32767 is nobody's.
    assert "wide (40000-40999/tcp, 8000/tcp, 1025-65535/tcp)" in opens
    assert "public" not in opens
    assert {entry["zone"] for entry in firewalld_rules(found)} == {"cluster", "public", "wide"}
    elsewhere = firewall_commands("firewalld", {**found, "zones": ["public"]}, firewalld_rules(found))
    assert {entry["zone"] for entry in elsewhere["remove"]} == {"cluster", "wide"}


def test_firewalld_only_lets_in() -> None:
    found = [
        entry["rule"]
        for entry in firewalld_rules({**rules(llm_firewall_api_sources=["10.0.0.0/24"]), "zones": ["public"]})
    ]
    assert 'rule family="ipv4" source address="10.0.0.0/24" port port="8000" protocol="tcp" accept' in found
    assert all(text.endswith("accept") for text in found)
    assert any('family="ipv6"' in text for text in found)
