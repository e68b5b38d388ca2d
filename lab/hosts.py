# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks and bare hosts: made, reached by ssh, removed."""

from __future__ import annotations

import io
import json
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import docker
from docker.errors import NotFound
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool

from lab.config import CACHE, STATE, Config, Node, digest
from lab.progress import LabError, step
from lab.sim.hardware import hardware, pci_tree

SSH = STATE / "ssh"
KEY, KNOWN_HOSTS = SSH / "id_ed25519", SSH / "known_hosts"
# Tests share a connection to each host. The path of a socket is short, so it is not below the checkout.
CONTROL = CACHE / "ssh"
# On a machine that does much else besides, a minute is not enough.
BOOT_SECONDS = 180
# A host that shuts down ends what it runs first.
STOP_SECONDS = 60
# Names an interface at boot, as the firmware's numbering does on a real host.
NAME_UNIT = """[Unit]
DefaultDependencies=no
Before=network-pre.target
Wants=network-pre.target

[Service]
Type=oneshot
ExecStart=/bin/sh -ec 'set -- $$(ip -o -4 address show to {address}); ip link set $$2 down name {name}; ip link set {name} up'
"""
# Where neither a host's administrator nor its packages put units: hosts that differ in hardware are compared there.
UNITS = "usr/local/lib/systemd/system"
LABEL = "baremetal.llm.lab"
# The lab for which a container works on volumes.
WORKS_FOR = f"{LABEL}.volumes"


def ensure_networks(client: docker.DockerClient, config: Config) -> None:
    """Two networks without a way out."""
    for name, subnet in config.networks.items():
        if not client.networks.list(names=[f"^{config.name}-{name}$"]):
            client.networks.create(
                f"{config.name}-{name}",
                internal=True,
                labels={LABEL: config.name},
                ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]),
            )


def ensure_hosts(client: docker.DockerClient, config: Config, image: str) -> None:
    """Every host of lab.yml runs, is this checkout's, and answers ssh."""
    ensure_key()
    ensure_networks(client, config)
    for node in config.nodes.values():
        container = find(client, config, node)
        if container and container.labels.get(LABEL) != _made_from(node, image):
            remove_host(client, config, node)
            container = None
        if not container:
            create_host(client, config, node, image)
            trust_host(node)
        elif container.status != "running":
            container.start()
    for node in config.nodes.values():
        wait_for_ssh(node)
    write_ssh_config(config)


def create_host(
    client: docker.DockerClient, config: Config, node: Node, image: str, snapshot: str | None = None
) -> None:
    """A bare host, fresh from its installer: its own ssh host key, an empty disk. Or one whose disk holds what a snapshot holds."""
    with step(f"making host {node.name} ({node.gpus} x {node.gpu})"):
        api = client.api
        settings = api.create_host_config(
            # What systemd and a nested engine need. Not privileged: some machines cannot grant that.
            cap_add=["ALL"],
            cap_drop=["SYS_RESOURCE"],
            security_opt=["seccomp=unconfined", "apparmor=unconfined"],
            tmpfs={"/run": "", "/run/lock": "", "/tmp": "exec"},
            shm_size=config.shm_size,
            # A host that reboots ends its container with a status of its own; the engine starts it again.
            restart_policy={"Name": "on-failure"},
            binds=["/sys/fs/cgroup:/sys/fs/cgroup:rw", f"{volume(config, node)}:/var/lib/docker"],
            network_mode=f"{config.name}-mgmt",
        )
        # The SDK has no option for what the command line calls systempaths=unconfined.
        settings |= {"MaskedPaths": [], "ReadonlyPaths": []}
        if client.info().get("CgroupVersion") == "2":
            settings["CgroupnsMode"] = "host"
        address = api.create_endpoint_config(ipv4_address=node.mgmt)
        made = api.create_container(
            snapshot or image,
            name=container_name(config, node),
            hostname=node.name,
            labels={LABEL: _made_from(node, image)},
            host_config=settings,
            networking_config=api.create_networking_config({f"{config.name}-mgmt": address}),
        )
        container = client.containers.get(made["Id"])
        client.networks.get(f"{config.name}-data").connect(container, ipv4_address=node.data)
        container.put_archive("/", _files(node))
        container.start()


def insert_gpus(client: docker.DockerClient, config: Config, node: Node, count: int) -> None:
    """The host is switched off, gets cards of its kind until it has so many, and has booted again."""
    if count < node.gpus:
        raise LabError(f"{node.name} has {node.gpus} GPUs: give that number or a higher one, not {count}.")
    container = find(client, config, node)
    if not container:
        raise LabError(f"{node.name} does not run: 'python -m lab up' makes the hosts.")
    with step(f"{node.name}: {count} x {node.gpu}"):
        container.stop(timeout=STOP_SECONDS)
        container.put_archive("/", _archive(_gpu_files(replace(node, gpus=count))))
        container.start()
        wait_for_boot(client, config, node)


def power(client: docker.DockerClient, config: Config, node: Node, on: bool) -> None:
    """The power of a host is cut, or comes back and the host has booted. What was on its disk is there again."""
    container = find(client, config, node)
    if not container:
        raise LabError(f"{node.name} is not there: 'python -m lab up' makes the hosts.")
    if not on:
        _control_path(config, node).unlink(missing_ok=True)
        container.kill()
        return
    container.start()
    wait_for_boot(client, config, node)


def remove_host(client: docker.DockerClient, config: Config, node: Node) -> None:
    """The host and its disk are gone."""
    _control_path(config, node).unlink(missing_ok=True)
    container = find(client, config, node)
    if container:
        container.remove(force=True, v=True)
    try:
        client.volumes.get(volume(config, node)).remove()
    except NotFound:
        pass


def remove_hosts(client: docker.DockerClient, config: Config) -> None:
    """All hosts and their disks are gone, and what a killed process left at work on them: it would fill a disk while that is removed."""
    for container in client.containers.list(all=True, filters={"label": f"{WORKS_FOR}={config.name}"}):
        container.remove(force=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: remove_host(client, config, node), config.nodes.values()))


def remove_all(client: docker.DockerClient, config: Config) -> None:
    """Hosts, networks and this checkout's keys; the built images stay for the next time."""
    remove_hosts(client, config)
    for network in client.networks.list(filters={"label": f"{LABEL}={config.name}"}):
        network.remove()
    shutil.rmtree(STATE, ignore_errors=True)


def trust_host(node: Node) -> None:
    """Write the host's key, read from the host itself, into the lab's known_hosts."""
    public = (_host_key_folder(node) / "ssh_host_ed25519_key.pub").read_text().split()
    lines = KNOWN_HOSTS.read_text().splitlines() if KNOWN_HOSTS.exists() else []
    lines = [line for line in lines if not line.startswith(f"{node.mgmt} ")]
    KNOWN_HOSTS.write_text("\n".join([*lines, f"{node.mgmt} {public[0]} {public[1]}"]) + "\n")


def write_ssh_config(config: Config) -> None:
    """Let `ssh -F` and the tests name the hosts."""
    CONTROL.mkdir(parents=True, exist_ok=True, mode=0o700)
    (SSH / "config").write_text("".join(_ssh_config(config, node) for node in config.nodes.values()))


def _ssh_config(config: Config, node: Node) -> str:
    return f"""Host {node.name}
  HostName {node.mgmt}
  User root
  IdentityFile {KEY}
  UserKnownHostsFile {KNOWN_HOSTS}
  ControlPath {_control_path(config, node)}
  ServerAliveInterval 5
"""


def _control_path(config: Config, node: Node) -> Path:
    return CONTROL / container_name(config, node)


def find(client: docker.DockerClient, config: Config, node: Node) -> Container | None:
    """The host's container, if there is one."""
    try:
        return client.containers.get(container_name(config, node))
    except NotFound:
        return None


def container_name(config: Config, node: Node) -> str:
    """Name of the container that is the host."""
    return f"{config.name}-{node.name}"


def volume(config: Config, node: Node) -> str:
    """Name of the volume that holds what the host's engine keeps."""
    return f"{config.name}-{node.name}"


def _made_from(node: Node, image: str) -> str:
    """What the host was made from: a change of any of it, or another checkout's key, means a new host."""
    return digest(image, node, KEY.with_suffix(".pub"), hardware_of(node))


def hardware_of(node: Node) -> dict[str, Any]:
    """What its slots hold."""
    return hardware(node.name, node.gpu, node.gpus)


def ensure_key() -> None:
    """This checkout's key for the lab's hosts."""
    if not KEY.exists():
        SSH.mkdir(parents=True, exist_ok=True)
        SSH.chmod(0o700)
        _keygen(KEY, "baremetal.llm lab")


def _keygen(path: Path, comment: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path], check=True)


def _host_key_folder(node: Node) -> Path:
    return SSH / "hosts" / node.name


def _files(node: Node) -> bytes:
    """What an administrator and the hardware bring: ssh keys and the simulated GPUs."""
    folder = _host_key_folder(node)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _keygen(folder / "ssh_host_ed25519_key", f"root@{node.name}")
    files = {
        "root/.ssh/authorized_keys": (KEY.with_suffix(".pub").read_bytes(), 0o600),
        "etc/ssh/ssh_host_ed25519_key": ((folder / "ssh_host_ed25519_key").read_bytes(), 0o600),
        "etc/ssh/ssh_host_ed25519_key.pub": ((folder / "ssh_host_ed25519_key.pub").read_bytes(), 0o644),
        **_gpu_files(node),
    }
    if not node.data_interface:
        return _archive(files)
    unit = NAME_UNIT.format(address=node.data, name=node.data_interface).encode()
    files[f"{UNITS}/lab-interface.service"] = (unit, 0o644)
    return _archive(files, {f"{UNITS}/sysinit.target.wants/lab-interface.service": "../lab-interface.service"})


def _gpu_files(node: Node) -> dict[str, tuple[bytes, int]]:
    """What the simulated driver and sysfs read of the host's GPUs: path: content and mode."""
    gpus = hardware_of(node)
    return {
        "etc/lab/hardware.json": (json.dumps(gpus, indent=2).encode(), 0o644),
        **{f"etc/lab/{path.lstrip('/')}": (content.encode(), 0o644) for path, content in pci_tree(gpus).items()},
    }


def _archive(files: dict[str, tuple[bytes, int]], links: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """A tar archive of files (path: content and mode) and symbolic links (path: target)."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, (content, mode) in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode, info.mtime = len(content), mode, int(time.time())
            tar.addfile(info, io.BytesIO(content))
        for path, target in links.items():
            info = tarfile.TarInfo(path)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return archive.getvalue()


def wait_for_boot(client: docker.DockerClient, config: Config, node: Node) -> None:
    """Everything that starts at boot has started, the host's engine included."""
    deadline = time.monotonic() + BOOT_SECONDS
    wait_for_ssh(node)
    container = client.containers.get(container_name(config, node))

    def does(*command: str) -> tuple[int, str]:
        status, answer = container.exec_run(["timeout", "10", *command])
        return status, answer.decode(errors="replace").strip()

    # Not `is-system-running --wait`: a timer's service that runs for minutes, as a probe does that waits for its engine, is no part of the boot.
    # Asked anew now and then: a single message of systemd that goes astray must not fail a host that has booted.
    while does("systemctl", "start", "multi-user.target")[0] != 0:
        if time.monotonic() > deadline:
            jobs = does("systemctl", "list-jobs", "--no-pager")[1] or "systemd does not answer"
            journal = does("journalctl", "--boot", "--no-pager", "--output=short-monotonic", "--lines=40")[1]
            raise LabError(f"{node.name} did not finish booting within {BOOT_SECONDS} s.\n{jobs}\n{journal}")
        time.sleep(0.2)


def wait_for_ssh(node: Node) -> None:
    """The host has booted when sshd greets; systemd starts it last."""
    deadline = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((node.mgmt, 22), timeout=2) as connection:
                if connection.recv(4).startswith(b"SSH"):
                    return
        except OSError:
            time.sleep(0.2)
    raise LabError(f"{node.name} ({node.mgmt}) did not answer ssh within {BOOT_SECONDS} s: see 'docker logs'.")
