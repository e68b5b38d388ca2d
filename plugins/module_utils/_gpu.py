# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs and the NVIDIA driver of a host, read from what nvidia-smi prints and from the files of /proc and /sys.

Everything here is text in, plain values out, and no text makes it fail: what cannot be read is reported as a problem. A host without
a driver still has its cards on the PCI bus: there the device id says which product it is, and the rest (UUID, health, and memory
where one id stands for cards of different sizes) stays None.
"""

from __future__ import annotations

import csv
import glob
import os
import re
from typing import Mapping, NamedTuple, Sequence, TypedDict
from xml.etree import ElementTree

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.module_utils._gpu_generations import architecture
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs

# The kernel's log since the boot, and in it the driver's lines and those of its firmware.
_KERNEL_LOG = ("-k", "-b", "-q", "-o", "cat", "--no-pager")
_OF_DRIVER = "NVRM|firmware.*nvidia/"
_NO_COMPLAINT = re.compile(r"Xid|NVRM: loading NVIDIA|NVRM: objClInitPcieChipset")
_MOST_LINE, _MOST_LINES = 300, 20
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
MORE_QUESTIONS = {"details": ["-q", "-x"], "topology": ["topo", "-m"], "p2p": ["topo", "-p2p", "r"]}


class Card(TypedDict):
    """What a card is. None is what nobody tells, here and in all that follows."""

    # As the driver counts them, from 0.
    index: int | None
    uuid: str | None
    name: str | None
    memory_mib: int | None
    # 9.0
    compute_capability: str | None
    # 00000000:3B:00.0
    bus_id: str | None


class CardOnBus(Card):
    """A card as the PCI bus shows it."""

    # Four digits of base 16.
    pci_device_id: str


class Link(TypedDict):
    """A card's PCIe link as it is now, and what both of its ends can do."""

    generation: int | None
    generation_max: int | None
    width: int | None
    width_max: int | None


class Errors(TypedDict):
    """How many errors of its memory a card has found."""

    corrected: int | None
    uncorrected: int | None


class Ecc(TypedDict):
    """Whether a card corrects errors of its memory, whether it will after a restart, and those since then and ever."""

    enabled: bool | None
    pending: bool | None
    volatile: Errors
    aggregate: Errors


class RetiredPages(Errors):
    """Pages of memory that older cards use no more."""

    pending: bool | None


class RemappedRows(RetiredPages):
    """Rows of memory in whose place newer cards use others."""

    failed: bool | None


class PowerLimits(TypedDict):
    """What a card may take, in watts."""

    now: int | None
    default: int | None
    minimum: int | None
    maximum: int | None


class Clocks(TypedDict):
    """The clocks that applications get."""

    graphics_mhz: int | None
    memory_mhz: int | None


class Health(TypedDict):
    """How a card is."""

    link: Link
    ecc: Ecc
    remapped_rows: RemappedRows
    retired_pages: RetiredPages
    mig_enabled: bool | None
    persistence_enabled: bool | None
    compute_mode: str | None
    recovery_action: str | None
    license_status: str | None
    fabric_state: str | None
    # None, Pass-Through, VGPU, Host VGPU
    virtualization: str | None
    minor: int | None
    temperature_celsius: int | None
    throttle_reasons: list[str] | None
    power_limit_watts: PowerLimits
    memory_used_mib: int | None
    clocks: Clocks
    firmware: str | None


class Gpu(Card, Health):
    """A card with its health."""


class Driver(TypedDict):
    """Which driver runs and which one is installed."""

    loaded: str | None
    installed: str | None
    # 570
    branch: str | None
    # open or proprietary
    kernel_module: str | None
    mismatch: bool


class Fabric(TypedDict):
    """What the worst-connected card can exchange with the others of its host, in each direction."""

    # NVLink x6, PCIe 4.0 x16
    via: str
    mbps: int


class Problem(TypedDict):
    """What could not be read, or is not as it should be."""

    code: str
    detail: str


class GpuFacts(TypedDict):
    """The GPUs and the driver of a host."""

    # nvidia-smi, pci or none
    source: str
    gpus: list[Gpu]
    driver: Driver
    # {GPU0: {GPU1: NV18}}
    topology: dict[str, dict[str, str]]
    # {GPU0: {GPU1: True}}
    p2p: dict[str, dict[str, bool | None]]
    fabric: Fabric | None
    nvswitches: int
    problems: list[Problem]


class HostGpus(GpuFacts):
    """The same with the driver's device files."""

    device_nodes: list[str]


class RoleFacts(TypedDict, total=False):
    """Those that later plays read."""

    llm_gpus_found: list[Gpu]
    llm_gpu_p2p: dict[str, dict[str, bool | None]]
    llm_gpu_fabric: Fabric | None


# A card's health until nvidia-smi -q -x has been read.
UNKNOWN_HEALTH: Health = {
    "link": {"generation": None, "generation_max": None, "width": None, "width_max": None},
    "ecc": {
        "enabled": None,
        "pending": None,
        "volatile": {"corrected": None, "uncorrected": None},
        "aggregate": {"corrected": None, "uncorrected": None},
    },
    "remapped_rows": {"corrected": None, "uncorrected": None, "pending": None, "failed": None},
    "retired_pages": {"corrected": None, "uncorrected": None, "pending": None},
    "mig_enabled": None,
    "persistence_enabled": None,
    "compute_mode": None,
    "recovery_action": None,
    "license_status": None,
    "fabric_state": None,
    "virtualization": None,
    "minor": None,
    "temperature_celsius": None,
    "throttle_reasons": None,
    "power_limit_watts": {"now": None, "default": None, "minimum": None, "maximum": None},
    "memory_used_mib": None,
    "clocks": {"graphics_mhz": None, "memory_mhz": None},
    "firmware": None,
}
# Reasons for lower clocks that are no sign of trouble: nothing to do, or somebody's own setting.
_HARMLESS_REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sync_boost",
    "display_clocks_setting",
    "display_clock_setting",
)

# What a card's NVLinks carry, by compute capability: Mbit/s of one link in each direction, and how many it has.
# Sources: NVIDIA's architecture papers of Pascal (P100: 160 GB/s over 4 links, both directions), Volta (V100: 300 GB/s, 6), Turing
# (RTX 8000: 100 GB/s, 2), Ampere (A100: 600 GB/s, 12; GA102: 112.5 GB/s, 4), Hopper (900 GB/s, 18) and Blackwell (1800 GB/s, 18).
NVLINKS = {
    "6.0": (160000, 4),
    "7.0": (200000, 6),
    "7.5": (200000, 2),
    "8.0": (200000, 12),
    "8.6": (112500, 4),
    "9.0": (200000, 18),
    "10.0": (400000, 18),
    "10.3": (400000, 18),
}
# What one lane carries in each direction after its line code (8b/10b, 128b/130b, flits from 6.0 on). Source: PCI-SIG's base specifications.
PCIE_LANE_MBPS = {1: 2000, 2: 4000, 3: 7877, 4: 15754, 5: 31508, 6: 60500}

_VENDOR = "0x10de"
_BRIDGE_CLASS = "0x0680"  # other bridge: how an NVSwitch shows itself
# Drivers of the kernel that hold a device for virtual machines.
PASSED_ON = ("vfio-pci", "pci-stub", "pciback", "xen-pciback")
_DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA controller, 3D controller; a card's audio function is neither
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NOTHING = re.compile(
    r"\[?(n/a|not supported|unknown error|err!|gpu is lost|insufficient permissions|requested functionality.*)\]?", re.I
)
# What nvidia-smi says of a card that fell off the bus (Xid 79), and where it says so in the place of the list.
_LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU)?\s*(?:\d+: )?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])",
    re.I,
)
# What nvidia-smi says of what another driver does not change, and what that is. With the first one it lists all cards, and ends with this status.
_DAMAGED = 14  # NVML_ERROR_CORRUPTED_INFOROM
_SAID = (
    (re.compile(r"infoROM is corrupted", re.I), "gpu_inforom"),
    (re.compile(r"^no answer within \d+ seconds"), "nvidia_smi_hangs"),
)
_VERSION = re.compile(r"(?<![\d.])(\d{3,4}\.\d+(?:\.\d+)?)(?![\d.])")
_LINK = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|PSB|NVB")
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


# Device id: name as nvidia-smi prints it, compute capability, memory.total in MiB.
# Sources: Pascal and Volta from the PCI ID Repository (pci.ids of 2023-04-11); the others from the table of compatible GPUs in the
# README of NVIDIA's open-gpu-kernel-modules 595.45.04. Capabilities from NVIDIA's table of CUDA GPUs. Memory where it is
# known from nvidia-smi outputs that people published, or measured (H200); None elsewhere.
_PRODUCTS = """
15F7 | Tesla P100-PCIE-12GB | 6.0 | -
15F8 | Tesla P100-PCIE-16GB | 6.0 | -
15F9 | Tesla P100-SXM2-16GB | 6.0 | -
1B38 | Tesla P40 | 6.1 | -
1BB3 | Tesla P4 | 6.1 | -
1DB1 | Tesla V100-SXM2-16GB | 7.0 | 16384
1DB2 | Tesla V100-DGXS-16GB | 7.0 | 16384
1DB3 | Tesla V100-FHHL-16GB | 7.0 | 16384
1DB4 | Tesla V100-PCIE-16GB | 7.0 | 16384
1DB5 | Tesla V100-SXM2-32GB | 7.0 | 32768
1DB6 | Tesla V100-PCIE-32GB | 7.0 | 32768
1DB7 | Tesla V100-DGXS-32GB | 7.0 | 32768
1DB8 | Tesla V100-SXM3-32GB | 7.0 | 32768
1DF5 | Tesla V100-SXM2-16GB | 7.0 | 16384
1DF6 | Tesla V100S-PCIE-32GB | 7.0 | 32768
1EB8 | Tesla T4 | 7.5 | 15360
20B0 | NVIDIA A100-SXM4-40GB | 8.0 | 40960
20B2 | NVIDIA A100-SXM4-80GB | 8.0 | 81920
20B3 | NVIDIA A100-SXM-64GB | 8.0 | 65536
20B5 | NVIDIA A100 80GB PCIe | 8.0 | 81920
20B7 | NVIDIA A30 | 8.0 | 24576
20BD | NVIDIA A800-SXM4-40GB | 8.0 | 40960
20F1 | NVIDIA A100-PCIE-40GB | 8.0 | 40960
20F3 | NVIDIA A800-SXM4-80GB | 8.0 | 81920
20F5 | NVIDIA A800 80GB PCIe | 8.0 | 81920
20F6 | NVIDIA A800 40GB Active | 8.0 | 40960
2235 | NVIDIA A40 | 8.6 | 46068
2236 | NVIDIA A10 | 8.6 | 23028
2237 | NVIDIA A10G | 8.6 | 23028
25B6 | NVIDIA A2 or A16 | 8.6 | -
26B5 | NVIDIA L40 | 8.9 | 46068
26B9 | NVIDIA L40S | 8.9 | 46068
26BA | NVIDIA L20 | 8.9 | 46068
27B6 | NVIDIA L2 | 8.9 | -
27B8 | NVIDIA L4 | 8.9 | 23034
230E | NVIDIA H20 NVL16 | 9.0 | -
2321 | NVIDIA H100 NVL | 9.0 | 95830
2322 | NVIDIA H800 PCIe | 9.0 | 81559
2324 | NVIDIA H800 | 9.0 | 81559
2329 | NVIDIA H20 | 9.0 | 97871
232C | NVIDIA H20-3e | 9.0 | 143771
2330 | NVIDIA H100 80GB HBM3 | 9.0 | 81559
2331 | NVIDIA H100 PCIe | 9.0 | 81559
2335 | NVIDIA H200 | 9.0 | 143771
2339 | NVIDIA H100 | 9.0 | -
233A | NVIDIA H800 NVL | 9.0 | -
233B | NVIDIA H200 NVL | 9.0 | 143771
2342 | NVIDIA GH200 | 9.0 | -
2348 | NVIDIA GH200 144G HBM3e | 9.0 | -
2901 | NVIDIA B200 | 10.0 | -
2941 | NVIDIA GB200 | 10.0 | -
2BB5 | NVIDIA RTX PRO 6000 Blackwell Server Edition | 12.0 | -
3182 | NVIDIA B300 SXM6 AC | 10.3 | -
31C2 | NVIDIA GB300 | 10.3 | -
"""


def _read_products() -> dict[str, Product]:
    products: dict[str, Product] = {}
    for line in _PRODUCTS.strip().splitlines():
        device, name, capability, memory = (cell.strip() for cell in line.split("|"))
        major, _dot, minor = capability.partition(".")
        generation = architecture((int(major), int(minor))).name
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
    return digits(match.group(1)) if match else None


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


def parse_query(text: str) -> list[Card]:
    """The GPUs of a query for the fields above. What a card or an old driver does not tell is None."""
    gpus: list[Card] = []
    for row in parse_csv(text):
        said = {ours: row.get(theirs) for theirs, ours in QUERY_FIELDS}
        gpu: Card = {
            "index": _whole(said["index"]),
            "uuid": said["uuid"],
            "name": said["name"],
            "memory_mib": _whole(said["memory_mib"]),
            "compute_capability": said["compute_capability"],
            "bus_id": normal_bus_id(said["bus_id"]),
        }
        # A card that is lost has its number and nothing else.
        if gpu["index"] is not None and (gpu["uuid"] or gpu["name"] or gpu["bus_id"]):
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
            if re.fullmatch(r"(GPU|NIC)[0-9]{1,4}|mlx\w+", name) and name != cells[0] and _LINK.fullmatch(cell)
        }
        links[cells[0]] = mine
    return links


def parse_p2p(text: str, topology: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, bool | None]]:
    """Whether GPUs can read each other's memory, from ``nvidia-smi topo -p2p r``: ``{GPU0: {GPU1: True}}``.

    Where that says nothing, an NVLink between them does (``topology``); else it is not known, None.
    """
    said: dict[str, dict[str, str]] = {}
    header: list[str] = []
    for line in text.splitlines():
        cells = _ESCAPE.sub("", line).split()
        if not header:
            header = cells if cells and all(re.fullmatch(r"GPU\d+", cell) for cell in cells) else []
        elif len(cells) == len(header) + 1 and cells[0] in header:
            said[cells[0]] = dict(zip(header, cells[1:]))
    p2p: dict[str, dict[str, bool | None]] = {}
    for mine, links in topology.items():
        p2p[mine] = {}
        for other in sorted((name for name in links if name.startswith("GPU")), key=lambda name: int(name[3:])):
            answer = said.get(mine, {}).get(other, "U")
            by_link = True if links[other].startswith("NV") and links[other] != "NVB" else None
            p2p[mine][other] = by_link if answer == "U" else answer == "OK"
    return p2p


def slowest_fabric(gpus: Sequence[Gpu], topology: Mapping[str, Mapping[str, str]]) -> Fabric | None:
    """What the worst-connected card can exchange with the others of its host: ``{via: NVLink x6, mbps: 1200000}``.

    Each direction for itself. A card's NVLinks work side by side, so they add up; behind an NVSwitch every pair shows all of them.
    A card without NVLink to another one goes over PCIe, at the width it has now. None for a single card and where nothing says so.
    """
    if len(gpus) < 2:
        return None
    found = []
    for gpu in gpus:
        links = topology.get("GPU{0}".format(gpu["index"]), {})
        nvlinks = sum(
            int(link[2:])
            for name, link in links.items()
            if name.startswith("GPU") and re.fullmatch(r"NV[0-9]{1,3}", link)
        )
        if nvlinks:
            mbps, most = NVLINKS.get(str(gpu["compute_capability"]), (0, 0))
            count = min(nvlinks, most)
            found.append((mbps * count, "NVLink x{0}".format(count)))
        else:
            generation, width = gpu["link"]["generation_max"], gpu["link"]["width"]
            mbps = PCIE_LANE_MBPS.get(generation or 0, 0) * (width or 0)
            found.append((mbps, "PCIe {0}.0 x{1}".format(generation, width)))
    mbps, via = min(found)
    return {"via": via, "mbps": mbps} if mbps else None


def _text(element: ElementTree.Element | None, path: str) -> str | None:
    return _value(element.findtext(path) or "") if element is not None else None


def _count(element: ElementTree.Element | None, path: str) -> int | None:
    """The leading number of '35 C', '16x' or '0'."""
    match = re.match(r"(\d+)", _text(element, path) or "")
    return digits(match.group(1)) if match else None


def _first(element: ElementTree.Element, paths: Sequence[str]) -> int | None:
    """The count under the first of these paths that has one: drivers moved them, and newer ones leave out some."""
    return next((found for found in (_count(element, path) for path in paths) if found is not None), None)


def _enabled(element: ElementTree.Element | None, path: str) -> bool | None:
    return {"enabled": True, "yes": True, "disabled": False, "no": False}.get((_text(element, path) or "").lower())


def _ecc_errors(span: ElementTree.Element | None) -> Errors:
    """Errors since the driver was loaded, or of the card's whole life.

    Cards since Turing count by kind of memory, older ones by place with a total.
    """
    found: dict[str, list[int]] = {"corrected": [], "uncorrected": []}
    if span is not None:
        for kind, bits in (("corrected", "single_bit"), ("uncorrected", "double_bit")):
            block = span.find(bits)
            if block is not None:
                total = _count(block, "total")
                places = [_count(block, child.tag) for child in block] if total is None else [total]
                found[kind] += [number for number in places if number is not None]
        for child in span:
            number = _count(span, child.tag)
            if number is not None and "correctable" in child.tag:
                found["uncorrected" if "uncorrectable" in child.tag else "corrected"].append(number)
    return {"corrected": _sum(found["corrected"]), "uncorrected": _sum(found["uncorrected"])}


def _sum(numbers: Sequence[int]) -> int | None:
    return sum(numbers) if numbers else None


def _power_limits(gpu: ElementTree.Element) -> PowerLimits:
    """What the card may take in watts, and what it can be set to. Before R535 the block was called power_readings."""
    block = gpu.find("gpu_power_readings")
    block = gpu.find("power_readings") if block is None else block
    now = _count(block, "current_power_limit")
    return {
        "now": _count(block, "power_limit") if now is None else now,
        "default": _count(block, "default_power_limit"),
        "minimum": _count(block, "min_power_limit"),
        "maximum": _count(block, "max_power_limit"),
    }


def _throttle_reasons(gpu: ElementTree.Element) -> list[str] | None:
    """What slows the card down at this moment. Before R535 the same was called clocks_throttle_reasons."""
    block = gpu.find("clocks_event_reasons")
    block = gpu.find("clocks_throttle_reasons") if block is None else block
    if block is None:
        return None
    reasons = []
    for child in block:
        name = re.sub(r"^clocks_(event|throttle)_reason_", "", child.tag)
        if (child.text or "").strip() == "Active" and name not in _HARMLESS_REASONS:
            reasons.append(name)
    return sorted(reasons)


def _license(gpu: ElementTree.Element) -> str | None:
    """Of a virtual GPU whether its software is licensed. Before R450 the block was called grid_licensed_product."""
    statuses = (_text(gpu, name + "_licensed_product/license_status") for name in ("vgpu_software", "grid"))
    return next((status for status in statuses if status), None)


def parse_health(text: str) -> dict[str, Health] | None:
    """By bus id how each card is, from ``nvidia-smi -q -x``; None if that is no such answer."""
    try:
        log = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        return None
    if log.tag != "nvidia_smi_log":
        return None
    cards: dict[str, Health] = {}
    for gpu in log.findall("gpu"):
        bus_id = normal_bus_id(gpu.get("id"))
        if bus_id is None:
            continue
        link, rows = gpu.find("pci/pci_gpu_link_info"), gpu.find("remapped_rows")
        pages = gpu.find("retired_pages")
        cards[bus_id] = {
            "link": {
                "generation": _count(link, "pcie_gen/current_link_gen"),
                "generation_max": _count(link, "pcie_gen/max_link_gen"),
                "width": _count(link, "link_widths/current_link_width"),
                "width_max": _count(link, "link_widths/max_link_width"),
            },
            "ecc": {
                "enabled": _enabled(gpu, "ecc_mode/current_ecc"),
                "pending": _enabled(gpu, "ecc_mode/pending_ecc"),
                "volatile": _ecc_errors(gpu.find("ecc_errors/volatile")),
                "aggregate": _ecc_errors(gpu.find("ecc_errors/aggregate")),
            },
            "remapped_rows": {
                "corrected": _count(rows, "remapped_row_corr"),
                "uncorrected": _count(rows, "remapped_row_unc"),
                "pending": _enabled(rows, "remapped_row_pending"),
                "failed": _enabled(rows, "remapped_row_failure"),
            },
            "retired_pages": {
                "corrected": _count(pages, "multiple_single_bit_retirement/retired_count"),
                "uncorrected": _count(pages, "double_bit_retirement/retired_count"),
                "pending": _enabled(pages, "pending_retirement"),
            },
            "mig_enabled": _enabled(gpu, "mig_mode/current_mig"),
            "persistence_enabled": _enabled(gpu, "persistence_mode"),
            "compute_mode": _text(gpu, "compute_mode"),
            "recovery_action": _text(gpu, "gpu_recovery_action"),
            "license_status": _license(gpu),
            "fabric_state": _text(gpu, "fabric/state"),
            "virtualization": _text(gpu, "gpu_virtualization_mode/virtualization_mode"),
            "minor": _count(gpu, "minor_number"),
            "temperature_celsius": _count(gpu, "temperature/gpu_temp"),
            "throttle_reasons": _throttle_reasons(gpu),
            "power_limit_watts": _power_limits(gpu),
            "memory_used_mib": _count(gpu, "fb_memory_usage/used"),
            "clocks": {
                "graphics_mhz": _first(gpu, ("applications_clocks/graphics_clock", "max_clocks/graphics_clock")),
                "memory_mhz": _first(gpu, ("applications_clocks/mem_clock", "max_clocks/mem_clock")),
            },
            "firmware": _text(gpu, "vbios_version"),
        }
    return cards


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


def driver_facts(proc_root: str = "/proc", root: str = "/") -> Driver:
    """Which driver runs and which one is installed."""
    running = parse_driver(_read(proc_root, "driver/nvidia/version") or "")
    installed = installed_version(root)
    return {
        "loaded": running["version"],
        "installed": installed,
        "branch": branch_of(running["version"] or installed),
        "kernel_module": running["kernel_module"],
        "mismatch": bool(running["version"] and installed and running["version"] != installed),
    }


def pci_folders(sysfs_root: str = "/sys") -> list[str]:
    """Where the kernel describes each GPU of NVIDIA, in the order of their bus ids."""
    found = []
    for folder in sorted(glob.glob(os.path.join(sysfs_root, "bus/pci/devices/*"))):
        vendor, kind = ((_read(folder, name) or "").strip().lower() for name in ("vendor", "class"))
        if vendor == _VENDOR and kind.startswith(_DISPLAY_CLASSES) and normal_bus_id(os.path.basename(folder)):
            found.append(folder)
    return found


def kernel_driver(folder: str) -> str:
    """What the kernel has bound to a device; empty where nothing is."""
    path = os.path.join(folder, "driver")
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else ""


def pci_gpus(sysfs_root: str = "/sys") -> list[CardOnBus]:
    """NVIDIA's GPUs on the PCI bus, in the order of their bus ids, as the driver counts them: without those that virtual machines have."""
    gpus: list[CardOnBus] = []
    for folder in pci_folders(sysfs_root):
        if kernel_driver(folder) in PASSED_ON:
            continue
        device = (_read(folder, "device") or "").strip().lower().replace("0x", "").upper().zfill(4)
        product = PRODUCTS.get(device)
        gpus.append(
            {
                "index": len(gpus),
                "uuid": None,
                "name": product.name if product else None,
                "memory_mib": product.memory_mib if product else None,
                "compute_capability": product.compute_capability if product else None,
                "bus_id": normal_bus_id(os.path.basename(folder)),
                "pci_device_id": device,
            }
        )
    return gpus


def nvswitches(sysfs_root: str = "/sys") -> int:
    """How many NVSwitches are on the PCI bus. Those of HGX B200 and later are not there: they hide behind network cards."""
    found = 0
    for folder in glob.glob(os.path.join(sysfs_root, "bus/pci/devices/*")):
        values = [(_read(folder, name) or "").strip().lower() for name in ("vendor", "class")]
        found += values[0] == _VENDOR and values[1].startswith(_BRIDGE_CLASS)
    return found


def device_nodes(root: str = "/dev") -> list[str]:
    """The driver's device files, those of MIG aside."""
    found = sorted(glob.glob(os.path.join(root, "nvidia*")))
    return [path for path in found if re.fullmatch(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset)", os.path.basename(path))]


def complete(gpus: Sequence[Card], on_bus: Sequence[Card], health: Mapping[str, Health]) -> list[Gpu]:
    """GPUs of nvidia-smi, each with its health, and with the compute capability of the PCI bus where an old driver lacks it."""
    capabilities = {gpu["bus_id"]: gpu["compute_capability"] for gpu in on_bus}
    completed: list[Gpu] = []
    for gpu in gpus:
        capability = gpu["compute_capability"] or capabilities.get(gpu["bus_id"])
        completed.append({**gpu, "compute_capability": capability, **health.get(str(gpu["bus_id"]), UNKNOWN_HEALTH)})
    return completed


def _problem(code: str, detail: str) -> Problem:
    return {"code": code, "detail": detail}


def gpu_facts(
    answers: Mapping[str, str | None],
    on_bus: Sequence[CardOnBus],
    driver: Driver,
    switches: int = 0,
    failure: str = "",
) -> GpuFacts:
    """All of it together.

    ``answers`` is what nvidia-smi printed: ``query``, ``details`` (-q -x), ``topology`` (topo -m) and ``p2p`` (topo -p2p r), None
    or absent where it could not be asked; ``failure`` is what it said then.
    """
    problems: list[Problem] = []
    query, details = answers.get("query"), answers.get("details")
    lost = {normal_bus_id(bus_id) for bus_id in _LOST.findall(failure)}
    health = parse_health(details or "")
    gpus = complete(parse_query(query or ""), on_bus, health or {})
    topology = parse_topology(answers.get("topology") or "") if gpus else {}
    source = "nvidia-smi" if gpus else "pci" if on_bus else "none"
    if query is not None and not gpus and "GPU is lost" not in query:
        problems.append(_problem("nvidia_smi_unreadable", "its list of cards: {!r}".format(query[:200])))
    if not gpus:
        gpus = [
            {
                "index": card["index"],
                "uuid": card["uuid"],
                "name": card["name"],
                "memory_mib": card["memory_mib"],
                "compute_capability": card["compute_capability"],
                "bus_id": card["bus_id"],
                **UNKNOWN_HEALTH,
            }
            for card in on_bus
            if card["bus_id"] not in lost
        ]
        for gpu in on_bus:
            if gpu["name"] is None:
                detail = "the NVIDIA device {} at {} is not in the table of GPUs".format(
                    gpu["pci_device_id"], gpu["bus_id"]
                )
                problems.append(_problem("unknown_pci_device", detail))
    else:
        if health is None and details is not None:
            problems.append(_problem("nvidia_smi_unreadable", "its details (-q -x): {!r}".format(details[:200])))
        silent = [str(gpu["bus_id"]) for gpu in gpus if health is not None and str(gpu["bus_id"]) not in health]
        if silent:
            problems.append(_problem("nvidia_smi_unreadable", "no details of {}".format(", ".join(silent))))
        if len(gpus) < len(on_bus):
            seen = {gpu["bus_id"] for gpu in gpus}
            missing = [str(gpu["bus_id"]) for gpu in on_bus if gpu["bus_id"] not in seen]
            problems.append(
                _problem("gpu_lost", "on the PCI bus but not seen by nvidia-smi: {}".format(", ".join(missing)))
            )
    if lost or "GPU is lost" in failure:
        problems.append(_problem("gpu_lost", " ".join(failure.split())[:300]))
    elif failure and not (driver["mismatch"] and "version mismatch" in failure):
        code = next((code for said, code in _SAID if said.search(failure)), "nvidia_smi_failed")
        problems.append(_problem(code, " ".join(failure.split())[:300]))
    if driver["mismatch"]:
        detail = "the driver {} is loaded but {} is installed".format(driver["loaded"], driver["installed"])
        problems.append(_problem("driver_mismatch", detail))
    return {
        "source": source,
        "gpus": gpus,
        "driver": driver,
        "topology": topology,
        "p2p": parse_p2p(answers.get("p2p") or "", topology),
        "fabric": slowest_fabric(gpus, topology),
        "nvswitches": switches,
        "problems": problems,
    }


def _list_cards(programs: Programs, smi: str) -> tuple[str | None, str]:
    """What nvidia-smi says about the cards, or why it says nothing."""
    fields = [theirs for theirs, _ours in QUERY_FIELDS]
    status, out, err = programs.run([smi, "--query-gpu=" + ",".join(fields), "--format=csv"])
    if status != 0 and 'Field "{0}"'.format(LATE_FIELD) in out + err:
        fields.remove(LATE_FIELD)
        status, out, err = programs.run([smi, "--query-gpu=" + ",".join(fields), "--format=csv"])
    if status == _DAMAGED and parse_query(out):
        said = [line for line in (out + "\n" + err).splitlines() if _SAID[0][0].search(line)]
        return out, " ".join(said) or "infoROM is corrupted"
    if status != 0:
        return None, err.strip() or out.strip() or "exit status {0}".format(status)
    return out, ""


def read_gpus(programs: Programs, sysfs_root: str, proc_root: str, root: str = "/") -> HostGpus:
    """The GPUs and the driver of this host."""
    answers: dict[str, str | None] = {}
    failure = ""
    smi = programs.path("nvidia-smi")
    if smi:
        answers["query"], failure = _list_cards(programs, smi)
        if answers["query"] is not None:
            for what, words in MORE_QUESTIONS.items():
                status, out, _err = programs.run([smi, *words])
                answers[what] = out if status == 0 else None
    driver = driver_facts(proc_root, root)
    facts = gpu_facts(answers, pci_gpus(sysfs_root), driver, nvswitches(sysfs_root), failure)
    return {**facts, "device_nodes": device_nodes(os.path.join(root, "dev"))}


def kernel_log(programs: Programs) -> list[str]:
    """What the driver has said of cards since the boot, each line once, the newest last; its errors with a number (Xid) are elsewhere."""
    text = programs.answer("journalctl", *_KERNEL_LOG, "--grep", _OF_DRIVER)
    lines = [line.strip()[:_MOST_LINE] for line in text.splitlines() if line.strip() and not _NO_COMPLAINT.search(line)]
    return list(dict.fromkeys(lines))[-_MOST_LINES:]


def facts_for_roles(facts: GpuFacts) -> RoleFacts:
    """The facts that later plays read, from what ``read_gpus`` returns."""
    return {"llm_gpus_found": facts["gpus"], "llm_gpu_p2p": facts["p2p"], "llm_gpu_fabric": facts["fabric"]}
