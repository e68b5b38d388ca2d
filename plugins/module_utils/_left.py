# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others left in the settings of a host: in the kernel, for its modules, for names, for packages and for the packet filter; and what the host is.
plugin_utils/preflight/history.py judges what was found.

Runs on the host, so nothing here may fail because a file or a program is missing: what is not known is empty or None.
"""

from __future__ import annotations

import array
import fcntl
import fnmatch
import glob
import hashlib
import os
import re
from typing import Iterable, Iterator, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits, read_json
from ansible_collections.baremetal.llm.plugins.module_utils._package_manager import PackageManager, package_manager
from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs
from ansible_collections.baremetal.llm.plugins.module_utils._toolkit import Toolkit, toolkit


class Resolver(TypedDict):
    """What /etc/resolv.conf says."""

    nameservers: list[str]
    search: list[str]
    # Where the file is a link that leads nowhere: where to.
    missing: str


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
    # What becomes of a packet for this host that no rule is about, as the rule or the policy says it; empty where it is let in.
    refuses: str
    # Networks from which the same rules let everything in.
    lets_in: list[str]
    # What firewalld writes its rules with, as its settings say it: nftables or iptables; empty where they do not.
    firewalld: str


class Removed(TypedDict):
    """A rule of udev that takes GPUs off the bus."""

    said: str
    path: str


class CpuFrequency(TypedDict, total=False):
    """Who decides how fast the first processor runs, and how; empty where the kernel leaves that to the firmware."""

    driver: str
    governor: str


class Proxy(TypedDict, total=False):
    """The proxy that every program of the host gets, and what it is not for; empty where there is none."""

    proxy: str
    no_proxy: str


class Helper(TypedDict, total=False):
    """A program that keeps the passwords of Docker's client, and is not there; empty where none is asked for, or where it is there."""

    program: str
    path: str


class PortsHandedOut(TypedDict, total=False):
    """Which ports the kernel gives to connections that go out, and which of them it does not (1,5-9); empty where it does not say."""

    first: int
    last: int
    reserved: str


class Left(PackageManager, Toolkit):
    """All of it."""

    # lxc, docker, podman, systemd-nspawn; empty on a machine or a virtual one.
    container: str
    # A digest: the identity itself is nobody's business.
    machine_id: str
    # By the name of the setting.
    kernel_settings: dict[str, int]
    # How many addresses of its networks the kernel keeps (ARP).
    neighbours: int
    ports_handed_out: PortsHandedOut
    # Files and folders of the below in which nobody may change anything (chattr +i or +a).
    immutable: list[str]
    # integrity, confidentiality; empty where the kernel is not locked down.
    lockdown: str
    numa_nodes: int
    # How many processors are on, and those of them that the scheduler leaves alone (isolcpus).
    cpus: int
    cpus_isolated: list[int]
    # Of the instructions below.
    cpu_missing: list[str]
    blocked_modules: list[Blocked]
    module_options: list[ModuleOption]
    udev_removes: list[Removed]
    # Whether the kernel is one of real time.
    realtime: bool
    # tsc, kvm-clock, hpet
    clocksource: str
    cpu_frequency: CpuFrequency
    resolver: Resolver
    docker_helper: Helper
    environment_proxy: Proxy
    packet_filters: PacketFilters
    automatic_reboot: bool
    clock_synchronized: bool | None


KERNEL_SETTINGS = (
    *("kernel/modules_disabled", "kernel/numa_balancing", "kernel/pid_max", "kernel/hung_task_panic"),
    *("vm/overcommit_memory", "vm/panic_on_oom"),
    *("net/netfilter/nf_conntrack_max", "net/netfilter/nf_conntrack_count", "net/ipv4/neigh/default/gc_thresh3"),
)
# What packages and roles change.
CHANGED = (
    "etc/passwd",
    "etc/group",
    "etc/shadow",
    "etc/gshadow",
    "etc/docker/daemon.json",
    "etc/docker",
    "etc",
    "usr/bin",
)
# linux/fs.h: FS_IOC_GETFLAGS, FS_IMMUTABLE_FL and FS_APPEND_FL.
_GET_FLAGS, _UNCHANGING = 0x80086601, 0x10 | 0x20
# More processors than any machine has, and as many ports as there are.
MOST_NUMBERS = 1 << 16
# What x86-64-v2 adds (https://gitlab.com/x86-psABIs/x86-64-ABI, "Micro-Architecture Levels"), which numpy and the images of EL 9 ask for; and AVX and AVX2,
# which programs of the engines use without asking. As /proc/cpuinfo calls them.
CPU_FLAGS = ("ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "avx", "avx2")
# The driver's modules; Debian calls the first one nvidia-current.
DRIVER_MODULES = ("nvidia", "nvidia_uvm", "nvidia_current", "nvidia_current_open")
_MODPROBE = ("etc/modprobe.d/*.conf", "run/modprobe.d/*.conf", "usr/lib/modprobe.d/*.conf", "lib/modprobe.d/*.conf")
_UDEV = (
    "etc/udev/rules.d/*.rules",
    "run/udev/rules.d/*.rules",
    "usr/lib/udev/rules.d/*.rules",
    "lib/udev/rules.d/*.rules",
)
_REMOVES = re.compile(r'ATTR\{remove\}\s*=\s*"1"')
# VGA and 3D controllers, as the kernel writes their classes.
_DISPLAYS = ("0x030000", "0x030200")
_OFF = re.compile(r"(/usr)?(/bin|/sbin)/(false|true)\b|:$|off$")
_ON_COMMAND_LINE = ("module_blacklist", "modprobe.blacklist", "rd.driver.blacklist")
_CONTAINER_FILES = ((".dockerenv", "docker"), ("run/.containerenv", "podman"))
# As nft prints tables and the chains in them.
_TABLE = re.compile(r"^table (ip|inet) (\S+) \{$(.*?)^\}$", re.M | re.S)
_CHAIN = re.compile(r"^\s+chain (\S+) \{$(.*?)^\s+\}$", re.M | re.S)
_LAST_WORD = re.compile(r"(?:counter packets \d+ bytes \d+ )?(?:drop|reject\b.*)")
_FROM = re.compile(r"^\s*ip saddr (\{[^}]*\}|\S+) (?:counter packets \d+ bytes \d+ )?accept$", re.M)
# Of firewalld, which is asked itself, and of this collection.
_OTHER_TABLES = ("firewalld", "baremetal_llm")
_REBOOT = re.compile(r'^\s*Unattended-Upgrade::Automatic-Reboot\s+"?(\w+)"?\s*;', re.M)
_DNF_REBOOT = re.compile(r"^\s*reboot\s*=\s*(when-changed|when-needed)\b", re.M)


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


def neighbours(proc_root: str) -> int:
    """How many entries the kernel's table of neighbours has, below its heading."""
    return max(len(read(proc_root, "net/arp").splitlines()) - 1, 0)


def ports_handed_out(proc_root: str) -> PortsHandedOut:
    """The range of ports for connections that go out, and what is left out of it."""
    ends = [digits(word) for word in read(proc_root, "sys/net/ipv4/ip_local_port_range").split()]
    if len(ends) != 2 or ends[0] is None or ends[1] is None:
        return {}
    reserved = read(proc_root, "sys/net/ipv4/ip_local_reserved_ports").strip()
    return {"first": ends[0], "last": ends[1], "reserved": reserved}


def immutable(root: str = "/") -> list[str]:
    """What of the files and folders that packages and roles change has an attribute against changes (ioctl_iflags(2))."""
    found = []
    for name in CHANGED:
        flags = array.array("l", [0])
        try:
            opened = os.open(os.path.join(root, name), os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.ioctl(opened, _GET_FLAGS, flags, True)
        except OSError:
            pass  # a file system without such attributes
        finally:
            os.close(opened)
        if flags[0] & _UNCHANGING:
            found.append("/" + name)
    return found


def lockdown(sysfs_root: str) -> str:
    """How far the kernel is locked down: the word in brackets."""
    said = re.search(r"\[(\w+)\]", read(sysfs_root, "kernel/security/lockdown"))
    return said.group(1) if said and said.group(1) != "none" else ""


def number_list(text: str) -> list[int]:
    """Numbers, as of processors or ports, as the kernel lists them: 0-3,8."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _dash, last = part.partition("-")
        ends = (digits(first), digits(last or first))
        if ends[0] is not None and ends[1] is not None and ends[1] - ends[0] < MOST_NUMBERS:
            found += range(ends[0], ends[1] + 1)
    return found


def cpu_missing(proc_root: str) -> list[str]:
    """Which of the instructions that matter the processor, or the virtual one, does not have; nothing where it says nothing."""
    said = re.search(r"^flags\s*:(.*)$", read(proc_root, "cpuinfo"), re.M)
    flags = said.group(1).split() if said else []
    return [flag for flag in CPU_FLAGS if flag not in flags] if flags else []


def _module(name: str) -> str:
    return name.replace("-", "_")


def _lines_of(patterns: Iterable[str], root: str) -> Iterator[tuple[str, str]]:
    """The lines of some files outside of comments, with the file. One in /etc hides those of its name elsewhere (modprobe.d(5), udev(7))."""
    seen = set()
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            if os.path.basename(path) in seen:
                continue
            seen.add(os.path.basename(path))
            shown = "/" + os.path.relpath(path, root)
            for line in map(str.strip, read(path).replace("\\\n", " ").splitlines()):
                if line and not line.startswith("#"):
                    yield shown, line


def _modprobe_lines(root: str) -> Iterator[tuple[str, list[str]]]:
    """The words of each line that modprobe reads, with the file."""
    for path, line in _lines_of(_MODPROBE, root):
        yield path, line.split()


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


def udev_removes(root: str = "/") -> list[Removed]:
    """The rules that take NVIDIA's GPUs off the bus; those about other functions of a card (sound, USB) are the maker's own advice."""
    found: list[Removed] = []
    for path, line in _lines_of(_UDEV, root):
        if not _REMOVES.search(line) or "0x10de" not in line.lower():
            continue
        kinds = re.findall(r'ATTRS?\{class\}\s*==\s*"([^"]+)"', line)
        if not kinds or any(fnmatch.fnmatch(each, kind) for kind in kinds for each in _DISPLAYS):
            found.append({"said": line, "path": path})
    return found


def cpu_frequency(sysfs_root: str) -> CpuFrequency:
    """Who decides how fast the processor runs."""
    folder = os.path.join(sysfs_root, "devices/system/cpu/cpu0/cpufreq")
    driver, governor = (read(folder, "scaling_" + name).strip() for name in ("driver", "governor"))
    return {"driver": driver, "governor": governor} if governor else {}


def environment_proxy(root: str = "/") -> Proxy:
    """The proxy in /etc/environment, which logins and sudo give to every program (pam_env(8))."""
    said: dict[str, str] = {}
    for line in read(root, "etc/environment").splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            said[name.replace("export ", "").strip().lower()] = value.strip().strip("\"'")
    proxy = next((said[name] for name in ("http_proxy", "https_proxy", "all_proxy") if said.get(name)), "")
    return {"proxy": proxy, "no_proxy": said.get("no_proxy", "")} if proxy else {}


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


def refuses(saved: str) -> tuple[str, list[str]]:
    """What keeps out the packets for the host that no rule lets in, from ``iptables-save``: the last rule without a condition, or the policy; and the
    networks from which the rules before it let everything in."""
    table = re.search(r"^\*filter$(.*?)^COMMIT$", saved, re.M | re.S)
    text = table.group(1) if table else ""
    last = re.search(r"^-A INPUT -j ((?:REJECT|DROP)\b.*)$", text, re.M)
    policy = re.search(r"^:INPUT (DROP|REJECT)\b", text, re.M)
    said = "-A INPUT -j " + last.group(1).strip() if last else "-P INPUT " + policy.group(1) if policy else ""
    return said, re.findall(r"^-A INPUT -s (\S+) -j ACCEPT$", text, re.M) if said else []


def refuses_natively(ruleset: str) -> tuple[str, list[str]]:
    """The same of tables that no iptables writes, from ``nft list ruleset``. One chain that drops is enough: no other table lets in what it has dropped."""
    for family, table, chains in _TABLE.findall(ruleset):
        for chain, text in _CHAIN.findall(chains):
            base = re.search(r"^\s*type filter hook input\b[^\n]*$", text, re.M)
            lines = [line.strip() for line in text.strip().splitlines()]
            drops = base and ("policy drop" in base.group() or _LAST_WORD.fullmatch(lines[-1]))
            # In capitals the chains of iptables-nft, about which iptables-save says more.
            if drops and not chain.isupper() and not table.startswith(_OTHER_TABLES):
                networks = [one for said in _FROM.findall(text) for one in re.split(r"[\s,{}]+", said) if one]
                return f"nft: {family} {table} {chain}", networks
    return "", []


def packet_filters(programs: Programs, proc_root: str, root: str = "/") -> PacketFilters:
    """Whether both interfaces of the kernel are in use: rules of the one are not seen in the other, and a packet has to pass both.

    ``iptables-save`` alone asks for no table that is not there, so that none comes to be by the question.
    """
    program = re.search(r"\((nf_tables|legacy)\)", programs.answer("iptables", "--version"))
    said, networks = refuses(programs.answer("iptables-save"))
    backend = re.search(r"^\s*FirewallBackend\s*=\s*(\w+)", read(root, "etc/firewalld/firewalld.conf"), re.M)
    # To ask nft would load its module.
    if not said and re.search(r"^nf_tables ", read(proc_root, "modules"), re.M):
        said, networks = refuses_natively(programs.answer("nft", "list", "ruleset"))
    return {
        "legacy": sorted(read(proc_root, "net/ip_tables_names").split()),
        "program": program.group(1) if program else "",
        "refuses": said,
        "lets_in": networks,
        "firewalld": backend.group(1) if backend else "",
    }


def docker_helper(programs: Programs, root: str = "/") -> Helper:
    """Whom Docker's client asks for passwords in root's name, at each pull and for whatever registry, where that is not there."""
    path = "root/.docker/config.json"
    try:
        content = read_json(read(root, path) or "{}")
    except ValueError:
        return {}
    store = content.get("credsStore") if isinstance(content, dict) else ""
    program = f"docker-credential-{store}"
    return {"program": program, "path": "/" + path} if store and not programs.path(program) else {}


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
        "neighbours": neighbours(proc_root),
        "ports_handed_out": ports_handed_out(proc_root),
        "immutable": immutable(root),
        "lockdown": lockdown(sysfs_root),
        "numa_nodes": len(glob.glob(os.path.join(sysfs_root, "devices/system/node/node[0-9]*"))),
        "cpus": len(number_list(read(sysfs_root, "devices/system/cpu/online"))),
        "cpus_isolated": number_list(read(sysfs_root, "devices/system/cpu/isolated")),
        "cpu_missing": cpu_missing(proc_root),
        "blocked_modules": blocked_modules(proc_root, root),
        "module_options": module_options(root),
        "udev_removes": udev_removes(root),
        "realtime": read(sysfs_root, "kernel/realtime").strip() == "1",
        "clocksource": read(sysfs_root, "devices/system/clocksource/clocksource0/current_clocksource").strip(),
        "cpu_frequency": cpu_frequency(sysfs_root),
        "resolver": resolver(root),
        "docker_helper": docker_helper(programs, root),
        "environment_proxy": environment_proxy(root),
        "packet_filters": packet_filters(programs, proc_root, root),
        "automatic_reboot": automatic_reboot(root),
        "clock_synchronized": synchronized(programs),
        **package_manager(root),
        **toolkit(programs, root),
    }
