# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided about the network of one deployment: which one it uses, and who is let in on which host."""

from __future__ import annotations

import functools
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import fact, facts_of, mapping, text
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.connectivity import (
    Connectivity,
    Results,
    check_connectivity,
    connectivity_arguments,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.firewall import (
    Surroundings,
    firewall_commands,
    firewall_rules,
    firewalld_zones,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.interfaces import (
    agree_interfaces,
    interfaces_from_facts,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.memory import memory_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import ITSELF, deployment_ports
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.sections import (
    Candidate,
    Check,
    Commands,
    Memory,
    NetworkSection,
    NetworkState,
    Rules,
)

# A listener waits for a run that died: this long for each turn that Ansible needs for all hosts.
LISTEN_SECONDS = 300
# Where no other program has the say.
NFTABLES = "nftables"


@dataclass(frozen=True)
class Network:
    """The hosts of one deployment, and what was found on them.

    ``variables`` holds for each host its variables, defaults included; among its ``ansible_facts`` what ``gather`` brought, and as
    ``llm_connectivity`` what the connectivity check of this run found. ``members`` are the hosts of the deployment that this run is about
    and has not lost.
    """

    deployment: str
    head: str
    hosts: Sequence[str]
    members: Sequence[str]
    executor: str
    variables: Mapping[str, Mapping[str, object]]
    services: Mapping[str, Sequence[str]]
    resolve: Callable[[str], Sequence[str]]
    turns: int = 1
    lang: str = "en"
    # By host the hosts of the other deployments on its machine.
    beside: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # What the hosts remember of those that do not take part; nothing where there never were any.
    absent: Mapping[str, object] = field(default_factory=dict)

    def facts(self, host: str) -> Mapping[str, object]:
        return facts_of(self.variables[host])

    def state(self, host: str) -> Memory:
        """What the last run decided on this host: the network, who its members were, and the rules in other people's firewalls."""
        return memory_of(self.facts(host))

    @functools.cached_property
    def by_memory(self) -> list[str]:
        """The hosts in the order in which their memory counts: those of this run know better. A rebuilt one has none."""
        return [*self.members, *(host for host in self.hosts if host not in self.members)]

    @functools.cached_property
    def known(self) -> list[str]:
        """The hosts whose interfaces were found, those outside of this run included."""
        return [host for host in self.hosts if self.variables[host].get("llm_interface")]

    @functools.cached_property
    def candidates(self) -> list[Candidate]:
        """The networks that would do, best first."""
        wanted = {host: text(self.variables[host].get("llm_cluster_interface")) for host in self.known}
        hosts = {host: {"interfaces": interfaces_from_facts(self.facts(host))} for host in self.known}
        asked = self.variables[self.members[0]].get("llm_cluster_network")
        return agree_interfaces(hosts, asked or None, wanted, self.lang)["candidates"]

    @functools.cached_property
    def previous(self) -> str:
        """The network in use, from whichever host remembers it."""
        return next((self.state(host)["network"] for host in self.by_memory if self.state(host).get("network")), "")

    @functools.cached_property
    def remembered(self) -> dict[str, list[str]]:
        """The addresses that each member had when a run last saw it, as the first host that remembers tells it."""
        found: dict[str, list[str]] = {}
        for host in reversed(self.by_memory):
            found |= {name: list(known) for name, known in (self.state(host).get("members") or {}).items() if known}
        return found

    @functools.cached_property
    def connectivity(self) -> Connectivity | None:
        """What the connectivity check of this run showed; None before it. A host alone has nobody to connect to."""
        found = {host: mapping(self.variables[host].get("llm_connectivity")) for host in self.members}
        if len(found) > 1 and not all("heard" in each for each in found.values()):
            return None
        results = {
            host: cast(Results, {key: said for key, said in each.items() if said}) for host, each in found.items()
        }
        rdma = {host: self.facts(host).get("llm_rdma_found") for host in self.known}
        connectivity = check_connectivity(self.candidates, results, self.previous, self.lang, rdma)
        if any(self.variables[host].get("llm_firewall_unchanged") for host in self.members):
            # A check leaves firewalls as they are, and one of them has to be opened before the hosts can reach each other.
            connectivity["problems"] = []
        return connectivity

    @functools.cached_property
    def interfaces(self) -> dict[str, dict[str, object]]:
        """The interface of each host: that of the verified network, else the one that preflight found."""
        connectivity = self.connectivity
        if connectivity and connectivity["network"]:
            return {
                host: {**entry, "network": connectivity["network"]}
                for host, entry in connectivity["interfaces"].items()
            }
        return {host: dict(mapping(self.variables[host]["llm_interface"])) for host in self.known}

    def section(self, host: str) -> NetworkSection:
        """What the role network reads."""
        state, firewall = self.state(host), fact(self.variables[host], "llm_firewall")
        network = self.connectivity["network"] if self.connectivity else state.get("network") or ""
        rules = self.rules(host)
        backend = self.backend(host)
        enabled = is_true(self.variables[host]["llm_firewall_enabled"])
        runs = {
            "ufw": bool(mapping(firewall.get("ufw")).get("enabled")),
            "firewalld": bool(mapping(firewall.get("firewalld")).get("running")),
        }
        before = {"ufw": state.get("ufw") or [], "firewalld": state.get("firewalld") or []}
        commands = {
            program: self.commands(program, rules if enabled else None, before[program], there)
            for program, there in runs.items()
        }
        table = enabled and backend == NFTABLES
        dynamic = table and is_true(self.variables[host]["llm_firewall_dynamic_ports_enabled"])
        remembered = state.get("open_ports") or []
        if dynamic and rules["dynamic"]:
            remembered = rules["dynamic"]["open"]
        kept: NetworkState = {
            "network": network,
            "members": rules["known"],
            "ufw": commands["ufw"]["add"],
            "firewalld": commands["firewalld"]["add"],
            "open_ports": remembered,
        }
        if self.absent:
            kept["absent"] = dict(self.absent)
        return {
            "enabled": enabled,
            "backend": backend,
            "table": table,
            "rules": {**rules, "dynamic": rules["dynamic"] if dynamic else None},
            "ufw": commands["ufw"],
            "firewalld": commands["firewalld"],
            "is_new": bool(network) and network != (state.get("network") or ""),
            "state": kept,
            "problems": self.problems(host),
        }

    @staticmethod
    def commands(program: str, rules: Rules | None, previous: Sequence[Mapping[str, str]], runs: bool) -> Commands:
        """What to remove and to add. A firewall that is not in use keeps what it has."""
        if not runs:
            return {"runs": False, "remove": [], "add": [dict(one) for one in previous]}
        return firewall_commands(program, rules, previous)

    def backend(self, host: str) -> str:
        return backend_of(fact(self.variables[host], "llm_firewall"))

    def rules(self, host: str) -> Rules:
        firewall = fact(self.variables[host], "llm_firewall")
        firewalld = mapping(firewall.get("firewalld"))
        zones = {}
        if firewalld.get("running"):
            zones = firewalld_zones(str(firewalld["default_zone"]), str(firewalld["zones"]))
        return firewall_rules(
            host,
            self.hosts,
            self.services,
            self.variables,
            Surroundings(
                executor=self.executor,
                candidates=self.candidates,
                remembered=self.remembered,
                open_ports=self.state(host).get("open_ports") or (),
                zones=zones,
                policy=text(mapping(firewall["ufw"]).get("default_input")) if self.backend(host) == "ufw" else "",
                beside=self.beside.get(host) or (),
                resolve=self.resolve,
            ),
            self.lang,
        )

    def problems(self, host: str) -> str:
        """Why no network carries the deployment. Its first host says it; the others name that host."""
        if not self.connectivity or not self.connectivity["problems"]:
            return ""
        first = self.members[0]
        return (
            self.connectivity["message"] if host == first else message("connectivity_elsewhere", self.lang, host=first)
        )

    def check(self, host: str, token: str) -> Check:
        """What the connectivity check gets on one host; ``token`` tells this run's listeners from whatever else may answer."""
        ports = deployment_ports(self.variables[host], self.executor)
        return {
            "members": list(self.members),
            "token": token,
            "candidates": self.candidates,
            "addresses": connectivity_arguments(self.candidates, host, {})["addresses"],
            "lifetime_seconds": LISTEN_SECONDS * (1 + self.turns),
            "ports": [
                {"variable": port.variable, "first": port.first, "last": port.last}
                for port in ports
                if (host == self.head or not port.head_only) and port.reached_by != ITSELF
            ],
        }

    def sections(self) -> dict[str, NetworkSection]:
        token = secrets.token_hex(16)
        return {host: {**self.section(host), "check": self.check(host, token)} for host in self.members}


def backend_of(firewall: Mapping[str, object]) -> str:
    """Which program's rules count on a host, by what was found there."""
    if mapping(firewall.get("firewalld")).get("running"):
        return "firewalld"
    return "ufw" if mapping(firewall.get("ufw")).get("enabled") else NFTABLES


def turns(hosts: int, forks: int) -> int:
    """How often Ansible has to take up a task until every host had its turn."""
    return math.ceil(hosts / max(forks, 1))
