"""Reading GPUs: what a real nvidia-smi printed, what older ones print, broken variants, and the PCI bus."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import (
    PRODUCTS,
    UNKNOWN_HEALTH,
    _list_cards,
    branch_of,
    driver_facts,
    gpu_facts,
    installed_version,
    kernel_log,
    normal_bus_id,
    nvswitches,
    parse_csv,
    parse_driver,
    parse_health,
    parse_p2p,
    parse_query,
    parse_topology,
    pci_gpus,
    slowest_fabric,
)
from hypothesis import given
from hypothesis import strategies as st

from lab.sim.hardware import hardware, pci_tree
from tests.support.examples import examples
from tests.support.host_reports import Recorded

CAPTURES = Path(__file__).parents[3] / "data/nvidia_smi"
NO_DRIVER = {"loaded": None, "installed": None, "branch": None, "kernel_module": None, "mismatch": False}
H200 = {
    "index": 0,
    "uuid": "GPU-00000000-0000-0000-0000-000000000000",
    "name": "NVIDIA H200",
    "memory_mib": 143771,
    "compute_capability": "9.0",
    "bus_id": "00000000:00:06.0",
}


def capture(name: str) -> str:
    return (CAPTURES / name).read_text(encoding="utf-8")


def write_pci(root: Path, model: str, count: int) -> str:
    for path, text in pci_tree(hardware("gpu01", model, count)).items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return str(root / "sys")


def test_the_query_of_a_real_host() -> None:
    first, second = parse_query(capture("query.csv"))
    assert first == H200
    assert (second["index"], second["bus_id"]) == (1, "00000000:00:07.0")


def test_a_csv_keeps_what_only_looks_like_nothing() -> None:
    row = parse_csv("name, ecc.mode.current, power.draw [W]\nNVIDIA A10, [N/A], 76.25 W\n")
    assert row == [{"name": "NVIDIA A10", "ecc.mode.current": None, "power.draw": "76.25 W"}]


@pytest.mark.parametrize("said", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "ERR!", ""])
def test_what_a_card_does_not_tell_is_none(said: str) -> None:
    text = f"index, uuid, name, memory.total [MiB], pci.bus_id\n0, GPU-1, Tesla K80, {said}, 00000000:3B:00.0\n"
    (gpu,) = parse_query(text)
    assert gpu["memory_mib"] is None
    assert gpu["compute_capability"] is None
    assert gpu["name"] == "Tesla K80"


@pytest.mark.parametrize("text", ["", "\n", "No devices were found\n", "index, name\n", "index, name\nx\n0, a, b\n"])
def test_no_gpu_in_a_broken_answer(text: str) -> None:
    assert parse_query(text) == []


@given(st.text())
def test_nothing_that_is_printed_breaks_the_parsers(text: str) -> None:
    parse_query(text)
    parse_health(text)
    parse_p2p(text, parse_topology(text))
    parse_driver(text)
    normal_bus_id(text)
    answers = {"query": text, "details": text, "topology": text, "p2p": text}
    assert gpu_facts(answers, [], NO_DRIVER)["source"] == "none"
    facts = gpu_facts({**answers, "query": capture("query.csv")}, [], NO_DRIVER)
    assert [entry["code"] for entry in facts["problems"]] == ["nvidia_smi_unreadable"]


@given(st.integers(min_value=0, max_value=len(capture("query.csv")) - 1))
def test_a_torn_answer_gives_whole_gpus_or_fewer(length: int) -> None:
    text = capture("query.csv")[:length]
    assert all(gpu["index"] in (0, 1) for gpu in parse_query(text))


def test_the_topology_of_a_real_host() -> None:
    assert parse_topology(capture("topo.txt")) == {"GPU0": {"GPU1": "NV18"}, "GPU1": {"GPU0": "NV18"}}


def test_a_topology_with_network_cards_and_a_single_gpu() -> None:
    text = (
        "\tGPU0\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tPIX\tSYS\t0-15\t0\n"
        "NIC0\tPIX\t X \tSYS\t\t\n"
        "\nLegend:\n\n  X    = Self\n"
    )
    assert parse_topology(text) == {"GPU0": {"NIC0": "PIX", "NIC1": "SYS"}}
    assert parse_topology("\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n") == {"GPU0": {}}


P2P = (
    " \t\x1b[4mGPU0\tGPU1\t\x1b[0m\n GPU0\tX\t{0}\t\n GPU1\t{0}\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
)


@pytest.mark.parametrize(
    ("said", "link", "possible"),
    [("OK", "SYS", True), ("NS", "NV2", False), ("CNS", "PHB", False), ("U", "NV2", True), ("U", "PHB", None)],
)
def test_peer_access(said: str, link: str, possible: bool | None) -> None:
    topology = {"GPU0": {"GPU1": link, "NIC0": "PIX"}, "GPU1": {"GPU0": link}}
    assert parse_p2p(P2P.format(said), topology) == {"GPU0": {"GPU1": possible}, "GPU1": {"GPU0": possible}}


def test_peer_access_of_a_real_machine() -> None:
    said = parse_p2p(capture("p2p_two_h200.txt"), parse_topology(capture("topo.txt")))
    assert said == {"GPU0": {"GPU1": True}, "GPU1": {"GPU0": True}}
    assert parse_p2p(capture("p2p_two_h200.txt").replace("OK", "NS"), parse_topology(capture("topo.txt"))) == {
        "GPU0": {"GPU1": False},
        "GPU1": {"GPU0": False},
    }


def test_peer_access_that_is_not_told_follows_from_nvlink() -> None:
    assert parse_p2p("", parse_topology(capture("topo.txt"))) == {"GPU0": {"GPU1": True}, "GPU1": {"GPU0": True}}


def cards(capability: str, count: int, width: int | None = 16) -> list[dict[str, Any]]:
    link = {"generation": 1, "generation_max": 3, "width": width, "width_max": 16}
    return [{"index": index, "compute_capability": capability, "link": link} for index in range(count)]


def test_nvlinks_of_a_card_add_up_and_an_nvswitch_shows_each_pair_all_of_them() -> None:
    # Half of a DGX-1: two links to one neighbour, one to each of the others.
    cube = {
        "GPU0": {"GPU1": "NV1", "GPU2": "NV1", "GPU3": "NV2"},
        "GPU1": {"GPU0": "NV1", "GPU2": "NV2", "GPU3": "SYS"},
    }
    assert slowest_fabric(cards("7.0", 2), cube) == {"via": "NVLink x3", "mbps": 600000}
    switched = {f"GPU{one}": {f"GPU{other}": "NV18" for other in range(8) if other != one} for one in range(8)}
    assert slowest_fabric(cards("9.0", 8), switched) == {"via": "NVLink x18", "mbps": 3600000}


@pytest.mark.parametrize(("width", "found"), [(16, 126032), (8, 63016), (None, None)])
def test_a_card_without_nvlink_goes_over_pcie_as_wide_as_it_is_now(width: int | None, found: int | None) -> None:
    topology = {"GPU0": {"GPU1": "PHB", "NIC0": "PIX"}, "GPU1": {"GPU0": "PHB"}}
    expected = found and {"via": f"PCIe 3.0 x{width}", "mbps": found}
    assert slowest_fabric(cards("7.0", 2, width), topology) == expected
    # One card is enough to slow all of them down.
    mixed = {**topology, "GPU2": {"GPU0": "NV2"}}
    assert slowest_fabric(cards("7.0", 3, width), mixed) == expected


def test_a_single_card_and_links_of_unknown_speed_tell_nothing() -> None:
    assert slowest_fabric(cards("7.0", 1), {"GPU0": {}}) is None
    assert slowest_fabric(cards("99.0", 2), {"GPU0": {"GPU1": "NV4"}, "GPU1": {"GPU0": "NV4"}}) is None


# -- health ------------------------------------------------------------------------------------------------------------

HEALTHY_H200: dict[str, Any] = {
    "link": {"generation": 5, "generation_max": 5, "width": 16, "width_max": 16},
    "ecc": {
        "enabled": True,
        "pending": True,
        "volatile": {"corrected": 0, "uncorrected": 0},
        "aggregate": {"corrected": 0, "uncorrected": 0},
    },
    "remapped_rows": {"corrected": 0, "uncorrected": 0, "pending": False, "failed": False},
    "retired_pages": {"corrected": None, "uncorrected": None, "pending": None},
    "mig_enabled": False,
    "persistence_enabled": True,
    "compute_mode": "Default",
    "recovery_action": "None",
    "license_status": None,
    "fabric_state": "Completed",
    "virtualization": "Pass-Through",
    "minor": 0,
    "temperature_celsius": 35,
    "throttle_reasons": [],
    "power_limit_watts": {"now": 700, "default": 700, "minimum": 200, "maximum": 700},
    "memory_used_mib": 0,
    "clocks": {"graphics_mhz": 1980, "memory_mhz": 3201},
    "firmware": "96.00.A5.00.1A",
}
OLD_ECC = """<volatile>
<single_bit><device_memory>3</device_memory><register_file>N/A</register_file><total>4</total></single_bit>
<double_bit><device_memory>1</device_memory><l2_cache>2</l2_cache><total>N/A</total></double_bit>
</volatile>"""


def details(changes: dict[str, str]) -> str:
    """The capture of a real host, its first card changed."""
    log = ET.fromstring(capture("smi.xml"))
    for path, text in changes.items():
        element = log.find("gpu/" + path)
        assert element is not None, path
        element.text = text
    return ET.tostring(log, encoding="unicode")


def first(text: str) -> dict[str, Any]:
    found = parse_health(text)
    assert found is not None
    return found["00000000:00:06.0"]


def test_the_health_of_a_real_host() -> None:
    second = {**HEALTHY_H200, "minor": 1}
    assert parse_health(capture("smi.xml")) == {"00000000:00:06.0": HEALTHY_H200, "00000000:00:07.0": second}
    assert set(UNKNOWN_HEALTH) == set(HEALTHY_H200)


def test_a_worn_and_hot_card() -> None:
    health = first(
        details(
            {
                "pci/pci_gpu_link_info/link_widths/current_link_width": "8x",
                "ecc_errors/volatile/sram_uncorrectable_parity": "2",
                "ecc_errors/volatile/dram_uncorrectable": "1",
                "ecc_errors/aggregate/dram_correctable": "17",
                "remapped_rows/remapped_row_unc": "5",
                "remapped_rows/remapped_row_pending": "Yes",
                "retired_pages/double_bit_retirement/retired_count": "6",
                "retired_pages/pending_retirement": "Yes",
                "mig_mode/current_mig": "Enabled",
                "temperature/gpu_temp": "91 C",
                "clocks_event_reasons/clocks_event_reason_hw_slowdown": "Active",
                "clocks_event_reasons/clocks_event_reason_gpu_idle": "Active",
            }
        )
    )
    assert (health["link"]["width"], health["link"]["width_max"]) == (8, 16)
    assert health["ecc"]["volatile"] == {"corrected": 0, "uncorrected": 3}
    assert health["ecc"]["aggregate"] == {"corrected": 17, "uncorrected": 0}
    assert health["remapped_rows"] == {"corrected": 0, "uncorrected": 5, "pending": True, "failed": False}
    assert health["retired_pages"] == {"corrected": None, "uncorrected": 6, "pending": True}
    assert (health["mig_enabled"], health["temperature_celsius"]) == (True, 91)
    assert health["throttle_reasons"] == ["hw_slowdown"]


def test_a_card_and_a_driver_from_before() -> None:
    """Volta counts errors by place, and until R535 the reasons for lower clocks had another name."""
    text = re.sub(r"<volatile>.*?</volatile>", OLD_ECC, capture("smi.xml"), count=1, flags=re.DOTALL)
    text = text.replace("clocks_event_reason", "clocks_throttle_reason")
    text = text.replace("sw_power_cap>Not Active", "sw_power_cap>Active")
    health = first(text)
    assert health["ecc"]["volatile"] == {"corrected": 4, "uncorrected": 3}
    assert health["throttle_reasons"] == ["sw_power_cap"]


@examples(40)
@given(st.integers(min_value=0, max_value=len(capture("smi.xml").rstrip()) - 1), st.text(max_size=3))
def test_torn_or_garbled_details_are_a_problem_and_no_traceback(position: int, noise: str) -> None:
    text = capture("smi.xml")
    answers = {"query": capture("query.csv"), "topology": capture("topo.txt")}
    torn = gpu_facts({**answers, "details": text[:position]}, [], NO_DRIVER)
    assert [entry["code"] for entry in torn["problems"]] == ["nvidia_smi_unreadable"]
    assert [gpu["name"] for gpu in torn["gpus"]] == ["NVIDIA H200"] * 2
    assert torn["gpus"][0]["ecc"] == UNKNOWN_HEALTH["ecc"]
    garbled = gpu_facts({**answers, "details": text[:position] + noise + text[position:]}, [], NO_DRIVER)
    assert {entry["code"] for entry in garbled["problems"]} <= {"nvidia_smi_unreadable"}


@examples(40)
@given(
    st.sampled_from(sorted({element.tag for element in ET.fromstring(capture("smi.xml")).iter()} - {"nvidia_smi_log"}))
)
def test_what_is_not_told_is_not_known(tag: str) -> None:
    log = ET.fromstring(capture("smi.xml"))
    for parent in list(log.iter()):
        for child in list(parent):
            if child.tag == tag:
                parent.remove(child)
    for card in (parse_health(ET.tostring(log, encoding="unicode")) or {}).values():
        assert set(card) == set(HEALTHY_H200)


def test_a_card_that_the_details_leave_out_is_told() -> None:
    answers: dict[str, str | None] = {
        "query": capture("query.csv"),
        "details": capture("smi.xml").replace("00:07.0", "00:09.0"),
    }
    (problem,) = gpu_facts(answers, [], NO_DRIVER)["problems"]
    assert problem == {"code": "nvidia_smi_unreadable", "detail": "no details of 00000000:00:07.0"}


def test_nvswitches_are_counted(tmp_path: Path) -> None:
    root = write_pci(tmp_path, "NVIDIA H200", 2)
    assert nvswitches(root) == 0
    for name, vendor in (("0000:c0:00.0", "0x10de"), ("0000:c1:00.0", "0x10de"), ("0000:c2:00.0", "0x8086")):
        folder = tmp_path / "sys/bus/pci/devices" / name
        folder.mkdir()
        (folder / "vendor").write_text(vendor + "\n")
        (folder / "class").write_text("0x068000\n")
    assert nvswitches(root) == 2
    assert len(pci_gpus(root)) == 2


# -- driver ------------------------------------------------------------------------------------------------------------


def test_the_driver_of_a_real_host_is_the_open_one() -> None:
    assert parse_driver(capture("procversion.txt")) == {"version": "580.159.04", "kernel_module": "open"}


@pytest.mark.parametrize(
    ("line", "version", "kind"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.195.03  Sat Sep 20 00:12:48 UTC 2025",
            "570.195.03",
            "proprietary",
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157  Wed Oct 12 09:19:07 UTC 2022",
            "390.157",
            "proprietary",
        ),
        ("GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)", None, None),
        ("", None, None),
    ],
)
def test_drivers(line: str, version: str | None, kind: str | None) -> None:
    assert parse_driver(line + "\nGCC version:  gcc version 12.2.0\n") == {"version": version, "kernel_module": kind}


def test_branches() -> None:
    assert branch_of("570.195.03") == "570"
    assert branch_of(None) is None


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("0000:3b:00.0", "00000000:3B:00.0"),
        ("3b:00.0", "00000000:3B:00.0"),
        ("00000001:3B:00.0", "00000001:3B:00.0"),
        ("3b:00", None),
        (None, None),
    ],
)
def test_bus_ids(text: str | None, normal: str | None) -> None:
    assert normal_bus_id(text) == normal


def test_products_are_well_formed() -> None:
    for device, product in PRODUCTS.items():
        assert re.fullmatch(r"[0-9A-F]{4}", device)
        assert product.generation in {"Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"}
        assert re.fullmatch(r"\d{1,2}\.\d", product.compute_capability)
    assert PRODUCTS["1DB4"].memory_mib == 16384


@pytest.mark.parametrize(
    "model", ["Tesla V100-PCIE-16GB", "Tesla T4", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S", "NVIDIA H200"]
)
def test_the_pci_bus_agrees_with_the_lab(tmp_path: Path, model: str) -> None:
    gpus = pci_gpus(write_pci(tmp_path, model, 2))
    real = hardware("gpu01", model, 2)["gpus"]
    for key in ("name", "memory_mib", "compute_capability", "bus_id"):
        assert [gpu[key] for gpu in gpus] == [gpu[key] for gpu in real]
    assert [gpu["uuid"] for gpu in gpus] == [None, None]


def test_only_graphics_cards_of_nvidia_count(tmp_path: Path) -> None:
    root = write_pci(tmp_path, "Tesla V100-PCIE-16GB", 1)
    devices = tmp_path / "sys/bus/pci/devices"
    others = {
        "0000:3b:00.1": ("0x10de", "0x040300"),
        "0000:01:00.0": ("0x8086", "0x030000"),
        "odd": ("0x10de", "0x0302"),
    }
    for name, (vendor, kind) in others.items():
        (devices / name).mkdir()
        (devices / name / "vendor").write_text(vendor + "\n")
        (devices / name / "class").write_text(kind + "\n")
    assert len(pci_gpus(root)) == 1
    assert pci_gpus(str(tmp_path / "nowhere")) == []


def test_the_installed_driver_is_the_one_that_the_link_leads_to(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    assert installed_version(str(tmp_path)) is None
    for version in ("550.54.15", "570.195.03"):
        (folder / f"libnvidia-ml.so.{version}").touch()
    (folder / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.570.195.03")
    assert installed_version(str(tmp_path)) == "570.195.03"
    proc = tmp_path / "proc/driver/nvidia"
    proc.mkdir(parents=True)
    (proc / "version").write_text(capture("procversion.txt"))
    facts = driver_facts(str(tmp_path / "proc"), str(tmp_path))
    assert facts == {
        "loaded": "580.159.04",
        "installed": "570.195.03",
        "branch": "580",
        "kernel_module": "open",
        "mismatch": True,
    }
    problems = gpu_facts({}, [], facts)["problems"]
    assert [entry["code"] for entry in problems] == ["driver_mismatch"]


def test_without_a_driver_the_bus_tells(tmp_path: Path) -> None:
    facts = gpu_facts({}, pci_gpus(write_pci(tmp_path, "Tesla V100-PCIE-16GB", 2)), NO_DRIVER, failure="no\ndriver")
    assert facts["source"] == "pci"
    assert [gpu["index"] for gpu in facts["gpus"]] == [0, 1]
    assert "pci_device_id" not in facts["gpus"][0]
    assert facts["problems"] == [{"code": "nvidia_smi_failed", "detail": "no driver"}]


def test_a_card_that_is_not_in_the_table_is_counted_and_told(tmp_path: Path) -> None:
    root = write_pci(tmp_path, "Tesla V100-PCIE-16GB", 1)
    (device,) = (tmp_path / "sys/bus/pci/devices").iterdir()
    (device / "device").write_text("0xffff\n")
    facts = gpu_facts({}, pci_gpus(root), NO_DRIVER)
    assert [gpu["name"] for gpu in facts["gpus"]] == [None]
    assert [entry["code"] for entry in facts["problems"]] == ["unknown_pci_device"]


def test_a_card_that_fell_off_is_told(tmp_path: Path) -> None:
    on_bus = pci_gpus(write_pci(tmp_path, "Tesla V100-PCIE-16GB", 2))
    query = "index, uuid, name, memory.total [MiB], pci.bus_id\n0, GPU-1, Tesla V100-PCIE-16GB, 16384 MiB, 00000000:3B:00.0\n"
    facts = gpu_facts({"query": query}, on_bus, NO_DRIVER)
    assert facts["source"] == "nvidia-smi"
    # An old nvidia-smi has no compute_cap: the bus knows it.
    assert facts["gpus"][0]["compute_capability"] == "7.0"
    assert [entry["code"] for entry in facts["problems"]] == ["gpu_lost"]
    assert "00000000:5E:00.0" in facts["problems"][0]["detail"]


class Answering:
    """An nvidia-smi that ends with a status."""

    def __init__(self, status: int, out: str, err: str = "") -> None:
        self.said = (status, out, err)

    def run(self, _command: list[str]) -> tuple[int, str, str]:
        return self.said


def test_a_list_that_ends_with_a_warning_is_a_list() -> None:
    # Azure/batch-shipyard#318: the list, a line of warning, and status 14.
    listed = "index, uuid, name, memory.total [MiB], compute_cap, pci.bus_id\n0, GPU-1, NVIDIA A10, 23028 MiB, 8.6, 00000000:00:1E.0\n"
    warning = "WARNING: infoROM is corrupted at gpu 0000:00:1E.0"
    assert _list_cards(Answering(14, f"{listed}{warning}\n"), "nvidia-smi") == (f"{listed}{warning}\n", warning)  # type: ignore[arg-type]
    assert _list_cards(Answering(14, "", warning), "nvidia-smi") == (None, warning)  # type: ignore[arg-type]
    assert _list_cards(Answering(9, listed, "no driver"), "nvidia-smi") == (None, "no driver")  # type: ignore[arg-type]
    assert _list_cards(Answering(0, listed), "nvidia-smi") == (listed, "")  # type: ignore[arg-type]


def test_what_the_driver_says_in_the_kernels_log() -> None:
    bad = "NVRM: GPU6 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP"
    lines = [
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  535.98  Release Build",
        bad,
        "NVRM: Xid (PCI:0000:06:00): 120, GSP task exception",
        bad,
        "nvidia 0000:01:00.0: loading /lib/firmware/nvidia/570.133.20/gsp_ga10x.bin failed with error -4",
    ]
    assert kernel_log(Recorded({"journalctl": "\n".join(lines)})) == [bad, lines[4]]
    assert kernel_log(Recorded({})) == []
    many = "\n".join(f"NVRM: {number}" + "x" * 400 for number in range(30))
    found = kernel_log(Recorded({"journalctl": many}))
    assert len(found) == 20
    assert found[-1].startswith("NVRM: 29x")
    assert max(map(len, found)) == 300


def test_a_host_without_any() -> None:
    assert gpu_facts({}, [], NO_DRIVER) == {
        "source": "none",
        "gpus": [],
        "driver": NO_DRIVER,
        "topology": {},
        "p2p": {},
        "fabric": None,
        "nvswitches": 0,
        "problems": [],
    }
