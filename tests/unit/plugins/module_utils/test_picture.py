"""What others left on a host, from what its programs print and its files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _picture as picture
from ansible_collections.baremetal.llm.plugins.module_utils._driver_host import compilers, parse_kernel_gcc
from hypothesis import given
from hypothesis import strategies as st

from tests.support.host_reports import Recorded, plant

LISTING = "ii \tcontainerd\t1.6.20~ds1-1+b1\nhi \trunc:amd64\t1.1.5\nrc \tpodman\t4.3.1\nii \tbash\t5\n"
UNITS = """Id=containerd.service
LoadState=loaded
ActiveState=active

Id=kubelet.service
LoadState=not-found
ActiveState=inactive
"""
MOUNTS = "overlay / overlay rw,relatime 0 0\n/dev/sdb1 /var xfs rw 0 0\ntmpfs /tmp tmpfs rw,noexec,nosuid 0 0\n/dev/c /mnt/a\\040b ext4 rw 0 0\n"
ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
down0\t000012AC\t00000000\t0000\t0\t0\t0\t0000FFFF\t0\t0\t0
"""


def test_packages_that_matter() -> None:
    assert picture.parse_packages(LISTING) == ({"containerd": "1.6.20~ds1-1+b1", "runc": "1.1.5"}, ["runc"])


def test_units_that_are_there() -> None:
    assert picture.parse_units(UNITS) == {"containerd.service": "active"}


def test_units_that_nobody_can_start() -> None:
    masked = "Id=docker.service\nLoadState=masked\nActiveState=inactive\n\n" + UNITS
    assert picture.parse_units(masked, "masked") == {"docker.service": "inactive"}
    assert picture.parse_units(masked) == {"containerd.service": "active"}


def test_file_systems_that_are_not_mounted() -> None:
    mounts = picture.parse_mounts(MOUNTS)
    fstab = "# /no\nUUID=1 / ext4 defaults 0 1\nUUID=2\t/data/ ext4 defaults,nofail 0 2\n/dev/sdb1 /var xfs rw 0 0\nUUID=3 none swap sw 0 0\n"
    later = "nas:/a /a nfs noauto 0 0\nnas:/b /b nfs x-systemd.automount,ro 0 0\nshort line\n"
    assert picture.unmounted(fstab + later, mounts) == ["/data"]


def test_disks_that_do_not_stay(tmp_path: Path) -> None:
    mounts = "/dev/root / ext4 rw 0 0\n/dev/nvme1n1p1 /scratch xfs rw 0 0\n/dev/sdb1 /mnt ext4 rw 0 0\n"
    plant(
        tmp_path,
        {
            "mnt/DATALOSS_WARNING_README.txt": "WARNING: THIS IS A TEMPORARY DISK.",
            "sys/class/block/nvme1n1/device/model": "Amazon EC2 NVMe Instance Storage         \n",
            "sys/class/block/sda/device/model": "Virtual Disk\n",
        },
    )
    sysfs, root = str(tmp_path / "sys"), str(tmp_path)
    found = {place: picture.is_temporary(place, mounts, sysfs, root) for place in ("/", "/scratch", "/mnt", "/none")}
    assert found == {"/": False, "/scratch": True, "/mnt": True, "/none": False}


def test_the_file_system_of_a_path() -> None:
    mounts = picture.parse_mounts(MOUNTS)
    assert mounts["/tmp"] == {"type": "tmpfs", "options": ["rw", "noexec", "nosuid"]}
    assert "/mnt/a b" in mounts
    assert picture.mount_of("/var/lib/docker/not/there", mounts) == "/var"
    assert picture.mount_of("/opt/llm", mounts) == "/"


def test_routes_without_the_default_one() -> None:
    found = {entry["interface"]: entry["network"] for entry in picture.parse_routes(ROUTES)}
    assert found == {"eth0": "10.0.0.0/24", "docker0": "172.17.0.0/16"}


@pytest.mark.parametrize(
    ("text", "ftype"), [("naming =version 2 bsize=4096 ascii-ci=0 ftype=0\n", 0), ("ftype=1", 1), ("", None)]
)
def test_whether_xfs_keeps_types(text: str, ftype: int | None) -> None:
    assert picture.parse_ftype(text) == ftype


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('CONFIG_CC_VERSION_TEXT="x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0"\n', "12"),
        ('CONFIG_CC_VERSION_TEXT="gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"\n', "12"),
        ('CONFIG_CC_VERSION_TEXT="gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-5)"\n', "11"),
        ("CONFIG_GCC_VERSION=100201\n", "10"),
        ('CONFIG_CC_VERSION_TEXT="clang version 17.0.6"\nCONFIG_GCC_VERSION=0\n', ""),
        ("", ""),
    ],
)
def test_the_compiler_of_a_kernel(text: str, major: str) -> None:
    assert parse_kernel_gcc(text) == major


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('CONFIG_CC_VERSION_TEXT="Debian clang version 19.1.7 (3)"\n', "19"),
        ('CONFIG_CC_VERSION_TEXT="clang version 17.0.6"\nCONFIG_GCC_VERSION=0\n', "17"),
        ('CONFIG_CC_VERSION_TEXT="gcc (GCC) 11.5.0 20240719"\n# clang version 17\n', ""),
    ],
)
def test_a_kernel_that_clang_made(tmp_path: Path, text: str, major: str) -> None:
    plant(tmp_path, {"boot/config-6.1": text})
    found = compilers(Recorded({"clang": "14.0.0\n"}), "6.1", str(tmp_path))  # type: ignore[arg-type]
    assert (found["kernel_clang"], found["clang"]) == (major, "14")


def test_whether_the_database_of_packages_can_be_read(tmp_path: Path) -> None:
    def readable(answers: dict[str, str]) -> bool | None:
        programs: Any = Recorded(answers)
        found = picture.picture(programs, str(tmp_path), "/opt/llm", "", str(tmp_path), str(tmp_path))
        return found["packages_readable"]

    assert readable({}) is None
    assert readable({"rpm": ""}) is False
    # On a system of rpm dpkg knows no package, and on one of apt rpm knows none.
    assert readable({"dpkg-query": "", "rpm": "ii\tbash\t5\n"}) is True
    assert readable({"dpkg-query": "ii \tbash\t5\n", "rpm": ""}) is True


def test_how_docker_came(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert picture.installed_by({}, "", root) == ""
    assert picture.installed_by({}, "/usr/bin/dockerd", root) == "packages"
    assert picture.installed_by({}, "/usr/local/bin/dockerd", root) == "static"
    assert picture.installed_by({"snap.docker.dockerd.service": "active"}, "/usr/bin/dockerd", root) == "snap"
    (tmp_path / "snap/docker/current").mkdir(parents=True)
    assert picture.installed_by({}, "", root) == "snap"


def test_runtimes_without_their_program(tmp_path: Path) -> None:
    there = tmp_path / "runsc"
    there.touch()
    runtimes = {
        "runsc": {"path": str(there)},
        "gone": {"path": str(tmp_path / "gone")},
        "nvidia": {"path": "nvidia-container-runtime"},
        "io": {"runtimeType": "io.containerd.kata.v2"},
    }
    assert picture.missing_runtimes({"runtimes": runtimes}, Recorded({})) == ["gone", "nvidia"]
    assert picture.missing_runtimes({"runtimes": runtimes}, Recorded({"nvidia-container-runtime": ""})) == ["gone"]
    assert picture.missing_runtimes({"runtimes": []}, Recorded({})) == []


@pytest.mark.parametrize(
    ("files", "units", "installed", "automatic"),
    [
        ({"20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";'}, {}, True, True),
        ({"20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";'}, {}, False, False),
        (
            {
                "20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";',
                "99site": 'APT::Periodic::Unattended-Upgrade "0";',
            },
            {},
            True,
            False,
        ),
        ({"20auto-upgrades": '// APT::Periodic::Unattended-Upgrade "1";'}, {}, True, False),
        ({}, {"dnf-automatic.timer": "active"}, False, True),
        ({}, {"dnf-automatic.timer": "inactive"}, False, False),
    ],
)
def test_whether_packages_are_renewed_by_themselves(
    tmp_path: Path, files: dict[str, str], units: dict[str, str], installed: bool, automatic: bool
) -> None:
    plant(tmp_path, {f"etc/apt/apt.conf.d/{name}": text for name, text in files.items()})
    listing = "ii \tunattended-upgrades\t2.8\n" if installed else "rc \tunattended-upgrades\t2.8\n"
    assert picture.automatic_upgrades(listing, units, str(tmp_path)) is automatic


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            'Unattended-Upgrade::Package-Blacklist {\n  "nvidia-";\n  "libnvidia-";\n};\n',
            ["libnvidia-compute-570", "nvidia-utils-570"],
        ),
        ('Unattended-Upgrade::Package-Blacklist {\n//  "nvidia-";\n#  "libnvidia";\n};\n', []),
        ('Unattended-Upgrade::Package-Blacklist:: "nvidia-utils";\n', ["nvidia-utils-570"]),
        # A pattern is compared with the beginning of a name, and one that is none is nobody's.
        (
            'Unattended-Upgrade::Package-Blacklist { "compute"; "("; ".*-570$"; };\n',
            ["libnvidia-compute-570", "nvidia-utils-570"],
        ),
        ('Unattended-Upgrade::Allowed-Origins { "nvidia-"; };\n', []),
    ],
)
def test_what_automatic_upgrades_leave_alone(tmp_path: Path, text: str, names: list[str]) -> None:
    plant(tmp_path, {"etc/apt/apt.conf.d/50unattended-upgrades": text})
    assert picture.left_out(["libnvidia-compute-570", "nvidia-utils-570"], str(tmp_path)) == names


def test_room_for_kernels_where_they_have_a_file_system(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    assert picture.boot_room(MOUNTS, str(tmp_path)) == {}
    found = picture.boot_room(MOUNTS + "/dev/sda2 /boot ext4 rw 0 0\n", str(tmp_path))
    assert found["mount"] == "/boot"
    assert found["free_mib"] >= 0


def test_where_images_lie() -> None:
    engine: Any = {"containerd_store": True}
    assert picture.image_root(engine, "/data") == "/var/lib/containerd"
    assert picture.image_root({**engine, "containerd_store": False}, "/data") == "/data"


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    picture.parse_packages(text)
    picture.parse_units(text)
    picture.parse_mounts(text)
    picture.parse_routes(text)
    picture.parse_ftype(text)
    parse_kernel_gcc(text)
