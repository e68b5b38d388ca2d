# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs and the NVIDIA driver of a host, read from what nvidia-smi prints and from the files of /proc and /sys.

Everything here is text in, plain values out. A host without a driver still has its cards on the PCI bus: there the device
id says which product it is, and the rest (UUID, and memory where one id stands for cards of different sizes) stays None.
"""

from __future__ import annotations

import csv
import glob
import os
import re
from typing import Any, Mapping, NamedTuple, Sequence

# What is asked of nvidia-smi: its field, and how the facts call it.
QUERY_FIELDS = (
    ("index", "index"),
    ("uuid", "uuid"),
    ("name", "name"),
    ("memory.total", "memory_mib"),
    ("compute_cap", "compute_capability"),
    ("pci.bus_id", "bus_id"),
)
# Older drivers refuse a query with this field: it came with R510.
LATE_FIELD = "compute_cap"

_VENDOR = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA controller, 3D controller; a card's audio function is neither
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NOTHING = re.compile(
    r"\[?(n/a|not supported|unknown error|err!|insufficient permissions|requested functionality.*)\]?", re.I
)
_VERSION = re.compile(r"(?<![\d.])(\d{3,4}\.\d+(?:\.\d+)?)(?![\d.])")
_LINK = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|PSB|NVB")
# Where distributions and NVIDIA's own installer put the driver's libraries.
_LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/nvidia",
)
_LIBRARY = "libnvidia-ml.so."


class Product(NamedTuple):
    """What a PCI device id stands for. No memory where the cards with this id differ in it."""

    name: str
    generation: str
    compute_capability: str
    memory_mib: int | None


# Device id: name as nvidia-smi prints it, generation, compute capability, memory.total in MiB.
# Sources: Volta from the PCI ID Repository (pci.ids of 2023-04-11); the others from the table of compatible GPUs in the
# README of NVIDIA's open-gpu-kernel-modules 595.45.04. Capabilities from NVIDIA's table of CUDA GPUs. Memory where it is
# known from nvidia-smi outputs that people published, or measured (H200); None elsewhere.
_PRODUCTS = """
1DB1 | Tesla V100-SXM2-16GB | Volta | 7.0 | 16384
1DB2 | Tesla V100-DGXS-16GB | Volta | 7.0 | 16384
1DB3 | Tesla V100-FHHL-16GB | Volta | 7.0 | 16384
1DB4 | Tesla V100-PCIE-16GB | Volta | 7.0 | 16384
1DB5 | Tesla V100-SXM2-32GB | Volta | 7.0 | 32768
1DB6 | Tesla V100-PCIE-32GB | Volta | 7.0 | 32768
1DB7 | Tesla V100-DGXS-32GB | Volta | 7.0 | 32768
1DB8 | Tesla V100-SXM3-32GB | Volta | 7.0 | 32768
1DF5 | Tesla V100-SXM2-16GB | Volta | 7.0 | 16384
1DF6 | Tesla V100S-PCIE-32GB | Volta | 7.0 | 32768
1EB8 | Tesla T4 | Turing | 7.5 | 15360
20B0 | NVIDIA A100-SXM4-40GB | Ampere | 8.0 | 40960
20B2 | NVIDIA A100-SXM4-80GB | Ampere | 8.0 | 81920
20B3 | NVIDIA A100-SXM-64GB | Ampere | 8.0 | 65536
20B5 | NVIDIA A100 80GB PCIe | Ampere | 8.0 | 81920
20B7 | NVIDIA A30 | Ampere | 8.0 | 24576
20BD | NVIDIA A800-SXM4-40GB | Ampere | 8.0 | 40960
20F1 | NVIDIA A100-PCIE-40GB | Ampere | 8.0 | 40960
20F3 | NVIDIA A800-SXM4-80GB | Ampere | 8.0 | 81920
20F5 | NVIDIA A800 80GB PCIe | Ampere | 8.0 | 81920
20F6 | NVIDIA A800 40GB Active | Ampere | 8.0 | 40960
2235 | NVIDIA A40 | Ampere | 8.6 | 46068
2236 | NVIDIA A10 | Ampere | 8.6 | 23028
2237 | NVIDIA A10G | Ampere | 8.6 | 23028
25B6 | NVIDIA A2 or A16 | Ampere | 8.6 | -
26B5 | NVIDIA L40 | Ada | 8.9 | 46068
26B9 | NVIDIA L40S | Ada | 8.9 | 46068
26BA | NVIDIA L20 | Ada | 8.9 | 46068
27B6 | NVIDIA L2 | Ada | 8.9 | -
27B8 | NVIDIA L4 | Ada | 8.9 | 23034
230E | NVIDIA H20 NVL16 | Hopper | 9.0 | -
2321 | NVIDIA H100 NVL | Hopper | 9.0 | 95830
2322 | NVIDIA H800 PCIe | Hopper | 9.0 | 81559
2324 | NVIDIA H800 | Hopper | 9.0 | 81559
2329 | NVIDIA H20 | Hopper | 9.0 | 97871
232C | NVIDIA H20-3e | Hopper | 9.0 | 143771
2330 | NVIDIA H100 80GB HBM3 | Hopper | 9.0 | 81559
2331 | NVIDIA H100 PCIe | Hopper | 9.0 | 81559
2335 | NVIDIA H200 | Hopper | 9.0 | 143771
2339 | NVIDIA H100 | Hopper | 9.0 | -
233A | NVIDIA H800 NVL | Hopper | 9.0 | -
233B | NVIDIA H200 NVL | Hopper | 9.0 | 143771
2342 | NVIDIA GH200 | Hopper | 9.0 | -
2348 | NVIDIA GH200 144G HBM3e | Hopper | 9.0 | -
2901 | NVIDIA B200 | Blackwell | 10.0 | -
2941 | NVIDIA GB200 | Blackwell | 10.0 | -
2BB5 | NVIDIA RTX PRO 6000 Blackwell Server Edition | Blackwell | 12.0 | -
3182 | NVIDIA B300 SXM6 AC | Blackwell | 10.3 | -
31C2 | NVIDIA GB300 | Blackwell | 10.3 | -
"""


def _read_products() -> dict[str, Product]:
    products: dict[str, Product] = {}
    for line in _PRODUCTS.strip().splitlines():
        device, name, generation, capability, memory = (cell.strip() for cell in line.split("|"))
        products[device] = Product(name, generation, capability, None if memory == "-" else int(memory))
    return products


PRODUCTS = _read_products()


def _value(text: str) -> str | None:
    """A cell of nvidia-smi's output; the many ways in which it says that it has nothing to say are None."""
    text = text.strip()
    return None if not text or _NOTHING.fullmatch(text) else text


def _whole(text: str | None) -> int | None:
    """The number of '143771 MiB' or '143771'."""
    match = re.fullmatch(r"(\d+)(?:\.\d+)?(?:\s*MiB)?", text or "")
    return int(match.group(1)) if match else None


def normal_bus_id(text: str | None) -> str | None:
    """A bus id as nvidia-smi writes it, 00000000:3B:00.0, from any of the ways to write one."""
    match = re.fullmatch(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", (text or "").strip().lower())
    if not match:
        return None
    domain, bus, device, function = match.groups()
    return "{:08X}:{:02X}:{:02X}.{}".format(int(domain or "0", 16), int(bus, 16), int(device, 16), function)


def parse_csv(text: str) -> list[dict[str, str | None]]:
    """The rows of ``--format=csv``, with or without ``nounits``, by field. Units leave the headers, not the values."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if row]
    if not rows:
        return []
    fields = [re.sub(r"\s*\[.*\]$", "", header) for header in rows[0]]
    return [dict(zip(fields, [_value(cell) for cell in row])) for row in rows[1:] if len(row) == len(fields)]


def parse_query(text: str) -> list[dict[str, Any]]:
    """The GPUs of a query for the fields above. What a card or an old driver does not tell is None."""
    gpus: list[dict[str, Any]] = []
    for row in parse_csv(text):
        gpu: dict[str, Any] = {ours: row.get(theirs) for theirs, ours in QUERY_FIELDS}
        gpu["index"] = _whole(gpu["index"])
        gpu["memory_mib"] = _whole(gpu["memory_mib"])
        gpu["bus_id"] = normal_bus_id(gpu["bus_id"])
        if gpu["index"] is not None:
            gpus.append(gpu)
    return gpus


def parse_topology(text: str) -> dict[str, dict[str, str]]:
    """How each GPU reaches the others and the network cards, from ``nvidia-smi topo -m``: ``{GPU0: {GPU1: NV18}}``."""
    lines = [_ESCAPE.sub("", line).rstrip() for line in text.splitlines()]
    header: list[str] = []
    links: dict[str, dict[str, str]] = {}
    for line in lines:
        cells = [cell.strip() for cell in line.split("\t")]
        if not header:
            if "GPU0" in cells[1:]:
                header = cells[1:]
            continue
        if not re.fullmatch(r"GPU\d+", cells[0]):
            continue
        mine = {
            name: cell
            for name, cell in zip(header, cells[1:])
            if re.fullmatch(r"(GPU|NIC)\d+|mlx\w+", name) and name != cells[0] and _LINK.fullmatch(cell)
        }
        links[cells[0]] = mine
    return links


def parse_driver(text: str) -> dict[str, str | None]:
    """Version and kind of the loaded kernel module, from /proc/driver/nvidia/version."""
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    match = _VERSION.search(line)
    if not match:
        return {"version": None, "kernel_module": None}
    return {"version": match.group(1), "kernel_module": "open" if "Open Kernel Module" in line else "proprietary"}


def branch_of(version: str | None) -> str | None:
    """570.195.03 belongs to branch 570."""
    return version.split(".")[0] if version else None


def _read(*parts: str) -> str | None:
    try:
        with open(os.path.join(*parts), encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None


def installed_version(root: str = "/") -> str | None:
    """The version of the driver's libraries on disk, which is the next one to be loaded."""
    for folder in _LIBRARY_FOLDERS:
        # libnvidia-ml.so.1 leads to the version that is in use, should an older file still lie beside it.
        names = [os.path.basename(os.path.realpath(os.path.join(root, folder, _LIBRARY + "1")))]
        names += sorted(os.path.basename(path) for path in glob.glob(os.path.join(root, folder, _LIBRARY + "*")))
        for name in names:
            match = re.fullmatch(re.escape(_LIBRARY) + r"(\d{3,4}\.\d+(?:\.\d+)?)", name)
            if match:
                return match.group(1)
    return None


def driver_facts(proc_root: str = "/proc", root: str = "/") -> dict[str, str | None]:
    """Which driver runs and which one is installed."""
    running = parse_driver(_read(proc_root, "driver/nvidia/version") or "")
    installed = installed_version(root)
    return {
        "loaded": running["version"],
        "installed": installed,
        "branch": branch_of(running["version"] or installed),
        "kernel_module": running["kernel_module"],
    }


def pci_gpus(sysfs_root: str = "/sys") -> list[dict[str, Any]]:
    """NVIDIA's GPUs on the PCI bus, in the order of their bus ids, as the driver counts them."""
    gpus: list[dict[str, Any]] = []
    for folder in sorted(glob.glob(os.path.join(sysfs_root, "bus/pci/devices/*"))):
        values = {name: (_read(folder, name) or "").strip().lower() for name in ("vendor", "device", "class")}
        bus_id = normal_bus_id(os.path.basename(folder))
        if values["vendor"] != _VENDOR or not values["class"].startswith(_DISPLAY_CLASSES) or bus_id is None:
            continue
        device = values["device"].replace("0x", "").upper().zfill(4)
        product = PRODUCTS.get(device)
        gpus.append(
            {
                "index": len(gpus),
                "uuid": None,
                "name": product.name if product else None,
                "memory_mib": product.memory_mib if product else None,
                "compute_capability": product.compute_capability if product else None,
                "bus_id": bus_id,
                "pci_device_id": device,
            }
        )
    return gpus


def complete(gpus: Sequence[Mapping[str, Any]], on_bus: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """GPUs of nvidia-smi, with the compute capability from the PCI bus where an old driver does not tell it."""
    by_bus_id = {gpu["bus_id"]: gpu for gpu in on_bus}
    completed: list[dict[str, Any]] = []
    for gpu in gpus:
        card = by_bus_id.get(gpu["bus_id"], {})
        completed.append({**gpu, "compute_capability": gpu["compute_capability"] or card.get("compute_capability")})
    return completed


def gpu_facts(
    query: str | None,
    topology: str | None,
    on_bus: Sequence[Mapping[str, Any]],
    driver: Mapping[str, str | None],
    failure: str = "",
) -> dict[str, Any]:
    """All of it together.

    ``query`` and ``topology`` are what nvidia-smi printed, None where it could not be run; ``failure`` is what it said then.
    """
    problems: list[dict[str, str]] = []
    gpus = complete(parse_query(query or ""), on_bus)
    source = "nvidia-smi" if gpus else "pci" if on_bus else "none"
    if not gpus:
        gpus = [{key: value for key, value in gpu.items() if key != "pci_device_id"} for gpu in on_bus]
        for gpu in on_bus:
            if gpu["name"] is None:
                problems.append(
                    {
                        "code": "unknown_pci_device",
                        "detail": "the NVIDIA device {} at {} is not in the table of GPUs".format(
                            gpu["pci_device_id"], gpu["bus_id"]
                        ),
                    }
                )
    elif len(gpus) < len(on_bus):
        seen = {gpu["bus_id"] for gpu in gpus}
        missing = [str(gpu["bus_id"]) for gpu in on_bus if gpu["bus_id"] not in seen]
        problems.append(
            {"code": "gpu_lost", "detail": "on the PCI bus but not seen by nvidia-smi: {}".format(", ".join(missing))}
        )
    if failure:
        problems.append({"code": "nvidia_smi_failed", "detail": " ".join(failure.split())[:300]})
    if driver["loaded"] and driver["installed"] and driver["loaded"] != driver["installed"]:
        problems.append(
            {
                "code": "driver_mismatch",
                "detail": "the driver {} is loaded but {} is installed".format(driver["loaded"], driver["installed"]),
            }
        )
    return {
        "source": source,
        "gpus": gpus,
        "driver": dict(driver),
        "topology": parse_topology(topology or ""),
        "problems": problems,
    }
