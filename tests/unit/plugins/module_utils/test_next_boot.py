"""What a host needs to come back after a reboot, from files as they lie on one."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _next_boot as next_boot
from hypothesis import given
from hypothesis import strategies as st

from tests.support.host_reports import plant


@pytest.mark.parametrize(
    ("line", "stops"),
    [
        ("UUID=1 /scratch xfs defaults 0 2", ["/scratch"]),
        ("UUID=1 /scratch/ xfs rw,noatime 0 2", ["/scratch"]),
        ("UUID=1 /scratch xfs defaults,nofail 0 2", []),
        ("UUID=1 /scratch xfs noauto,user 0 2", []),
        ("UUID=1 /scratch xfs x-systemd.automount 0 2", []),
        ("/dev/nbd0 /scratch xfs _netdev 0 2", []),
        ("10.0.0.9:/a /scratch nfs4 defaults 0 0", []),
        ("me@nas:/a /scratch fuse.sshfs defaults 0 0", []),
        ("UUID=1 /data xfs defaults 0 2", []),
        ("UUID=1 none swap sw 0 0", []),
        ("# UUID=1 /scratch xfs defaults 0 2", []),
        ("UUID=1 /scratch", []),
    ],
)
def test_file_systems_for_which_the_boot_stops(line: str, stops: list[str]) -> None:
    assert next_boot.boot_stops(line + "\n", {"/": {}, "/data": {}}) == stops


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("root UUID=1 none luks,discard", True),
        ("root UUID=1", True),
        ("root UUID=1 - luks", True),
        ("root UUID=1 none luks,tpm2-device=auto", False),
        ("root UUID=1 none luks,keyscript=/sbin/key", False),
        ("data UUID=1 /etc/keys/data luks", False),
        ("data UUID=1 none luks,noauto", False),
        ("data UUID=1 none luks,nofail", False),
        ("swap /dev/sda3 /dev/urandom swap", False),
        ("# root UUID=1 none luks", False),
        ("", False),
    ],
)
def test_disks_that_ask_for_a_passphrase(tmp_path: Path, line: str, asks: bool) -> None:
    plant(tmp_path, {"etc/crypttab": line + "\n"})
    assert next_boot.boot_passphrases(str(tmp_path)) == (line.split()[:1] if asks else [])
    # Clevis opens disks by a server or by the TPM, which crypttab does not say.
    plant(tmp_path, {"usr/bin/clevis": ""})
    assert next_boot.boot_passphrases(str(tmp_path)) == []


def test_folders_of_dkms_without_their_source(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "var/lib/dkms/nvidia/390.48/source": "=> /usr/src/nvidia-390.48",
            "var/lib/dkms/nvidia/570.195.03/source/dkms.conf": "",
            "var/lib/dkms/nvidia/original_module/6.1/nvidia.ko": "",
            "var/lib/dkms/nvidia/kernel-6.1-x86_64": "-> var/lib/dkms/nvidia/570.195.03/6.1",
            "var/lib/dkms/v4l2loopback/0.12.7/build/make.log": "",
            "var/lib/dkms/mok.key": "",
            "var/lib/dkms/dkms_dbversion/2": "",
        },
    )
    assert next_boot.dkms_broken(str(tmp_path)) == ["/var/lib/dkms/nvidia/390.48", "/var/lib/dkms/v4l2loopback/0.12.7"]


@given(st.text(max_size=200))
def test_no_text_makes_it_fail(text: str) -> None:
    assert isinstance(next_boot.boot_stops(text, {}), list)
