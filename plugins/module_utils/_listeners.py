# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens on a host, as a firewall has to know it: what logins come in through, and programs that are none of ours.

Runs on the host, so nothing here may fail because a process ends while it is looked at.
"""

from __future__ import annotations

import ipaddress
import os
import re

from ansible_collections.baremetal.llm.plugins.module_utils._connectivity import CONTROL, ours
from ansible_collections.baremetal.llm.plugins.module_utils._proc import (
    lasting,
    listening_sockets,
    process_ids,
    read,
    socket_owners,
)

_SSH = ("sshd", "dropbear")
_SYSTEMD = 1  # holds the port of ssh.socket, and starts sshd when somebody comes


def _outer_sockets(proc: str) -> list[tuple[int, str]]:
    """Port and inode of what listens to others, so not on loopback alone."""
    found = []
    for address, port, inode in listening_sockets(proc):
        mine = ipaddress.ip_address(address)
        if not (getattr(mine, "ipv4_mapped", None) or mine).is_loopback:
            found.append((port, inode))
    return found


def check_sockets(proc: str) -> list[str]:
    """Inodes of what only the listener of a connectivity check has. One of a run that was killed lives until the next run ends it."""
    name = "@" + CONTROL[1:].decode()
    lines = (line.split() for line in read(proc, "net", "unix").splitlines())
    return [cells[6] for cells in lines if len(cells) == 8 and cells[7].startswith(name)]


def _login(proc: str, pid: int) -> tuple[str, int]:
    """Where the login comes from to which a process belongs, and the port of this host that it came in through; nothing if it belongs to none."""
    while pid > 1:
        # sudo drops the variable, its parents have it.
        said = re.search(r"(?:^|\0)SSH_CONNECTION=(\S+) \d+ \S+ (\d+)", read(proc, str(pid), "environ"))
        if said:
            return said.group(1), int(said.group(2))
        parent = re.search(r"^PPid:\s+(\d+)", read(proc, str(pid), "status"), re.M)
        pid = int(parent.group(1)) if parent else 0
    return "", 0


def login_port(proc: str, pid: int) -> int:
    """The port of this host that the login came in through to which a process belongs; 0 if it belongs to none."""
    return _login(proc, pid)[1]


def ssh_client(proc: str, pid: int) -> str:
    """The address that this login comes from, as this host sees it; nothing if it is none."""
    return _login(proc, pid)[0]


def ssh_ports(proc: str = "/proc", pid: int | None = None) -> list[int]:
    """Where logins come in: ports of sshd or of systemd in its place, and that of the login this process belongs to."""
    pids = [at for at in process_ids(proc) if at == _SYSTEMD or read(proc, str(at), "comm").strip() in _SSH]
    sockets = _outer_sockets(proc)
    held = socket_owners(proc, pids, (inode for _port, inode in sockets))
    found = {port for port, inode in sockets if inode in held}
    return sorted((found | {login_port(proc, os.getpid() if pid is None else pid)}) - {0})


def foreign_ports(first: int, last: int, proc: str = "/proc", engine: str = "/run/docker.sock") -> list[int]:
    """Ports of this range on which something listens to others that neither runs in a container of ours nor checks the connectivity.

    They stay open. Where the engine does not answer, what it wrote of its containers says which are ours.
    """
    # The sockets first: a process that is asked for afterwards is older than what it holds.
    sockets = [(port, inode) for port, inode in _outer_sockets(proc) if first <= port <= last]
    checks = check_sockets(proc) if sockets else []
    owners = socket_owners(proc, process_ids(proc), [*(inode for _port, inode in sockets), *checks])
    known = {pid for pid in set(owners.values()) if ours(pid, proc, engine)}
    known |= {owners[inode] for inode in checks if inode in owners}
    foreign = [(port, inode) for port, inode in sockets if owners.get(inode) not in known]
    nameless = {inode for _port, inode in foreign if not read(proc, str(owners.get(inode)), "comm")}
    gone = nameless - lasting(proc, nameless)
    return sorted({port for port, inode in foreign if inode not in gone})
