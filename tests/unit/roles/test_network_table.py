"""The table that the role network loads, in the kernel: who comes through it, from which network, to which address.

gpu01 and gpu02 are a deployment with a network of their own, and the network in which hosts are managed. The rules are those that are
decided, the text is the template's, and nftables judges real connections between network namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.firewall import Surroundings, firewall_rules

from tests.support.namespaces import Door, listening, passed, run, why_not, wired

TEMPLATES = Path(__file__).parents[3] / "roles/network/templates"
CANNOT = why_not("nft")
pytestmark = pytest.mark.skipif(bool(CANNOT), reason=CANNOT)

SSH, API, EXPORTER, GCS, METRICS = 22, 8000, 9100, 6379, 6385
MONITOR, DASHBOARD, STORE, BRICK = 6386, 6387, 43411, 49152
# The store is a rank's TCPStore, which listens on every address; the brick is of a GlusterFS that was there before.
PORTS = (SSH, API, EXPORTER, GCS, METRICS, MONITOR, DASHBOARD, STORE, BRICK)
MANAGED, MANAGED6, CLUSTER, CLUSTER6 = "192.0.2.1", "2001:db8:2::1", "198.51.100.1", "2001:db8:51::1"
STRANGER, STRANGER6, CLIENT, COLLECTOR, NEIGHBOUR = (
    *("192.0.2.50", "2001:db8:2::50"),
    *("192.0.2.60", "192.0.2.70", "198.51.100.50"),
)
MEMBER, MEMBER6 = "198.51.100.2", "2001:db8:51::2"
ADDRESSES = {
    "mgmt": (
        [f"{MANAGED}/24", f"{MANAGED6}/64"],
        [f"{STRANGER}/24", f"{STRANGER6}/64", f"{CLIENT}/24", f"{COLLECTOR}/24"],
    ),
    "data": ([f"{CLUSTER}/24", f"{CLUSTER6}/64"], [f"{MEMBER}/24", f"{MEMBER6}/64", f"{NEIGHBOUR}/24"]),
}


def rules(**more: Any) -> dict[str, Any]:
    facts = {
        "llm_nics_found": [{"name": name, "addresses": own} for name, (own, _others) in ADDRESSES.items()],
        "llm_dynamic_ports": {"first": 32768, "last": 60999},
        "llm_ssh_ports": [SSH],
        "llm_foreign_ports": [BRICK],
    }
    hosts: dict[str, Any] = {
        "gpu01": {"ansible_facts": facts, "llm_firewall_api_sources": [CLIENT]},
        "gpu02": {
            "ansible_facts": {"llm_nics_found": [{"name": "data", "addresses": [f"{MEMBER}/24", f"{MEMBER6}/64"]}]}
        },
        "watch": {"ansible_host": COLLECTOR},
        "next": {"ansible_facts": {"llm_nics_found": [{"name": "data", "addresses": [f"{NEIGHBOUR}/24"]}]}},
    }
    return firewall_rules("gpu01", ["gpu01", "gpu02"], {"collectors": ["watch"]}, hosts, Surroundings("ray", **more))


def table(found: dict[str, Any]) -> str:
    """As ansible.builtin.template writes it."""
    loader = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    return loader.get_template("llm.nft.j2").render(
        _llm={"network": {"rules": found}, "deployment": "tiny", "names": names()}
    )


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with wired("gpu01", ADDRESSES) as namespace, listening(namespace, PORTS):
        yield namespace


def load(namespace: str, text: str) -> None:
    run("ip", "netns", "exec", namespace, "nft", "-f", "-", text=text)


def ruleset(namespace: str) -> str:
    """Without the counters of what was dropped."""
    return re.sub(r"packets \d+ bytes \d+", "", run("ip", "netns", "exec", namespace, "nft", "list", "ruleset"))


def every(*paths: tuple[str, str]) -> set[Door]:
    return {(source, address, port) for source, address in paths for port in PORTS}


FROM_MANAGEMENT = every(
    # The last two need a route to the cluster's addresses by way of the host, which answers for all of its addresses.
    *((STRANGER, MANAGED), (CLIENT, MANAGED), (COLLECTOR, MANAGED), (STRANGER6, MANAGED6)),
    *((STRANGER, CLUSTER), (STRANGER6, CLUSTER6)),
)
FROM_CLUSTER = every((MEMBER, CLUSTER), (MEMBER6, CLUSTER6), (NEIGHBOUR, CLUSTER))


def test_without_the_table_everybody_comes_everywhere(host: str) -> None:
    """Which is what the other tests rest on: whom they find shut out would come in."""
    load(host, "flush ruleset\n")
    assert passed(f"{host}-mgmt", FROM_MANAGEMENT) == FROM_MANAGEMENT
    assert passed(f"{host}-data", FROM_CLUSTER) == FROM_CLUSTER


def test_who_comes_in_through_the_table(host: str) -> None:
    load(host, table(rules()))
    allowed = {
        **{stranger: {SSH, BRICK} for stranger in (STRANGER, STRANGER6, NEIGHBOUR)},
        CLIENT: {SSH, BRICK, API},
        COLLECTOR: {SSH, BRICK, API, EXPORTER, METRICS},
        **{member: set(PORTS) for member in (MEMBER, MEMBER6)},
    }
    for network, doors in (("mgmt", FROM_MANAGEMENT), ("data", FROM_CLUSTER)):
        assert passed(f"{host}-{network}", doors) == {door for door in doors if door[2] in allowed[door[0]]}


def test_the_host_reaches_itself_under_each_of_its_addresses(host: str) -> None:
    load(host, table(rules()))
    doors = every((MANAGED, MANAGED), (CLUSTER, CLUSTER), (CLUSTER6, CLUSTER6))
    assert passed(host, doors) == doors


def test_what_the_kernel_hands_out_may_be_left_alone(host: str) -> None:
    """Ports with a number of their own stay closed, also where that lies among those of the kernel."""
    load(host, table({**rules(), "dynamic": None}))
    doors = every((STRANGER, CLUSTER))
    assert {port for _source, _address, port in passed(f"{host}-mgmt", doors)} == {SSH, STORE, BRICK}


def test_hosts_of_another_deployment_on_the_machine_reach_what_the_kernel_hands_out(host: str) -> None:
    """Each deployment has a table. That of this one lets those of the other one in where gloo and NCCL listen, and nowhere else."""
    found = rules(beside=["next"])
    load(host, "flush ruleset\n" + table(found))
    ways = every((NEIGHBOUR, CLUSTER))
    assert {port for _source, _address, port in passed(f"{host}-data", ways)} == {SSH, STORE, BRICK}


def test_loading_it_again_replaces_it_and_leaves_other_tables_alone(host: str) -> None:
    load(
        host,
        "flush ruleset\ntable inet other {\n  chain c {\n    type filter hook input priority 0; policy accept;\n  }\n}\n",
    )
    load(host, table(rules()))
    once = ruleset(host)
    load(host, table(rules()))
    assert ruleset(host) == once
    assert "table inet other" in once
    assert table(rules()) == table(rules())
