# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages bring Docker Engine and NVIDIA's container toolkit to which system. Pure: a host's facts in, names out.

Tables, because that is what it is: a distribution has its own name for the engine or none at all, and each publisher has one
address per family of distributions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypedDict

DEB, RPM = "deb", "rpm"
# Of Ansible's fact os_family. Kylin and openEuler are counted to RedHat there, too.
FAMILIES = {"Debian": DEB, "RedHat": RPM}
# Of Ansible's fact pkg_mgr.
MANAGERS = {"apt": DEB, "dnf": RPM, "dnf5": RPM, "yum": RPM}
ARCHITECTURES = {DEB: {"x86_64": "amd64", "aarch64": "arm64"}, RPM: {}}


class System(NamedTuple):
    """A host's system, as far as packages need it."""

    distribution: str  # debian, ubuntu, rocky, kylin linux advanced server
    release: str  # 12, 22.04, 9, v10
    codename: str  # bookworm; empty for rpm
    family: str  # deb, rpm or, where it is neither, empty
    arch: str  # amd64 or x86_64


def release_of(facts: Mapping[str, object]) -> str:
    """The release of a host's system, as bundles name it. Ubuntu and openEuler count by year and month."""
    dotted = str(facts.get("distribution") or "").lower() in ("ubuntu", "openeuler")
    return str(facts.get("distribution_version" if dotted else "distribution_major_version") or "")


def system_of(facts: Mapping[str, object]) -> System:
    """From Ansible's facts of a host (``gather_subset: min``)."""
    distribution = str(facts.get("distribution") or "").lower()
    # The program that is there is right where the name of the family is not: Ansible counts the rpm edition of UOS to Debian.
    family = MANAGERS.get(str(facts.get("pkg_mgr") or "")) or FAMILIES.get(str(facts.get("os_family") or ""), "")
    machine = str(facts.get("architecture") or "")
    codename = str(facts.get("distribution_release") or "") if family == DEB else ""
    arch = ARCHITECTURES.get(family, {}).get(machine, machine)
    return System(distribution, release_of(facts).lower(), codename, family, arch)


# What the static engine links to and calls, and what Ansible's modules for Docker import.
ENGINE_NEEDS = {
    DEB: ["iptables", "libdevmapper1.02.1", "libseccomp2", "python3-requests"],
    RPM: ["iptables", "device-mapper-libs", "libseccomp", "python3-requests"],
}
MODULES_NEED = ["python3-requests"]
# The engine in the distribution's own archive, by distribution and the first release that calls it so.
# https://packages.debian.org/docker.io (the client is a package of its own since trixie), https://packages.ubuntu.com/docker.io,
# https://repo.openeuler.org (docker-engine). RHEL and what is built from it have none since 8.
DISTRIBUTION_ENGINE: tuple[tuple[str, str, list[str]], ...] = (
    ("debian", "13", ["docker.io", "docker-cli"]),
    ("debian", "0", ["docker.io"]),
    ("ubuntu", "0", ["docker.io"]),
    ("openeuler", "0", ["docker-engine"]),
    ("kylin linux advanced server", "0", ["docker-engine"]),
)
# https://docs.docker.com/engine/install/
DOCKER_CE = ["docker-ce", "docker-ce-cli", "containerd.io"]
# Distributions for which Docker publishes packages, and the one whose packages the others of a family take.
DOCKER_REPOSITORIES = {
    "debian": "debian",
    "ubuntu": "ubuntu",
    "redhat": "rhel",
    "rocky": "centos",
    "almalinux": "centos",
    "openeuler": "centos",
    "kylin linux advanced server": "centos",
}
# Which release of CentOS those follow that count otherwise.
CENTOS_RELEASES = {
    ("openeuler", "20.03"): "8",
    ("openeuler", "22.03"): "9",
    ("openeuler", "24.03"): "9",
    ("kylin linux advanced server", "v10"): "8",
    ("kylin linux advanced server", "v11"): "9",
}
# All names under which an engine was packaged; one that is to go goes by any of them.
ENGINE_PACKAGES = {
    DEB: [
        "docker.io",
        "docker-cli",
        "docker-ce",
        "docker-ce-cli",
        "moby-engine",
        "containerd",
        "containerd.io",
        "runc",
    ],
    RPM: [
        "docker",
        "docker-engine",
        "docker-ce",
        "docker-ce-cli",
        "moby-engine",
        "containerd",
        "containerd.io",
        "runc",
    ],
}
# https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html: these four have one version.
TOOLKIT = [
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
]
# What it was called before 1.14, or what came before it.
OLD_TOOLKIT = ["nvidia-docker2", "nvidia-docker", "nvidia-container-runtime"]
TOOLKIT_REPOSITORY = "https://nvidia.github.io/libnvidia-container"
DOCKER_REPOSITORY = "https://download.docker.com"

# First releases of Docker Engine that understand CDI (docker run --device nvidia.com/gpu=all), and that do so by default.
# https://docs.docker.com/build/building/cdi/, https://docs.docker.com/engine/release-notes/28/#2820
CDI_SINCE = (25, 0)
CDI_DEFAULT_SINCE = (28, 2)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def engine_options_for_cdi(engine_version: str) -> dict[str, object] | None:
    """What daemon.json needs for CDI; None where the engine does not know it."""
    numbers = _numbers(engine_version)
    if numbers < CDI_SINCE:
        return None
    return {} if numbers >= CDI_DEFAULT_SINCE else {"features": {"cdi": True}}


def distribution_engine(system: System) -> list[str]:
    """The engine's packages in the distribution's archive; none where it has no engine."""
    for distribution, since, names in DISTRIBUTION_ENGINE:
        if system.distribution == distribution and _numbers(system.release) >= _numbers(since):
            return list(names)
    return []


class Mirror(NamedTuple):
    """What stands in the place of a publisher's address, and where the key of its packages is; empty: the publisher's own."""

    url: str = ""
    key: str = ""


NO_MIRROR = Mirror()


def docker_repository(system: System, mirror: Mirror = NO_MIRROR) -> dict[str, str] | None:
    """Docker's own repository for a system, or a mirror of it; None where there is none."""
    theirs = DOCKER_REPOSITORIES.get(system.distribution)
    if theirs is None:
        return None
    base = "{0}/linux/{1}".format((mirror.url or DOCKER_REPOSITORY).rstrip("/"), theirs)
    key = mirror.key or base + "/gpg"
    if system.family == DEB:
        return {"url": base, "suite": system.codename, "component": "stable", "key": key}
    release = CENTOS_RELEASES.get((system.distribution, system.release), system.release)
    return {"url": "{0}/{1}/{2}/stable".format(base, release, system.arch), "key": key}


def toolkit_repository(system: System, mirror: Mirror = NO_MIRROR) -> dict[str, str] | None:
    """NVIDIA's repository of the container toolkit, or a mirror of it: one for each family."""
    base = (mirror.url or TOOLKIT_REPOSITORY).rstrip("/")
    key = mirror.key or base + "/gpgkey"
    if system.family == DEB:
        return {"url": "{0}/stable/deb/{1}".format(base, system.arch), "suite": "/", "component": "", "key": key}
    if system.family == RPM:
        return {"url": "{0}/stable/rpm/{1}".format(base, system.arch), "key": key}
    return None


class Plan(TypedDict):
    """What is installed on a system."""

    family: str
    packages: list[str]
    # Where they come from; None for whatever the host or the bundle has.
    repository: dict[str, str] | None
    # Packages that are in the way.
    old: list[str]


def package_plan(
    facts: Mapping[str, object], component: str, method: str, version: str = "", mirror: Mirror = NO_MIRROR
) -> Plan:
    """What a method installs on a host. A ``NAME=VERSION`` stands for a package in that version of its publisher.

    ``component`` is docker or toolkit; ``method`` is static, packages, repository, bundle or present.
    """
    system = system_of(facts)
    plan = Plan(family=system.family, packages=[], repository=None, old=[])
    if component == "docker":
        if method == "static":
            plan["packages"] = list(ENGINE_NEEDS.get(system.family, []))
            plan["old"] = list(ENGINE_PACKAGES.get(system.family, []))
        elif method in ("packages", "repository"):
            own = distribution_engine(system) if method == "packages" else []
            plan["repository"] = docker_repository(system, mirror) if method == "repository" else None
            names = own or (DOCKER_CE if system.family else [])
            plan["packages"] = _pinned(names, version, "containerd.io") + MODULES_NEED
        else:
            plan["packages"] = list(MODULES_NEED)
    elif component == "toolkit":
        plan["old"] = list(OLD_TOOLKIT) if method != "present" else []
        if method in ("packages", "repository"):
            plan["repository"] = toolkit_repository(system, mirror) if method == "repository" else None
            plan["packages"] = _pinned(TOOLKIT, version)
    return plan


def _pinned(names: Sequence[str], version: str, *others: str) -> list[str]:
    return ["{0}={1}".format(name, version) if version and name not in others else name for name in names]


# What is installed, and what that leaves to do

_PUBLISHERS = re.compile(r"^(?:\d+:)?([^-+~]+)")


def upstream(version: str) -> str:
    """The publisher's version in that of a package: 28.5.1 of 5:28.5.1-1~debian.12~bookworm, 20.10.24 of 20.10.24+dfsg1-1+b3."""
    match = _PUBLISHERS.match(version)
    return match.group(1) if match else version


def missing_packages(wanted: Iterable[str], installed: Iterable[str], family: str) -> list[str]:
    """What is left to install, as the package manager wants it said.

    ``wanted`` are names, or NAME=VERSION with the publisher's version; ``installed`` are lines of ``NAME installed VERSION``.
    """
    there: dict[str, str] = {}
    for line in installed:
        cells = line.split()
        if len(cells) >= 3 and cells[1] == "installed":
            there[cells[0]] = cells[2]
    pattern = "{0}=*{1}*" if family == DEB else "{0}-{1}*"
    left = []
    for item in wanted:
        name, _equals, version = item.partition("=")
        if name not in there or (version and upstream(there[name]) != version):
            left.append(pattern.format(name, version) if version else name)
    return left
