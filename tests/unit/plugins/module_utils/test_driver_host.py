"""What there is of a driver on a host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._driver_host import (
    host_facts,
    is_driver_package,
    parse_packages,
    secure_boot,
)
from hypothesis import given
from hypothesis import strategies as st

LISTING = (
    "ii \tnvidia-kernel-dkms\t535.261.03-1\nhi \tnvidia-smi\t535.261.03-1\niU \tlibcuda1\t535.261.03-1\n"
    "ii \tnvidia-container-toolkit\t1.17.8-1\nii \tlibnvidia-container1\t1.17.8-1\nrc \tnvidia-persistenced\t535.1\n"
    "iF \tman-db\t2.11\nun \tnvidia-driver\t\nii \tbash\t5.2\nii \tfirmware-nvidia-gsp\t535.261.03-1\nodd line\n\n"
)


def test_packages_of_a_driver_and_only_they() -> None:
    found = parse_packages(LISTING)
    assert set(found["packages"]) == {"nvidia-kernel-dkms", "nvidia-smi", "libcuda1", "firmware-nvidia-gsp"}
    assert found["held"] == ["nvidia-smi"]
    assert found["broken"] == ["libcuda1", "man-db"]


@given(st.text())
def test_no_listing_breaks_it(text: str) -> None:
    assert set(parse_packages(text)) == {"packages", "held", "broken", "libc6"}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("libnvidia-compute-570", True),
        ("nvidia-driver-cuda", True),
        ("kmod-nvidia-open-dkms", True),
        ("nvidia-fabricmanager-570", True),
        ("libcuda1:amd64", True),
        ("nvidia-container-runtime", False),
        ("nvidia-docker2", False),
        ("nvidia-cuda-toolkit", False),
        ("xserver-xorg-video-nouveau", False),
        ("libcudart12", False),
        ("firmware-nvidia-graphics", False),
        ("linux-modules-nvidia-570-server-5.15.0-1078-nvidia", True),
        ("linux-objects-nvidia-570-6.8.0-87-generic", True),
        ("linux-image-5.15.0-1078-nvidia", False),
        ("linux-headers-5.15.0-1078-nvidia", False),
        ("linux-modules-5.15.0-1078-nvidia", False),
        ("linux-nvidia-tools-common", False),
    ],
)
def test_names_of_packages(name: str, part: bool) -> None:
    assert is_driver_package(name) is part


def host_with(root: Path, *files: str) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(b"")
    return root


def look(root: Path, listing: str = "") -> dict[str, Any]:
    return host_facts(listing, "6.1.0-40-amd64", {"gcc": True}, str(root), str(root / "sys"))


def test_a_bare_host(tmp_path: Path) -> None:
    assert look(tmp_path) == {
        "packages": {},
        "held": [],
        "broken": [],
        "runfile": False,
        "unowned": False,
        "kernel": "6.1.0-40-amd64",
        "headers": False,
        "module": False,
        "programs": {"gcc": True},
        "secure_boot": False,
        "libc6": "",
    }


def test_what_lies_on_a_host(tmp_path: Path) -> None:
    modules = "lib/modules/6.1.0-40-amd64"
    host_with(tmp_path, modules + "/build/Makefile", modules + "/kernel/drivers/video/fbdev/nvidia/nvidiafb.ko")
    host_with(tmp_path, modules + "/kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko")
    host_with(tmp_path, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.195.03")
    facts = look(tmp_path)
    assert (facts["headers"], facts["module"], facts["unowned"]) == (True, False, True)
    assert look(tmp_path, LISTING)["unowned"] is False
    host_with(tmp_path, modules + "/updates/dkms/nvidia-current.ko.xz", "usr/bin/nvidia-uninstall")
    facts = look(tmp_path)
    assert (facts["module"], facts["unowned"], facts["runfile"]) == (True, False, True)


@pytest.mark.parametrize(
    ("value", "is_on"), [(b"\x06\0\0\0\x01", True), (b"\x06\0\0\0\0", False), (b"", False), (b"\x01", False)]
)
def test_secure_boot(tmp_path: Path, value: bytes, is_on: bool) -> None:
    path = tmp_path / "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    path.parent.mkdir(parents=True)
    path.write_bytes(value)
    assert secure_boot(str(tmp_path)) is is_on
