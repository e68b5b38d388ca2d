# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others left on a host that decides whether the collection may change something there: the engine and how it came there, packages, units,
mounts, routes, keys of modules. plugin_utils/preflight/history.py judges what was found.

Runs on the host, so nothing here may fail because a file or a program is missing: what is not known is empty or None.
"""

from __future__ import annotations

import glob
import importlib.util
import ipaddress
import os
import platform
import re
import struct
from typing import Iterable, Mapping, Sequence, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils import _daemon_json
from ansible_collections.baremetal.llm.plugins.module_utils._driver_host import (
    LISTERS,
    Compilers,
    ModuleKey,
    compilers,
    kernels,
    list_packages,
    module_key,
    secure_boot,
)
from ansible_collections.baremetal.llm.plugins.module_utils._driver_host import parse_packages as parse_driver_packages
from ansible_collections.baremetal.llm.plugins.module_utils._engine import ask_engine, socket_below
from ansible_collections.baremetal.llm.plugins.module_utils._engine_flags import read_flags
from ansible_collections.baremetal.llm.plugins.module_utils._left import Left, left
from ansible_collections.baremetal.llm.plugins.module_utils._listeners import ssh_client
from ansible_collections.baremetal.llm.plugins.module_utils._next_boot import NextBoot, next_boot, parse_fstab
from ansible_collections.baremetal.llm.plugins.module_utils._package_manager import is_busy
from ansible_collections.baremetal.llm.plugins.module_utils._proc import kernel_release, read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs
from ansible_collections.baremetal.llm.plugins.module_utils._shares import is_below, silent
from ansible_collections.baremetal.llm.plugins.module_utils._storage import Remote, storage


class Mount(TypedDict):
    """A file system where it is mounted."""

    type: str
    # Those without a value.
    options: list[str]


class MountOf(Mount):
    """That of a folder."""

    path: str
    mount: str
    # Of xfs: 1 where it keeps the types of files.
    ftype: int | None
    # The type in the SELinux label of the folder.
    label: str
    # Whether a cloud gives the disk to the machine only for as long as it runs.
    temporary: bool


class Boot(TypedDict, total=False):
    """The file system of /boot, which holds kernels and initial RAM disks; empty where /boot is a folder of the root file system."""

    mount: str
    free_mib: int


class Engine(TypedDict):
    """The container engine of the host; what nobody tells is empty or false."""

    # packages, static, snap, or nothing
    installed_by: str
    # By directive what the command line says, and which file says so.
    flags: dict[str, dict[str, str]]
    # Of daemon.json.
    config: dict[str, object]
    version: str
    # What answers: Engine, Podman Engine
    product: str
    swarm: str
    storage_driver: str
    d_type: bool | None
    containerd_store: bool
    data_root: str
    userns: bool
    rootless: bool
    missing_runtimes: list[str]
    proxy: str
    no_proxy: str


class Picture(Compilers, Left, NextBoot):
    """A host as it is before anything is changed."""

    engine: Engine
    # Versions by name, and names.
    packages: dict[str, str]
    held: list[str]
    # Of whatever kind, whose installation was interrupted.
    packages_broken: list[str]
    # Whether the program that lists packages lists any; None where there is no such program.
    packages_readable: bool | None
    # States by name.
    units: dict[str, str]
    # Units that nobody can start.
    masked: list[str]
    mounts: list[MountOf]
    # Where file systems belong that are mounted at boot, and are not.
    unmounted: list[str]
    # Where shares are mounted whose server does not answer.
    shares_silent: list[str]
    # Each with network and interface.
    routes: list[dict[str, str]]
    ssh_client: str
    modules: list[str]
    secure_boot: bool
    module: ModuleKey
    # Whether each has the driver's module.
    kernels: dict[str, bool]
    boot: Boot
    driver_packages: dict[str, str]
    # Those of them that nobody renews by himself: held, or left out of the automatic upgrades.
    driver_held: list[str]
    automatic_upgrades: bool
    apparmor: dict[str, bool]
    storage: list[Remote]
    fabric_manager: str
    # 1 or 2
    cgroup: int
    python: str
    dnf: bool


# Packages that an engine gets along with badly, and those that show who else uses one.
PACKAGES = frozenset(
    (
        *("containerd", "containerd.io", "runc", "crun", "podman", "podman-docker", "buildah", "kubelet", "k3s"),
        *("docker", "docker.io", "docker-ce", "docker-ce-cli", "docker-cli", "docker-engine", "moby-engine"),
        *("libc6", "libc6-dev", "kernel-devel", "nvidia-container-toolkit", "nvidia-container-toolkit-base"),
        *("libnvidia-container1", "libnvidia-container-tools", "nvidia-docker2", "nvidia-container-runtime"),
    )
)
# Units that hand out the GPUs of a host to others.
SCHEDULERS = (
    *("slurmd.service", "kubelet.service", "k3s.service", "k3s-agent.service"),
    *("rke2-server.service", "rke2-agent.service", "nomad.service"),
)
UNITS = (
    *("containerd.service", "docker.service", "docker.socket", "snap.docker.dockerd.service"),
    *("nvidia-fabricmanager.service", "nvidia-persistenced.service"),
    *SCHEDULERS,
    # Who decides what may run, who puts the host to sleep, and who renews packages by night.
    *(
        "fapolicyd.service",
        "display-manager.service",
        "sleep.target",
        "dnf-automatic.timer",
        "dnf-automatic-install.timer",
    ),
)
MODULES = ("nouveau", "nvidia", "nvidia_uvm", "nvidia_peermem", "nv_peer_mem", "overlay", "ib_uverbs")
CONTAINERD_ROOT = "/var/lib/containerd"
# How clouds mark disks that are gone when the machine is switched off: a file that Azure puts there, and what AWS calls the device.
_TEMPORARY_FILE, _TEMPORARY_MODEL = "DATALOSS_WARNING_README.txt", "Amazon EC2 NVMe Instance Storage"
_SNAPS = ("snap/docker/current", "var/lib/snapd/snaps/docker_*.snap")
_ROUTE_UP = 0x1
# Comments of apt's settings, and the packages that unattended-upgrades leaves alone: patterns that names begin with.
_APT_COMMENT = re.compile(r"^\s*(//|#).*$", re.M)
_LEFT_OUT = re.compile(
    r"Unattended-Upgrade::Package-Blacklist\s*\{(.*?)\}|Unattended-Upgrade::Package-Blacklist::\s*(\".*?\")", re.S
)
_UPGRADES = re.compile(r'^\s*APT::Periodic::Unattended-Upgrade\s+"?(\d+)"?\s*;', re.M)


def parse_packages(text: str) -> tuple[dict[str, str], list[str]]:
    """Versions of the packages above that are installed, and those of them that are held; ``text`` as list_packages returns it."""
    versions: dict[str, str] = {}
    held = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) == 3 and cells[0][1:2] == "i" and cells[1].split(":")[0] in PACKAGES:
            versions[cells[1].split(":")[0]] = cells[2]
            if cells[0].startswith("h"):
                held.append(cells[1].split(":")[0])
    return versions, sorted(held)


def parse_units(text: str, load_state: str = "loaded") -> dict[str, str]:
    """The state of each unit that is there, from ``systemctl show --property=Id,LoadState,ActiveState UNIT...``; or of those that are ``masked``."""
    found: dict[str, str] = {}
    for block in re.split(r"\n\s*\n", text):
        values = dict(line.partition("=")[::2] for line in block.splitlines())
        if values.get("Id") and values.get("LoadState") == load_state:
            found[values["Id"]] = values.get("ActiveState", "")
    return found


def parse_mounts(text: str) -> dict[str, Mount]:
    """File systems by where they are mounted, from /proc/mounts; the last one at a place is the one that is seen."""
    found: dict[str, Mount] = {}
    for line in text.splitlines():
        cells = line.split()
        if len(cells) >= 4:
            place = re.sub(r"\\(\d{3})", lambda match: chr(int(match.group(1), 8)), cells[1])
            # Those with a value, such as the layers of overlay, say nothing here.
            found[place] = {"type": cells[2], "options": [each for each in cells[3].split(",") if "=" not in each]}
    return found


def unmounted(text: str, mounts: Mapping[str, object]) -> list[str]:
    """Where file systems of /etc/fstab are not mounted, though they are at boot."""
    found = []
    for place, kind, options in parse_fstab(text):
        later = re.search(r"(^|,)(noauto|x-systemd\.automount|comment=systemd\.automount)(,|$)", options)
        if kind != "swap" and not later and place not in mounts:
            found.append(place)
    return sorted(set(found))


def is_temporary(place: str, mounts_text: str, sysfs_root: str = "/sys", root: str = "/") -> bool:
    """Whether a cloud takes the disk away when the machine is switched off."""
    if os.path.exists(os.path.join(root, place.lstrip("/"), _TEMPORARY_FILE)):
        return True
    sources = [cells[0] for cells in map(str.split, mounts_text.splitlines()) if len(cells) > 1 and cells[1] == place]
    device = re.sub(r"p\d+$", "", os.path.basename(sources[-1])) if sources else ""
    return bool(device) and read(sysfs_root, "class/block", device, "device/model").strip() == _TEMPORARY_MODEL


def automatic_upgrades(listing: str, units: Mapping[str, str], root: str = "/") -> bool:
    """Whether packages are renewed without anybody asking for it. Of several files of apt the last one counts."""
    if any(units.get(name) == "active" for name in ("dnf-automatic.timer", "dnf-automatic-install.timer")):
        return True
    if not re.search(r"^.i\s*\tunattended-upgrades\t", listing, re.M):
        return False
    texts = (read(path) for path in sorted(glob.glob(os.path.join(root, "etc/apt/apt.conf.d/*"))))
    said = [number for text in texts for number in _UPGRADES.findall(text)]
    return bool(said) and said[-1] != "0"


def left_out(names: Iterable[str], root: str = "/") -> list[str]:
    """Those of some packages that the settings of unattended-upgrades name as packages to be left alone."""
    texts = (read(path) for path in sorted(glob.glob(os.path.join(root, "etc/apt/apt.conf.d/*"))))
    lists = [part for text in texts for found in _LEFT_OUT.findall(_APT_COMMENT.sub("", text)) for part in found]
    patterns = []
    for said in re.findall(r'"([^"]+)"', "\n".join(lists)):
        try:
            patterns.append(re.compile(said))
        except re.error:
            continue  # unattended-upgrades ends with an error then
    return [name for name in names if any(pattern.match(name) for pattern in patterns)]


def boot_room(mounts_text: str, root: str = "/") -> Boot:
    """How much room kernels and initial RAM disks have, where that is a file system of its own."""
    if "/boot" not in parse_mounts(mounts_text):
        return {}
    try:
        status = os.statvfs(os.path.join(root, "boot"))
    except OSError:
        return {}
    return {"mount": "/boot", "free_mib": status.f_bavail * status.f_frsize >> 20}


def apparmor(programs: Programs, sysfs_root: str) -> dict[str, bool]:
    """Whether the kernel confines programs by profiles, as containerd asks for it, and whether the program is there that loads them."""
    enabled = read(sysfs_root, "module/apparmor/parameters/enabled").strip() == "Y"
    seen = os.path.isdir(os.path.join(sysfs_root, "kernel/security/apparmor"))
    return {"enabled": enabled and seen, "parser": bool(programs.path("apparmor_parser"))}


def mount_of(path: str, mounts: Mapping[str, object]) -> str:
    """Where the file system of a path is mounted; the path need not be there."""
    path = os.path.realpath(path)
    while path not in mounts and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def parse_ftype(text: str) -> int | None:
    """Whether a file system of xfs keeps the types of files, from xfs_info."""
    match = re.search(r"\bftype=(\d)", text)
    return int(match.group(1)) if match else None


def label_of(path: str) -> str:
    """The type in the SELinux label of a path, or of the nearest folder that is there."""
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    try:
        label = os.getxattr(path, "security.selinux").decode("utf-8", "replace")
    except OSError:
        return ""
    return [*label.rstrip("\0").split(":"), "", "", ""][2]


def parse_routes(text: str) -> list[dict[str, str]]:
    """The networks that lead somewhere, the default route aside, from /proc/net/route."""
    found = []
    for line in text.splitlines()[1:]:
        cells = line.split()
        try:
            numbers = [struct.pack("=I", int(cells[at], 16)) for at in (1, 7)]
            network = ipaddress.ip_network("{0}/{1}".format(*(ipaddress.ip_address(each) for each in numbers)))
            up = int(cells[3], 16) & _ROUTE_UP
        except (IndexError, ValueError, struct.error):
            continue
        if up and network.prefixlen:
            found.append({"network": str(network), "interface": cells[0]})
    return found


def _is_there(path: str, programs: Programs, root: str) -> bool:
    """Whether there is a program, by its path or by its name."""
    if path.startswith("/"):
        return os.path.exists(os.path.join(root, path.lstrip("/")))
    return bool(programs.path(path))


def missing_runtimes(config: Mapping[str, object], programs: Programs, root: str = "/") -> list[str]:
    """The runtimes of daemon.json whose program is not there."""
    runtimes = config.get("runtimes")
    found = []
    for name, said in runtimes.items() if isinstance(runtimes, dict) else ():
        path = str(said.get("path") or "") if isinstance(said, dict) else ""
        if path and not _is_there(path, programs, root):
            found.append(str(name))
    return sorted(found)


def product(root: str = "/") -> str:
    """What the engine calls itself: Podman's answers to the same questions, and is another one."""
    parts = (ask_engine("/version", socket_below(root)) or {}).get("Components") or [{}]
    return str(parts[0].get("Name") or "") if isinstance(parts[0], dict) else ""


def engine_state(programs: Programs, units: Mapping[str, str], root: str = "/") -> Engine:
    """How Docker came to the host, what it is told by flags and by its file, and what it says of itself."""
    info = ask_engine("/info", socket_below(root)) or {}
    status = {str(pair[0]): str(pair[1]) for pair in info.get("DriverStatus") or [] if len(pair) == 2}
    security = " ".join(str(each) for each in info.get("SecurityOptions") or [])
    try:
        path = os.path.join(root, "etc/docker/daemon.json")
        config = _daemon_json.parse(read(path), path)
    except _daemon_json.DaemonJsonError:
        config = {}  # the role docker refuses it
    return {
        "installed_by": installed_by(units, programs.path("dockerd"), root),
        "flags": read_flags(programs),
        "config": config,
        "version": str(info.get("ServerVersion") or ""),
        "product": product(root) if info else "",
        "swarm": str((info.get("Swarm") or {}).get("LocalNodeState") or ""),
        "storage_driver": str(info.get("Driver") or ""),
        "d_type": {"true": True, "false": False}.get(status.get("Supports d_type", "").lower()),
        "containerd_store": status.get("driver-type", "").startswith("io.containerd.snapshotter"),
        "data_root": str(info.get("DockerRootDir") or config.get("data-root") or ""),
        "userns": "name=userns" in security,
        "rootless": "name=rootless" in security,
        "missing_runtimes": missing_runtimes(config, programs, root),
        "proxy": str(info.get("HttpsProxy") or info.get("HttpProxy") or ""),
        "no_proxy": str(info.get("NoProxy") or ""),
    }


def installed_by(units: Mapping[str, str], dockerd: str, root: str = "/") -> str:
    """packages, static, snap, or nothing. Where a snap runs beside another engine, the snap is what has to go."""
    if units.get("snap.docker.dockerd.service") or any(glob.glob(os.path.join(root, one)) for one in _SNAPS):
        return "snap"
    if not dockerd:
        return ""
    return "static" if dockerd.startswith("/usr/local/") else "packages"


def mounts_of(
    programs: Programs,
    paths: Iterable[str],
    text: str,
    sysfs_root: str = "/sys",
    shares_silent: Sequence[str] = (),
    root: str = "/",
) -> list[MountOf]:
    """The file system of each of these folders: where it is mounted, of which type, with which options."""
    mounts = parse_mounts(text)
    found: list[MountOf] = []
    for path in dict.fromkeys(paths):
        place = mount_of(path, mounts)
        entry: Mount = mounts.get(place, {"type": "", "options": []})
        ftype = parse_ftype(programs.answer("xfs_info", place)) if entry["type"] == "xfs" else None
        found.append(
            {
                "path": path,
                "mount": place,
                **entry,
                "ftype": ftype,
                "label": "" if is_below(path, shares_silent) else label_of(path),
                "temporary": is_temporary(place, text, sysfs_root, root),
            }
        )
    return found


def picture(
    programs: Programs, sysfs_root: str, host_dir: str, docker_root: str, proc_root: str = "/proc", base: str = "/"
) -> Picture:
    """All of it, for the fact llm_host."""
    release = kernel_release(proc_root)
    listing = list_packages(programs)
    packages, held = parse_packages(listing)
    driver = parse_driver_packages(listing)
    mounts = read(proc_root, "mounts")
    no_answer = silent({place: entry["type"] for place, entry in parse_mounts(mounts).items()})
    shown = programs.answer("systemctl", "show", "--property=Id,LoadState,ActiveState", *UNITS)
    units = parse_units(shown)
    engine = engine_state(programs, units, base)
    root = docker_root or engine["data_root"] or "/var/lib/docker"
    loaded = {line.split(" ")[0] for line in read(proc_root, "modules").splitlines()}
    manager = re.search(r"(\d+(?:\.\d+)+)", programs.answer("nv-fabricmanager", "--version"))
    boot = secure_boot(sysfs_root)
    return {
        "engine": engine,
        "packages": packages,
        "held": held,
        "packages_readable": bool(listing.strip()) if any(map(programs.path, LISTERS)) else None,
        "packages_broken": [] if is_busy(proc_root, base) else driver["broken"],
        "units": units,
        "masked": sorted(parse_units(shown, "masked")),
        "mounts": mounts_of(programs, ("/tmp", host_dir, root, CONTAINERD_ROOT), mounts, sysfs_root, no_answer, base),
        "shares_silent": no_answer,
        "unmounted": unmounted(read(base, "etc/fstab"), parse_mounts(mounts)),
        "routes": parse_routes(read(proc_root, "net/route")),
        "ssh_client": ssh_client(proc_root, os.getpid()),
        "modules": sorted(loaded.intersection(MODULES)),
        "secure_boot": boot,
        "module": module_key(programs, release, base, proc_root) if boot else {},
        "kernels": kernels(base),
        "boot": boot_room(mounts, base),
        "driver_packages": driver["packages"],
        "driver_held": sorted({*driver["held"], *left_out(driver["packages"], base)}),
        "automatic_upgrades": automatic_upgrades(listing, units, base),
        "apparmor": apparmor(programs, sysfs_root),
        "storage": storage(mounts, sysfs_root),
        "fabric_manager": manager.group(1) if manager else "",
        "cgroup": 2 if os.path.exists(os.path.join(sysfs_root, "fs/cgroup/cgroup.controllers")) else 1,
        "python": platform.python_version(),
        "dnf": any(importlib.util.find_spec(name) for name in ("dnf", "libdnf5")),
        **compilers(programs, release, base),
        **next_boot(parse_mounts(mounts), base),
        **left(programs, sysfs_root, proc_root, base),
    }


def image_root(engine: Engine, docker_root: str) -> str:
    """Where an engine keeps images: with containerd's store not below its data root (https://docs.docker.com/engine/storage/containerd/)."""
    return CONTAINERD_ROOT if engine["containerd_store"] else docker_root
