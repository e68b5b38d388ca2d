# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others left in the settings of a host: in the kernel, for its modules, for names, for packages and for the packet filter; and what the host is.
plugin_utils/preflight/history.py judges what was found.

Runs on the host, so nothing here may fail because a file or a program is missing: what is not known is empty or None.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from typing import Iterator, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs


class Resolver(TypedDict):
    """What /etc/resolv.conf says."""

    nameservers: list[str]
    search: list[str]
    # Where the file is a link that leads nowhere: where to.
    missing: str


class PackageSource(TypedDict):
    """An entry of apt."""

    path: str
    url: str
    suite: str
    # The file of the key; empty where the entry names none.
    signed_by: str


class Blocked(TypedDict):
    """A module of the kernel that somebody keeps from being loaded."""

    module: str
    # What is said: blacklist nvidia, install nvidia /bin/false, module_blacklist=nvidia.
    said: str
    path: str
    # Whether asking for the module by its name does not load it either.
    wholly: bool


class ModuleOption(TypedDict):
    """An option that a module of the driver is loaded with."""

    said: str
    path: str


class PacketFilters(TypedDict):
    """Which tables the old interface of the kernel has, and which interface the program iptables uses (nf_tables, legacy)."""

    legacy: list[str]
    program: str


class Left(TypedDict):
    """All of it."""

    # lxc, docker, podman, systemd-nspawn; empty on a machine or a virtual one.
    container: str
    # A digest: the identity itself is nobody's business.
    machine_id: str
    # By the name of the setting.
    kernel_settings: dict[str, int]
    # integrity, confidentiality; empty where the kernel is not locked down.
    lockdown: str
    numa_nodes: int
    # Of the instructions below.
    cpu_missing: list[str]
    blocked_modules: list[Blocked]
    module_options: list[ModuleOption]
    resolver: Resolver
    package_sources: list[PackageSource]
    packet_filters: PacketFilters
    automatic_reboot: bool
    clock_synchronized: bool | None


KERNEL_SETTINGS = ("kernel/modules_disabled", "kernel/numa_balancing")
# What x86-64-v2 adds (https://gitlab.com/x86-psABIs/x86-64-ABI, "Micro-Architecture Levels"), which numpy and the images of EL 9 ask for; and AVX and AVX2,
# which programs of the engines use without asking. As /proc/cpuinfo calls them.
CPU_FLAGS = ("ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "avx", "avx2")
# The driver's modules; Debian calls the first one nvidia-current.
DRIVER_MODULES = ("nvidia", "nvidia_uvm", "nvidia_current", "nvidia_current_open")
_MODPROBE = ("etc/modprobe.d/*.conf", "run/modprobe.d/*.conf", "usr/lib/modprobe.d/*.conf", "lib/modprobe.d/*.conf")
_OFF = re.compile(r"(/usr)?(/bin|/sbin)/(false|true)\b|:$|off$")
_ON_COMMAND_LINE = ("module_blacklist", "modprobe.blacklist", "rd.driver.blacklist")
_CONTAINER_FILES = ((".dockerenv", "docker"), ("run/.containerenv", "podman"))
_REBOOT = re.compile(r'^\s*Unattended-Upgrade::Automatic-Reboot\s+"?(\w+)"?\s*;', re.M)
_DNF_REBOOT = re.compile(r"^\s*reboot\s*=\s*(when-changed|when-needed)\b", re.M)
_ONE_LINE = re.compile(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)")


def container(proc_root: str, root: str = "/") -> str:
    """The kind of container that the host itself is; nothing for a machine."""
    said = read(root, "run/systemd/container").strip()
    started = re.search(r"(?:^|\0)container=([\w-]+)", read(proc_root, "1/environ"))
    if said or started:
        return said or (started.group(1) if started else "")
    return next((kind for path, kind in _CONTAINER_FILES if os.path.exists(os.path.join(root, path))), "")


def machine_id(root: str = "/") -> str:
    """A digest of the host's identity, by which two hosts are told to have the same (machine-id(5) asks not to show the identity itself)."""
    said = read(root, "etc/machine-id").strip()
    if not re.fullmatch(r"[0-9a-f]{32}", said):
        return ""
    return hashlib.sha256(b"baremetal.llm " + said.encode()).hexdigest()[:16]


def kernel_settings(proc_root: str) -> dict[str, int]:
    """Settings of the kernel that matter, as far as it has them."""
    found = {name.replace("/", "."): digits(read(proc_root, "sys", name).strip()) for name in KERNEL_SETTINGS}
    return {name: value for name, value in found.items() if value is not None}


def lockdown(sysfs_root: str) -> str:
    """How far the kernel is locked down: the word in brackets."""
    said = re.search(r"\[(\w+)\]", read(sysfs_root, "kernel/security/lockdown"))
    return said.group(1) if said and said.group(1) != "none" else ""


def cpu_missing(proc_root: str) -> list[str]:
    """Which of the instructions that matter the processor, or the virtual one, does not have; nothing where it says nothing."""
    said = re.search(r"^flags\s*:(.*)$", read(proc_root, "cpuinfo"), re.M)
    flags = said.group(1).split() if said else []
    return [flag for flag in CPU_FLAGS if flag not in flags] if flags else []


def _module(name: str) -> str:
    return name.replace("-", "_")


def _modprobe_lines(root: str) -> Iterator[tuple[str, list[str]]]:
    """The words of each line that modprobe reads, with the file. A file in /etc hides those of its name elsewhere (modprobe.d(5))."""
    seen = set()
    for pattern in _MODPROBE:
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            if os.path.basename(path) in seen:
                continue
            seen.add(os.path.basename(path))
            for line in read(path).replace("\\\n", " ").splitlines():
                words = line.split()
                if words and not words[0].startswith("#"):
                    yield "/" + os.path.relpath(path, root), words


def blocked_modules(proc_root: str, root: str = "/") -> list[Blocked]:
    """The driver's modules that modprobe or the kernel does not load."""
    found: list[Blocked] = []
    for path, words in _modprobe_lines(root):
        if len(words) < 2 or _module(words[1]) not in DRIVER_MODULES:
            continue
        wholly = words[0] in ("install", "alias") and bool(_OFF.search(" ".join(words[2:])))
        if words[0] == "blacklist" or wholly:
            found.append({"module": _module(words[1]), "said": " ".join(words), "path": path, "wholly": wholly})
    for word in read(proc_root, "cmdline").split():
        name, _equals, modules = word.partition("=")
        names = [_module(each) for each in modules.split(",")]
        if name in _ON_COMMAND_LINE and any(each in DRIVER_MODULES for each in names):
            wholly = name == "module_blacklist"
            found.append({"module": names[0], "said": word, "path": "/proc/cmdline", "wholly": wholly})
    return found


def module_options(root: str = "/") -> list[ModuleOption]:
    """The options with which the driver's modules are loaded, each once."""
    return [
        {"said": word, "path": path}
        for path, words in _modprobe_lines(root)
        if words[0] == "options" and len(words) > 2 and _module(words[1]) in DRIVER_MODULES
        for word in words[2:]
    ]


def resolver(root: str = "/") -> Resolver:
    """Whom the host asks for names."""
    path = os.path.join(root, "etc/resolv.conf")
    missing = os.readlink(path) if os.path.islink(path) and not os.path.exists(path) else ""
    found: Resolver = {"nameservers": [], "search": [], "missing": missing}
    for line in read(path).splitlines():
        words = line.split()
        if words[:1] == ["nameserver"]:
            found["nameservers"] += words[1:2]
        elif words[:1] in (["search"], ["domain"]):
            # The last one counts (resolv.conf(5)).
            found["search"] = words[1:]
    return found


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    """The fields of each paragraph of a file of sources, by name in small letters."""
    for block in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace() and name:
                fields[name] += "\n" + line.strip()
            elif ":" in line:
                name, _colon, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if fields:
            yield fields


def package_sources(root: str = "/") -> list[PackageSource]:
    """The binary repositories that apt knows. A key that is written into the entry itself counts as a file of no name."""
    found: list[PackageSource] = []
    folder = os.path.join(root, "etc/apt")
    for path in [
        os.path.join(folder, "sources.list"),
        *sorted(glob.glob(os.path.join(folder, "sources.list.d/*.list"))),
    ]:
        for line in read(path).splitlines():
            said = _ONE_LINE.match(line.strip())
            if said:
                options = dict(word.partition("=")[::2] for word in (said.group(1) or "").split())
                found.append(
                    {
                        "path": "/" + os.path.relpath(path, root),
                        "url": said.group(2).rstrip("/"),
                        "suite": said.group(3),
                        "signed_by": options.get("signed-by", ""),
                    }
                )
    for path in sorted(glob.glob(os.path.join(folder, "sources.list.d/*.sources"))):
        for fields in _stanzas(read(path)):
            if fields.get("enabled", "yes") == "no" or "deb" not in fields.get("types", "").split():
                continue
            key = fields.get("signed-by", "").strip()
            for url in fields.get("uris", "").split():
                for suite in fields.get("suites", "").split():
                    found.append(
                        {
                            "path": "/" + os.path.relpath(path, root),
                            "url": url.rstrip("/"),
                            "suite": suite,
                            "signed_by": "(inline)" if "\n" in key else key,
                        }
                    )
    return found


def packet_filters(programs: Programs, proc_root: str) -> PacketFilters:
    """Whether both interfaces of the kernel are in use: rules of the one are not seen in the other, and a packet has to pass both."""
    said = re.search(r"\((nf_tables|legacy)\)", programs.answer("iptables", "--version"))
    return {
        "legacy": sorted(read(proc_root, "net/ip_tables_names").split()),
        "program": said.group(1) if said else "",
    }


def automatic_reboot(root: str = "/") -> bool:
    """Whether the host reboots without anybody asking for it, after packages were renewed. Of several files of apt the last one counts."""
    texts = (read(path) for path in sorted(glob.glob(os.path.join(root, "etc/apt/apt.conf.d/*"))))
    said = [word for text in texts for word in _REBOOT.findall(text)]
    wanted = bool(said) and said[-1].lower() in ("true", "yes", "1")
    return wanted or bool(_DNF_REBOOT.search(read(root, "etc/dnf/automatic.conf")))


def synchronized(programs: Programs) -> bool | None:
    """Whether something sets the clock by others; None where systemd does not know."""
    said = programs.answer("timedatectl", "show", "--property=NTPSynchronized", "--value").strip()
    return {"yes": True, "no": False}.get(said)


def left(programs: Programs, sysfs_root: str, proc_root: str = "/proc", root: str = "/") -> Left:
    """All of it, for the fact llm_host."""
    return {
        "container": container(proc_root, root),
        "machine_id": machine_id(root),
        "kernel_settings": kernel_settings(proc_root),
        "lockdown": lockdown(sysfs_root),
        "numa_nodes": len(glob.glob(os.path.join(sysfs_root, "devices/system/node/node[0-9]*"))),
        "cpu_missing": cpu_missing(proc_root),
        "blocked_modules": blocked_modules(proc_root, root),
        "module_options": module_options(root),
        "resolver": resolver(root),
        "package_sources": package_sources(root),
        "packet_filters": packet_filters(programs, proc_root),
        "automatic_reboot": automatic_reboot(root),
        "clock_synchronized": synchronized(programs),
    }
