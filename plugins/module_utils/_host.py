# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is like before anything is changed: memory, clock, name, who listens and who computes. Read from /proc and /sys.

Runs on the host, so nothing here may fail because a file is missing or a process ends while it is looked at.
"""

from __future__ import annotations

import os
import re
import socket
from typing import Mapping, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.module_utils._listeners import check_sockets
from ansible_collections.baremetal.llm.plugins.module_utils._proc import (
    container_ids,
    kernel_release,
    lasting,
    listening_sockets,
    own_unit,
    process_ids,
    read,
    socket_owners,
)

_PYTHON = r"(\S*/)?python[\d.]*\s+(-\S+\s+)*"
# Programs that take GPUs, or Ray's ports, for themselves: what they are called and how their command line begins.
SERVICES: tuple[tuple[str, str], ...] = (
    ("ray", r"(\S*/)?(raylet|gcs_server)(\s|$)"),
    ("vllm", r"({0})?(\S*/)?vllm\s+serve(\s|$)|{0}vllm\.entrypoints|VLLM::".format(_PYTHON)),
    ("sglang", r"{0}sglang\.launch_server|sglang::".format(_PYTHON)),
    ("tgi", r"(\S*/)?text-generation-(launcher|router|server)(\s|$)"),
    ("triton", r"(\S*/)?tritonserver(\s|$)|{0}\S*openai_frontend/main\.py".format(_PYTHON)),
    ("ollama", r"(\S*/)?ollama\s+(serve|runner)(\s|$)"),
    ("lmdeploy", r"({0})?(\S*/)?lmdeploy\s+serve(\s|$)".format(_PYTHON)),
)


class Process(TypedDict):
    """A process; without a number where it is hidden from us."""

    pid: int | None
    process: str
    # The beginning of its command line.
    command: str
    # The container or unit that it runs in, empty for any other.
    container: str


class Service(Process):
    """One of the known services."""

    service: str


class Listening(Process):
    """A process that listens."""

    port: int


class GpuProcess(TypedDict):
    """A process on a GPU, as nvidia-smi lists it."""

    pid: int
    process: str
    used_mib: int | None


class PlacedGpuProcess(GpuProcess):
    """The same with the container or unit that it runs in."""

    container: str


class Name(TypedDict):
    """The host's own name, and what it stands for there."""

    name: str
    addresses: list[str]


class Memory(TypedDict):
    """Memory in MiB."""

    total_mib: int
    available_mib: int
    swap_mib: int
    hugepages_mib: int


class HostFacts(TypedDict):
    """What runs on a host."""

    kernel: str
    memory: Memory
    shm_mib: int | None
    name: Name
    # enforcing, permissive or disabled
    selinux: str
    listeners: list[Listening]
    services: list[Service]
    gpu_processes: list[PlacedGpuProcess]


def parse_memory(text: str) -> Memory:
    """MiB of memory, swap and hugepages, from /proc/meminfo."""
    kib = {name: int(number) for name, number in re.findall(r"^([\w()]+):\s+([0-9]{1,18})\b", text, re.M)}
    # Hugetlb sums up all page sizes (since Linux 4.20); before that only those of the default size are known.
    hugepages = kib.get("Hugetlb", kib.get("HugePages_Total", 0) * kib.get("Hugepagesize", 0))
    return {
        "total_mib": kib.get("MemTotal", 0) // 1024,
        "available_mib": kib.get("MemAvailable", kib.get("MemFree", 0)) // 1024,
        "swap_mib": kib.get("SwapTotal", 0) // 1024,
        "hugepages_mib": hugepages // 1024,
    }


def parse_gpu_processes(text: str) -> list[GpuProcess]:
    """Processes on the GPUs, from ``nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader,nounits``."""
    found: list[GpuProcess] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        pid = digits(cells[0])
        if len(cells) >= 3 and pid is not None:
            found.append({"pid": pid, "process": ",".join(cells[1:-1]), "used_mib": digits(cells[-1])})
    return found


def service_of(command: str) -> str:
    """Which of the known services a command line is, or nothing."""
    return next((name for name, pattern in SERVICES if re.match(pattern, command)), "")


class Processes:
    """The processes of a host, and the container that each runs in."""

    def __init__(self, proc_root: str = "/proc", containers: Mapping[str, str] | None = None) -> None:
        self.root = proc_root
        self.containers = containers or {}
        self.pids = process_ids(proc_root)

    def command(self, pid: int) -> str:
        return " ".join(read(self.root, str(pid), "cmdline").split("\0")).strip()

    def container(self, pid: int) -> str:
        """The innermost container of a process that the engine knows, or the unit of ours; nothing for another process of the host."""
        found = reversed(container_ids(self.root, pid))
        known = next((self.containers[container] for container in found if container in self.containers), "")
        return known or own_unit(self.root, pid)

    def described(self, pid: int) -> Process:
        name = read(self.root, str(pid), "comm").strip()
        return {"pid": pid, "process": name, "command": self.command(pid)[:200], "container": self.container(pid)}

    def services(self) -> list[Service]:
        """Every process that is one of the known services."""
        found: list[Service] = []
        for pid in self.pids:
            service = service_of(self.command(pid))
            if service:
                found.append({**self.described(pid), "service": service})
        return found


def listeners(processes: Processes) -> list[Listening]:
    """Who listens. The process is not known where it is hidden from us.

    What a connectivity check of a killed run still holds is left out: the check of this run ends it.
    """
    found = sorted({at.inode: at for at in listening_sockets(processes.root)}.values(), key=lambda at: at.port)
    checks = check_sockets(processes.root)
    owners = socket_owners(processes.root, processes.pids, [*(at.inode for at in found), *checks])
    checking = {owners[inode] for inode in checks if inode in owners}
    found = [at for at in found if owners.get(at.inode) not in checking]
    unknown: Process = {"pid": None, "process": "", "command": "", "container": ""}
    described = {inode: processes.described(pid) for inode, pid in owners.items()}
    nameless = {at.inode for at in found if not described.get(at.inode, unknown)["process"]}
    gone = nameless - lasting(processes.root, nameless)
    return [{"port": at.port, **described.get(at.inode, unknown)} for at in found if at.inode not in gone]


def name_addresses(name: str) -> list[str]:
    """What the host's own name stands for, as its programs resolve it."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(entry[4][0]).split("%", maxsplit=1)[0] for entry in found})


def shm_mib(path: str = "/dev/shm") -> int | None:
    """How large the shared memory is; None where there is none."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_blocks * status.f_frsize >> 20


def selinux_mode(sysfs_root: str = "/sys") -> str:
    """enforcing, permissive or disabled."""
    return {"1": "enforcing", "0": "permissive"}.get(read(sysfs_root, "fs/selinux/enforce").strip(), "disabled")


def host_facts(
    proc_root: str,
    sysfs_root: str,
    containers: Mapping[str, str],
    gpu_processes: Sequence[GpuProcess],
) -> HostFacts:
    """All of it together. ``containers`` are names by id, ``gpu_processes`` what nvidia-smi lists."""
    processes = Processes(proc_root, containers)
    name = socket.gethostname()
    return {
        "kernel": kernel_release(proc_root),
        "memory": parse_memory(read(proc_root, "meminfo")),
        "shm_mib": shm_mib(),
        "name": {"name": name, "addresses": name_addresses(name)},
        "selinux": selinux_mode(sysfs_root),
        "listeners": listeners(processes),
        "services": processes.services(),
        "gpu_processes": [{**entry, "container": processes.container(entry["pid"])} for entry in gpu_processes],
    }
