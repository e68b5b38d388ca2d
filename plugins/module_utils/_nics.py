# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network interfaces and RDMA devices of a host, from /sys, /proc and the kernel's own list of addresses.

Nothing here needs iproute2 or ethtool: bare hosts may lack both. What a file does not tell is None.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from typing import Mapping, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits

# Linux: include/uapi/linux/if_arp.h, if.h, rtnetlink.h, if_addr.h
_ARP_KINDS = {1: "ethernet", 32: "infiniband", 772: "loopback", 65534: "tunnel", 768: "tunnel", 776: "tunnel"}
_FLAG_UP = 0x1
_NOT_UP = ("down", "lowerlayerdown", "notpresent", "dormant")
_GETADDR, _NEWADDR, _DONE, _ERROR = 22, 20, 3, 2
_REQUEST_DUMP = 0x301
_HEADER = struct.Struct("=IHHII")
_ADDRESS = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS = 1, 2, 8
# An address that is not ours yet or no more: duplicate found, or still being looked for.
_UNUSABLE_FLAGS = 0x08 | 0x40
DEFAULT_DYNAMIC = (32768, 60999)  # the kernel's default, Documentation/networking/ip-sysctl.rst


class Interface(TypedDict):
    """A network interface. None is what nobody tells, here and below."""

    name: str
    # With prefix length.
    addresses: list[str]
    speed_mbps: int | None
    mtu: int | None
    operstate: str
    up: bool
    # ethernet, bond, vlan, bridge and others
    kind: str
    driver: str | None
    wireless: bool
    virtual: bool
    # The bridge or bond that it belongs to, and what belongs to it.
    master: str | None
    members: list[str]
    # Of a link of a bond with 802.3ad, which of the bond's groups it is in: one group is used at a time.
    aggregator: int | None
    # DEVICE:PORT of the active ports of RDMA that it leads to.
    rdma: list[str]


class Gid(TypedDict):
    """An address of a port of RDMA."""

    index: int
    gid: str
    # IB/RoCE v1, RoCE v2
    type: str
    interface: str | None


class Port(TypedDict):
    """A port of an RDMA device."""

    device: str
    port: int
    state: str | None
    active: bool
    link_layer: str | None
    rate_gbps: float | None
    interface: str | None
    gids: list[Gid]
    # The node of the processor that its card hangs on.
    numa_node: int | None


class NicFacts(TypedDict):
    """The network cards of a host."""

    interfaces: list[Interface]
    rdma: list[Port]
    # first and last
    dynamic_ports: dict[str, int]


def _read(*parts: str) -> str | None:
    try:
        with open(os.path.join(*parts), encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except (OSError, ValueError):
        return None  # an interface without carrier answers EINVAL when asked for its speed


def _names(*parts: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(*parts)))
    except OSError:
        return []


def _number(text: str | None, base: int = 10) -> int | None:
    try:
        return int(text or "", base)
    except ValueError:
        return None


def _link(*parts: str) -> str | None:
    """The name that a symbolic link leads to."""
    path = os.path.join(*parts)
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else None


def _kind(folder: str, device_type: str | None) -> str:
    for entry in ("bridge", "bonding"):
        if os.path.isdir(os.path.join(folder, entry)):
            return entry.replace("bonding", "bond")
    if os.path.exists(os.path.join(folder, "tun_flags")):
        return "tun"
    if device_type in ("vlan", "macvlan", "vxlan", "wlan", "bridge", "bond"):
        return device_type
    return _ARP_KINDS.get(_number(_read(folder, "type")) or 0, "other")


def _interface(root: str, name: str, addresses: Sequence[str]) -> Interface:
    folder = os.path.join(root, "class/net", name)
    uevent = dict(line.split("=", 1) for line in (_read(folder, "uevent") or "").splitlines() if "=" in line)
    kind = _kind(folder, uevent.get("DEVTYPE"))
    state = _read(folder, "operstate") or "unknown"
    speed = _number(_read(folder, "speed"))
    flags = _number(_read(folder, "flags"), 16)
    members = _names(folder, "brif") or (_read(folder, "bonding/slaves") or "").split()
    return {
        "name": name,
        "addresses": list(addresses),
        # -1 or 2^32-1: the driver does not know
        "speed_mbps": speed if speed is not None and 0 < speed < 0xFFFFFFFF else None,
        "mtu": _number(_read(folder, "mtu")),
        "operstate": state,
        "up": state not in _NOT_UP and (flags is None or bool(flags & _FLAG_UP)),
        "kind": kind,
        "driver": _link(folder, "device/driver"),
        "wireless": kind == "wlan"
        or any(os.path.exists(os.path.join(folder, sub)) for sub in ("wireless", "phy80211")),
        "virtual": not os.path.exists(os.path.join(folder, "device")),
        "master": _link(folder, "master"),
        "members": sorted(members),
        "aggregator": _number(_read(folder, "bonding_slave/ad_aggregator_id")),
        "rdma": [],
    }


def read_interfaces(root: str, addresses: Mapping[int, Sequence[str]]) -> list[Interface]:
    """Every interface, by name. ``addresses`` holds them by the interface's index, as ``kernel_addresses`` does."""
    found = []
    for name in _names(root, "class/net"):
        index = _number(_read(root, "class/net", name, "ifindex"))
        if index is not None:  # bonding_masters is a file beside the interfaces
            found.append(_interface(root, name, addresses.get(index, ())))
    return found


def _tell_bridges(interfaces: Sequence[Interface]) -> None:
    """A bridge is as fast as the card below it. Older kernels know no speed of one, newer ones count containers' interfaces, too."""
    leads_out = {
        entry["name"]: entry["speed_mbps"]
        for entry in interfaces
        if entry["speed_mbps"] and (not entry["virtual"] or entry["kind"] in ("bond", "vlan"))
    }
    for entry in interfaces:
        if entry["kind"] == "bridge":
            speeds = [leads_out[name] for name in entry["members"] if name in leads_out]
            entry["speed_mbps"] = max(speeds, default=entry["speed_mbps"])


def _gids(folder: str) -> list[Gid]:
    found: list[Gid] = []
    for text in sorted(_names(folder, "gids"), key=lambda name: _number(name) or 0):
        gid = _read(folder, "gids", text)
        kind = _read(folder, "gid_attrs/types", text)
        if gid and kind and gid.strip("0:"):
            found.append(
                {"index": int(text), "gid": gid, "type": kind, "interface": _read(folder, "gid_attrs/ndevs", text)}
            )
    return found


def _port(root: str, device: str, port: str) -> Port:
    folder = os.path.join(root, "class/infiniband", device, "ports", port)
    gids = _gids(folder)
    own = _names(root, "class/infiniband", device, "device/net")
    by_port = [
        name
        for name in own
        # Two ports of one card share a PCI function with some drivers; dev_port counts from 0.
        if len(own) == 1 or (_number(_read(root, "class/net", name, "dev_port")) or 0) + 1 == _number(port)
    ]
    rate = re.match(r"([\d.]+)\s*Gb/sec", _read(folder, "rate") or "")
    state = (_read(folder, "state") or "").rpartition(":")[2].strip()
    return {
        "device": device,
        "port": int(port),
        "state": state or None,
        "active": state == "ACTIVE",
        "link_layer": _read(folder, "link_layer"),
        "rate_gbps": float(rate.group(1)) if rate else None,
        "interface": next((gid["interface"] for gid in gids if gid["interface"]), None) or next(iter(by_port), None),
        "gids": gids,
        "numa_node": digits(_read(root, "class/infiniband", device, "device/numa_node")),
    }


def read_rdma(root: str) -> list[Port]:
    """Every port of every RDMA device."""
    return [
        _port(root, device, port)
        for device in _names(root, "class/infiniband")
        for port in _names(root, "class/infiniband", device, "ports")
        if digits(port) is not None
    ]


def dynamic_ports(proc: str) -> tuple[int, int]:
    """The ports that the kernel gives to whoever asks for any."""
    numbers = [_number(part) for part in (_read(proc, "sys/net/ipv4/ip_local_port_range") or "").split()]
    if len(numbers) == 2 and numbers[0] and numbers[1]:
        return numbers[0], numbers[1]
    return DEFAULT_DYNAMIC


def parse_addresses(data: bytes) -> tuple[dict[int, list[str]], bool]:
    """Addresses with prefix length, by interface index, from an answer of rtnetlink; and whether it was the last part."""
    found: dict[int, list[str]] = {}
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _flags, _sequence, _sender = _HEADER.unpack_from(data, at)
        if kind in (_DONE, _ERROR) or length < _HEADER.size:
            return found, True
        if kind == _NEWADDR and length >= _HEADER.size + _ADDRESS.size:
            family, prefix, flags, _scope, index = _ADDRESS.unpack_from(data, at + _HEADER.size)
            values = _attributes(data[at + _HEADER.size + _ADDRESS.size : at + length])
            wide = values.get(_IFA_FLAGS, b"")
            flags = struct.unpack("=I", wide)[0] if len(wide) == 4 else flags
            # On a point-to-point link ADDRESS is the other end's; LOCAL is always this one's, where it is said.
            packed = values.get(_IFA_LOCAL) or values.get(_IFA_ADDRESS) or b""
            if family in (socket.AF_INET, socket.AF_INET6) and len(packed) in (4, 16) and not flags & _UNUSABLE_FLAGS:
                text = socket.inet_ntop(family, packed)
                found.setdefault(index, []).append("{0}/{1}".format(text, prefix))
        at += (length + 3) & ~3
    return found, False


def _attributes(data: bytes) -> dict[int, bytes]:
    values: dict[int, bytes] = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            break
        values[kind] = data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return values


def kernel_addresses() -> dict[int, list[str]]:
    """All addresses of this host, by interface index, IPv4 first, each in the kernel's order."""
    found: dict[int, list[str]] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as channel:
            channel.settimeout(10)
            channel.bind((0, 0))
            channel.send(
                _HEADER.pack(_HEADER.size + _ADDRESS.size, _GETADDR, _REQUEST_DUMP, 1, 0)
                + _ADDRESS.pack(family, 0, 0, 0, 0)
            )
            last = False
            while not last:
                part, last = parse_addresses(channel.recv(1 << 18))
                for index, addresses in part.items():
                    found.setdefault(index, []).extend(addresses)
    return found


def nic_facts(
    sysfs_root: str = "/sys", proc_root: str = "/proc", addresses: Mapping[int, Sequence[str]] | None = None
) -> NicFacts:
    """All of it together; the kernel is asked for the addresses unless they are given."""
    rdma = read_rdma(sysfs_root)
    interfaces = read_interfaces(sysfs_root, kernel_addresses() if addresses is None else addresses)
    for interface in interfaces:
        # A bond or a VLAN reaches the RDMA port of the card below it.
        below = {interface["name"], *interface["members"]}
        interface["rdma"] = [
            "{0}:{1}".format(port["device"], port["port"])
            for port in rdma
            if port["active"]
            and (port["interface"] in below or any(gid["interface"] == interface["name"] for gid in port["gids"]))
        ]
    _tell_bridges(interfaces)
    first, last = dynamic_ports(proc_root)
    return {"interfaces": interfaces, "rdma": rdma, "dynamic_ports": {"first": first, "last": last}}
