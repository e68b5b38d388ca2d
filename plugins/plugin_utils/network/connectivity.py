# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reaches whom: what the connectivity check of a deployment found, and which network carries the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._connectivity import Failure, Reached
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem, render
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.environment import rdma_lacking, rdma_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.sections import Candidate, Interface

# One direction of a pair that carries so many times less than the other is worth a word.
_RATES_DIFFER = 5
_SURE_FAILURES = ("other_service",)
_OTHER = "other:"


class Path(TypedDict):
    """What a host saw of another one, with the largest packet that arrived; None if no datagram did."""

    milliseconds: float | None
    mbps: float | None
    mtu: int | None
    failed: dict[str, Failure]
    stream: str


class Taken(TypedDict):
    """A port of the deployment that another program has."""

    address: str
    port: int
    variable: str
    program: str
    pid: int | None


class Results(TypedDict, total=False):
    """What ``network_connectivity`` returned on a host, by network and other host."""

    taken: list[Taken]
    reached: dict[str, dict[str, Reached]]
    heard: dict[str, dict[str, int]]


class Checked(TypedDict):
    """One candidate: whether it carries the cluster, and what is wrong with it."""

    network: str
    works: bool
    interfaces: dict[str, Interface]
    problems: list[dict[str, str]]
    warnings: list[str]
    paths: dict[str, dict[str, Path]]


class Connectivity(TypedDict):
    """Which network carries the cluster, empty for none, with the interfaces of its hosts; all that were tried; and why none does, also as one text."""

    network: str
    interfaces: dict[str, Interface]
    networks: list[Checked]
    notes: list[str]
    problems: list[dict[str, str]]
    message: str


class Arguments(TypedDict):
    """The arguments of ``network_connectivity``."""

    addresses: dict[str, str]
    mtus: dict[str, int]
    peers: list[dict[str, object]]


class _Network:
    """One candidate: what is wrong with it."""

    def __init__(self, candidate: Candidate, results: Mapping[str, Results], lang: str) -> None:
        self.network = candidate["network"]
        self.interfaces = candidate["interfaces"]
        self.results = results
        self.lang = lang
        self.hosts = [host for host in self.interfaces if host in results]
        self.problems: list[dict[str, str]] = []
        self.warnings: list[str] = []
        self.paths = {
            sender: {receiver: self.path(sender, receiver) for receiver in self.hosts if receiver != sender}
            for sender in self.hosts
        }
        self.check()

    def path(self, sender: str, receiver: str) -> Path:
        reached = self.results[sender].get("reached", {}).get(self.network, {}).get(receiver)
        heard = self.results[receiver].get("heard", {}).get(self.network, {})
        reached = reached or Reached(
            milliseconds=None, mbps=None, failed={"dynamic": {"port": 0, "reason": "nothing"}}, stream=""
        )
        return {
            "milliseconds": reached["milliseconds"],
            "mbps": reached["mbps"],
            # The largest packet that arrived; None if no datagram did.
            "mtu": heard.get(sender),
            "failed": reached["failed"],
            "stream": reached.get("stream") or "",
        }

    def add(self, code: str, value: str, where: str = "", **values: object) -> None:
        where = where or message("where_hosts_network", self.lang)
        self.problems.append(problem(code, self.lang, value=value, where=where, network=self.network, **values))

    def warn(self, code: str, **values: object) -> None:
        self.warnings.append(message(code, self.lang, network=self.network, **values))

    def pairs(self) -> Iterable[tuple[str, str]]:
        for index, one in enumerate(self.hosts):
            for other in self.hosts[index + 1 :]:
                yield one, other

    def arrow(self, sender: str, receiver: str) -> str:
        return "{0} -> {1}".format(sender, receiver)

    def check(self) -> None:
        self.check_ports()
        dead: list[str] = []
        one_way: list[str] = []
        for one, other in self.pairs():
            there, back = self.paths[one][other], self.paths[other][one]
            broken = ["dynamic" in path["failed"] for path in (there, back)]
            self.check_identity(one, other, there)
            self.check_identity(other, one, back)
            if not any(broken) or self.answered(there) or self.answered(back):
                continue
            heard = [there["mtu"] is not None, back["mtu"] is not None]
            # Datagrams say which direction is dead; where they say nothing, connections may.
            passes = heard if heard[0] != heard[1] else [not broken[0], not broken[1]]
            if passes[0] == passes[1]:
                dead.append("{0} - {1}".format(one, other))
            else:
                one_way.append(self.arrow(other, one) if passes[0] else self.arrow(one, other))
        if dead:
            self.add("connectivity_no_path", self.network, pairs=names(dead, self.lang))
        if one_way:
            self.add("connectivity_one_way", self.network, pairs=names(one_way, self.lang))
        self.check_blocked_ports()
        self.check_streams()
        self.check_mtu()
        self.check_rates()

    @staticmethod
    def answered(path: Path) -> bool:
        """Something was there, though not who was expected."""
        reason = path["failed"]["dynamic"]["reason"] if "dynamic" in path["failed"] else ""
        return reason in _SURE_FAILURES or reason.startswith(_OTHER)

    def check_ports(self) -> None:
        seen = set()
        for host in self.hosts:
            for entry in self.results[host].get("taken", ()):
                if entry["address"] != self.interfaces[host]["address"] or (host, entry["port"]) in seen:
                    continue
                seen.add((host, entry["port"]))
                holder = "{0} ({1})".format(entry["program"] or "?", entry["pid"] or "?")
                self.add(
                    "connectivity_port_taken",
                    "{0}: {1}".format(entry["variable"], entry["port"]),
                    message("where_host", self.lang, host=host),
                    host=host,
                    port=entry["port"],
                    program=holder,
                    variable=entry["variable"],
                )

    def check_identity(self, sender: str, receiver: str, path: Path) -> None:
        reasons = {entry["reason"]: entry["port"] for entry in path["failed"].values()}
        for reason in reasons:
            if reason.startswith(_OTHER):
                self.add(
                    "connectivity_other_host",
                    "{0}: {1}".format(receiver, self.interfaces[receiver]["address"]),
                    address=self.interfaces[receiver]["address"],
                    host=receiver,
                    other=reason[len(_OTHER) :],
                    sender=sender,
                )
                return
        if "other_service" in reasons:
            self.add(
                "connectivity_other_service",
                "{0}:{1}".format(self.interfaces[receiver]["address"], reasons["other_service"]),
                host=receiver,
                sender=sender,
                port=reasons["other_service"],
            )

    def check_blocked_ports(self) -> None:
        """Ports that fail where the path as such works."""
        blocked: dict[tuple[str, str], list[str]] = {}
        for sender, others in self.paths.items():
            for receiver, path in others.items():
                if "dynamic" in path["failed"]:
                    continue
                for entry in path["failed"].values():
                    if entry["reason"] not in _SURE_FAILURES and not entry["reason"].startswith(_OTHER):
                        key = (str(entry["port"]), entry["reason"])
                        blocked.setdefault(key, []).append(self.arrow(sender, receiver))
        for (port, reason), arrows in sorted(blocked.items()):
            self.add("connectivity_port_blocked", port, pairs=names(arrows, self.lang), port=port, reason=reason)

    def check_streams(self) -> None:
        for sender, others in self.paths.items():
            for receiver, path in others.items():
                if path["stream"] and not path["failed"]:
                    self.add(
                        "connectivity_stream",
                        self.arrow(sender, receiver),
                        sender=sender,
                        receiver=receiver,
                        reason=path["stream"],
                        mtu=path["mtu"] or "?",
                    )

    def mtu(self, host: str) -> int:
        return self.interfaces[host].get("mtu") or 0

    def check_mtu(self) -> None:
        sizes = {host: self.mtu(host) for host in self.hosts if self.mtu(host)}
        if len(set(sizes.values())) > 1:
            texts = [
                "{0} {1} ({2})".format(host, size, self.interfaces[host]["interface"]) for host, size in sizes.items()
            ]
            self.warn("connectivity_mtu_differs", sizes=names(texts, self.lang))
        shrunk: dict[tuple[int, int], list[str]] = {}
        for sender, others in self.paths.items():
            for receiver, path in others.items():
                expected = min(self.mtu(sender), self.mtu(receiver))
                if path["mtu"] and path["mtu"] < expected:
                    shrunk.setdefault((path["mtu"], expected), []).append(self.arrow(sender, receiver))
        for (found, expected), arrows in sorted(shrunk.items()):
            self.warn("connectivity_mtu_path", pairs=names(arrows, self.lang), mtu=found, expected=expected)

    def check_rates(self) -> None:
        for one, other in self.pairs():
            there, back = self.paths[one][other]["mbps"], self.paths[other][one]["mbps"]
            if there and back and max(there, back) > _RATES_DIFFER * min(there, back):
                slow = self.arrow(one, other) if there < back else self.arrow(other, one)
                fast = self.arrow(other, one) if there < back else self.arrow(one, other)
                values = {"slow": slow, "fast": fast, "low": rate(min(there, back)), "high": rate(max(there, back))}
                self.warn("connectivity_rates_differ", **values)

    def as_data(self) -> Checked:
        return {
            "network": self.network,
            "works": not self.problems,
            "interfaces": self.interfaces,
            "problems": self.problems,
            "warnings": self.warnings,
            "paths": self.paths,
        }


def rate(mbps: float | None) -> str:
    """As people write it."""
    if mbps is None:
        return ""
    return "{0:.1f} Gbit/s".format(mbps / 1000) if mbps >= 1000 else "{0:.0f} Mbit/s".format(mbps)


def _with_link(host: str, interface: Interface, hosts: Mapping[str, Mapping[str, object]]) -> Interface:
    """The interface of a host with the speed of what carries its data."""
    used = rdma_of(host, hosts)
    return {**interface, "speed_mbps": (used.mbps if used else 0) or interface["speed_mbps"]}


def check_connectivity(
    candidates: Sequence[Candidate],
    results: Mapping[str, Results],
    previous: str = "",
    lang: str = "en",
    rdma: Mapping[str, object] | None = None,
) -> Connectivity:
    """Which of the candidates carries the cluster, and what is wrong with those before it.

    ``candidates`` are those of ``agree_interfaces``, best first; ``results`` holds per host what ``network_connectivity`` returned in its
    three steps, put together: ``taken``, ``reached`` and ``heard``. ``previous`` is the network in use: while it works, nothing
    moves a cluster away from it. ``rdma`` holds per host its RDMA ports, as ``gather`` tells them: where all hosts use them, these are
    the links, and where some have none, that is said.
    """
    networks = [_Network(candidate, results, lang).as_data() for candidate in candidates]
    working = [entry for entry in networks if entry["works"]]
    chosen = next((entry for entry in working if entry["network"] == previous), working[0] if working else None)
    notes: list[str] = []
    for entry in networks:
        if entry is chosen:
            break
        if entry["works"]:
            notes.append(
                message("connectivity_kept", lang, network=chosen["network"] if chosen else "", other=entry["network"])
            )
        elif chosen:
            notes.append(
                message("connectivity_passed_over", lang, network=entry["network"], reason=entry["problems"][0]["what"])
            )
    hosts: dict[str, dict[str, object]] = {
        host: {"interface": entry, "rdma": (rdma or {}).get(host)}
        for host, entry in (chosen["interfaces"] if chosen else {}).items()
    }
    kind, lacking = rdma_lacking(hosts)
    if lacking:
        values = {"kind": kind, "count": len(hosts) - len(lacking), "all": len(hosts), "hosts": names(lacking, lang)}
        notes.append(message("connectivity_rdma_lacking", lang, **values))
    problems = [] if chosen else [found for entry in networks for found in entry["problems"]]
    header = message("connectivity_header", lang, networks=names([entry["network"] for entry in networks], lang))
    return {
        "network": chosen["network"] if chosen else "",
        "interfaces": {
            host: _with_link(host, one, hosts) for host, one in (chosen["interfaces"] if chosen else {}).items()
        },
        "networks": networks,
        "notes": notes + (chosen["warnings"] if chosen else []),
        "problems": problems,
        "message": render(problems, lang, header) if problems else "",
    }


def connectivity_arguments(
    candidates: Sequence[Candidate], host: str, listening: Mapping[str, Mapping[str, object]]
) -> Arguments:
    """What ``network_connectivity`` gets on one host: its own addresses and MTUs by network, and its peers, as they listen."""

    def addresses(name: str) -> dict[str, str]:
        return {one["network"]: one["interfaces"][name]["address"] for one in candidates if name in one["interfaces"]}

    def mtus(name: str) -> dict[str, int]:
        return {one["network"]: one["interfaces"][name]["mtu"] for one in candidates if name in one["interfaces"]}

    return {
        "addresses": addresses(host),
        "mtus": mtus(host),
        "peers": [
            {
                "host": name,
                "addresses": addresses(name),
                "mtus": mtus(name),
                "port": found["port"],
                "held": found["held"],
            }
            for name, found in listening.items()
            if name != host and found.get("port")
        ],
    }
