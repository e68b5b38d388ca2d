# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided for the network of a host: the fields that the role network reads as ``_llm.network.FIELD``."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Addresses(TypedDict):
    """Networks and addresses, by kind."""

    v4: list[str]
    v6: list[str]


class Source(Addresses):
    """Who may connect, and to which ports, as nftables writes them."""

    ports: list[str]


class Dynamic(TypedDict):
    """The ports that the kernel hands out: the range, which of them stay open, and who else on the machine may come in."""

    ports: str
    open: list[int]
    beside: NotRequired[Addresses]


class Rules(TypedDict):
    """The rules of the host's firewall."""

    members: Source
    clients: Source
    collectors: Source
    fleet: Source
    itself: Source
    closed: list[str]
    ssh: list[int]
    dynamic: Dynamic | None
    zones: list[str]
    # The addresses of each member; members without one; pairs of variables that name one port; for people.
    known: dict[str, list[str]]
    unknown: list[str]
    clashes: list[list[str]]
    notes: list[str]


class Commands(TypedDict):
    """What is to be changed in a firewall that somebody else runs, and whether it runs."""

    runs: bool
    remove: list[dict[str, str]]
    add: list[dict[str, str]]


class NetworkState(TypedDict):
    """What the host remembers of its network for later runs."""

    network: str
    members: dict[str, list[str]]
    ufw: list[dict[str, str]]
    firewalld: list[dict[str, str]]
    open_ports: list[int]
    # Hosts that do not take part in the deployment (plugin_utils/inventory/members.py).
    absent: NotRequired[dict[str, object]]


class Memory(TypedDict, total=False):
    """What a host remembers of it. One that a run has never seen remembers nothing."""

    network: str
    members: dict[str, list[str]]
    ufw: list[dict[str, str]]
    firewalld: list[dict[str, str]]
    open_ports: list[int]
    absent: dict[str, object]


class Interface(TypedDict):
    """An interface of a host with its address in a network. 0 is for what no driver says."""

    interface: str
    address: str
    mtu: int
    speed_mbps: int
    rdma: bool


class Candidate(TypedDict):
    """A network on which every host of a deployment has an address."""

    network: str
    interfaces: dict[str, Interface]


class CheckedPort(TypedDict):
    """A port, or a range of ports, that the hosts of a deployment have to reach."""

    variable: str
    first: int
    last: int


class Check(TypedDict):
    """What the connectivity check gets on the host."""

    members: list[str]
    # Tells this run's listeners from whatever else may answer.
    token: str
    candidates: list[Candidate]
    addresses: dict[str, str]
    ports: list[CheckedPort]
    lifetime_seconds: int


class NetworkSection(TypedDict):
    """What the role network reads."""

    enabled: bool
    # nftables, ufw or firewalld
    backend: str
    # Whether the host has a table of nftables of ours.
    table: bool
    rules: Rules
    ufw: Commands
    firewalld: Commands
    is_new: bool
    state: NetworkState
    # Why no network carries the deployment; empty where one does.
    problems: str
    check: NotRequired[Check]
