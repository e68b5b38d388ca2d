"""The network of a deployment: agreed on, verified, closed to others; and what happens when something about it is wrong.

node1 and node2 are one deployment, node3 is no part of it. All faults are real: rules of nftables, an MTU of its own, taken ports.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import testinfra

from lab.config import STATE, load
from tests.support.drills import users_environment

CHECKOUT = Path(__file__).resolve().parents[3]
LAB = load()
DATA = {name: node.data for name, node in LAB.nodes.items()}
MGMT = {name: node.mgmt for name, node in LAB.nodes.items()}
DATA_NETWORK, MGMT_NETWORK = LAB.networks["data"], LAB.networks["mgmt"]
SSH = str(STATE / "ssh/config")
GCS, API, MANAGER, DYNAMIC = 6379, 8000, 6380, 40000
BRICK, HIGH_SSH = 49152, 50022


@dataclass
class Run:
    """What ansible-playbook said and did, and the connectivity check that it kept."""

    status: int
    output: str
    reports: Path

    @property
    def changed(self) -> dict[str, int]:
        return {host: int(count) for host, count in re.findall(r"^(\S+)\s+: ok=.* changed=(\d+) ", self.output, re.M)}

    @property
    def changes(self) -> str:
        """What changed where, to be read when nothing should have."""
        tasks = re.split(r"^(?=TASK \[|RUNNING HANDLER \[)", self.output, flags=re.M)
        return "".join(task for task in tasks if re.search(r"^changed: ", task, re.M))

    @property
    def connectivity(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.reports / "network.json").read_text())["tiny_split"]
        return found

    def says(self, *texts: str) -> None:
        for text in texts:
            assert text in self.output, self.output[-6000:]


@pytest.fixture
def network(tmp_path: Path) -> Any:
    tmp_path.chmod(0o755)  # as the folder of the reports is, so that no run has to change it

    def run(*arguments: str) -> Run:
        command = [sys.executable, "-m", "ansible", "playbook", str(CHECKOUT / "molecule/network/converge.yml")]
        command += ["-i", str(CHECKOUT / "inventories/lab"), "-e", f"llm_report_dir={tmp_path}"]
        # What the bundle holds was compared with its manifest when the scenario converged, and no run here brings anything.
        command += ["-e", "preflight_bundle_required=false"]
        command += ["--diff", "--limit", "tiny_split", *arguments]
        environment = users_environment()
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            env={**environment, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )
        return Run(done.returncode, done.stdout, tmp_path)

    return run


def on(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=SSH)


# Who connects where: the host that tries, and the address and the port that it tries.
Door = tuple[str, str, int]


def doors(*, opened: Iterable[Door] = (), shut: Iterable[Door] = ()) -> None:
    """Through the former one comes, through the latter nobody. All are tried side by side, as a packet that is lost takes its time."""
    wanted = {**dict.fromkeys(opened, 10), **dict.fromkeys(shut, 2)}  # seconds: what is open answers at once

    def passed(sender: str) -> set[Door]:
        tries = [
            f"{{ timeout {seconds} bash -c '</dev/tcp/{address}/{port}' 2>/dev/null && echo {address} {port}; }} &"
            for (host, address, port), seconds in wanted.items()
            if host == sender
        ]
        lines = on(sender).check_output(f"{' '.join(tries)} wait").splitlines()
        return {(sender, address, int(port)) for address, port in map(str.split, lines)}

    with ThreadPoolExecutor() as pool:
        found = set[Door]().union(*pool.map(passed, {host for host, _address, _port in wanted}))
    assert found == set(opened), f"came through: {sorted(found)}"


class OtherServices:
    """Programs that listen on a host."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str]] = []

    def start(self, host: str, *ports: int) -> None:
        for port in ports:
            unit = f"other-{port}"
            on(host).check_output(f"systemd-run --quiet --unit {unit} python3 -m http.server --bind :: {port}")
            self.started.append((host, unit))
            on(host).check_output(
                f"for i in $(seq 100); do ss -Hltn sport = :{port} | grep -q . && exit; sleep 0.1; done; exit 1"
            )

    def stop(self) -> None:
        while self.started:
            host, unit = self.started.pop()
            on(host).check_output(f"systemctl stop {unit}")


@pytest.fixture
def others() -> Iterator[OtherServices]:
    found = OtherServices()
    yield found
    found.stop()


@pytest.fixture
def drop() -> Iterator[Any]:
    """Rules that lose packets on a host, until the test is over."""
    hosts: list[str] = []

    def add(host: str, *rules: str) -> None:
        chain = "type filter hook input priority -10;"
        lines = "".join(f" add rule inet fault input {rule} drop;" for rule in rules)
        on(host).check_output(f"nft 'add table inet fault; add chain inet fault input {{ {chain} }};{lines}'")
        hosts.append(host)

    yield add
    for host in hosts:
        on(host).check_output("nft delete table inet fault")


def interface_of(host: str, address: str) -> str:
    found = json.loads(on(host).check_output("ip -json -4 address"))
    (name,) = [one["ifname"] for one in found for own in one["addr_info"] if own["local"] == address]
    return str(name)


@contextmanager
def moved(host: str) -> Iterator[str]:
    """The host has another address in the network of the cluster, as one has that is added."""
    interface, length = interface_of(host, DATA[host]), DATA_NETWORK.partition("/")[2]
    new = DATA[host].rpartition(".")[0] + ".77"

    def swap(old: str, other: str) -> None:
        on(host).check_output(
            f"ip address del {old}/{length} dev {interface} && ip address add {other}/{length} dev {interface}"
        )

    swap(DATA[host], new)
    try:
        yield new
    finally:
        swap(new, DATA[host])


@contextmanager
def second_sshd(host: str) -> Iterator[None]:
    on(host).check_output(f"mkdir -p /run/sshd && systemd-run --quiet --unit high-sshd /usr/sbin/sshd -D -p {HIGH_SSH}")
    try:
        yield
    finally:
        on(host).check_output("systemctl stop high-sshd")


@contextmanager
def version_6() -> Iterator[dict[str, str]]:
    """All hosts also have addresses of version 6 in the network of the cluster."""
    found = {host: f"fd00:11::{address.rpartition('.')[2]}" for host, address in DATA.items()}
    interfaces = {host: interface_of(host, address) for host, address in DATA.items()}
    disabled = {host: f"net.ipv6.conf.{interface}.disable_ipv6" for host, interface in interfaces.items()}
    before = {host: on(host).check_output(f"sysctl -n {setting}") for host, setting in disabled.items()}
    for host, address in found.items():
        on(host).check_output(
            f"sysctl -q -w {disabled[host]}=0 && ip address add {address}/64 dev {interfaces[host]} nodad"
        )
    try:
        yield found
    finally:
        for host, address in found.items():
            on(host).check_output(
                f"ip address del {address}/64 dev {interfaces[host]} && sysctl -q -w {disabled[host]}={before[host]}"
            )


def no_listener_is_left(*hosts: str) -> None:
    for host in hosts:
        assert "baremetal.llm.connectivity" not in on(host).file("/proc/net/unix").content_string


def test_three_hosts_are_looked_at() -> None:
    assert [on(name).check_output("hostname") for name in DATA] == ["node1", "node2", "node3"]


def test_members_reach_each_other_and_another_host_does_not(others: OtherServices) -> None:
    others.start("node1", GCS, API, DYNAMIC)
    doors(
        opened=[
            *(("node2", DATA["node1"], port) for port in (GCS, API, DYNAMIC)),
            # Clients of the networks that the hosts are in may ask the API, and everybody may try to log in.
            *(("node3", DATA["node1"], port) for port in (API, 22)),
        ],
        shut=[("node3", address, port) for address in (DATA["node1"], MGMT["node1"]) for port in (GCS, DYNAMIC)],
    )


def test_ssh_comes_before_whatever_is_closed() -> None:
    chain = on("node1").check_output("nft list chain inet baremetal_llm input")
    assert "policy accept" in chain
    assert chain.index("tcp dport 22 accept") < chain.index("drop")


def test_the_table_outlives_a_reload_of_all_tables_and_a_reboot() -> None:
    host = on("node1")
    for action in ("start", "reload", "restart"):
        host.check_output(f"systemctl {action} nftables")
        assert host.run("nft list table inet baremetal_llm").rc == 0, action
    host.check_output("systemctl stop nftables")
    # A reboot, or what a host of the lab has for one: its kernel goes on.
    started = "systemctl show -P UserspaceTimestampMonotonic"
    before = host.check_output(started)
    host.run("systemctl reboot")
    deadline = time.monotonic() + 120
    booted = ["ssh", "-F", SSH, "-o", "ControlPath=none", "node1"]
    booted += [f"test $({started}) != {before} && systemctl is-active llm-firewall"]
    while subprocess.run(booted, capture_output=True, check=False).returncode != 0:
        assert time.monotonic() < deadline
        time.sleep(1)
    assert on("node1").run("nft list table inet baremetal_llm").rc == 0


def test_what_changed_since_the_last_run_gets_through_its_rules(network: Any, others: OtherServices) -> None:
    """The tables of the last run are loaded: they know neither the new address of a member nor the port on which sshd listens now."""
    others.start("node1", GCS, BRICK)
    with version_6() as addresses, moved("node2"), second_sshd("node1"):
        doors(
            opened=[("node3", DATA["node1"], 22)],
            shut=[
                *(("node2", address, GCS) for address in (DATA["node1"], addresses["node1"])),
                *(("node3", DATA["node1"], port) for port in (GCS, BRICK, HIGH_SSH)),
            ],
        )
        others.stop()
        others.start("node1", BRICK)
        run = network()
        assert run.status == 0, run.output[-6000:]
        assert run.changed["node1"] > 0
        page = (run.reports / "network.html").read_text()
        assert DATA_NETWORK in page
        assert 'class="bad"' not in page
        again = network()
        assert again.status == 0
        assert not any(again.changed.values()), again.changes
        others.start("node1", GCS)
        doors(
            opened=[
                *(("node2", address, GCS) for address in (DATA["node1"], addresses["node1"])),
                *(("node3", DATA["node1"], port) for port in (BRICK, HIGH_SSH)),
                ("node3", addresses["node1"], 22),
            ],
            shut=[("node3", address, GCS) for address in (DATA["node1"], addresses["node1"])],
        )


# The firewalls of other people, which refuse all but SSH: packages, how to turn it on, how to turn it off.
FIREWALLS = {
    "node1": (
        "firewalld netbase",
        "systemctl restart firewalld && firewall-cmd --state",
        "systemctl stop firewalld",
    ),
    "node2": ("ufw", "ufw allow 22/tcp && ufw --force enable", "ufw disable"),
}


@pytest.fixture
def firewalls() -> Iterator[None]:
    """The administrators of both hosts use one, each another."""

    def start(host: str) -> None:
        packages, turn_on, _turn_off = FIREWALLS[host]
        install = f"APT_CONFIG=/opt/llm/apt/apt.conf apt-get install -qq -y --no-install-recommends {packages}"
        on(host).check_output(f"{install} >/dev/null 2>&1 && {turn_on}")

    with ThreadPoolExecutor() as pool:
        list(pool.map(start, FIREWALLS))
    yield
    for host, (_packages, _turn_on, turn_off) in FIREWALLS.items():
        on(host).check_output(turn_off)


@pytest.mark.usefixtures("firewalls")
def test_the_firewall_of_the_host_is_used(network: Any, others: OtherServices) -> None:
    def listen() -> None:
        for host in FIREWALLS:
            others.start(host, MANAGER)

    members = [("node1", DATA["node2"], MANAGER), ("node2", DATA["node1"], MANAGER)]
    ssh = [("node3", DATA[host], 22) for host in FIREWALLS]
    listen()
    doors(opened=ssh, shut=members)
    others.stop()
    run = network()
    assert run.status == 0, run.output[-6000:]
    assert run.connectivity["network"] == DATA_NETWORK  # verified through them
    for host in FIREWALLS:
        assert on(host).run("nft list table inet baremetal_llm").rc != 0
    # Of ufw's rules the first that fits decides: what is new has to come before the denying rules of the last run.
    with moved("node1") as address:
        run = network()
        assert run.status == 0, run.output[-6000:]
        again = network()
        assert again.status == 0
        assert {host: again.changed[host] for host in FIREWALLS} == dict.fromkeys(FIREWALLS, 0), again.changes
        listen()
        doors(
            opened=[("node1", DATA["node2"], MANAGER), ("node2", address, MANAGER), ("node3", address, 22), ssh[1]],
            shut=[("node3", host, MANAGER) for host in (address, DATA["node2"])],
        )
    others.stop()
    # Without the connectivity check, for which nothing lets the hosts in to each other then.
    taken_back = network("-e", "llm_firewall_enabled=false", "--tags", "network_configure")
    assert taken_back.status == 0, taken_back.output[-6000:]
    listen()
    doors(opened=ssh, shut=members)


def test_the_first_network_carries_nothing_and_an_interface_has_another_name(network: Any, drop: Any) -> None:
    """Both networks would do and the first is blocked between the two hosts; node2 calls its interface otherwise, with a smaller MTU.

    Besides, the firewalls of their owners are off again: the tables of ours are back.
    """
    for host in ("node1", "node2"):
        assert on(host).run("nft list table inet baremetal_llm").rc != 0
        on(host).check_output("rm -f /opt/llm/network.json")
    drop("node1", f"ip saddr {MGMT['node2']}")
    drop("node2", f"ip saddr {MGMT['node1']}")
    on("node2").check_output("ip link set ens3f0 mtu 1400")
    try:
        run = network("-e", '{"llm_cluster_network": null}')
        assert run.status == 0, run.output[-6000:]
        assert run.connectivity["network"] == DATA_NETWORK
        assert [entry["network"] for entry in run.connectivity["networks"]] == [MGMT_NETWORK, DATA_NETWORK]
        assert [entry["works"] for entry in run.connectivity["networks"]] == [False, True]
        assert run.connectivity["interfaces"]["node2"]["interface"] == "ens3f0"
        assert run.connectivity["interfaces"]["node1"]["interface"] == interface_of("node1", DATA["node1"])
        assert run.connectivity["networks"][1]["paths"]["node1"]["node2"]["mbps"] > 10
        (warning, *_more) = run.connectivity["networks"][1]["warnings"]
        assert "node1 1500" in warning
        assert "node2 1400 (ens3f0)" in warning
        assert run.connectivity["networks"][1]["paths"]["node1"]["node2"]["mtu"] == 1400
        run.says(f"{MGMT_NETWORK} was passed over.", "node1 - node2", f"network {DATA_NETWORK}, verified")
    finally:
        on("node2").check_output("ip link set ens3f0 mtu 1500")
    for host in ("node1", "node2"):
        assert run.changed[host] > 0
        assert on(host).run("nft list table inet baremetal_llm").rc == 0
    no_listener_is_left("node1", "node2")


def test_opt_out_takes_it_back_and_a_run_that_is_refused_closes_it_again(
    network: Any, others: OtherServices, drop: Any
) -> None:
    """Who is logged in stays so through both. The second run finds two faults and names both, but the ports it closes before it checks."""
    command = ["ssh", "-F", SSH, "-o", "ControlPath=none", "node1", "echo open; read line; echo got $line"]
    session = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert session.stdin
    assert session.stdout
    assert session.stdout.readline() == "open\n"
    run = network("-e", "llm_firewall_enabled=false")
    assert run.status == 0, run.output[-6000:]
    assert on("node1").run("nft list table inet baremetal_llm").rc != 0
    for path in ("llm-firewall.service", "nftables.service.d/llm-firewall.conf", "docker.service.d/llm-firewall.conf"):
        assert not on("node1").file(f"/etc/systemd/system/{path}").exists
    others.start("node1", GCS)
    doors(opened=[("node3", DATA["node1"], GCS)])
    others.stop()

    # A dead direction, and a port that somebody else has taken, which preflight would refuse before.
    drop("node2", f"ip saddr {DATA['node1']}")
    others.start("node2", MANAGER)
    run = network("-e", '{"preflight_severities": {"port_taken": "ignore"}}')
    assert run.status != 0
    run.says("The path is asymmetric", "packets are lost in the direction node1 -> node2;", "Nothing has been started")
    assert "node2 -> node1;" not in run.output
    run.says(f"Port {MANAGER} of the host node2 in", "is taken by python3 (", f"ray_node_manager_port: {MANAGER}")
    no_listener_is_left("node1", "node2")
    others.start("node1", GCS)
    doors(opened=[("node3", DATA["node1"], 22)], shut=[("node3", DATA["node1"], GCS)])
    out, _err = session.communicate("still here\n", timeout=20)
    assert out == "got still here\n"
