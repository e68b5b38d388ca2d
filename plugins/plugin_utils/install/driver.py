# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA driver of a host: which one drives the GPUs, and what has to be done. Pure: facts in, actions out.

``plan_driver`` says what to remove, to install and to hold, or why not; ``decide_driver`` makes the section of the role of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, NotRequired, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import Record, select
from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.module_utils._driver_host import HostFacts, ModuleKey
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import GpuFacts
from ansible_collections.baremetal.llm.plugins.module_utils._gpu_generations import architecture
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.docker import versions
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import method_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import release_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import system_of as packages_system
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import facts_of, text, texts, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import error_text, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import recommended_release

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

# Kernels whose headers are in packages of another name than their system's, by a part of their release. {kernel} is all of it, {release} what stands before
# a plus. Sources: the repositories of Proxmox VE 7 to 9 (pve-headers until kernel 6.2, proxmox-headers since 6.5), of Oracle Linux (UEK), and of Red Hat,
# whose kernels are called RELEASE+rt, RELEASE+64k.
HEADERS = (
    (re.compile(r"^([0-5]\.\d+|6\.[0-4])\..*-pve$"), "pve-headers-{kernel}"),
    (re.compile(r"-pve$"), "proxmox-headers-{kernel}"),
    (re.compile(r"uek\b"), "kernel-uek-devel-{kernel}"),
    (re.compile(r"\.el\d+\w*(?:\.\w+)?\+(?P<flavour>rt|64k|debug)$"), "kernel-{flavour}-devel-{release}"),
)
_HEADER_FILE = re.compile(r"(linux-headers|pve-headers|proxmox-headers|kernel-(\w+-)?devel)-.*\d")
_FABRIC = re.compile(r"fabric-?manager|nscq|nvlsm|nvidia-imex")

# -- what is refused ---------------------------------------------------------------------------------------------------


def capability_numbers(capability: str) -> tuple[int, int]:
    major, _dot, minor = str(capability).partition(".")
    return int(major), int(minor or 0)


def branch_of(version: str) -> int | None:
    found = _VERSION.fullmatch(version)
    return int(found.group(1)) if found else None


def driver_problems(
    version: str, capabilities: Iterable[str], kernel_module: str = "auto", lang: str = "en"
) -> list[str]:
    """Why this driver cannot be installed on a host with GPUs of these compute capabilities; empty if it can."""
    branch = branch_of(version)
    if branch is None:
        return [message("driver_version_malformed", lang, version=version or '""')]
    problems = []
    different = sorted(set(capabilities), key=capability_numbers)
    for capability in different:
        card = architecture(capability_numbers(capability))
        if card.last_branch is not None and branch > int(card.last_branch):
            problems.append(
                message("driver_branch_too_new", lang, version=version, capability=capability, last=card.last_branch)
            )
        if kernel_module != "auto" and kernel_module not in card.kernel_modules:
            problems.append(message("driver_" + kernel_module + "_module", lang, capability=capability))
    if kernel_module == "proprietary" and branch >= OPEN_ONLY_SINCE:
        problems.append(message("driver_proprietary_gone", lang, version=version, first=OPEN_ONLY_SINCE))
    if kernel_module == "auto" and not problems and not _kinds(branch, different):
        problems.append(message("driver_no_common_module", lang, capabilities=", ".join(different)))
    return problems


def _kinds(branch: int | None, capabilities: Iterable[str]) -> tuple[str, ...]:
    """The kinds of kernel modules that drive all these GPUs, the one to prefer first."""
    newest = branch is None or branch >= OPEN_PREFERRED_SINCE
    kinds: tuple[str, ...] = ("open", "proprietary") if newest else ("proprietary", "open")
    if branch is not None and branch >= OPEN_ONLY_SINCE:
        kinds = ("open",)
    cards = [architecture(capability_numbers(capability)) for capability in capabilities]
    return tuple(kind for kind in kinds if all(kind in card.kernel_modules for card in cards))


# -- what is done ------------------------------------------------------------------------------------------------------


def system_of(distribution: str, os_family: str) -> str:
    """The entry of SYSTEMS for a host, "" if there is none. Kylin counts as the family that Ansible finds."""
    for name in (distribution, os_family):
        if name in SYSTEMS:
            return name
    return ""


def deb_key(version: str) -> tuple[object, ...]:
    """A version of a Debian package as something to compare: epoch first, then numbers by value and texts between them, ~ before everything.

    https://www.debian.org/doc/debian-policy/ch-controlfields.html#version
    """
    epoch, colon, rest = version.partition(":")
    upstream, _dash, revision = (rest if colon else version).rpartition("-")
    key = [_part_key(part) for part in ((upstream, revision) if upstream else (revision, "0"))]
    return ((digits(epoch) or 0) if colon else 0, *key)


def _part_key(text: str) -> tuple[tuple[int, int, str], ...]:
    parts = re.findall(r"[0-9]{1,18}|\D|\d", text)
    key = [(0, number, "") if (number := digits(part)) is not None else (_rank(part), 0, part) for part in parts]
    return (*key, (-1, 0, ""))


def _rank(character: str) -> int:
    """A tilde comes before the end, letters before other characters."""
    return -2 if character == "~" else 1 if character.isalpha() else 2


def package_name(file: str) -> str:
    """The package in a file: name_version_arch.deb or name-version-release.arch.rpm. For rpm, its version stays in the name."""
    base = os.path.basename(file)
    return base.split("_")[0] if base.endswith(".deb") else re.sub(r"\.rpm$", "", base)


def headers_of(kernel: str, usual: str) -> str:
    """The package with the headers of a kernel; ``usual`` is what the system calls them."""
    found = ((pattern.search(kernel), name) for pattern, name in HEADERS)
    match, name = next(((match, name) for match, name in found if match), (None, usual))
    values = match.groupdict() if match else {}
    return name.format(kernel=kernel, release=kernel.partition("+")[0], **values)


def _headers_in(package: str, files: Sequence[str]) -> bool:
    names = [package_name(file) for file in files]
    # An rpm of a release carries that in its name: kernel-devel-5.14.0-427.13.1.el9_4.x86_64
    return any(name == package or name == package + ".x86_64" or name == package + ".aarch64" for name in names)


def _headers_of(files: Sequence[str]) -> list[str]:
    return [name for name in map(package_name, files) if _HEADER_FILE.match(name)]


class OnHost(HostFacts, total=False):
    """The same with the key of the driver's module, and files of this collection about the driver."""

    key: ModuleKey
    ours: list[str]


class Found(TypedDict):
    """What the modules driver_facts and gpu_facts found on a host."""

    driver: OnHost
    gpus: GpuFacts


class Wish(TypedDict):
    """What the inventory asks for, and what the bundle has for it."""

    method: str
    version: NotRequired[str]
    kernel_module: NotRequired[str]
    capabilities: NotRequired[Sequence[str | None]]
    distribution: NotRequired[str]
    os_family: NotRequired[str]
    package_source: NotRequired[str]
    package_names: NotRequired[Sequence[str]]
    build_enabled: NotRequired[bool]
    build_packages: NotRequired[Sequence[str]]
    bundled_files: NotRequired[Sequence[str]]
    offline: NotRequired[bool]
    signed_modules: NotRequired[bool]
    fabric_manager: NotRequired[str]
    fabric_manager_package: NotRequired[str]


class DriverPlan(TypedDict):
    """What has to be done on a host, and in ``problems`` why it cannot."""

    problems: list[str]
    kernel_module: str
    manager: str
    repair: bool
    uninstall_runfile: bool
    purge: list[str]
    install: bool
    build: bool
    build_packages: list[str]
    cc: str
    packages: list[str]
    hold_needs: list[str]
    fabric_manager: str
    install_fabric_manager: bool


class _Plan:
    """One host's decisions."""

    def __init__(self, host: OnHost, gpus: GpuFacts, wish: Wish, lang: str) -> None:
        self.host = host
        self.driver = gpus["driver"]
        self.nvswitches = int(gpus.get("nvswitches") or 0)
        self.wish = wish
        self.lang = lang
        self.method = str(wish["method"])
        self.version = str(wish.get("version") or "")
        self.capabilities = [str(item) for item in wish.get("capabilities") or [] if item]
        # Packages of a publisher are named after a branch: the one that is recommended for these GPUs, where nobody names a version.
        self.branch = branch_of(self.version) or (self._recommended() if self.method == "repository" else None)
        self.system = system_of(str(wish.get("distribution") or ""), str(wish.get("os_family") or ""))
        self.problems: list[str] = []

    def _recommended(self) -> int | None:
        try:
            found = [recommended_release(item)["driver_branch_recommended"] for item in self.capabilities]
        except InputError:
            return None
        return min((whole(branch) for branch in found if branch), default=None)

    def refuse(self, code: str, **values: object) -> None:
        self.problems.append(message("driver_" + code, self.lang, **values))

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
        if self.is_unfit():
            return False
        if self.method == "runfile":
            # An interrupted installation leaves files of a driver that cannot be loaded: nothing loaded means install.
            return bool(self.driver.get("loaded")) and not self.driver_packages()
        return not host["runfile"] and not host["broken"] and all(name in host["packages"] for name in packages)

    def is_unfit(self) -> bool:
        """Whether the loaded modules are of a kind that does not drive these GPUs: the same version of the other kind does."""
        loaded = str(self.driver.get("kernel_module") or "")
        kinds = _kinds(self.branch, self.capabilities)
        return bool(loaded and kinds and loaded not in kinds and not self.driver.get("mismatch"))

    def build_packages(self, builds: bool) -> list[str]:
        """What has to come before modules can be built for the running kernel."""
        if not builds or not self.wish.get("build_enabled", True):
            return []
        named = [str(name) for name in self.wish.get("build_packages") or []]
        if named or not self.system:
            return named
        system, programs = SYSTEMS[self.system], self.host["programs"]
        wanted = []
        clang = str(self.host.get("kernel_clang") or "")
        # dkms takes clang where the kernel was made by it (dkms-project/dkms, 3.0.11); the installer takes gcc.
        if clang and (self.method == "runfile" or not self.host.get("clang")):
            self.refuse("clang", kernel=self.host["kernel"], clang=clang)
        # The packages of a driver bring a compiler along, through dkms.
        if self.method == "runfile" and not (programs.get("gcc") and programs.get("make")):
            wanted += list(system.compiler)
            self.check_libc(wanted)
        if self.compiler():
            wanted.append(self.compiler())
        if not self.host["headers"]:
            package = headers_of(self.host["kernel"], system.headers)
            wanted.append(package)
            files = [str(file) for file in self.wish.get("bundled_files") or []]
            if self.needs_bundle() and not _headers_in(package, files):
                held = ", ".join(sorted(_headers_of(files))) or message("driver_no_headers", self.lang)
                self.refuse("headers_missing", kernel=self.host["kernel"], package=package, held=held)
        return wanted

    def compiler(self) -> str:
        """The package of the gcc that made the kernel, where the host's own is older or missing: that one does not know all of the kernel's options.

        Of the systems with one package for each release of gcc; empty where none is needed.
        """
        theirs, own = str(self.host.get("kernel_gcc") or ""), str(self.host.get("gcc") or "")
        if not theirs or not self.system or SYSTEMS[self.system].manager != "apt" or int(own or 0) >= int(theirs):
            return ""
        package = f"gcc-{theirs}"
        files = [package_name(str(file)) for file in self.wish.get("bundled_files") or []]
        if self.needs_bundle() and package not in files:
            # With gcc itself missing, the distribution's own may be that one.
            if not own:
                return ""
            held = ", ".join(sorted(name for name in files if re.fullmatch(r"gcc(-\d+)?", name))) or "-"
            self.refuse("compiler_missing", package=package, kernel=self.host["kernel"], own=own, held=held)
        return package

    def needs_bundle(self) -> bool:
        return bool(self.wish.get("offline", True)) and self.method != "repository"

    def check_libc(self, wanted: Sequence[str]) -> None:
        """libc6-dev needs libc6 in exactly its version, and apt takes no newer one back: that of the bundle must not be older than what is installed."""
        installed = str(self.host.get("libc6") or "")
        bundled = [str(file) for file in self.wish.get("bundled_files") or []]
        versions = [name.split("_")[1] for name in map(os.path.basename, bundled) if name.startswith("libc6-dev_")]
        if "libc6-dev" in wanted and self.needs_bundle() and installed and versions:
            newest = max(versions, key=deb_key)
            if deb_key(newest) < deb_key(installed):
                self.refuse("libc_older", bundled=newest, installed=installed)

    def decide(self) -> DriverPlan:
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
        key = self.host.get("key") or ModuleKey()
        if not install and not present and key.get("known") is False and not self.driver.get("loaded"):
            self.refuse("module_key", path=key["path"], signer=key.get("signer") or "-")
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
            "cc": next((name for name in build_packages if re.fullmatch(r"gcc-\d+", name)), "cc"),
            "packages": packages,
            "hold_needs": list(SYSTEMS[self.system].hold) if self.system and by_packages else [],
            "fabric_manager": fabric_manager,
            "install_fabric_manager": bool(fabric_manager) and (install or missing),
        }


def plan_driver(host: OnHost, gpus: GpuFacts, wish: Wish, lang: str = "en") -> DriverPlan:
    """What has to be done on a host, and why it cannot."""
    return _Plan(host, gpus, wish, lang).decide()


# -- the section of the role -------------------------------------------------------------------------------------------

REPOSITORY = "baremetal-llm-driver"


class _Bundled:
    """What of the bundle is for a method and a system."""

    def __init__(self, variables: Mapping[str, object], method: str, read: Callable[[], Sequence[Record]]) -> None:
        system = packages_system(facts_of(variables))
        of_system = {"distribution": system.distribution, "release": system.release}
        self.match: dict[str, str] = {"method": method}
        if method == "packages":
            self.match |= {**of_system, "arch": system.arch}
        self.used = method in ("runfile", "packages")
        records = read() if self.used else []
        self.drivers = select(records, "driver", self.match)
        self.os_packages = select(records, "os_packages", of_system) if method == "runfile" else []
        self.versions, self.wanted = versions(self.drivers, str(variables["nvidia_driver_version"] or ""))
        self.match["version"] = self.wanted

    @property
    def files(self) -> list[str]:
        """Names of package files that could be installed."""
        records = [*select(self.drivers, "driver", self.match), *self.os_packages]
        return [os.path.basename(record["path"]) for record in records]


def decide_driver(
    variables: Mapping[str, object], read: Callable[[], Sequence[Record]], found: Found, lang: str = "en"
) -> tuple[dict[str, object], str]:
    """The section of the role nvidia_driver, and the text of what is refused.

    ``read`` returns the records of the bundle; ``found`` has ``gpus`` and ``driver``, what the modules gpu_facts and driver_facts found.
    """
    method = _method(variables, read, found)
    bundled = _Bundled(variables, method, read)
    wanted, facts = bundled.wanted, facts_of(variables)
    # What the inventory says of the GPUs, and what the host says: without a driver that is what their PCI ids tell.
    declared = mappings(variables.get("llm_gpus"))
    cards: list[Mapping[str, object]] = [*declared, *mappings(found["gpus"]["gpus"])]
    wish: Wish = {
        "kernel_module": text(variables["nvidia_driver_kernel_module"]),
        "package_source": text(variables["nvidia_driver_package_source"]),
        "package_names": texts(variables["nvidia_driver_package_names"]),
        "build_packages": texts(variables["nvidia_driver_build_packages"]),
        "fabric_manager": text(variables["nvidia_driver_fabric_manager"]),
        "fabric_manager_package": text(variables["nvidia_driver_fabric_manager_package"]),
        "method": method,
        "version": wanted,
        "capabilities": [str(card["compute_capability"]) for card in cards if card.get("compute_capability")],
        "distribution": str(facts["distribution"]),
        "os_family": str(facts["os_family"]),
        "build_enabled": is_true(variables["nvidia_driver_build_enabled"]),
        "bundled_files": bundled.files,
        "offline": is_true(variables["llm_offline"]),
        "signed_modules": is_true(variables["nvidia_driver_signed_modules_enabled"]),
    }
    plan = plan_driver(found["driver"], found["gpus"], wish, lang)
    fabric_manager = [plan["fabric_manager"]] if plan["fabric_manager"] else []
    packages = [*plan["packages"], *fabric_manager]
    hold = is_true(variables["nvidia_driver_hold_enabled"])
    kind, loaded = wish["kernel_module"], str(found["gpus"]["driver"].get("kernel_module") or "")
    # Where nobody asks for a kind, one that drives the cards may have to take the place of one that does not.
    kind = plan["kernel_module"] if kind == "auto" and loaded not in ("", plan["kernel_module"]) else kind
    section = {
        **{name: value for name, value in plan.items() if name != "problems"},
        "method": method,
        # How many GPUs the inventory says there are; none where it does not say.
        "declared": len(declared),
        "wanted": wanted,
        "by_packages": method in ("packages", "repository"),
        "match": bundled.match,
        "repository_name": REPOSITORY,
        "runfile_options": _runfile_options(
            wanted, plan["kernel_module"], texts(variables["nvidia_driver_runfile_options"])
        ),
        "apt_environment": {"APT_CONFIG": f"{variables['llm_host_dir']}/apt/apt.conf"} if method == "packages" else {},
        # With the fabric manager; dnf wants the version with each name.
        "apt_packages": packages,
        "dnf_packages": [f"{name}-{wanted}*" if wanted else name for name in packages],
        "dnf_needs": [*plan["build_packages"], *(plan["hold_needs"] if hold else [])],
        # The kind of module that comes with this run, because it was asked for or the loaded one does not drive the cards; else empty.
        "new_kernel_module": kind if plan["install"] and kind != "auto" else "",
        "left": _left(method, bool(fabric_manager)),
    }
    return section, _refused(variables, method, bundled, plan["install"], plan["problems"], lang)


def _method(variables: Mapping[str, object], read: Callable[[], Sequence[Record]], found: Found) -> str:
    """How the driver comes to a host; one that drives all its GPUs stays where nobody asks for another."""
    driver, wanted = found["gpus"]["driver"], str(variables["nvidia_driver_version"] or "")
    loaded = str(driver.get("loaded") or "")
    cards = [str(card["compute_capability"]) for card in found["gpus"]["gpus"] if card.get("compute_capability")]
    drives_all = found["gpus"].get("source") == "nvidia-smi" and not found["gpus"].get("problems")
    fits = bool(loaded) and not driver.get("mismatch") and drives_all and wanted in ("", loaded)
    files = [str(path) for path in found["driver"].get("ours") or ()]
    ours = "runfile" if any(path.endswith(".run") for path in files) else "repository" if files else ""
    facts = facts_of(variables)
    system = system_of(str(facts["distribution"]), str(facts["os_family"]))
    return method_of(
        "nvidia_driver",
        str(variables["nvidia_driver_method"]),
        ours=ours,
        fits=fits and not driver_problems(loaded, cards),
        bundled=bool(select(read(), "driver")),
        offline=is_true(variables["llm_offline"]),
        has_repository=bool(system and SYSTEMS[system].sources),
    )


def _runfile_options(version: str, kind: str, more: Sequence[str]) -> list[str]:
    """The installer has chosen the kind of module itself, and had an option for it, since 560."""
    options = ["--silent", "--no-x-check", "--no-nouveau-check", "--no-install-compat32-libs"]
    if (branch_of(version) or 0) >= OPEN_PREFERRED_SINCE:
        options.append(f"--kernel-module-type={kind}")
    return [*options, *more]


def _left(method: str, fabric_manager: bool) -> dict[str, list[str]]:
    """What the role leaves on the host; the driver counts with its packages."""
    paths = [
        "/etc/modprobe.d/baremetal-llm-nouveau.conf",
        "/etc/systemd/system/nvidia-persistenced.service",
        "/etc/systemd/system/llm-gpu-settings.service",
        f"/etc/apt/preferences.d/{REPOSITORY}.pref",
        f"/etc/apt/sources.list.d/{REPOSITORY}.sources",
        f"/etc/yum.repos.d/{REPOSITORY}.repo",
        "/etc/dnf/plugins/versionlock.list",
    ]
    present = method == "present"
    units = [] if present else ["nvidia-persistenced.service"]
    return {
        "driver": ["nvidia"],
        "paths": [] if present else paths,
        "units": [*units, *(["nvidia-fabricmanager.service"] if fabric_manager else [])],
    }


def _refused(
    variables: Mapping[str, object], method: str, bundled: _Bundled, install: bool, problems: Sequence[str], lang: str
) -> str:
    """The first thing that is wrong; empty if there is none."""
    facts = facts_of(variables)
    host, where = variables["inventory_hostname"], "group_vars/all.yml"
    shared = {
        "host": host,
        "bundle": variables.get("llm_bundle_dir") or "",
        "method": method,
        "bundled": ", ".join(bundled.versions) or "-",
    }
    if bundled.used and not bundled.wanted:
        system = f"{facts['distribution']} {release_of(facts)}"
        return error_text("driver_version_open", lang, "", where, **shared, system=system)
    if problems:
        return "\n".join(problems)
    if bundled.used and install and bundled.wanted not in bundled.versions:
        value = f"nvidia_driver_version: {bundled.wanted}"
        return error_text("driver_not_bundled", lang, value, where, **shared)
    url = str(variables["nvidia_driver_repository_url"])
    if method == "repository" and url and not variables["nvidia_driver_repository_key"] and not url.startswith("file:"):
        return error_text("driver_repository_unsigned", lang, f"nvidia_driver_repository_url: {url}", where, host=host)
    return ""
