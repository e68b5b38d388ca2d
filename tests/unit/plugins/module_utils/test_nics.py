"""Interfaces and RDMA devices, from trees like those of real hosts, and the kernel's list of addresses."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._nics import (
    dynamic_ports,
    kernel_addresses,
    nic_facts,
    parse_addresses,
)
from hypothesis import given
from hypothesis import strategies as st

ACTIVE, DOWN = "4: ACTIVE\n", "1: DOWN\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def device(root: Path, pci: str, driver: str) -> Path:
    folder = root / "devices" / pci
    folder.mkdir(parents=True, exist_ok=True)
    (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
    if not (folder / "driver").exists():
        (folder / "driver").symlink_to(root / "drivers" / driver)
    return folder


def interface(root: Path, name: str, index: int, pci: str = "", driver: str = "mlx5_core", **values: str) -> None:
    folder = root / "class/net" / name
    defaults = {"ifindex": str(index), "mtu": "1500", "operstate": "up", "flags": "0x1003", "type": "1", "uevent": ""}
    write(folder, {key: text + "\n" for key, text in {**defaults, **values}.items()})
    if pci:
        (folder / "device").symlink_to(device(root, pci, driver))
        (device(root, pci, driver) / "net" / name).mkdir(parents=True)


def rdma(root: Path, name: str, pci: str, files: dict[str, str]) -> None:
    folder = root / "class/infiniband" / name
    write(folder / "ports/1", files)
    (folder / "device").symlink_to(device(root, pci, "mlx5_core"))


@pytest.fixture
def roce(tmp_path: Path) -> Path:
    """A host with a management port, a RoCE card, an InfiniBand card, Wi-Fi, a bond, a bridge and the usual rest."""
    interface(tmp_path, "lo", 1, type="772", flags="0x9", operstate="unknown", mtu="65536")
    interface(tmp_path, "eno1", 2, pci="0000:19:00.0", driver="tg3", speed="1000")
    interface(tmp_path, "ens3f0np0", 3, pci="0000:3b:00.0", speed="100000", mtu="9000")
    interface(tmp_path, "ib0", 4, pci="0000:5e:00.0", type="32", mtu="2044")
    interface(tmp_path, "wlp2s0", 5, pci="0000:02:00.0", driver="iwlwifi", uevent="DEVTYPE=wlan\nINTERFACE=wlp2s0")
    interface(tmp_path, "eno2", 6, pci="0000:19:00.1", driver="tg3", speed="-1", operstate="down", flags="0x1002")
    interface(tmp_path, "docker0", 7, uevent="DEVTYPE=bridge", operstate="down")
    (tmp_path / "class/net/docker0/bridge").mkdir()
    interface(tmp_path, "br0", 8)
    (tmp_path / "class/net/br0/bridge").mkdir()
    (tmp_path / "class/net/br0/brif/eno1").mkdir(parents=True)
    (tmp_path / "class/net/eno1/master").symlink_to(tmp_path / "class/net/br0")
    interface(tmp_path, "bond0", 9, speed="4294967295")
    write(tmp_path / "class/net/bond0/bonding", {"slaves": "ens3f0np0 ens3f1np1\n"})
    (tmp_path / "class/net/bonding_masters").write_text("bond0\n")
    zero = "0000:0000:0000:0000:0000:0000:0000:0000\n"
    rdma(
        tmp_path,
        "mlx5_0",
        "0000:3b:00.0",
        {
            "state": ACTIVE,
            "link_layer": "Ethernet\n",
            "rate": "100 Gb/sec (4X EDR)\n",
            "gids/0": "fe80:0000:0000:0000:0e42:a1ff:fe00:0001\n",
            "gid_attrs/types/0": "IB/RoCE v1\n",
            "gid_attrs/ndevs/0": "ens3f0np0\n",
            "gids/3": "0000:0000:0000:0000:0000:ffff:0a0a:0001\n",
            "gid_attrs/types/3": "RoCE v2\n",
            "gid_attrs/ndevs/3": "ens3f0np0\n",
            "gids/10": zero,
            "gid_attrs/types/10": "RoCE v2\n",
        },
    )
    rdma(tmp_path, "mlx5_1", "0000:5e:00.0", {"state": DOWN, "link_layer": "InfiniBand\n", "rate": "10 Gb/sec (4X)\n"})
    return tmp_path


ADDRESSES = {1: ["127.0.0.1/8"], 3: ["10.10.0.1/24", "fd00::1/64"]}


def facts(root: Path) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in nic_facts(str(root), str(root), ADDRESSES)["interfaces"]}


def test_every_interface_is_found(roce: Path) -> None:
    found = facts(roce)
    assert sorted(found) == ["bond0", "br0", "docker0", "eno1", "eno2", "ens3f0np0", "ib0", "lo", "wlp2s0"]
    assert {name: entry["kind"] for name, entry in found.items()} == {
        "bond0": "bond", "br0": "bridge", "docker0": "bridge", "eno1": "ethernet", "eno2": "ethernet",
        "ens3f0np0": "ethernet", "ib0": "infiniband", "lo": "loopback", "wlp2s0": "wlan",
    }  # fmt: skip


def test_what_is_told_of_a_card(roce: Path) -> None:
    assert facts(roce)["ens3f0np0"] == {
        "name": "ens3f0np0", "addresses": ["10.10.0.1/24", "fd00::1/64"], "speed_mbps": 100000, "mtu": 9000,
        "operstate": "up", "up": True, "kind": "ethernet", "driver": "mlx5_core",
        "wireless": False, "virtual": False, "master": None, "members": [], "aggregator": None,
        "rdma": ["mlx5_0:1"],
    }  # fmt: skip


def test_links_of_a_bond_say_which_group_they_are_in(roce: Path) -> None:
    folder = roce / "class/net/ens3f0np0/bonding_slave"
    folder.mkdir()
    (folder / "ad_aggregator_id").write_text("2\n")
    assert facts(roce)["ens3f0np0"]["aggregator"] == 2
    (folder / "ad_aggregator_id").write_text("N/A\n")
    assert facts(roce)["ens3f0np0"]["aggregator"] is None


def test_states_members_and_unknown_speeds(roce: Path) -> None:
    found = facts(roce)
    assert {name for name, entry in found.items() if not entry["up"]} == {"eno2", "docker0"}
    assert [name for name, entry in found.items() if entry["speed_mbps"]] == ["br0", "eno1", "ens3f0np0"]
    assert [name for name, entry in found.items() if entry["wireless"]] == ["wlp2s0"]
    assert found["eno1"]["master"] == "br0"
    assert found["br0"]["members"] == ["eno1"]
    assert found["bond0"]["members"] == ["ens3f0np0", "ens3f1np1"]
    assert found["bond0"]["rdma"] == ["mlx5_0:1"]
    assert found["ib0"]["rdma"] == []  # its port is down


@pytest.mark.parametrize(
    ("members", "driver_says", "speed"),
    [
        (["eno1", "eno2"], "", 10000),  # older kernels know no speed
        (["eno1", "vnet0"], "40000", 1000),  # newer ones tell that of a container's interface, too
        (["bond0", "vnet0"], "", 25000),
        (["vnet0"], "40000", 40000),
        ([], "", None),
    ],
)
def test_a_bridge_is_as_fast_as_the_card_below_it(
    tmp_path: Path, members: list[str], driver_says: str, speed: int | None
) -> None:
    interface(tmp_path, "eno1", 2, pci="0000:19:00.0", speed="1000")
    interface(tmp_path, "eno2", 3, pci="0000:19:00.1", speed="10000")
    interface(tmp_path, "vnet0", 4, speed="40000")
    interface(tmp_path, "bond0", 5, speed="25000")
    write(tmp_path / "class/net/bond0/bonding", {"slaves": "\n"})
    interface(tmp_path, "br0", 6, **({"speed": driver_says} if driver_says else {}))
    (tmp_path / "class/net/br0/bridge").mkdir()
    for name in members:
        (tmp_path / "class/net/br0/brif" / name).mkdir(parents=True)
    assert facts(tmp_path)["br0"]["speed_mbps"] == speed


def test_rdma_ports(roce: Path) -> None:
    first, second = nic_facts(str(roce), str(roce), {})["rdma"]
    assert (first["device"], first["port"], first["state"], first["active"]) == ("mlx5_0", 1, "ACTIVE", True)
    assert (first["link_layer"], first["rate_gbps"], first["interface"]) == ("Ethernet", 100.0, "ens3f0np0")
    assert [(gid["index"], gid["type"]) for gid in first["gids"]] == [(0, "IB/RoCE v1"), (3, "RoCE v2")]
    assert (second["active"], second["link_layer"], second["interface"]) == (False, "InfiniBand", "ib0")


def test_an_empty_tree(tmp_path: Path) -> None:
    assert nic_facts(str(tmp_path), str(tmp_path), {}) == {
        "interfaces": [], "rdma": [], "dynamic_ports": {"first": 32768, "last": 60999},
    }  # fmt: skip


def test_dynamic_ports(tmp_path: Path) -> None:
    write(tmp_path, {"sys/net/ipv4/ip_local_port_range": "20000\t30000\n"})
    assert dynamic_ports(str(tmp_path)) == (20000, 30000)


@given(st.text(max_size=40))
def test_no_content_of_a_file_makes_it_fail(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.mktemp("sys")
    written = text.encode("utf-8", "surrogatepass")
    for name in ("speed", "mtu", "operstate", "flags", "type", "uevent"):
        write(root / "class/net/eth0", {"ifindex": "2"})
        (root / "class/net/eth0" / name).write_bytes(written)
    for name in ("state", "rate", "link_layer", "gids/0", "gid_attrs/types/0"):
        write(root / "class/infiniband/mlx5_0/ports/1", {name: ""})
        (root / "class/infiniband/mlx5_0/ports/1" / name).write_bytes(written)
    json.dumps(nic_facts(str(root), str(root), {}))


def message(family: int, index: int, prefix: int, *attributes: tuple[int, bytes], flags: int = 0) -> bytes:
    body = struct.pack("=BBBBI", family, prefix, flags, 0, index)
    for kind, value in attributes:
        body += struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)
    return struct.pack("=IHHII", 16 + len(body), 20, 2, 1, 1) + body


FINISHED = struct.pack("=IHHII", 20, 3, 2, 1, 1) + struct.pack("=i", 0)


def test_addresses_of_the_kernel() -> None:
    data = (
        message(socket.AF_INET, 2, 24, (1, socket.inet_aton("10.0.0.1")), (3, b"eth0\0"))
        + message(socket.AF_INET, 3, 32, (1, socket.inet_aton("10.9.9.9")), (2, socket.inet_aton("10.9.9.1")))
        + message(socket.AF_INET6, 2, 64, (1, ipaddress.ip_address("fd00::1").packed), (8, struct.pack("=I", 0x80)))
        + message(socket.AF_INET6, 2, 64, (1, ipaddress.ip_address("fd00::2").packed), (8, struct.pack("=I", 0x40)))
    )
    assert parse_addresses(data) == ({2: ["10.0.0.1/24", "fd00::1/64"], 3: ["10.9.9.1/32"]}, False)
    assert parse_addresses(data + FINISHED)[1] is True


@given(st.lists(st.tuples(st.integers(1, 9), st.ip_addresses(), st.integers(0, 32)), max_size=8))
def test_any_list_of_addresses_comes_back(entries: list[tuple[int, Any, int]]) -> None:
    expected: dict[int, list[str]] = {}
    data = b""
    for index, address, prefix in entries:
        expected.setdefault(index, []).append(f"{socket.inet_ntop(*family(address))}/{prefix}")
        data += message(family(address)[0], index, prefix, (1, address.packed))
    assert parse_addresses(data + FINISHED) == (expected, True)


def family(address: Any) -> tuple[int, bytes]:
    return (socket.AF_INET if address.version == 4 else socket.AF_INET6), address.packed


@given(st.binary(max_size=200))
def test_no_answer_of_the_kernel_makes_it_fail(data: bytes) -> None:
    parse_addresses(data)


def test_this_machine() -> None:
    """The real thing: loopback is there with its address, and what Python's socket module lists is what is found."""
    found = {entry["name"]: entry for entry in nic_facts()["interfaces"]}
    assert "127.0.0.1/8" in found["lo"]["addresses"]
    assert sorted(found) == sorted(name for _index, name in socket.if_nameindex())
    assert kernel_addresses()
    assert os.path.isdir("/sys/class/net")
