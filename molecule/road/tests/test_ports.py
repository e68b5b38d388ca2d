"""Who reaches which port: what docs/security.md says, compared with what listens on the hosts and with who gets through.

Everything is tried by real connections: from a member, from another host of the networks, from one that is in the management network only
and adds a route, and from one of no network that a rule knows. The latter two are network namespaces, joined to the host that they attack.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import testinfra

from lab.config import STATE, load

LAB = load()
HOSTS = ["node1", "node2", "node3"]
HEADS, WITH_RAY = {"node1", "node3"}, {"node1", "node2"}
PAGE = (Path(__file__).parents[3] / "docs/security.md").read_text()
# As a rank's store listens: on every address, IPv6 too, on a port that the kernel hands out.
STORE = 43411
# What joins a host and its guest, and the guest's address of a network that nobody knows (RFC 5737).
HOST_6, GUEST_6, NOWHERE = "fd00:15::1", "fd00:15::2", "192.0.2.201"
CONNECT = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def opens(door):
    try:
        socket.create_connection(door, 5).close()
        return True
    except OSError:
        return False

doors = [tuple(door) for door in json.loads(sys.argv[1])]
with ThreadPoolExecutor(max(len(doors), 1)) as pool:
    print(json.dumps([door for door, found in zip(doors, pool.map(opens, doors)) if found]))
"""

Door = tuple[str, int]  # address, port


class Row(NamedTuple):
    """A line of the table: a port or a range of them, the hosts that listen there, and who may connect."""

    first: int
    last: int
    hosts: set[str]
    who: str


class Listener(NamedTuple):
    """What somebody listens on; the address is empty where it is every one, IPv6 included if ``six``."""

    address: str
    port: int
    six: bool


def rows() -> list[Row]:
    """The table of docs/security.md."""
    section = PAGE.split("## Who reaches which port", 1)[1].split("\n## ", 1)[0]
    found = []
    for line in [line for line in section.splitlines() if line.startswith("| ")][2:]:
        ports, where, _variables, who = (cell.strip() for cell in line.strip("|").split("|"))
        numbers = [int(number) for number in re.findall(r"\d+", ports)]
        hosts = set(HOSTS) if where.startswith("every host") else HEADS
        hosts = hosts & WITH_RAY if "with Ray" in where else hosts - WITH_RAY if "without Ray" in where else hosts
        found.append(Row(numbers[0], numbers[-1], hosts, who))
    return found


TABLE = rows()


def on(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def listeners(name: str, kind: str = "t") -> list[Listener]:
    """What listens on a host to others: not on the loopback interface."""
    found = []
    for line in on(name).check_output(f"ss -Hln{kind}").splitlines():
        address, _colon, port = line.split()[3].rpartition(":")
        address = address.strip("[]").partition("%")[0]
        if address in ("*", "::", "0.0.0.0"):
            found.append(Listener("", int(port), address != "0.0.0.0"))
        elif not ipaddress.ip_address(address).is_loopback:
            found.append(Listener(address, int(port), ":" in address))
    return found


def row_of(name: str, port: int) -> Row | None:
    return next((row for row in TABLE if row.first <= port <= row.last and name in row.hosts), None)


def allowed(row: Row, sender: str) -> bool:
    """Whether the table lets somebody in: a member, a client (of the networks that the hosts are in, as it is by default), or nobody."""
    who = row.who.partition(";")[0]  # no other program listened when the role ran
    words = {"member": "the deployment's hosts", "client": "`llm_firewall_api_sources`", "nobody": "everybody"}
    return who == "everybody" or words[sender] in who


def expected(name: str, addresses: list[str], sender: str) -> set[Door]:
    """The doors of a host that the table opens to a sender, and behind which somebody listens."""
    return {
        (address, one.port)
        for one in listeners(name)
        for address in addresses
        for row in [row_of(name, one.port)]
        if one.address in ("", address) and (one.six or ":" not in address)
        if row and allowed(row, sender)
    }


def passed(name: str, addresses: list[str], sender: str, prefix: str = "") -> set[Door]:
    """The doors of a host through which a sender comes: every port on which something listens, at every address."""
    doors = sorted({(address, one.port) for one in listeners(name) for address in addresses})
    said = on(sender).check_output(f"{prefix} python3 -c {shlex.quote(CONNECT)} {shlex.quote(json.dumps(doors))}")
    return {(address, port) for address, port in json.loads(said)}


def own(name: str) -> list[str]:
    return [LAB.nodes[name].mgmt, LAB.nodes[name].data]


@contextmanager
def store(name: str) -> Iterator[None]:
    """Somebody listens on every address as a rank does, since the firewall was set up."""
    on(name).check_output(
        f"systemd-run --quiet --unit store python3 -m http.server --bind :: {STORE};"
        f" for i in $(seq 100); do ss -Hltn sport = :{STORE} | grep -q . && exit; sleep 0.1; done; exit 1"
    )
    try:
        yield
    finally:
        on(name).check_output("systemctl stop store")


@contextmanager
def guest(name: str, address: str) -> Iterator[str]:
    """A small host beside this one, with this address, that knows a way to all addresses of this one. The prefix of its commands."""
    mine = LAB.nodes[name]
    prefix = "nsenter --net=/run/netns/guest"
    on(name).check_output(
        "set -e; ip netns add guest; ip link add guest0 type veth peer name eth0 netns guest;"
        f" sysctl -qw net.ipv6.conf.guest0.disable_ipv6=0; {prefix} sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0;"
        f" ip address add {HOST_6}/64 dev guest0 nodad; ip link set guest0 up; ip route add {address}/32 dev guest0;"
        f" {prefix} ip address add {address}/32 dev eth0; {prefix} ip address add {GUEST_6}/64 dev eth0 nodad;"
        f" {prefix} ip link set eth0 up; {prefix} ip route add {mine.mgmt}/32 dev eth0;"
        f" {prefix} ip route add {LAB.networks['data']} via {mine.mgmt}"
    )
    try:
        yield prefix
    finally:
        on(name).check_output("ip link del guest0; ip netns del guest")


@pytest.fixture(scope="module", autouse=True)
def stores() -> Iterator[None]:
    with ExitStack() as stack:
        for name in HOSTS:
            stack.enter_context(store(name))
        yield


def test_three_hosts_are_looked_at() -> None:
    assert [on(name).check_output("hostname") for name in HOSTS] == HOSTS


@pytest.mark.parametrize("name", HOSTS)
def test_the_table_has_every_port_on_which_something_listens(name: str) -> None:
    found = listeners(name)
    assert {22, STORE} < {one.port for one in found}
    assert [one for one in found if row_of(name, one.port) is None] == []
    assert listeners(name, "u") == []


def test_the_ports_of_what_serves_are_among_them() -> None:
    ports = {name: {one.port for one in listeners(name)} for name in HOSTS}
    assert {8000, 6379, 6380, 6386, 6387} < ports["node1"]
    assert {6380, 6381, 6385} < ports["node2"]
    assert 8000 in ports["node3"]


def test_members_reach_each_other_and_other_hosts_of_the_networks_only_the_api() -> None:
    tries = [
        ("node2", "node1", "member"),
        ("node1", "node2", "member"),
        ("node3", "node1", "client"),
        ("node3", "node2", "client"),
        ("node1", "node3", "client"),
    ]

    def scan(one: tuple[str, str, str]) -> tuple[set[Door], set[Door]]:
        sender, name, kind = one
        return passed(name, own(name), sender), expected(name, own(name), kind)

    with ThreadPoolExecutor() as pool:
        for one, (found, wanted) in zip(tries, pool.map(scan, tries), strict=True):
            assert found == wanted, one
            assert ((own(one[1])[1], STORE) in found) == (one[2] == "member")


@pytest.mark.parametrize("kind", ["client", "nobody"])
def test_who_adds_a_route_gets_no_further(kind: str) -> None:
    """To every address of the host, of both networks and of IPv6, on another interface than that of any network."""
    address = {"client": LAB.nodes["node1"].mgmt.rpartition(".")[0] + ".201", "nobody": NOWHERE}[kind]

    def scan(name: str) -> tuple[set[Door], set[Door]]:
        with guest(name, address) as prefix:
            # Nobody of the deployment has an address of IPv6, so no network of it is that of a client.
            wanted = expected(name, own(name), kind) | expected(name, [HOST_6], "nobody")
            return passed(name, [*own(name), HOST_6], name, prefix), wanted

    with ThreadPoolExecutor() as pool:
        for name, (found, wanted) in zip(HOSTS, pool.map(scan, HOSTS), strict=True):
            assert found == wanted, name
            assert {(at, 22) for at in [*own(name), HOST_6]} <= found


def test_the_engine_does_not_start_without_the_table() -> None:
    """As at a boot where the table cannot be loaded. What runs goes on, as it does while the engine is replaced."""
    host = on("node3")
    table = host.check_output("nft list table inet baremetal_llm | sed 's/packets.*bytes [0-9]*//'")
    host.check_output("cp -a /etc/llm-firewall.nft /root/ && echo 'no table' >>/etc/llm-firewall.nft")
    try:
        assert host.run("systemctl restart docker").rc != 0
        assert host.run("docker ps").rc != 0
    finally:
        host.check_output("mv /root/llm-firewall.nft /etc/ && systemctl reset-failed docker && systemctl start docker")
    assert host.check_output("docker ps --format '{{.Names}}'") == "llm-vllm"
    assert host.check_output("nft list table inet baremetal_llm | sed 's/packets.*bytes [0-9]*//'") == table
