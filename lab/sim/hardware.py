# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of a lab host: what /etc/lab/hardware.json and the PCI part of sysfs hold.

Everything follows from the host's name: a host that is built again has the same GPUs (UUIDs, serial numbers, bus ids).
"""

from __future__ import annotations

import hashlib
from typing import Any

# PCI buses of the slots, in the order in which NVIDIA's driver counts the cards.
_BUSES = (0x3B, 0x5E, 0x86, 0xAF, 0xB1, 0xD8, 0xDA, 0xDC, 0xE1, 0xE3, 0xE5, 0xE7, 0xE9, 0xEB, 0xED, 0xEF)
_LINK_SPEED = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}

# Products with the figures that nvidia-smi prints for them: name; architecture; brand; compute capability; memory MiB; of it
# reserved; PCI device and subsystem; PCIe generation; power limit and its minimum in W; top clocks of graphics and memory in MHz;
# M for MIG; NVLinks between two cards of one host; VBIOS. All of them count ECC errors.
_TABLE = """
Tesla P40; Pascal; Tesla; 6.1; 24576; 148; 1B38 11D9; 3; 250 125; 1531 3615; -; 0; 86.02.23.00.01
Tesla P100-PCIE-16GB; Pascal; Tesla; 6.0; 16384; 104; 15F8 118F; 3; 250 125; 1328 715; -; 0; 86.00.52.00.02
Tesla V100-PCIE-16GB; Volta; Tesla; 7.0; 16384; 224; 1DB4 1214; 3; 250 100; 1380 877; -; 0; 88.00.48.00.02
Tesla V100-PCIE-32GB; Volta; Tesla; 7.0; 32768; 258; 1DB6 124A; 3; 250 100; 1380 877; -; 0; 88.00.48.00.02
Tesla V100S-PCIE-32GB; Volta; Tesla; 7.0; 32768; 258; 1DF6 13D6; 3; 250 100; 1597 1107; -; 0; 88.00.98.00.01
Tesla V100-SXM2-16GB; Volta; Tesla; 7.0; 16384; 224; 1DB1 1212; 3; 300 150; 1530 877; -; 2; 88.00.13.00.02
Tesla V100-SXM2-32GB; Volta; Tesla; 7.0; 32768; 258; 1DB5 1249; 3; 300 150; 1530 877; -; 2; 88.00.43.00.03
Tesla T4; Turing; NVIDIA; 7.5; 15360; 450; 1EB8 12A2; 3; 70 60; 1590 5001; -; 0; 90.04.38.00.03
NVIDIA A10; Ampere; NVIDIA; 8.6; 23028; 495; 2236 1482; 4; 150 100; 1695 6251; -; 0; 94.02.75.00.01
NVIDIA A30; Ampere; NVIDIA; 8.0; 24576; 512; 20B7 1532; 4; 165 100; 1440 1215; M; 0; 92.00.66.00.04
NVIDIA A100-PCIE-40GB; Ampere; NVIDIA; 8.0; 40960; 624; 20F1 145F; 4; 250 150; 1410 1215; M; 0; 92.00.25.00.08
NVIDIA A100 80GB PCIe; Ampere; NVIDIA; 8.0; 81920; 869; 20B5 1533; 4; 300 150; 1410 1512; M; 0; 92.00.68.00.01
NVIDIA A100-SXM4-40GB; Ampere; NVIDIA; 8.0; 40960; 624; 20B0 134F; 4; 400 100; 1410 1215; M; 12; 92.00.19.00.13
NVIDIA A100-SXM4-80GB; Ampere; NVIDIA; 8.0; 81920; 869; 20B2 1463; 4; 400 100; 1410 1593; M; 12; 92.00.45.00.03
NVIDIA L4; Ada Lovelace; NVIDIA; 8.9; 23034; 458; 27B8 16CA; 4; 72 40; 2040 6251; -; 0; 95.04.29.00.06
NVIDIA L40S; Ada Lovelace; NVIDIA; 8.9; 46068; 600; 26B9 1851; 4; 350 100; 2520 9001; -; 0; 95.02.66.00.02
NVIDIA H100 PCIe; Hopper; NVIDIA; 9.0; 81559; 551; 2331 1626; 5; 350 200; 1755 1593; M; 0; 96.00.74.00.01
NVIDIA H100 NVL; Hopper; NVIDIA; 9.0; 95830; 583; 2321 1839; 5; 400 200; 1785 2619; M; 0; 96.00.88.00.11
NVIDIA H100 80GB HBM3; Hopper; NVIDIA; 9.0; 81559; 551; 2330 16C1; 5; 700 200; 1980 2619; M; 18; 96.00.74.00.01
NVIDIA H200; Hopper; NVIDIA; 9.0; 143771; 616; 2335 18BF; 5; 700 200; 1980 3201; M; 18; 96.00.A5.00.1A
"""


def _parse_table() -> dict[str, dict[str, Any]]:
    models: dict[str, dict[str, Any]] = {}
    for line in _TABLE.strip().splitlines():
        name, architecture, brand, capability, memory, reserved, pci, gen, power, clocks, mig, links, vbios = (
            line.split("; ")
        )
        graphics, memory_clock = (int(clock) for clock in clocks.split())
        limit, minimum = (int(watts) for watts in power.split())
        device, subsystem = pci.split()
        bar1_mib = 1 << (int(memory) - 1).bit_length()
        models[name] = {
            "name": name,
            "architecture": architecture,
            "brand": brand,
            "compute_capability": capability,
            "memory_mib": int(memory),
            "reserved_mib": int(reserved),
            "free_mib": int(memory) - int(reserved),
            "bar1_mib": bar1_mib,
            "bar1_free_mib": bar1_mib - 2,
            "pci_device_id": device,
            "pci_sub_device_id": subsystem,
            "link_gen": int(gen),
            "link_width": 16,
            "power_limit_w": limit,
            "power_min_w": minimum,
            "graphics_clock_mhz": graphics,
            "memory_clock_mhz": memory_clock,
            "video_clock_mhz": graphics * 39 // 50,
            "mig": mig == "M",
            "nvlinks": int(links),
            "vbios": vbios,
            "numa_node": 0,
        }
    return models


GPU_MODELS = _parse_table()


def _identity(host_name: str, index: int) -> dict[str, Any]:
    """Return what tells one card from all others."""

    def digest(what: str) -> str:
        return hashlib.sha256(f"{host_name}/{index}/{what}".encode()).hexdigest()

    uuid = digest("uuid")
    bus = f"{_BUSES[index]:02X}"
    return {
        "uuid": "GPU-" + "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:32])),
        "serial": str(320_000_000_000 + int(digest("serial")[:8], 16)).zfill(13),
        "pdi": "0x" + digest("pdi")[:16],
        "bus_id": f"00000000:{bus}:00.0",
        "pci_bus": bus,
        "board_id": f"0x{_BUSES[index] * 256:x}",
        "module_id": index + 1,
    }


def hardware(host_name: str, gpu_model: str, count: int) -> dict[str, Any]:
    """Return the content of /etc/lab/hardware.json for a host with `count` GPUs of one model."""
    if gpu_model not in GPU_MODELS:
        raise ValueError(f"unknown GPU model {gpu_model!r}; known: {', '.join(sorted(GPU_MODELS))}")
    if not 0 <= count <= len(_BUSES):
        raise ValueError(f"a lab host has 0 to {len(_BUSES)} GPUs, not {count}")
    gpus = [{**GPU_MODELS[gpu_model], **_identity(host_name, index)} for index in range(count)]
    return {"host": host_name, "gpus": gpus}


def pci_tree(content: dict[str, Any]) -> dict[str, str]:
    """Return the files of /sys/bus/pci/devices (path: text). No container can write there: they belong below /etc/lab."""
    files: dict[str, str] = {}
    for gpu in content["gpus"]:
        domain, rest = gpu["bus_id"].lower().split(":", 1)
        speed = _LINK_SPEED[gpu["link_gen"]]
        width = str(gpu["link_width"])
        values = {
            "vendor": "0x10de",
            "device": "0x" + gpu["pci_device_id"].lower(),
            "class": "0x030200",
            "subsystem_vendor": "0x10de",
            "subsystem_device": "0x" + gpu["pci_sub_device_id"].lower(),
            "current_link_speed": speed,
            "current_link_width": width,
            "max_link_speed": speed,
            "max_link_width": width,
            "numa_node": str(gpu["numa_node"]),
        }
        for name, value in values.items():
            files[f"/sys/bus/pci/devices/{domain[-4:]}:{rest}/{name}"] = value + "\n"
    return files
