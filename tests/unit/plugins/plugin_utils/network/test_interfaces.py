"""The interface that every host of a cluster uses."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.interfaces import (
    agree_interfaces,
    interfaces_from_facts,
)
from hypothesis import given
from hypothesis import strategies as st


def nic(name: str, *addresses: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "addresses": list(addresses), **more}


LO = nic("lo", "127.0.0.1/8", "::1/128", kind="loopback", mtu=65536)
DOCKER = nic("docker0", "172.17.0.1/16", kind="bridge", up=True)


def test_the_shared_subnet_whatever_the_interfaces_are_called() -> None:
    agreed = agree_interfaces(
        {
            "gpu01": {"interfaces": [LO, DOCKER, nic("eth1", "10.0.0.1/24"), nic("eth0", "192.168.1.1/24")]},
            "gpu02": {"interfaces": [LO, DOCKER, nic("ens3f0", "10.0.0.2/24"), nic("eth0", "192.168.2.1/24")]},
        }
    )
    (candidate,) = agreed.pop("candidates")
    assert (candidate["network"], sorted(candidate["interfaces"])) == ("10.0.0.0/24", ["gpu01", "gpu02"])
    assert agreed == {
        "network": "10.0.0.0/24",
        "interfaces": {
            "gpu01": {"interface": "eth1", "address": "10.0.0.1"},
            "gpu02": {"interface": "ens3f0", "address": "10.0.0.2"},
        },
        "problems": [],
    }


def two_networks(speeds: dict[str, tuple[Any, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {
        host: [
            nic("eth0", f"10.0.0.{number}/24", speed_mbps=slow),
            nic("eth1", f"10.0.1.{number}/24", speed_mbps=fast),
        ]
        for number, (host, (slow, fast)) in enumerate(speeds.items(), start=1)
    }


@pytest.mark.parametrize(
    ("first", "second", "network"),
    [
        ((1000, 25000), (1000, 25000), "10.0.1.0/24"),
        ((25000, 1000), (25000, 1000), "10.0.0.0/24"),
        ((1000, 25000), (1000, 100), "10.0.0.0/24"),  # the slowest link is what counts
        ((1000, -1), (1000, -1), "10.0.0.0/24"),
        ((-1, 1000), (None, 1000), "10.0.1.0/24"),
        ((None, None), (None, None), "10.0.0.0/24"),
    ],
)
def test_the_fastest_of_several_subnets(first: Any, second: Any, network: str) -> None:
    agreed = agree_interfaces(two_networks({"gpu01": first, "gpu02": second}))
    assert (agreed["network"], agreed["problems"]) == (network, [])


def test_two_ports_on_one_subnet_use_the_faster_one() -> None:
    hosts = {
        "gpu01": [nic("eth0", "10.0.0.1/24", speed_mbps=1000), nic("eth1", "10.0.0.11/24", speed_mbps=25000)],
        "gpu02": [nic("eth0", "10.0.0.2/24", speed_mbps=1000)],
    }
    assert agree_interfaces(hosts)["interfaces"]["gpu01"]["interface"] == "eth1"


@pytest.mark.parametrize(
    "inner",
    [
        nic("docker0", "172.17.0.1/16"),
        nic("br-0123456789ab", "172.18.0.1/16"),
        nic("br0", "172.18.0.1/16", kind="bridge"),
        nic("veth1a2b3c", "172.18.0.1/16"),
        nic("eth5", "169.254.7.7/16"),
        nic("eth5", "fe80::1/64"),
        nic("eth5", "10.5.0.1/24", up=False),
        nic("virbr0", "192.168.122.1/24"),
        nic("eth5", "not an address"),
    ],
)
def test_what_leads_to_no_other_host_is_passed_over(inner: dict[str, Any]) -> None:
    agreed = agree_interfaces({"gpu01": [inner], "gpu02": [inner]})
    (entry,) = agreed["problems"]
    assert entry["code"] == "no_shared_network"
    assert agreed["interfaces"] == {}


def test_no_shared_subnet_shows_what_every_host_has() -> None:
    agreed = agree_interfaces(
        {"gpu01": [LO, nic("eth0", "10.0.0.1/24")], "gpu02": [LO, nic("ib0", "10.0.1.2/24")], "gpu03": [LO]}
    )
    (entry,) = agreed["problems"]
    assert entry["code"] == "no_shared_network"
    assert entry["value"] == "gpu01: eth0 10.0.0.1/24; gpu02: ib0 10.0.1.2/24; gpu03: (none)"


def test_a_given_network_reaches_over_subnets() -> None:
    hosts = {
        "gpu01": [nic("eth0", "10.0.0.1/31")],
        "gpu02": [nic("eth0", "10.0.0.3/31"), nic("eth1", "10.1.0.3/24", speed_mbps=9)],
    }
    assert agree_interfaces(hosts)["problems"][0]["code"] == "no_shared_network"
    agreed = agree_interfaces(hosts, "10.0.0.0/24")
    assert agreed["interfaces"]["gpu02"] == {"interface": "eth0", "address": "10.0.0.3"}
    assert (agreed["network"], agreed["problems"]) == ("10.0.0.0/24", [])


def test_a_given_network_may_be_a_bridges() -> None:
    hosts = {f"gpu0{number}": [nic("br0", f"10.0.0.{number}/24", kind="bridge")] for number in (1, 2)}
    assert agree_interfaces(hosts)["problems"] != []
    assert agree_interfaces(hosts, "10.0.0.0/24")["problems"] == []


def test_a_host_without_an_address_in_the_given_network() -> None:
    hosts = {"gpu01": [nic("eth0", "10.0.0.1/24")], "gpu02": [LO, DOCKER, nic("eth0", "10.0.1.2/24")]}
    (entry,) = agree_interfaces(hosts, "10.0.0.0/24")["problems"]
    assert entry["code"] == "not_in_network"
    assert "gpu02" in entry["what"]
    assert entry["value"] == "eth0 10.0.1.2/24"


@pytest.mark.parametrize("network", ["10.0.0.0", "10.0.0.1/24", "eth0", 10])
def test_a_network_that_is_none(network: Any) -> None:
    agreed = agree_interfaces({"gpu01": [nic("eth0", "10.0.0.1/24")]}, network)
    assert [entry["code"] for entry in agreed["problems"]] == ["network_malformed"]


def test_the_same_address_on_two_hosts() -> None:
    hosts = {"gpu01": [nic("eth0", "10.0.0.1/24")], "gpu02": [nic("ens1", "10.0.0.1/24")]}
    (entry,) = agree_interfaces(hosts)["problems"]
    assert entry["code"] == "same_address"
    assert entry["value"] == "gpu01: eth0 10.0.0.1/24; gpu02: ens1 10.0.0.1/24"


def test_a_network_that_every_host_has_for_itself_is_passed_over() -> None:
    hosts = {
        f"gpu0{n}": [nic("eth0", f"10.0.0.{n}/24", speed_mbps=1000), nic("vm0", "192.168.7.1/24", speed_mbps=10000)]
        for n in (1, 2)
    }
    agreed = agree_interfaces(hosts)
    assert agreed["problems"] == []
    assert [entry["network"] for entry in agreed["candidates"]] == ["10.0.0.0/24"]
    (entry,) = agree_interfaces(hosts, "192.168.7.0/24")["problems"]
    assert entry["code"] == "same_address"


def dual(number: int, *four: str) -> list[dict[str, Any]]:
    return [nic("eth0", *four, speed_mbps=1000), nic("eth1", f"fd00::{number}/64", speed_mbps=100000)]


@pytest.mark.parametrize("count", [1, 2])
def test_ipv4_goes_before_speed(count: int) -> None:
    agreed = agree_interfaces({f"gpu0{n}": dual(n, f"10.0.0.{n}/24") for n in range(1, count + 1)})
    assert agreed["problems"] == []
    assert [entry["network"] for entry in agreed["candidates"]] == ["10.0.0.0/24"]


@pytest.mark.parametrize(
    ("hosts", "network"),
    [
        ({"gpu01": dual(1), "gpu02": dual(2)}, None),
        ({"gpu01": dual(1, "10.0.1.1/24"), "gpu02": dual(2, "10.0.2.2/24")}, None),
        ({"gpu01": dual(1)}, None),
        ({"gpu01": dual(1, "10.0.0.1/24"), "gpu02": dual(2, "10.0.0.2/24")}, "fd00::/64"),
    ],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_nothing_but_ipv6_is_refused(hosts: Any, network: str | None, lang: str) -> None:
    (entry,) = agree_interfaces(hosts, network, lang=lang)["problems"]
    assert entry["code"] == "network_ipv6"
    assert "fd00::/64" in entry["what"]
    assert "gpu01: eth1 fd00::1/64" in entry["value"]


def test_an_interface_that_is_not_on_the_host_lists_those_that_are() -> None:
    hosts = {"gpu01": [LO, DOCKER, nic("ens1", "10.0.0.1/24"), nic("ens2")], "gpu02": [nic("eth0", "10.0.0.2/24")]}
    (entry,) = agree_interfaces(hosts, wanted={"gpu01": "eth0", "gpu02": None})["problems"]
    assert entry["code"] == "interface_missing"
    assert (entry["value"], entry["where"]) == ("eth0", "host_vars/gpu01.yml")
    assert entry["allowed"].endswith(": ens1")


@pytest.mark.parametrize("port", [nic("ens2"), nic("ens2", "10.0.0.9/24", up=False), nic("ens2", "fe80::1/64")])
def test_an_interface_that_cannot_be_used(port: dict[str, Any]) -> None:
    (entry,) = agree_interfaces({"gpu01": [nic("ens1", "10.0.0.1/24"), port]}, wanted={"gpu01": "ens2"})["problems"]
    assert entry["code"] == "interface_unusable"
    assert entry["allowed"].endswith(": ens1 10.0.0.1/24")


def test_a_wanted_interface_decides_for_all() -> None:
    hosts = two_networks({"gpu01": (1000, 25000), "gpu02": (1000, 25000)})
    assert agree_interfaces(hosts)["network"] == "10.0.1.0/24"
    agreed = agree_interfaces(hosts, wanted={"gpu02": "eth0"})
    assert (agreed["network"], agreed["interfaces"]["gpu01"]["interface"]) == ("10.0.0.0/24", "eth0")


def test_wanted_interfaces_that_do_not_meet() -> None:
    hosts = two_networks({"gpu01": (1, 1), "gpu02": (1, 1)})
    wanted = {"gpu01": "eth0", "gpu02": "eth1"}
    assert [entry["code"] for entry in agree_interfaces(hosts, wanted=wanted)["problems"]] == [
        "no_shared_network_wanted"
    ]
    (entry,) = agree_interfaces(hosts, "10.0.0.0/24", wanted)["problems"]
    assert entry["code"] == "interface_outside_network"
    assert entry["allowed"].endswith("10.0.0.0/24: eth0 10.0.0.2/24")


@pytest.mark.parametrize(
    ("interfaces", "network", "interface"),
    [
        ([LO, nic("eth0", "10.0.0.1/24", speed_mbps=10), nic("eth1", "10.0.1.1/24", speed_mbps=100)], None, "eth1"),
        (
            [LO, nic("eth0", "10.0.0.1/24", speed_mbps=10), nic("eth1", "10.0.1.1/24", speed_mbps=100)],
            "10.0.0.0/24",
            "eth0",
        ),
        ([LO, nic("eth0", "10.0.0.1/24")], "192.168.0.0/24", "eth0"),
        ([LO], None, "lo"),
    ],
)
def test_a_host_alone_takes_what_it_has(interfaces: Any, network: str | None, interface: str) -> None:
    agreed = agree_interfaces({"gpu01": interfaces}, network)
    assert agreed["problems"] == []
    assert agreed["interfaces"]["gpu01"]["interface"] == interface


def test_no_hosts_agree_on_nothing() -> None:
    assert agree_interfaces({}) == {"candidates": [], "network": "", "interfaces": {}, "problems": []}


def test_problems_in_chinese() -> None:
    (entry,) = agree_interfaces({"a": [], "b": []}, lang="zh")["problems"]
    assert "子网" in entry["what"]


SUBNETS = [ipaddress.ip_network(f"10.{number}.0.0/24") for number in range(4)]


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    hosts = {}
    for number in range(1, draw(st.integers(2, 5)) + 1):
        subnets = draw(st.lists(st.sampled_from(SUBNETS), unique=True, max_size=4))
        hosts[f"gpu{number:02}"] = [
            nic(f"p{number}s{index}", f"{subnet[number]}/24", speed_mbps=draw(st.sampled_from([None, -1, 1000, 25000])))
            for index, subnet in enumerate(subnets)
        ]
    return hosts


@given(clusters(), st.randoms())
def test_an_agreement_is_one(hosts: dict[str, list[dict[str, Any]]], random: Any) -> None:
    agreed = agree_interfaces(hosts)
    shared = set.intersection(
        *({str(ipaddress.ip_interface(port["addresses"][0]).network) for port in ports} for ports in hosts.values())
    )
    if not shared:
        assert [entry["code"] for entry in agreed["problems"]] == ["no_shared_network"]
        return
    assert agreed["problems"] == []
    assert agreed["network"] in shared
    assert set(agreed["interfaces"]) == set(hosts)
    for host, chosen in agreed["interfaces"].items():
        assert ipaddress.ip_address(chosen["address"]) in ipaddress.ip_network(agreed["network"])
        (port,) = [port for port in hosts[host] if port["name"] == chosen["interface"]]
        assert port["addresses"][0].startswith(chosen["address"] + "/")
    # The order in which hosts and interfaces are listed decides nothing.
    names = list(hosts)
    random.shuffle(names)
    turned = {host: list(reversed(hosts[host])) for host in names}
    assert agree_interfaces(turned)["network"] == agreed["network"]
    assert agree_interfaces(turned)["interfaces"] == agreed["interfaces"]


FACTS = {
    "interfaces": ["lo", "eth0", "br-lan", "eth0.100", "wlan0"],
    "lo": {
        "device": "lo",
        "type": "loopback",
        "active": True,
        "mtu": 65536,
        "ipv4": {"address": "127.0.0.1", "netmask": "255.0.0.0"},
    },
    "eth0": {
        "device": "eth0",
        "type": "ether",
        "active": True,
        "speed": 10000,
        "mtu": 1500,
        "ipv4": {"address": "10.0.0.1", "prefix": "24", "netmask": "255.255.255.0", "network": "10.0.0.0"},
        "ipv4_secondaries": [{"address": "10.0.9.1", "netmask": "255.255.0.0"}],
        "ipv6": [{"address": "fe80::1", "prefix": "64", "scope": "link"}],
    },
    "br_lan": {"device": "br-lan", "type": "bridge", "active": False},
    "eth0_100": {"device": "eth0.100", "type": "ether", "ipv4": [{"address": "10.1.0.1", "prefix": 16}]},
    "default_ipv4": {},
}


def test_interfaces_from_facts() -> None:
    assert interfaces_from_facts(FACTS) == [
        {
            "name": "lo",
            "addresses": ["127.0.0.1/255.0.0.0"],
            "speed_mbps": None,
            "mtu": 65536,
            "up": True,
            "kind": "loopback",
        },
        {
            "name": "eth0",
            "addresses": ["10.0.0.1/24", "10.0.9.1/255.255.0.0", "fe80::1/64"],
            "speed_mbps": 10000,
            "mtu": 1500,
            "up": True,
            "kind": "ether",
        },
        {"name": "br-lan", "addresses": [], "speed_mbps": None, "mtu": None, "up": False, "kind": "bridge"},
        {
            "name": "eth0.100",
            "addresses": ["10.1.0.1/16"],
            "speed_mbps": None,
            "mtu": None,
            "up": True,
            "kind": "ether",
        },
        {"name": "wlan0", "addresses": [], "speed_mbps": None, "mtu": None, "up": True, "kind": ""},
    ]
    agreed = agree_interfaces({"gpu01": interfaces_from_facts(FACTS)})
    assert agreed["interfaces"] == {"gpu01": {"interface": "eth0", "address": "10.0.0.1"}}
    assert interfaces_from_facts({}) == []


def test_rdma_on_every_host_goes_before_speed() -> None:
    def host(number: int, rdma: list[str]) -> list[dict[str, Any]]:
        return [
            nic("eth0", f"10.0.0.{number}/24", speed_mbps=200000),
            nic("ib0", f"10.0.1.{number}/24", speed_mbps=100000, rdma=rdma),
        ]

    both = agree_interfaces({"gpu01": host(1, ["mlx5_0:1"]), "gpu02": host(2, ["mlx5_0:1"])})
    assert both["network"] == "10.0.1.0/24"
    assert [entry["network"] for entry in both["candidates"]] == ["10.0.1.0/24", "10.0.0.0/24"]
    assert both["candidates"][1]["interfaces"]["gpu02"]["address"] == "10.0.0.2"
    one = agree_interfaces({"gpu01": host(1, ["mlx5_0:1"]), "gpu02": host(2, [])})
    assert one["network"] == "10.0.0.0/24"


def test_wireless_comes_last() -> None:
    hosts = {
        f"gpu0{number}": [
            nic("wlp2s0", f"10.0.0.{number}/24", speed_mbps=2400, wireless=True),
            nic("eno1", f"10.0.1.{number}/24", speed_mbps=1000),
        ]
        for number in (1, 2)
    }
    assert agree_interfaces(hosts)["network"] == "10.0.1.0/24"


def test_a_bridge_over_a_card_leads_out_and_one_over_containers_does_not() -> None:
    def hosts(*members: str) -> dict[str, Any]:
        return {f"gpu0{n}": [nic("br0", f"10.0.0.{n}/24", kind="bridge", members=list(members))] for n in (1, 2)}

    assert agree_interfaces(hosts("eno1", "vnet0"))["network"] == "10.0.0.0/24"
    assert agree_interfaces(hosts("veth1a2b3c", "vnet0"))["network"] == ""


def test_what_nic_facts_found_goes_before_what_setup_found() -> None:
    found = [nic("eth9", "10.0.9.1/24")]
    assert interfaces_from_facts({"interfaces": ["eth0"], "eth0": {"device": "eth0"}, "llm_nics_found": found}) == found
