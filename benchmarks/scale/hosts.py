# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Light hosts: namespaces with a systemd and an sshd of their own. They are reached from the network namespace that this runs in.

The machine's own network, its Docker Engine and its packages are neither used nor changed. What a host writes is in memory.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scale.base import SSH_LOG
from lab.sim.hardware import hardware, pci_tree

BOOT = Path(__file__).with_name("boot.sh")
NETWORK, CONTROLLER, BRIDGE = "10.213.0.0/16", "10.213.255.1", "scale0"
GPU = "Tesla V100-PCIE-16GB"
BOOT_SECONDS = 120
NAMESPACES = ("--mount", "--uts", "--ipc", "--pid", "--net", "--cgroup", "--fork", "--kill-child")
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers").exists()
CGROUPS = Path("/sys/fs/cgroup" if UNIFIED else "/sys/fs/cgroup/systemd") / "baremetal-llm-scale"
# What systemd, journald and dbus of a host watch at the same time, with room to spare.
INOTIFY, INOTIFY_EACH = Path("/proc/sys/fs/inotify/max_user_instances"), 16


@dataclass(frozen=True)
class Host:
    """One light host. Its number is above 0."""

    number: int
    gpus: int = 2

    @property
    def name(self) -> str:
        """Its host name, and its name in the inventory."""
        return f"h{self.number:03}"

    @property
    def address(self) -> str:
        """In the network that it shares with the controller and all others."""
        return f"10.213.{self.number // 250}.{self.number % 250 + 1}"


class Fleet:
    """The hosts that run. Everything of them is gone when it is closed."""

    def __init__(self, base: Path, folder: Path) -> None:
        self.base, self.folder = base, folder
        self.running: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
        self.cgroup = CGROUPS / str(time.time_ns())
        self.key = folder / "id_ed25519"
        self.known_hosts = folder / "known_hosts"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("id_ed25519", "ssh_host_ed25519_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        # They share a host key; nothing else can answer in this network.
        self.known_hosts.write_text(f"10.213.* {(folder / 'ssh_host_ed25519_key.pub').read_text()}")

    def start(self, hosts: list[Host]) -> None:
        """Boot these hosts and wait until each of them answers ssh and has finished booting."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._boot, hosts))
            list(pool.map(self._wait, hosts))

    def _boot(self, host: Host) -> None:
        disk, files, group = (
            self.folder / host.name / "disk",
            self.folder / host.name / "files",
            self.cgroup / host.name,
        )
        disk.mkdir(parents=True)
        group.mkdir(parents=True)
        self._write_files(host, files)
        command = [*map(str, (BOOT, self.base, disk, files)), host.name, f"{host.address}/16"]
        inside = f'echo 0 >"{group}/cgroup.procs"; exec unshare {" ".join(NAMESPACES)} "$@"'
        process = subprocess.Popen(["sh", "-ec", inside, "sh", *command], stdin=subprocess.DEVNULL)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (child := children.read_text().split()):
            time.sleep(0.01)
        self.running[host.name] = (process, int(child[0]))
        while os.readlink(f"/proc/{child[0]}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        _ip("link", "add", host.name, "type", "veth", "peer", "name", "eth0", "netns", child[0])
        _ip("link", "set", host.name, "master", BRIDGE, "up")

    def _write_files(self, host: Host, folder: Path) -> None:
        """What an administrator and the hardware bring: ssh keys and the simulated GPUs."""
        gpus = hardware(host.name, GPU, host.gpus)
        texts = {
            "root/.ssh/authorized_keys": self.key.with_suffix(".pub").read_text(),
            "etc/ssh/ssh_host_ed25519_key": (self.folder / "ssh_host_ed25519_key").read_text(),
            "etc/lab/hardware.json": json.dumps(gpus, indent=2),
            **{f"etc/lab{path}": text for path, text in pci_tree(gpus).items()},
        }
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o600 if "ssh" in name else 0o644)
        (folder / "root").chmod(0o700)
        (folder / "root/.ssh").chmod(0o700)

    def _wait(self, host: Host) -> None:
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection((host.address, 22), timeout=2) as connection:
                if connection.recv(4).startswith(b"SSH"):
                    return
            time.sleep(0.1)
        sys.exit(f"{host.name} did not answer ssh within {BOOT_SECONDS} s.")

    def calls(self) -> dict[str, int]:
        """For each host, how many commands and file transfers have come to it by ssh since it booted."""
        found = {}
        for name, (_process, pid) in self.running.items():
            with open(f"/proc/{pid}/root{SSH_LOG}", errors="replace") as log:
                found[name] = sum(line.startswith("Starting session: ") for line in log)
        return found

    def keep_journals(self, folder: Path) -> None:
        """Write what each host's systemd and its services said, before the hosts are gone."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, (_process, pid) in self.running.items():
            with (folder / f"{name}.journal").open("w") as journal:
                command = ["nsenter", "--target", str(pid), "--mount", "--pid", "--root", "journalctl", "--no-pager"]
                subprocess.run(command, stdout=journal, stderr=journal)

    def close(self) -> None:
        """End all hosts, and remove what they leave."""
        # While the hosts are there: the links of one that has ended vanish by themselves, at a moment of the kernel's choice.
        for name in _links():
            _ip("link", "delete", name)
        for process, _pid in self.running.values():
            process.send_signal(signal.SIGKILL)
        for process, _pid in self.running.values():
            process.wait()
        self.running = {}


def remove_cgroups() -> None:
    """Those that hosts have left; one that is in use cannot be removed."""
    deadline = time.monotonic() + 10
    while CGROUPS.exists() and time.monotonic() < deadline:
        for folder, _folders, _files in os.walk(CGROUPS, topdown=False):
            with suppress(OSError):  # a process is still ending
                os.rmdir(folder)
        time.sleep(0.05)


def prepare_network() -> None:
    """The bridge that all hosts and this process are connected to. In a network namespace of its own."""
    _ip("link", "set", "lo", "up")
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("address", "add", f"{CONTROLLER}/16", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")


def _links() -> list[str]:
    found = subprocess.run(["ip", "-json", "link", "show", "master", BRIDGE], check=True, capture_output=True)
    return [link["ifname"] for link in json.loads(found.stdout or "[]")]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
