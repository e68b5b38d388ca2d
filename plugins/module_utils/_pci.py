# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the kernel sees NVIDIA's GPUs on the PCI bus: which driver has each, whether the firmware gave it addresses, and what stands between two of them.

Runs on the host, so nothing here may fail because a file is missing: what is not known is empty or None.
"""

from __future__ import annotations

import os
import re
import struct
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import kernel_driver, normal_bus_id, pci_folders
from ansible_collections.baremetal.llm.plugins.module_utils._proc import read

# Kinds of groups of the IOMMU in which it translates addresses (Documentation/ABI/testing/sysfs-kernel-iommu_groups).
TRANSLATED = ("DMA", "DMA-FQ")
# Extended capabilities of PCI Express begin here; that of access control (ACS) has its control word 6 bytes further, in which these bits send requests
# and completions between devices up to the root (PCI Express Base Specification, "ACS Extended Capability").
_EXTENDED, _ACS, _ACS_CONTROL = 0x100, 0x000D, 6
REQUEST_REDIRECT, COMPLETION_REDIRECT = 0x04, 0x08
_CONFIG_BYTES = 4096
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# The second line of a card's resources is the window through which its memory is seen (BAR1).
_WINDOW = 1


class Seat(TypedDict):
    """Where a GPU sits on the bus."""

    bus_id: str | None
    # What the kernel has bound to it; empty where nothing is.
    kernel_driver: str
    # Whether the firmware has given it no address for its memory; None where nobody tells.
    window_missing: bool | None
    # The kind of its group; empty without an IOMMU.
    iommu: str
    # The bridges above it that send what goes to others of them another way.
    redirecting: list[str]
    # None where the host has one node only, or nobody tells.
    numa_node: int | None


def acs_control(config: bytes) -> int | None:
    """The control word of access control in a device's configuration space; None where there is none, or nobody may read it."""
    at, seen = _EXTENDED, set()
    while at >= _EXTENDED and at + 8 <= len(config) and at not in seen:
        seen.add(at)
        (header,) = struct.unpack_from("<I", config, at)
        if header & 0xFFFF == _ACS:
            (control,) = struct.unpack_from("<H", config, at + _ACS_CONTROL)
            return int(control)
        at = header >> 20
    return None


def window_is_missing(resource: str) -> bool | None:
    """Whether the firmware gave a card no addresses for its memory, from the file ``resource``: the window has a length, and begins nowhere."""
    lines = resource.split("\n")
    cells = lines[_WINDOW].split() if len(lines) > _WINDOW else []
    try:
        first, last = int(cells[0], 16), int(cells[1], 16)
    except (IndexError, ValueError):
        return None
    return first == 0 and last > 0


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(_CONFIG_BYTES)
    except OSError:
        return b""


def redirecting(folder: str) -> list[str]:
    """The bridges above a device that send what its neighbours ask of it up to the root."""
    found = []
    path = os.path.dirname(os.path.realpath(folder))
    while _ADDRESS.fullmatch(os.path.basename(path)):
        control = acs_control(_bytes(os.path.join(path, "config"))) or 0
        if control & (REQUEST_REDIRECT | COMPLETION_REDIRECT):
            found.append(os.path.basename(path))
        path = os.path.dirname(path)
    return sorted(found)


def numa_node(folder: str) -> int | None:
    """The node of the processor that a device hangs on; the kernel says -1 where the firmware does not tell."""
    return digits(read(folder, "numa_node").strip())


def bus_facts(sysfs_root: str = "/sys") -> list[Seat]:
    """Every GPU of NVIDIA with its address, what the kernel has bound to it, and what of the bus keeps it from others."""
    return [
        {
            "bus_id": normal_bus_id(os.path.basename(folder)),
            "kernel_driver": kernel_driver(folder),
            "window_missing": window_is_missing(read(folder, "resource")),
            "iommu": read(folder, "iommu_group/type").strip(),
            "redirecting": redirecting(folder),
            "numa_node": numa_node(folder),
        }
        for folder in pci_folders(sysfs_root)
    ]
