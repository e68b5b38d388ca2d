# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA driver of a host: how it got there, which one drives the GPUs, and what has to be done. Pure: facts in, actions out.

``host_facts`` reads what the decisions need, ``plan_driver`` takes them: what to remove, to install and to hold, or why not.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils.gpu import installed_version
from ansible_collections.baremetal.llm.plugins.module_utils.planner.data.generations import architecture

# Since R560 NVIDIA's installer prefers the open kernel modules, and takes an option for the kind.
# https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html
OPEN_PREFERRED_SINCE = 560
# "Proprietary Kernel Modules Removed": NVIDIA Driver Installation Guide, release 620.
OPEN_ONLY_SINCE = 620

_VERSION = re.compile(r"(\d{3,4})(\.\d+){1,2}")

# -- where packages come from ------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """Names of packages that make a driver without a desktop. {branch} is that of the driver."""

    common: tuple[str, ...]
    proprietary: tuple[str, ...]
    open: tuple[str, ...]
    fabric_manager: str


class System(NamedTuple):
    """What a family of distributions calls things. {kernel} is the running kernel's release."""

    manager: str
    headers: str
    compiler: tuple[str, ...]
    hold: tuple[str, ...]  # what holding packages needs
    sources: Mapping[str, Source]


# Package lists of Debian and Ubuntu (packages.debian.org, packages.ubuntu.com); for NVIDIA's own repositories its Driver
# Installation Guide, chapters "Kernel Modules" and "Compute-only and Desktop Installation", releases 590 and 615.
SYSTEMS: Mapping[str, System] = {
    "Debian": System(
        "apt",
        "linux-headers-{kernel}",
        ("gcc", "make", "libc6-dev"),
        (),
        {
            "distribution": Source(
                ("nvidia-smi", "libcuda1", "nvidia-persistenced"),
                ("nvidia-kernel-dkms",),
                ("nvidia-open-kernel-dkms",),
                "",
            ),
            "nvidia": Source(
                ("nvidia-driver-cuda", "nvidia-persistenced"),
                ("nvidia-kernel-dkms",),
                ("nvidia-kernel-open-dkms",),
                "nvidia-fabricmanager-{branch}",
            ),
        },
    ),
    "Ubuntu": System(
        "apt",
        "linux-headers-{kernel}",
        ("gcc", "make", "libc6-dev"),
        (),
        {
            "distribution": Source(
                ("nvidia-utils-{branch}-server",),
                ("nvidia-headless-{branch}-server",),
                ("nvidia-headless-{branch}-server-open",),
                "nvidia-fabricmanager-{branch}",
            ),
            "nvidia": Source(
                ("libnvidia-compute-{branch}", "nvidia-utils-{branch}", "nvidia-compute-utils-{branch}"),
                ("nvidia-dkms-{branch}",),
                ("nvidia-dkms-{branch}-open",),
                "nvidia-fabricmanager-{branch}",
            ),
        },
    ),
    "RedHat": System(
        "dnf",
        "kernel-devel-{kernel}",
        ("gcc", "make", "elfutils-libelf-devel"),
        ("python3-dnf-plugin-versionlock",),
        {
            "nvidia": Source(
                ("nvidia-driver-cuda", "nvidia-persistenced"),
                ("kmod-nvidia-latest-dkms",),
                ("kmod-nvidia-open-dkms",),
                "nvidia-fabricmanager",
            ),
        },
    ),
    # NVIDIA has no packages for it: the installer, or packages that somebody else made (nvidia_driver_package_names).
    "openEuler": System("dnf", "kernel-devel-{kernel}", ("gcc", "make", "elfutils-libelf-devel"), (), {}),
}

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
    "nvidia-gpu-firmware",
    "baremetal-llm-*",
)

_FABRIC = re.compile(r"fabric-?manager|nscq|nvlsm|nvidia-imex")
# The module as its makers call it; the kernel has modules of its own for other things of NVIDIA's.
_MODULE = re.compile(r"nvidia(-current)?(-open)?\.ko(\.\w+)?")

# -- what is there -----------------------------------------------------------------------------------------------------


def is_driver_package(name: str) -> bool:
    """Whether a package is part of a driver."""
    name = name.split(":")[0]
    return any(fnmatch.fnmatchcase(name, one) for one in _DRIVER_NAMES) and not any(
        fnmatch.fnmatchcase(name, one) for one in _OTHER_NAMES
    )


def parse_packages(text: str) -> dict[str, Any]:
    """Packages of a driver, which of them are held, and the packages of whatever kind whose installation was interrupted.

    ``text`` has lines of a dpkg status (as in ``ii``), name and version, with tabs between them; rpm knows only ``ii``.
    """
    packages: dict[str, str] = {}
    held: list[str] = []
    broken: list[str] = []
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
        if is_driver_package(name):
            packages[name] = version
            if status[0] == "h":
                held.append(name)
    return {"packages": packages, "held": sorted(held), "broken": sorted(broken)}


def secure_boot(sysfs_root: str = "/sys") -> bool:
    """Whether the firmware lets the kernel load signed modules only. A variable of EFI has four bytes of attributes first."""
    for path in glob.glob(os.path.join(sysfs_root, "firmware/efi/efivars/SecureBoot-*")):
        try:
            with open(path, "rb") as stream:
                return stream.read()[4:5] == b"\x01"
        except OSError:
            return False
    return False


def host_facts(
    listing: str, kernel: str, programs: Mapping[str, bool], root: str = "/", sysfs_root: str = "/sys"
) -> dict[str, Any]:
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
        "module": any(
            _MODULE.fullmatch(os.path.basename(path))
            for path in glob.glob(os.path.join(modules, "**", "nvidia*.ko*"), recursive=True)
        ),
        "programs": dict(programs),
        "secure_boot": secure_boot(sysfs_root),
    }


# -- what is refused ---------------------------------------------------------------------------------------------------

_TEXTS: dict[str, dict[str, str]] = {
    "version_malformed": {
        "en": "nvidia_driver_version {version} is no version of a driver. Allowed: as in 570.195.03.",
        "zh": "nvidia_driver_version {version} 不是驱动版本号。允许的写法：例如 570.195.03。",
    },
    "branch_too_new": {
        "en": "The driver {version} (nvidia_driver_version) does not drive a GPU of compute capability {capability}, which this host "
        "has. R{last} is the last branch that does. Allowed: {last}.x or older; put such a driver into the bundle.",
        "zh": "驱动 {version}（nvidia_driver_version）不支持本主机上计算能力为 {capability} 的 GPU，R{last} 是最后一个支持它的分支。"
        "允许：{last}.x 或更旧的版本；请将这样的驱动放入离线包。",
    },
    "open_module": {
        "en": "nvidia_driver_kernel_module is open, but this host has a GPU of compute capability {capability}: the open kernel "
        "modules drive 7.5 (Turing) and newer. Allowed: proprietary.",
        "zh": "nvidia_driver_kernel_module 为 open，但本主机的 GPU 计算能力为 {capability}：开放内核模块只支持 7.5（Turing）及更新的 GPU。"
        "允许：proprietary。",
    },
    "proprietary_module": {
        "en": "nvidia_driver_kernel_module is proprietary, but this host has a GPU of compute capability {capability}, which only the "
        "open kernel modules drive. Allowed: auto or open.",
        "zh": "nvidia_driver_kernel_module 为 proprietary，但本主机的 GPU 计算能力为 {capability}，只有开放内核模块支持它。"
        "允许：auto 或 open。",
    },
    "proprietary_gone": {
        "en": "nvidia_driver_kernel_module is proprietary, but drivers since R{first} have no such modules (nvidia_driver_version "
        "{version}). Allowed: auto or open, or an older driver.",
        "zh": "nvidia_driver_kernel_module 为 proprietary，但 R{first} 起的驱动不再提供此类模块（nvidia_driver_version 为 {version}）。"
        "允许：auto 或 open，或更旧的驱动。",
    },
    "no_common_module": {
        "en": "No kind of kernel modules drives all GPUs of this host (compute capabilities {capabilities}). Keep one kind of cards "
        "in a host.",
        "zh": "没有任何一种内核模块能同时支持本主机的所有 GPU（计算能力 {capabilities}）。同一主机请只使用同一类显卡。",
    },
    "system_unknown": {
        "en": "nvidia_driver_method is {method}, but which packages make a driver on {system} is not known. Allowed: method runfile, or "
        "name the packages in nvidia_driver_package_names.",
        "zh": "nvidia_driver_method 为 {method}，但不知道 {system} 上的驱动由哪些软件包组成。允许：使用 runfile 方式，"
        "或在 nvidia_driver_package_names 中写明软件包。",
    },
    "source_unknown": {
        "en": "nvidia_driver_package_source is {source}, which {system} does not have. Allowed: {sources}.",
        "zh": "nvidia_driver_package_source 为 {source}，而 {system} 没有这一来源。允许：{sources}。",
    },
    "branch_needed": {
        "en": "The names of the packages on {system} depend on the branch. Set nvidia_driver_version, as in 570.195.03.",
        "zh": "{system} 上的软件包名称取决于驱动分支。请设置 nvidia_driver_version，例如 570.195.03。",
    },
    "secure_boot": {
        "en": "Secure Boot is on: the kernel loads no module that is not signed, so the driver would be installed and not work. Turn "
        "Secure Boot off in the firmware's setup; or sign the modules with a key that is enrolled on the host (mokutil --import) and "
        "set nvidia_driver_signed_modules_enabled to true.",
        "zh": "安全启动（Secure Boot）已开启：内核不会加载未签名的模块，驱动即使安装也无法工作。请在固件设置中关闭安全启动；"
        "或使用已在主机登记的密钥（mokutil --import）为模块签名，并将 nvidia_driver_signed_modules_enabled 设为 true。",
    },
    "headers_missing": {
        "en": "The kernel modules have to be built for the running kernel {kernel}, and its headers (package {package}) are neither on "
        "the host nor in the bundle, which holds {held}. Put the package into the bundle, or boot a kernel whose headers are there.",
        "zh": "需要为正在运行的内核 {kernel} 编译内核模块，但主机和离线包中都没有它的头文件（软件包 {package}）；离线包中有 {held}。"
        "请将该软件包放入离线包，或启动一个已有头文件的内核。",
    },
    "unowned": {
        "en": "There are files of a driver (libnvidia-ml.so.1) that no package owns, and no nvidia-uninstall to remove them: an "
        "installation was interrupted, or the driver was unpacked by hand. Run once with nvidia_driver_method runfile, which writes "
        "over them; then {method} can take over.",
        "zh": "存在不属于任何软件包的驱动文件（libnvidia-ml.so.1），也没有可用来删除它们的 nvidia-uninstall：安装曾被中断，"
        "或驱动是手工解压的。请先以 nvidia_driver_method: runfile 运行一次（会覆盖这些文件），之后即可改用 {method}。",
    },
    "fabric_manager_unknown": {
        "en": "This host has NVSwitches, and its GPUs do not work without the fabric manager; but which package that is on {system} from "
        "the source {source} is not known. Name it in nvidia_driver_fabric_manager_package.",
        "zh": "本主机装有 NVSwitch，没有 fabric manager 则 GPU 无法工作；但不知道 {system}（来源 {source}）上对应哪个软件包。"
        "请在 nvidia_driver_fabric_manager_package 中写明。",
    },
    "nothing_held": {"en": "none", "zh": "（无）"},
}


def _number(capability: str) -> tuple[int, int]:
    major, _dot, minor = str(capability).partition(".")
    return int(major), int(minor or 0)


def _text(code: str, lang: str, **values: Any) -> str:
    texts = _TEXTS[code]
    return texts.get(lang, texts["en"]).format(**values)


def _branch(version: str) -> int | None:
    found = _VERSION.fullmatch(version)
    return int(found.group(1)) if found else None


def driver_problems(
    version: str, capabilities: Iterable[str], kernel_module: str = "auto", lang: str = "en"
) -> list[str]:
    """Why this driver cannot be installed on a host with GPUs of these compute capabilities; empty if it can."""
    branch = _branch(version)
    if branch is None:
        return [_text("version_malformed", lang, version=version or '""')]
    problems = []
    different = sorted(set(capabilities), key=_number)
    for capability in different:
        card = architecture(_number(capability))
        if card.last_branch is not None and branch > int(card.last_branch):
            problems.append(
                _text("branch_too_new", lang, version=version, capability=capability, last=card.last_branch)
            )
        if kernel_module != "auto" and kernel_module not in card.kernel_modules:
            problems.append(_text(kernel_module + "_module", lang, capability=capability))
    if kernel_module == "proprietary" and branch >= OPEN_ONLY_SINCE:
        problems.append(_text("proprietary_gone", lang, version=version, first=OPEN_ONLY_SINCE))
    if kernel_module == "auto" and not problems and not _kinds(branch, different):
        problems.append(_text("no_common_module", lang, capabilities=", ".join(different)))
    return problems


def _kinds(branch: int | None, capabilities: Iterable[str]) -> tuple[str, ...]:
    """The kinds of kernel modules that drive all these GPUs, the one to prefer first."""
    newest = branch is None or branch >= OPEN_PREFERRED_SINCE
    kinds: tuple[str, ...] = ("open", "proprietary") if newest else ("proprietary", "open")
    if branch is not None and branch >= OPEN_ONLY_SINCE:
        kinds = ("open",)
    cards = [architecture(_number(capability)) for capability in capabilities]
    return tuple(kind for kind in kinds if all(kind in card.kernel_modules for card in cards))


# -- what is done ------------------------------------------------------------------------------------------------------


def system_of(distribution: str, os_family: str) -> str:
    """The entry of SYSTEMS for a host, "" if there is none. Kylin counts as the family that Ansible finds."""
    for name in (distribution, os_family):
        if name in SYSTEMS:
            return name
    return ""


def package_name(file: str) -> str:
    """The package in a file: name_version_arch.deb or name-version-release.arch.rpm. For rpm, its version stays in the name."""
    base = os.path.basename(file)
    return base.split("_")[0] if base.endswith(".deb") else re.sub(r"\.rpm$", "", base)


def _headers_in(package: str, files: Sequence[str]) -> bool:
    names = [package_name(file) for file in files]
    # An rpm of a release carries that in its name: kernel-devel-5.14.0-427.13.1.el9_4.x86_64
    return any(name == package or name == package + ".x86_64" or name == package + ".aarch64" for name in names)


def _headers_of(files: Sequence[str]) -> list[str]:
    return [name for name in map(package_name, files) if re.match(r"(linux-headers|kernel-devel)-.*\d", name)]


class _Plan:
    """One host's decisions."""

    def __init__(self, host: Mapping[str, Any], gpus: Mapping[str, Any], wish: Mapping[str, Any], lang: str) -> None:
        self.host = host
        self.driver = gpus["driver"]
        self.nvswitches = int(gpus.get("nvswitches") or 0)
        self.wish = wish
        self.lang = lang
        self.method = str(wish["method"])
        self.version = str(wish.get("version") or "")
        self.branch = _branch(self.version)
        self.capabilities = [str(item) for item in wish.get("capabilities") or [] if item]
        self.system = system_of(str(wish.get("distribution") or ""), str(wish.get("os_family") or ""))
        self.problems: list[str] = []

    def refuse(self, code: str, **values: Any) -> None:
        self.problems.append(_text(code, self.lang, **values))

    def kernel_module(self) -> str:
        """The kind of module to install. What runs already stays, unless it was asked for another."""
        asked = str(self.wish.get("kernel_module") or "auto")
        if asked != "auto":
            return asked
        kinds = _kinds(self.branch, self.capabilities)
        loaded = str(self.driver.get("kernel_module") or "")
        return loaded if loaded in kinds else (kinds or ("proprietary",))[0]

    def source(self) -> tuple[str, Source | None]:
        """Where the packages come from: what was asked for, else the first that the system knows."""
        if not self.system:
            return "", None
        known = SYSTEMS[self.system].sources
        asked = str(self.wish.get("package_source") or "auto")
        name = next(iter(known), "") if asked == "auto" else asked
        return name, known.get(name)

    def packages(self, kind: str) -> list[str]:
        """The driver's packages."""
        named = [str(name) for name in self.wish.get("package_names") or []]
        if named or self.method not in ("packages", "repository"):
            return named
        system = self.wish.get("distribution") or "?"
        name, source = self.source()
        if source is None:
            if self.system and SYSTEMS[self.system].sources:
                sources = ", ".join(SYSTEMS[self.system].sources)
                self.refuse("source_unknown", source=name, system=system, sources=sources)
            else:
                self.refuse("system_unknown", method=self.method, system=system)
            return []
        names = [*(source.open if kind == "open" else source.proprietary), *source.common]
        if self.branch is None and any("{branch}" in one for one in names):
            self.refuse("branch_needed", system=system)
            return []
        return [one.format(branch=self.branch) for one in names]

    def fabric_manager(self) -> str:
        """The package of the fabric manager, "" where no NVSwitch needs it."""
        asked = str(self.wish.get("fabric_manager") or "auto")
        if asked == "disabled" or (asked == "auto" and not self.nvswitches) or self.method == "present":
            return ""
        named = str(self.wish.get("fabric_manager_package") or "")
        name, source = self.source()
        package = named or (source.fabric_manager if source else "")
        if not package or (self.branch is None and "{branch}" in package):
            self.refuse("fabric_manager_unknown", system=self.wish.get("distribution") or "?", source=name or "?")
            return ""
        return package.format(branch=self.branch)

    def driver_packages(self) -> list[str]:
        """Installed packages of the driver proper: the installer has no fabric manager, that is a package in any case."""
        return sorted(name for name in self.host["packages"] if not _FABRIC.search(name))

    def is_installed(self, kind: str, packages: Sequence[str]) -> bool:
        """Whether the wanted driver is on disk as it should be, by the wanted method and by nothing else."""
        host, installed = self.host, self.driver.get("installed")
        if not installed or (self.version and installed != self.version):
            return False
        asked = str(self.wish.get("kernel_module") or "auto")
        loaded = self.driver.get("kernel_module")
        if asked != "auto" and loaded and loaded != kind and not self.driver.get("mismatch"):
            return False
        if self.method == "runfile":
            # An interrupted installation leaves files of a driver that cannot be loaded: nothing loaded means install.
            return bool(self.driver.get("loaded")) and not self.driver_packages()
        return not host["runfile"] and not host["broken"] and all(name in host["packages"] for name in packages)

    def build_packages(self, builds: bool) -> list[str]:
        """What has to come before modules can be built for the running kernel."""
        if not builds or not self.wish.get("build_enabled", True):
            return []
        named = [str(name) for name in self.wish.get("build_packages") or []]
        if named or not self.system:
            return named
        system, programs = SYSTEMS[self.system], self.host["programs"]
        wanted = []
        # The packages of a driver bring a compiler along, through dkms.
        if self.method == "runfile" and not (programs.get("gcc") and programs.get("make")):
            wanted += list(system.compiler)
        if not self.host["headers"]:
            package = system.headers.format(kernel=self.host["kernel"])
            wanted.append(package)
            files = [str(file) for file in self.wish.get("bundled_files") or []]
            if self.wish.get("offline", True) and self.method != "repository" and not _headers_in(package, files):
                held = ", ".join(sorted(_headers_of(files))) or _text("nothing_held", self.lang)
                self.refuse("headers_missing", kernel=self.host["kernel"], package=package, held=held)
        return wanted

    def decide(self) -> dict[str, Any]:
        kind = self.kernel_module()
        if self.version:
            asked = str(self.wish.get("kernel_module") or "auto")
            self.problems += driver_problems(self.version, self.capabilities, asked, self.lang)
        packages = self.packages(kind)
        fabric_manager = self.fabric_manager()
        by_packages = self.method in ("packages", "repository")
        present = self.method == "present"
        install = not present and not self.is_installed(kind, packages)
        # A kernel that came later has no module yet: dkms builds it, the installer has to run again.
        build = by_packages and not install and not self.host["module"] and not self.driver.get("loaded")
        builds = (install or build) and (
            self.method == "runfile" or any("dkms" in one or "headless" in one for one in packages)
        )
        build_packages = self.build_packages(builds)
        if install and self.host["secure_boot"] and not self.wish.get("signed_modules"):
            self.refuse("secure_boot")
        if install and by_packages and self.host["unowned"]:
            self.refuse("unowned", method=self.method)
        missing = fabric_manager not in self.host["packages"]
        return {
            "problems": self.problems,
            "kernel_module": kind,
            "manager": SYSTEMS[self.system].manager if self.system else "",
            "repair": by_packages and bool(self.host["broken"]),
            "uninstall_runfile": by_packages and bool(self.host["runfile"]),
            "purge": self.driver_packages() if self.method == "runfile" else [],
            "install": install,
            "build": build,
            "build_packages": build_packages,
            "packages": packages,
            "hold_needs": list(SYSTEMS[self.system].hold) if self.system and by_packages else [],
            "fabric_manager": fabric_manager,
            "install_fabric_manager": bool(fabric_manager) and (install or missing),
        }


def plan_driver(
    host: Mapping[str, Any], gpus: Mapping[str, Any], wish: Mapping[str, Any], lang: str = "en"
) -> dict[str, Any]:
    """What has to be done on a host, and why it cannot.

    ``host`` is what ``host_facts`` read, ``gpus`` what the module gpu_facts found, and ``wish`` holds ``method``, ``version``,
    ``kernel_module``, ``capabilities``, ``distribution``, ``os_family``, ``package_source``, ``package_names``, ``build_enabled``,
    ``build_packages``, ``bundled_files``, ``offline``, ``signed_modules``, ``fabric_manager`` and ``fabric_manager_package``.
    """
    return _Plan(host, gpus, wish, lang).decide()
