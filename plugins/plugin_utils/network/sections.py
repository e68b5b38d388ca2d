# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided for the network of a host: the fields that the role network reads as ``_llm.network.FIELD``."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class Source(TypedDict):
    """Who may connect, by kind of address, and to which ports, as nftables writes them."""

    v4: list[str]
    v6: list[str]
    ports: list[str]


class Dynamic(TypedDict):
    """The ports that the kernel hands out: the range, which of them stay open, and who else on the machine may come in."""

    ports: str
    open: list[int]
    beside: NotRequired[dict[str, list[str]]]


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
    absent: NotRequired[dict[str, Any]]


class Check(TypedDict):
    """What the connectivity check gets on the host."""

    members: list[str]
    # Tells this run's listeners from whatever else may answer.
    token: str
    candidates: list[dict[str, Any]]
    addresses: dict[str, str]
    ports: list[dict[str, Any]]
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
