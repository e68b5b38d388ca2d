"""Who may connect where: members everywhere, clients to the API, nobody else; SSH is never among what is closed."""

from __future__ import annotations

import ipaddress
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils.firewall import (
    firewall_rules,
    firewalld_rules,
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
    facts = {"llm_nics_found": nics, "llm_dynamic_ports": {"first": 32768, "last": 60999}}
    return {"ansible_facts": facts, "llm_interface": {"interface": "eth1", "address": f"10.0.0.{number}"}, **more}


HOSTS = {"gpu01": host(1), "gpu02": host(2), "gate": host(9), "watch": {"ansible_host": "172.16.0.5"}}
OTHERS = {"clients": ["gate"], "collectors": ["watch"]}


def rules(executor: str = "ray", **more: Any) -> dict[str, Any]:
    return firewall_rules("gpu01", ["gpu01", "gpu02"], OTHERS, {**HOSTS, "gpu01": {**HOSTS["gpu01"], **more}}, executor)


def test_members_with_every_address_that_they_have() -> None:
    found = rules()
    members = [ipaddress.ip_network(text) for text in found["members"]["v4"] + found["members"]["v6"]]
    for address in ("10.0.0.1", "10.0.0.2", "192.168.0.2", "fd00::2"):
        assert any(ipaddress.ip_address(address) in network for network in members)
    for address in ("10.0.0.3", "10.0.0.0", "192.168.0.9", "127.0.0.1", "172.16.0.5"):
        assert not any(ipaddress.ip_address(address) in network for network in members)
    assert found["members"]["ports"] == ["6379-6384", "10001-10999", "29502"]
    assert found["dynamic"] == {"interface": "eth1", "ports": "32768-60999"}


def test_the_api_from_the_networks_of_the_hosts_unless_said() -> None:
    found = rules()["clients"]
    assert found["ports"] == ["8000"]
    assert found["v4"] == ["10.0.0.0/24", "192.168.0.0/24"]
    said = rules(llm_firewall_api_sources=["203.0.113.0/24"])["clients"]["v4"]
    assert "203.0.113.0/24" in said
    assert "10.0.0.0/24" not in said
    assert "10.0.0.9" in said  # the gateway


def test_metrics_for_those_who_watch() -> None:
    found = rules()["collectors"]
    assert found["ports"] == ["6385"]
    assert "172.16.0.5" in found["v4"]
    assert "172.16.0.5" not in rules()["members"]["v4"]


def test_only_the_executor_s_ports() -> None:
    found = rules("mp")
    assert "6379-6384" not in found["members"]["ports"]
    assert any("29501" in ports for ports in found["members"]["ports"])


def test_a_host_alone_protects_no_dynamic_ports() -> None:
    assert firewall_rules("gpu01", ["gpu01"], {}, HOSTS)["dynamic"] is None


def test_a_member_of_which_nothing_is_known_is_told() -> None:
    assert firewall_rules("gpu01", ["gpu01", "gpu02"], {}, {**HOSTS, "gpu02": {}})["unknown"] == ["gpu02"]
    assert firewall_rules("gpu01", ["gpu01", "gpu02"], {}, {**HOSTS, "gpu02": {"ansible_host": "gpu02.lan"}})["unknown"]


def test_a_port_of_ssh_is_a_clash() -> None:
    assert rules(ansible_port=6379)["clashes"] == [["ray_port", "ansible_port"]]
    assert rules(ansible_port=2222)["ssh"] == [22, 2222]


@given(st.lists(st.ip_addresses(v=4).map(str) | st.just("10.0.0.0/8") | st.just("10.0.0.0/24"), max_size=6))
def test_sources_never_overlap(sources: list[str]) -> None:
    found = rules(llm_firewall_api_sources=sources)["clients"]
    networks = [ipaddress.ip_network(text) for text in found["v4"]]
    assert not any(one.overlaps(other) for i, one in enumerate(networks) for other in networks[i + 1 :])
    assert all(any(ipaddress.ip_network(source).subnet_of(net) for net in networks) for source in sources)


def test_ufw_lets_in_first_and_closes_last() -> None:
    found = ufw_rules(rules())
    assert {"rule": "allow", "from": "10.0.0.0/24", "ports": "8000"} in found
    assert {"rule": "deny", "from": "any", "ports": "6379-6385"} in found
    assert {"rule": "deny", "from": "any", "ports": "8265"} in found  # the dashboard, wherever it listens
    kinds = [entry["rule"] for entry in found]
    assert kinds == sorted(kinds)  # allow before deny
    assert not any("22" in entry["ports"].split("-") for entry in found)


def test_firewalld_only_lets_in() -> None:
    found = firewalld_rules(rules())
    assert 'rule family="ipv4" source address="10.0.0.0/24" port port="8000" protocol="tcp" accept' in found
    assert all(text.endswith("accept") for text in found)
    assert any('family="ipv6"' in text for text in found)
