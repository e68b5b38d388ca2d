# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of a host and the sockets that they listen on, read from /proc.

Runs on the host, so nothing here may fail because a file is missing or a process ends while it is looked at.
"""

from __future__ import annotations

import glob
import ipaddress
import os
import re
import struct
import time
from typing import Iterable, NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.module_utils._engines import ENGINES

_LISTEN = "0A"  # TCP_LISTEN in the fourth column of /proc/net/tcp
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
_SERVERS = "|".join((*ENGINES, "ray"))
_SERVER_UNIT = re.compile(r"/system\.slice/(llm-(?:{0})[\w-]*)\.service(?:/|$)".format(_SERVERS), re.M)
# Those of them and of other services that listen. Somebody else may call a unit llm-server: a beginning of a name makes nothing ours.
_OWN_UNIT = re.compile(
    r"/system\.slice/(llm-(?:(?:{0})[\w-]*|gateway(?:-usage|-address)?|alert-relay|journal-gate|on-request))\.service(?:/|$)".format(
        _SERVERS
    ),
    re.M,
)
_MOMENT_SECONDS = 0.5


class Socket(NamedTuple):
    """Where a program listens."""

    address: str
    port: int
    inode: str


def read(*parts: str) -> str:
    """A file's text; nothing if it cannot be read."""
    try:
        with open(os.path.join(*parts), encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def kernel_release(proc: str) -> str:
    """That of the running kernel, as uname(2) tells it."""
    return read(proc, "sys/kernel/osrelease").strip()


def parse_listening(text: str) -> list[Socket]:
    """The listening sockets of a /proc/net/tcp or tcp6."""
    found = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) < 10 or cells[3] != _LISTEN or ":" not in cells[1]:
            continue
        address, _colon, port = cells[1].partition(":")
        try:
            # The kernel prints each 32 bits of the address as a number of its own byte order.
            packed = b"".join(struct.pack("=I", int(address[at : at + 8], 16)) for at in range(0, len(address), 8))
            found.append(Socket(str(ipaddress.ip_address(packed)), int(port, 16), cells[9]))
        except (ValueError, struct.error):
            continue
    return found


def listening_sockets(proc: str) -> list[Socket]:
    """Who listens with IPv4 and with IPv6."""
    return parse_listening(read(proc, "net", "tcp")) + parse_listening(read(proc, "net", "tcp6"))


def process_ids(proc: str) -> list[int]:
    try:
        return sorted(pid for pid in map(digits, os.listdir(proc)) if pid is not None)
    except OSError:
        return []


def socket_owners(proc: str, pids: Iterable[int], inodes: Iterable[str]) -> dict[str, int]:
    """Which of these processes holds each of these sockets: the first one that does."""
    wanted = {"socket:[{0}]".format(inode): inode for inode in inodes}
    found: dict[str, int] = {}
    for pid in pids if wanted else []:
        for path in glob.iglob(os.path.join(proc, str(pid), "fd", "*")):
            try:
                inode = wanted.get(os.readlink(path))
            except OSError:
                continue
            if inode:
                found.setdefault(inode, pid)
    return found


def lasting(proc: str, inodes: Iterable[str]) -> set[str]:
    """Which of these sockets still listen a moment later. A program that is ending has them for a while, and nobody can tell any more whose it is."""
    asked = set(inodes)
    if not asked:
        return set()
    time.sleep(_MOMENT_SECONDS)
    return asked & {at.inode for at in listening_sockets(proc)}


def server_unit(proc: str, pid: int) -> str:
    """The unit of ours that a process belongs to, as that of a container is called; nothing for any other."""
    return _unit(_SERVER_UNIT, proc, pid)


def own_unit(proc: str, pid: int) -> str:
    """The unit of this collection that a process belongs to, of whatever service; nothing for any other."""
    return _unit(_OWN_UNIT, proc, pid)


def _unit(names: re.Pattern[str], proc: str, pid: int) -> str:
    found = names.search(read(proc, str(pid), "cgroup"))
    return found.group(1) if found else ""


def container_ids(proc: str, pid: int) -> list[str]:
    """The containers that a process runs in, the outermost first."""
    return _CONTAINER_ID.findall(read(proc, str(pid), "cgroup"))
