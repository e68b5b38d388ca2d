# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host needs to come back after a reboot: its file systems, somebody who types a passphrase, and dkms, which builds modules for the next kernel.

This runs on the host. A missing file is no error: facts that are not known are empty.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Iterator, Mapping, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._shares import TYPES


class NextBoot(TypedDict):
    """All of it."""

    # Where file systems belong that are not there, and without which systemd stops the boot.
    boot_stops: list[str]
    # Encrypted disks that are opened by a passphrase at boot.
    boot_passphrases: list[str]
    # Folders of dkms without the source of their module.
    dkms_broken: list[str]


# systemd.mount(5): without one of these the boot waits for a file system, and ends in the emergency mode. Shares are waited for at another time.
_OPTIONAL = re.compile(r"(?:^|,)(?:noauto|nofail|_netdev|x-systemd\.automount|comment=systemd\.automount)(?:,|$)")
# crypttab(5): what is opened without anybody, later than at boot, or anew each time.
_OPENED = re.compile(r"(?:^|,)(?:noauto|nofail|_netdev|swap|tmp|tpm2-device=\S+|keyscript=\S+)(?:,|$|=)")
# It binds a disk to a server or to the TPM, and crypttab does not say so.
_CLEVIS = ("usr/bin/clevis", "bin/clevis")
# What dkms itself passes over below the folder of a module (dkms(8)).
_NO_VERSION = re.compile(r"kernel-.*|original_module")


def parse_fstab(text: str) -> Iterator[tuple[str, str, str]]:
    """Where each file system of /etc/fstab belongs, its type and its options."""
    for line in text.splitlines():
        cells = line.split()
        if len(cells) >= 4 and cells[1].startswith("/") and not line.lstrip().startswith("#"):
            yield cells[1].rstrip("/") or "/", cells[2], cells[3]


def boot_stops(fstab: str, mounts: Mapping[str, object]) -> list[str]:
    """Where file systems are not mounted that the next boot will wait for."""
    needed = {
        place
        for place, kind, options in parse_fstab(fstab)
        if kind != "swap" and not kind.startswith("fuse") and kind not in TYPES and not _OPTIONAL.search(options)
    }
    return sorted(needed - set(mounts))


def boot_passphrases(root: str = "/") -> list[str]:
    """The encrypted disks for which nobody but a person has a key."""
    if any(os.path.exists(os.path.join(root, path)) for path in _CLEVIS):
        return []
    found = []
    for line in read(root, "etc/crypttab").splitlines():
        name, _device, key, options = [*line.split(), "", "", "", ""][:4]
        if name and not name.startswith("#") and key in ("", "none", "-") and not _OPENED.search(options):
            found.append(name)
    return found


def dkms_broken(root: str = "/") -> list[str]:
    """Folders of modules that somebody removed without dkms: it stops at the first one, and builds no module of whatever name."""
    found = []
    for folder in sorted(glob.glob(os.path.join(root, "var/lib/dkms/*/*"))):
        whole = os.path.exists(os.path.join(folder, "source", "dkms.conf"))
        version = os.path.isdir(folder) and not os.path.islink(folder)
        if version and not whole and not _NO_VERSION.fullmatch(os.path.basename(folder)):
            found.append("/" + os.path.relpath(folder, root))
    return found


def next_boot(mounts: Mapping[str, object], root: str = "/") -> NextBoot:
    """All of it, for the fact llm_host."""
    return {
        "boot_stops": boot_stops(read(root, "etc/fstab"), mounts),
        "boot_passphrases": boot_passphrases(root),
        "dkms_broken": dkms_broken(root),
    }
