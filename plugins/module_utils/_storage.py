# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that a host reaches by its network: shares and parallel file systems that are mounted, disks of NVMe over Fabrics and of iSCSI.

Runs on the host, so nothing here may fail because a file is missing. A server whose address nobody tells is left out: names are not looked up.
"""

from __future__ import annotations

import glob
import ipaddress
import os
import re
from typing import Iterator, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._proc import read

# File systems whose server is in what is mounted: 10.0.0.9@o2ib:/scratch, 10.0.0.1:6789,10.0.0.2:6789:/, 10.0.0.3:/volume.
_NAMED_BY_SOURCE = ("lustre", "ceph", "glusterfs", "fuse.glusterfs", "fuse.ceph")
# Those that say it among their options: addr=10.0.0.200.
_NAMED_BY_OPTION = ("nfs", "nfs4", "cifs", "smb3")


class Remote(TypedDict):
    """A share, a parallel file system or a disk."""

    # nfs4, lustre, nvme-rdma, iscsi
    kind: str
    # An address.
    server: str
    # Where it is mounted, or the name of the disk.
    mount: str
    rdma: bool


def _address(text: str) -> str:
    """An address of version 4 at the beginning of a text, or one of version 6 that is all of it; nothing if it is a name."""
    match = re.match(r"\d{1,3}(?:\.\d{1,3}){3}(?![\w.-])|[0-9a-fA-F:]*:[0-9a-fA-F:]+$", text)
    try:
        return str(ipaddress.ip_address(match.group())) if match else ""
    except ValueError:
        return ""


def mounted(text: str) -> Iterator[Remote]:
    """The shares and parallel file systems of /proc/mounts."""
    for line in text.splitlines():
        cells = line.split()
        if len(cells) < 4:
            continue
        source, place, kind, options = cells[:4]
        said = dict(option.partition("=")[::2] for option in options.split(","))
        server, rdma = "", False
        if kind in _NAMED_BY_OPTION:
            server, rdma = _address(said.get("addr", "")), said.get("proto") == "rdma"
        elif kind in _NAMED_BY_SOURCE:
            server, rdma = _address(source), "@o2ib" in source
        if server:
            yield {"kind": kind, "server": server, "mount": place, "rdma": rdma}


def disks(sysfs_root: str) -> Iterator[Remote]:
    """The disks of NVMe over Fabrics, and of iSCSI."""
    for folder in sorted(glob.glob(os.path.join(sysfs_root, "class/nvme/nvme*"))):
        transport = read(folder, "transport").strip()
        said = re.search(r"traddr=([^,\s]+)", read(folder, "address"))
        server = _address(said.group(1)) if said else ""
        if transport in ("rdma", "tcp") and server:
            name = os.path.basename(folder)
            yield {"kind": "nvme-" + transport, "server": server, "mount": name, "rdma": transport == "rdma"}
    for folder in sorted(glob.glob(os.path.join(sysfs_root, "class/iscsi_connection/*"))):
        server = _address(read(folder, "address").strip())
        if server:
            yield {"kind": "iscsi", "server": server, "mount": os.path.basename(folder), "rdma": False}


def storage(mounts_text: str, sysfs_root: str = "/sys") -> list[Remote]:
    """All of it, each server and place once."""
    found = {(entry["server"], entry["mount"]): entry for entry in (*mounted(mounts_text), *disks(sysfs_root))}
    return list(found.values())
