# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which network interface each host of a cluster uses, agreed between all of them.

Ray, NCCL and Gloo each guess an interface when none is given: the one of the default route, the first in the list,
127.0.0.1. Here the subnet decides on which every host has an address, so that names may differ from host to host and no
host needs a default route.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import cidr_fault
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem, shown
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.sections import Candidate

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

# Interfaces that lead to containers, virtual machines or the host itself, not to the other hosts.
_INNER_KINDS = frozenset(("loopback", "bridge", "veth", "docker", "dummy", "tunnel", "tun"))
_INNER_NAMES = re.compile(
    r"lo\d*|dummy\d*|docker\d*|docker_gwbridge|br-[0-9a-f]{12}|veth.*|virbr.*|vnet\d+|lxcbr\d*|lxdbr\d*|cni.*|cali.*"
    r"|flannel.*|cilium.*|kube-.*|nodelocaldns|podman\d*|tunl\d*|sit\d*|ip6tnl\d*|gre\d*|gretap\d*|ifb\d*|tap.*"
)


class _Candidate(NamedTuple):
    interface: str
    address: _Interface
    speed: int
    mtu: int
    inner: bool
    wireless: bool
    rdma: bool


def _number(value: object) -> int:
    """A speed or MTU; unknown ones (None, -1, the kernel's 4294967295) count as slowest."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 or value >= 4294967295:
        return 0
    return int(value)


def _is_inner(entry: Mapping[str, Any]) -> bool:
    kind = str(entry.get("kind") or "").lower()
    if re.fullmatch(_INNER_NAMES, str(entry.get("name"))):
        return True
    # A bridge over a card leads out: hosts of virtual machines have their address there.
    leads_out = any(not re.fullmatch(_INNER_NAMES, str(name)) for name in entry.get("members") or ())
    return kind in _INNER_KINDS and not (kind == "bridge" and leads_out)


def is_outer(entry: Mapping[str, object]) -> bool:
    """Whether an interface leads to other hosts."""
    return not _is_inner(entry)


def _addresses(entry: Mapping[str, Any]) -> list[_Interface]:
    found: list[_Interface] = []
    for text in entry.get("addresses") or ():
        try:
            address = ipaddress.ip_interface(str(text))
        except ValueError:
            continue
        if not (address.ip.is_link_local or address.ip.is_multicast or address.ip.is_unspecified):
            found.append(address)
    return sorted(found, key=lambda item: item.version)


def _candidates(interfaces: Iterable[Mapping[str, object]]) -> list[_Candidate]:
    """Every address of a host that is up, IPv4 first, then the fastest interface."""
    found = [
        _Candidate(
            str(entry.get("name")),
            address,
            _number(entry.get("speed_mbps")),
            _number(entry.get("mtu")),
            _is_inner(entry) or address.ip.is_loopback,
            bool(entry.get("wireless")),
            bool(entry.get("rdma")),
        )
        for entry in interfaces
        if entry.get("up") is not False
        for address in _addresses(entry)
    ]
    # Stable: the addresses of one interface keep their order, the first is the primary one.
    return sorted(found, key=lambda item: (item.inner, item.address.version, -item.speed, -item.mtu, item.interface))


def _is_loopback(item: _Candidate) -> bool:
    """Whether an address that others may reach is on the loopback interface."""
    return bool(re.fullmatch(r"lo\d*", item.interface)) and not item.address.ip.is_loopback


def outer_addresses(interfaces: Iterable[Mapping[str, object]]) -> list[_Interface]:
    """Every address under which a host is known to others, of whatever is up."""
    return [item.address for item in _candidates(interfaces) if not item.inner]


def _overview(candidates: Iterable[_Candidate], lang: str) -> str:
    return names([f"{item.interface} {item.address}" for item in candidates], lang)


def _shared(hosts: Mapping[str, Sequence[_Candidate]]) -> list[_Network]:
    """The subnets on which every host has an address, best first.

    IPv4 first: the engine's API has no other. With RDMA on every host before without, then the one whose slowest interface is fastest; Wi-Fi
    comes last.
    """
    common: set[_Network] | None = None
    for candidates in hosts.values():
        mine = {item.address.network for item in candidates}
        common = mine if common is None else common & mine

    def rank(network: _Network) -> tuple[int, bool, bool, int, int, int, int]:
        best = [next(item for item in candidates if item.address.network == network) for candidates in hosts.values()]
        wireless = any(item.wireless for item in best)
        rdma = all(item.rdma for item in best)
        speed = min(item.speed for item in best)
        mtu = min(item.mtu for item in best)
        order = int(network.network_address), network.prefixlen
        return network.version, wireless, not rdma, -speed, -mtu, *order

    return sorted(common or (), key=rank)


class Picked(TypedDict):
    """The interface of a host and its address."""

    interface: str
    address: str


class Agreed(TypedDict):
    """The networks that would do, best first, and what of the best of them each host uses; a network without a text where none does."""

    candidates: list[Candidate]
    network: str
    interfaces: dict[str, Picked]
    # Each with the ``hosts`` that it is about.
    problems: list[dict[str, object]]


class _Agreement:
    def __init__(
        self,
        hosts: Mapping[str, Sequence[Mapping[str, object]]],
        network: object,
        wanted: Mapping[str, str | None],
        lang: str,
    ) -> None:
        self.lang = lang
        self.interfaces = hosts
        self.network_text = network
        self.wanted = {host: str(wanted[host]) for host in hosts if wanted.get(host)}
        self.all = {host: _candidates(interfaces) for host, interfaces in hosts.items()}
        self.problems: list[dict[str, object]] = []
        self.candidates: list[tuple[_Network, dict[str, _Candidate]]] = []

    def add(self, code: str, value: str = "", where: str = "", **values: object) -> None:
        hosts = [values["host"]] if "host" in values else list(self.interfaces)
        self.problems.append({**problem(code, self.lang, value=value, where=where, **values), "hosts": hosts})

    def where_host(self, host: str) -> str:
        return message("where_host", self.lang, host=host)

    def where_all(self) -> str:
        return message("where_group", self.lang, group="all")

    def usable(self, host: str) -> list[_Candidate]:
        return [item for item in self.all[host] if not item.inner]

    def choices(self) -> dict[str, list[_Candidate]]:
        """Per host the addresses to choose from: those of the wanted interface, where one is wanted."""
        chosen: dict[str, list[_Candidate]] = {}
        for host, interfaces in self.interfaces.items():
            name = self.wanted.get(host)
            if not name:
                chosen[host] = self.usable(host)
                continue
            chosen[host] = [item for item in self.all[host] if item.interface == name]
            there = sorted(str(entry.get("name")) for entry in interfaces)
            if name not in there:
                useful = sorted({item.interface for item in self.usable(host)})
                self.add(
                    "interface_missing",
                    value=name,
                    where=self.where_host(host),
                    interface=name,
                    host=host,
                    interfaces=names(useful or there, self.lang),
                )
            elif not chosen[host]:
                self.add(
                    "interface_unusable",
                    value=name,
                    where=self.where_host(host),
                    interface=name,
                    host=host,
                    interfaces=_overview(self.usable(host), self.lang),
                )
        return chosen

    def in_given_network(self, network: _Network, chosen: dict[str, list[_Candidate]]) -> dict[str, _Candidate]:
        picked: dict[str, _Candidate] = {}
        for host, candidates in chosen.items():
            # A network that was asked for may well be that of a bridge; so all addresses are looked at.
            pool = candidates if host in self.wanted else self.all[host]
            inside = [item for item in pool if item.address.ip in network]
            if inside:
                picked[host] = inside[0]
            elif len(chosen) == 1 and candidates:
                picked[host] = candidates[0]  # a host alone needs no cluster network
            elif host in self.wanted:
                self.add(
                    "interface_outside_network",
                    value=_overview(candidates, self.lang),
                    where=self.where_host(host),
                    interface=self.wanted[host],
                    host=host,
                    network=network,
                    interfaces=_overview([item for item in self.all[host] if item.address.ip in network], self.lang),
                )
            else:
                self.add(
                    "not_in_network",
                    value=_overview(self.usable(host), self.lang),
                    where=self.where_all(),
                    host=host,
                    network=network,
                )
        return picked

    def run(self) -> Agreed:
        network: _Network | None = None
        picked: dict[str, _Candidate] = {}
        chosen = self.choices()
        if self.network_text not in (None, ""):
            fault, suggestion = cidr_fault(self.network_text)
            if fault:
                self.add(
                    "network_malformed",
                    value=shown(self.network_text, self.lang),
                    where=self.where_all(),
                    name="llm_cluster_network",
                    suggestion=suggestion,
                )
            else:
                network = ipaddress.ip_network(str(self.network_text).strip())
        if self.problems or not chosen:
            return self.result(network, {})
        if network is not None:
            picked = self.in_given_network(network, chosen)
        elif len(chosen) == 1:
            host, candidates = next(iter(chosen.items()))
            pool = candidates or self.all[host]
            if pool:
                picked[host] = pool[0]
                network = pool[0].address.network
        else:
            shared = [
                (
                    one,
                    {
                        host: next(item for item in items if item.address.network == one)
                        for host, items in chosen.items()
                    },
                )
                for one in _shared(chosen)
            ]
            # One that every host has for itself, as those of virtual machines, leads nowhere: it has one address on several hosts.
            fit = [entry for entry in shared if entry[0].version == 4 and not self.same_addresses(entry[1])]
            self.candidates = fit or shared
            if self.candidates:
                network, picked = self.candidates[0]
        self.check_loopback(picked)
        if not picked and not self.problems:
            self.add(
                "no_shared_network_wanted" if self.wanted else "no_shared_network",
                value="; ".join(f"{host}: {_overview(items, self.lang)}" for host, items in chosen.items()),
                where=message("where_inventory", self.lang),
            )
        if any(item.address.version == 6 for item in picked.values()):
            value = "; ".join(f"{host}: {item.interface} {item.address}" for host, item in picked.items())
            self.add("network_ipv6", value=value, where=message("where_hosts_network", self.lang), network=network)
        self.check_addresses(network, picked)
        return self.result(network, picked)

    def check_loopback(self, picked: Mapping[str, _Candidate]) -> None:
        """Addresses that routing protocols announce lie on lo, each a network of its own: NCCL passes lo over, or takes 127.0.0.1 of it."""
        if len(self.interfaces) < 2:
            return
        looped = {host: item for host, item in picked.items() if _is_loopback(item)}
        if not picked:
            found = {host: next(filter(_is_loopback, items), None) for host, items in self.all.items()}
            looped = {host: item for host, item in found.items() if item}
        if looped:
            value = "; ".join(f"{host}: {item.interface} {item.address}" for host, item in looped.items())
            where = message("where_hosts_network", self.lang)
            self.add("address_on_loopback", value=value, where=where, names=names(list(looped), self.lang))

    @staticmethod
    def same_addresses(picked: Mapping[str, _Candidate]) -> dict[str, list[str]]:
        """The hosts of each address that is on several."""
        owners: dict[str, list[str]] = {}
        for host, item in picked.items():
            owners.setdefault(str(item.address.ip), []).append(host)
        return {address: hosts for address, hosts in owners.items() if len(hosts) > 1}

    def check_addresses(self, network: _Network | None, picked: Mapping[str, _Candidate]) -> None:
        for address, hosts in self.same_addresses(picked).items():
            self.add(
                "same_address",
                value="; ".join(f"{host}: {picked[host].interface} {picked[host].address}" for host in hosts),
                where=message("where_hosts_network", self.lang),
                hosts=names(hosts, self.lang),
                address=address,
                network=network,
            )

    def result(self, network: _Network | None, picked: Mapping[str, _Candidate]) -> Agreed:
        candidates = self.candidates or ([(network, dict(picked))] if network is not None and picked else [])
        return {
            "candidates": [
                {
                    "network": str(one),
                    "interfaces": {
                        host: {
                            "interface": item.interface,
                            "address": str(item.address.ip),
                            "mtu": item.mtu,
                            "speed_mbps": item.speed,
                            "rdma": item.rdma,
                        }
                        for host, item in items.items()
                    },
                }
                for one, items in candidates
            ],
            "network": "" if network is None else str(network),
            "interfaces": {
                host: {"interface": item.interface, "address": str(item.address.ip)} for host, item in picked.items()
            },
            "problems": self.problems,
        }


def agree_interfaces(
    hosts: Mapping[str, Any],
    network: object = None,
    wanted: Mapping[str, str | None] | None = None,
    lang: str = "en",
) -> Agreed:
    """The interface and address that each host uses to reach the others.

    ``hosts`` holds per host ``{interfaces: [..]}`` or that list itself; an interface is as ``gather`` describes it, of which
    only name and addresses must be there. With a ``network`` every host uses its address in it. Else it is the subnet that all
    hosts share, each with an address of its own: with RDMA on every host before without, then the fastest. All of them are ``candidates``, best first, in case
    the best does not carry what it should. ``wanted`` names the interface of a host that shall use that one and no other.
    """
    lists = {
        host: (entry.get("interfaces") or []) if isinstance(entry, Mapping) else list(entry or [])
        for host, entry in hosts.items()
    }
    return _Agreement(lists, network, wanted or {}, lang).run()


def _prefix_length(entry: Mapping[str, object]) -> str:
    return str(entry.get("prefix") or entry.get("netmask") or "32")


def interfaces_from_facts(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The interfaces of a host, as ``gather`` found them, else as ``ansible.builtin.setup`` did (``gather_subset: network``)."""
    if facts.get("llm_nics_found"):
        return [dict(entry) for entry in facts["llm_nics_found"]]
    by_device = {
        str(entry["device"]): entry for entry in facts.values() if isinstance(entry, Mapping) and entry.get("device")
    }
    interfaces: list[dict[str, Any]] = []
    for item in facts.get("interfaces") or ():
        name = str(item)
        entry = by_device.get(name) or facts.get(name) or facts.get(re.sub(r"[^A-Za-z0-9_]", "_", name)) or {}
        if not isinstance(entry, Mapping):
            continue
        addresses: list[str] = []
        version_4 = entry.get("ipv4")
        for part in version_4 if isinstance(version_4, (list, tuple)) else [version_4]:
            if isinstance(part, Mapping) and part.get("address"):
                addresses.append("{}/{}".format(part["address"], _prefix_length(part)))
        for part in entry.get("ipv4_secondaries") or ():
            if isinstance(part, Mapping) and part.get("address"):
                addresses.append("{}/{}".format(part["address"], _prefix_length(part)))
        for part in entry.get("ipv6") or ():
            if isinstance(part, Mapping) and part.get("address"):
                addresses.append("{}/{}".format(part["address"], part.get("prefix") or "128"))
        interfaces.append(
            {
                "name": name,
                "addresses": addresses,
                "speed_mbps": entry.get("speed"),
                "mtu": entry.get("mtu"),
                "up": entry.get("active", True) is not False,
                "kind": str(entry.get("type") or ""),
            }
        )
    return interfaces
