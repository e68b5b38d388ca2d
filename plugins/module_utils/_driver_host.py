# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is of an NVIDIA driver on a host, and how it got there: what the module driver_facts tells and ``driver`` decides from."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from typing import Mapping, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._gpu import installed_version
from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs

_QUERIES = (
    ("dpkg-query", ["--show", "--showformat=${db:Status-Abbrev}\t${Package}\t${Version}\n"]),
    ("rpm", ["--query", "--all", "--queryformat", "ii\t%{NAME}\t%{VERSION}\n"]),
)

LISTERS = tuple(name for name, _words in _QUERIES)

# What belongs to a driver, and what only has a name like it: the container toolkit is another role's.
_DRIVER_NAMES = (
    "*nvidia*",
    "libcuda1*",
    "libcudadebugger1*",
    "cuda-drivers*",
    "glx-alternative-*",
    "glx-diversions",
    "update-glx",
)
_OTHER_NAMES = (
    "*nvidia-container*",
    "nvidia-docker*",
    "nvidia-installer-cleanup",
    "nvidia-cuda-*",
    "*nvidia-egl-wayland*",
    "nvidia-cudnn*",
    "nvidia-vaapi-driver",
    "*-nouveau*",
    # The firmware that nouveau loads, as EL and Debian 13 call it.
    "nvidia-gpu-firmware",
    "firmware-nvidia-graphics",
    # Kernels that Ubuntu makes for machines of NVIDIA, and what belongs to them; the driver's modules for them are linux-modules-nvidia-*.
    "linux-nvidia*",
    "linux-image-*",
    "linux-headers-*",
    "linux-tools-*",
    "linux-modules-[0-9]*",
    "linux-modules-extra-*",
    "baremetal-llm-*",
)

# The module as its makers call it; the kernel has modules of its own for other things of NVIDIA's.
_MODULE = re.compile(r"nvidia(-current)?(-open)?\.ko(\.\w+)?")


class DriverPackages(TypedDict):
    """Packages of a driver and what else of packages it depends on."""

    # Versions by name.
    packages: dict[str, str]
    held: list[str]
    # Of whatever kind, whose installation was interrupted.
    broken: list[str]
    # The version of the C library.
    libc6: str


class ModuleKey(TypedDict, total=False):
    """Who signed the driver's module for the running kernel; empty where there is none."""

    path: str
    signer: str
    # Whether the kernel or the firmware knows the key; None where nobody tells.
    known: bool | None


class Compilers(TypedDict):
    """Major releases of compilers, empty where they are not known: of the one that made the kernel, and of the host's."""

    kernel_gcc: str
    gcc: str
    kernel_clang: str
    clang: str


class HostFacts(DriverPackages):
    """What the decisions about a driver need to know of a host."""

    runfile: bool
    unowned: bool
    kernel: str
    headers: bool
    module: bool
    # Whether the host has each.
    programs: dict[str, bool]
    secure_boot: bool


def is_driver_package(name: str) -> bool:
    """Whether a package is part of a driver."""
    name = name.split(":")[0]
    return any(fnmatch.fnmatchcase(name, one) for one in _DRIVER_NAMES) and not any(
        fnmatch.fnmatchcase(name, one) for one in _OTHER_NAMES
    )


def list_packages(programs: Programs) -> str:
    """The host's packages, as ``parse_packages`` reads them. A system of rpm can have a dpkg-query as well, and knows no package through it."""
    return next((out for name, words in _QUERIES for out in [programs.answer(name, *words)] if out.strip()), "")


def parse_packages(text: str) -> DriverPackages:
    """Packages of a driver, which of them are held, the packages of whatever kind whose installation was interrupted, and the version of libc6.

    ``text`` has lines of a dpkg status (as in ``ii``), name and version, with tabs between them; rpm knows only ``ii``.
    """
    packages: dict[str, str] = {}
    held: list[str] = []
    broken: list[str] = []
    libc = ""
    for line in text.splitlines():
        cells = line.split("\t")
        if len(cells) != 3 or len(cells[0]) < 2:
            continue
        status, name, version = (cell.strip() for cell in cells)
        # n not installed, c only configuration files are left, i installed; all else is somewhere in between.
        if status[1] in "nc":
            continue
        if status[1] != "i":
            broken.append(name)
        if name.split(":")[0] == "libc6":
            libc = version
        if is_driver_package(name):
            packages[name] = version
            if status[0] == "h":
                held.append(name)
    return {"packages": packages, "held": sorted(held), "broken": sorted(broken), "libc6": libc}


def secure_boot(sysfs_root: str = "/sys") -> bool:
    """Whether the firmware lets the kernel load signed modules only. A variable of EFI has four bytes of attributes first."""
    for path in glob.glob(os.path.join(sysfs_root, "firmware/efi/efivars/SecureBoot-*")):
        try:
            with open(path, "rb") as stream:
                return stream.read()[4:5] == b"\x01"
        except OSError:
            return False
    return False


def module_paths(kernel: str, root: str = "/") -> list[str]:
    """The files of the driver's module for a kernel."""
    found = glob.glob(os.path.join(root, "lib/modules", kernel, "**", "nvidia*.ko*"), recursive=True)
    return [path for path in found if _MODULE.fullmatch(os.path.basename(path))]


def kernels(root: str = "/") -> dict[str, bool]:
    """The kernels that have modules on disk, and whether the driver's is among them. What dkms alone left in a folder is no kernel."""
    folders = glob.glob(os.path.join(root, "lib/modules", "*"))
    signs = ("modules.dep", "kernel")
    names = [
        os.path.basename(path) for path in folders if any(os.path.exists(os.path.join(path, one)) for one in signs)
    ]
    return {name: bool(module_paths(name, root)) for name in sorted(names)}


def module_key(programs: Programs, release: str, root: str = "/", proc_root: str = "/proc") -> ModuleKey:
    """Who signed the driver's module for the running kernel, and whether the kernel or the firmware knows that key; None where nobody tells."""
    paths = module_paths(release, root)
    if not paths:
        return {}
    signer = programs.answer("modinfo", "--field=signer", paths[0]).strip()
    keys = read(proc_root, "keys") + programs.answer("mokutil", "--list-enrolled")
    known = signer in keys if signer and keys.strip() else False if not signer else None
    return {"path": paths[0], "signer": signer, "known": known}


def parse_kernel_gcc(text: str) -> str:
    """The major release of the gcc that made a kernel, from its configuration; nothing where another compiler did, or where nobody says."""
    said = re.search(r'^CONFIG_CC_VERSION_TEXT="(?:\S*-)?gcc[^"]*?(\d+)(?:\.\d+)+', text, re.M)
    number = re.search(r"^CONFIG_GCC_VERSION=(\d+)\d{4}$", text, re.M)
    return said.group(1) if said else number.group(1) if number and int(number.group(1)) else ""


def parse_kernel_clang(text: str) -> str:
    """The major release of the clang that made a kernel, from its configuration; nothing where another compiler did."""
    said = re.search(r'^CONFIG_CC_VERSION_TEXT="[^"\n]*?clang version (\d+)', text, re.M)
    return said.group(1) if said else ""


def compilers(programs: Programs, kernel: str, root: str = "/") -> Compilers:
    """The major release of the compiler that made the kernel, and those of the host's own; empty where it is not known, or not there."""
    places = ("lib/modules/{0}/build/.config", "boot/config-{0}", "lib/modules/{0}/config")
    texts = (read(os.path.join(root, place.format(kernel))) for place in places)
    config = next(filter(None, texts), "")
    gcc, clang = (re.match(r"\d+", programs.answer(name, "-dumpversion")) for name in ("gcc", "clang"))
    return {
        "kernel_gcc": parse_kernel_gcc(config),
        "gcc": gcc.group() if gcc else "",
        "kernel_clang": parse_kernel_clang(config),
        "clang": clang.group() if clang else "",
    }


def host_facts(
    listing: str, kernel: str, programs: Mapping[str, bool], root: str = "/", sysfs_root: str = "/sys"
) -> HostFacts:
    """What the decisions need to know of a host.

    ``listing`` are the lines of its packages, ``programs`` says which programs it has.
    """
    found = parse_packages(listing)
    modules = os.path.join(root, "lib/modules", kernel)
    uninstaller = any(
        os.path.exists(os.path.join(root, "usr/bin", name)) for name in ("nvidia-uninstall", "nvidia-installer")
    )
    return {
        **found,
        "runfile": uninstaller,
        # Somebody unpacked a driver, or an installer was stopped before it wrote down what it had installed.
        "unowned": installed_version(root) is not None and not uninstaller and not found["packages"],
        "kernel": kernel,
        "headers": os.path.exists(os.path.join(modules, "build", "Makefile")),
        "module": bool(module_paths(kernel, root)),
        "programs": dict(programs),
        "secure_boot": secure_boot(sysfs_root),
    }
