"""What the kernel says of GPUs on the PCI bus, from files as they lie below /sys."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _gpu, _pci
from hypothesis import given
from hypothesis import strategies as st

from tests.support.host_reports import config_space, plant

CARD = {"vendor": "0x10de", "device": "0x2236", "class": "0x030200"}


def card(path: str, **more: str) -> dict[str, str]:
    return {f"{path}/{name}": text for name, text in {**CARD, **more}.items()}


def test_a_card_as_it_should_be(tmp_path: Path) -> None:
    plant(tmp_path, card("sys/bus/pci/devices/0000:3b:00.0", driver="-> sys/bus/pci/drivers/nvidia"))
    (found,) = _pci.bus_facts(str(tmp_path / "sys"))
    assert found == {
        "bus_id": "00000000:3B:00.0",
        "kernel_driver": "nvidia",
        "window_missing": None,
        "iommu": "",
        "redirecting": [],
        "numa_node": None,
    }


def test_a_card_of_a_virtual_machine_is_on_the_bus_and_not_counted(tmp_path: Path) -> None:
    plant(tmp_path, card("sys/bus/pci/devices/0000:3b:00.0", driver="-> sys/bus/pci/drivers/vfio-pci"))
    plant(tmp_path, card("sys/bus/pci/devices/0000:5e:00.0", driver="-> sys/bus/pci/drivers/nouveau"))
    assert [one["kernel_driver"] for one in _pci.bus_facts(str(tmp_path / "sys"))] == ["vfio-pci", "nouveau"]
    (left,) = _gpu.pci_gpus(str(tmp_path / "sys"))
    assert (left["index"], left["bus_id"]) == (0, "00000000:5E:00.0")


@pytest.mark.parametrize(("control", "redirects"), [("001d", True), ("0001", False), ("0008", True), ("0000", False)])
def test_bridges_that_redirect(tmp_path: Path, control: str, redirects: bool) -> None:
    bridge = "sys/devices/pci0000:00/0000:00:03.1"
    plant(tmp_path, {f"{bridge}/config": f"acs {control}", **card(f"{bridge}/0000:02:00.0")})
    plant(tmp_path, {"sys/bus/pci/devices/0000:02:00.0": f"-> {bridge}/0000:02:00.0"})
    (found,) = _pci.bus_facts(str(tmp_path / "sys"))
    assert found["redirecting"] == (["0000:00:03.1"] if redirects else [])


@pytest.mark.parametrize(
    ("resource", "missing"),
    [
        ("0x1 0x2 0x3\n0x0 0x1fffffffff 0x14220c\n", True),
        ("0x1 0x2 0x3\n0x380000000000 0x381fffffffff 0x14220c\n", False),
        ("0x1 0x2 0x3\n0x0 0x0 0x0\n", False),
        ("0x1 0x2 0x3\n", None),
        ("", None),
        ("x\ny z\n", None),
    ],
)
def test_the_window_of_a_card(resource: str, missing: bool | None) -> None:
    assert _pci.window_is_missing(resource) is missing


def test_where_nobody_may_read_beyond_the_first_bytes_nothing_is_known() -> None:
    assert _pci.acs_control(config_space("001d")[:64]) is None
    assert _pci.acs_control(config_space("001d")) == 0x1D


@given(st.binary(max_size=600), st.text())
def test_nothing_makes_it_fail(config: bytes, text: str) -> None:
    _pci.acs_control(b"\0" * 0x100 + config)
    _pci.window_is_missing(text)
