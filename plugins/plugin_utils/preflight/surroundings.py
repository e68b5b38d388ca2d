# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""File systems that engine or collection cannot live on, what stands around the engine and its packages, guards of the system, and who else uses the
host: rows of the table in ``history.py``."""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._picture import CONTAINERD_ROOT, SCHEDULERS
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import PRESENT, REPOSITORY
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import (
    DEB,
    Mirror,
    docker_repository,
    package_plan,
    system_of,
    toolkit_repository,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import numbers_in
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.packages import installs
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.picture import DESKTOP, Judgements, Picture, Said
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR, WARNING

# What cannot be the upper part of an overlay (https://docs.kernel.org/filesystems/overlayfs.html): shares, FUSE, and overlays themselves.
NO_UPPER = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "9p",
    "afs",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "glusterfs",
    "overlay",
    "aufs",
)
NO_UPPER_TOO = ("ecryptfs", "vfat", "exfat", "ntfs", "ntfs3", "squashfs", "iso9660")
# One folder for all hosts that mount it.
SHARED = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs")
MEMORY = ("tmpfs", "ramfs", "rootfs")
# Drivers of the engine that make no overlay of the kernel.
OTHER_DRIVERS = ("vfs", "fuse-overlayfs", "zfs", "btrfs")
DOCKER_ZONE = "docker"
# The first engine whose filter of system calls knows clone3, without which programs of glibc 2.34 and later start no thread
# (https://docs.docker.com/engine/release-notes/20.10/#201010, moby/moby#42836).
OLDEST_ENGINE = (20, 10, 10)


# -- file systems ------------------------------------------------------------------------------------------------------
def _of_engine(picture: Picture) -> Iterator[Mapping[str, Any]]:
    """The file systems of the folders in which the engine keeps images."""
    others = {"/tmp", str(picture.hosts.get(picture.name, "host_dir") or "/opt/llm")}
    if not picture.engine.get("containerd_store"):
        others.add(CONTAINERD_ROOT)
    for entry in picture.mounts():
        if entry["path"] not in others:
            yield entry


def _of_host_dir(picture: Picture) -> Iterator[Mapping[str, Any]]:
    return picture.mounts(str(picture.hosts.get(picture.name, "host_dir") or "/opt/llm"))


def _engine_filesystem(picture: Picture) -> Said:
    if picture.engine.get("storage_driver") in OTHER_DRIVERS:
        return
    asked = picture.config.get("storage-driver")
    for entry in _of_engine(picture):
        kind = str(entry.get("type") or "")
        wrong = kind in (*NO_UPPER, *NO_UPPER_TOO) or kind.startswith("fuse")
        if wrong or (kind == "zfs" and asked == "overlay2"):
            yield {"value": f"{entry['mount']}: {kind}", "path": entry["path"]}


def _shared(picture: Picture) -> Said:
    for entry in _of_host_dir(picture):
        kind = str(entry.get("type") or "")
        if kind in SHARED or kind.removeprefix("fuse.") in SHARED:
            yield {"value": f"{entry['mount']}: {kind}", "path": entry["path"]}


def _silent_share(picture: Picture) -> Said:
    """Whatever looks at such a share hangs; a run does where it has to put something there."""
    silent = [str(place) for place in picture.found.get("shares_silent") or ()]
    if silent:
        needed = any(entry.get("mount") in silent for entry in (*_of_engine(picture), *_of_host_dir(picture)))
        yield {"value": picture.hosts.names(silent, 4), "path": silent[0], "severity": ERROR if needed else WARNING}


# What keeps neither owners nor modes nor links.
NO_OWNERS = ("vfat", "exfat", "ntfs", "ntfs3", "fuseblk", "fuse.exfat", "fuse.ntfs", "fuse.ntfs-3g")


def _without_owners(picture: Picture) -> Said:
    for entry in _of_host_dir(picture):
        if entry.get("type") in NO_OWNERS:
            yield {"value": f"{entry['mount']}: {entry['type']}", "path": entry["path"]}


def _in_memory(picture: Picture) -> Said:
    for entry in _of_host_dir(picture):
        if entry.get("type") in MEMORY:
            yield {"value": f"{entry['mount']}: {entry['type']}", "path": entry["path"]}


def _read_only(picture: Picture) -> Said:
    for entry in (*_of_host_dir(picture), *_of_engine(picture)):
        if "ro" in (entry.get("options") or ()):
            yield {"value": f"{entry['mount']}: ro", "path": entry["path"], "mount": entry["mount"]}


def _temporary(picture: Picture) -> Said:
    """Disks that a cloud takes away when it switches the machine off."""
    for entry in (*_of_host_dir(picture), *_of_engine(picture)):
        if entry.get("temporary"):
            yield {"value": str(entry["mount"]), "path": entry["path"]}


def _missing_mount(picture: Picture) -> Said:
    """File systems that are not mounted, and whose place engine or collection would fill."""
    paths = {
        str(picture.hosts.get(picture.name, "host_dir") or "/opt/llm"),
        str(picture.engine.get("data_root") or "/var/lib/docker"),
    }
    for place in map(str, picture.found.get("unmounted") or ()):
        filled = sorted(path for path in paths if path == place or path.startswith(place + "/"))
        if filled and place != "/":
            yield {"value": f"{place}: -", "mount": place, "path": picture.hosts.names(filled)}


# -- around the engine -------------------------------------------------------------------------------------------------
def _default_runtime(picture: Picture) -> Said:
    """A runtime of all containers whose program is gone. That of NVIDIA comes with the toolkit, where the role may bring it."""
    said = str((picture.flags.get("default-runtime") or {}).get("said") or "")
    name = str(picture.config.get("default-runtime") or said.rpartition("=")[2])
    if name and name in (picture.engine.get("missing_runtimes") or ()):
        comes = name == "nvidia" and picture.hosts.get(picture.name, "toolkit_method") != PRESENT
        yield {"value": f"default-runtime: {name}", "severity": WARNING if comes else ERROR, "runtime": name}


def _zone(picture: Picture) -> Said:
    """docker0 in a zone of firewalld that is not the engine's own."""
    firewalls = picture.hosts.facts[picture.name].get("llm_firewall") or {}
    said = firewalls.get("firewalld") or {}
    zone = ""
    for line in str(said.get("zones") or "").splitlines() if said.get("running") else ():
        if line and not line[0].isspace():
            zone = line.split()[0]
        elif re.match(r"\s+interfaces:.*\bdocker0\b", line) and zone != DOCKER_ZONE:
            severity = WARNING if picture.engine.get("version") else ERROR
            yield {"value": f"{zone}: docker0", "zone": zone, "severity": severity}


def needs_proxy(host: str, no_proxy: str) -> bool:
    """Whether a program of Go asks a proxy for a host (golang.org/x/net/http/httpproxy)."""
    for entry in (part.strip().lower() for part in no_proxy.split(",")):
        name = entry.partition(":")[0] if entry.count(":") == 1 else entry
        if entry == "*" or host.lower() == name.lstrip(".") or (name and host.lower().endswith("." + name.lstrip("."))):
            return False
        try:
            if "/" in entry and ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return False
        except ValueError:
            continue
    return True


def _registries(picture: Picture) -> Iterator[str]:
    """The hosts of registries that belong to the site; whole networks, which insecure-registries may have, are none."""
    mirrors = [
        *(picture.hosts.get(picture.name, "docker_registry_mirrors") or ()),
        *(picture.config.get("registry-mirrors") or ()),
    ]
    plain = [str(text) for text in picture.config.get("insecure-registries") or () if "/" not in str(text)]
    for text in (*map(str, mirrors), *(f"//{text}" for text in plain)):
        try:
            host = urllib.parse.urlsplit(text).hostname
        except ValueError:
            continue
        if host:
            yield host


def _proxy(picture: Picture) -> Said:
    proxy, exceptions = str(picture.engine.get("proxy") or ""), str(picture.engine.get("no_proxy") or "")
    if not proxy or picture.hosts.get(picture.name, "offline"):
        return
    hidden = sorted({host for host in _registries(picture) if needs_proxy(host, exceptions)})
    if hidden:
        yield {"value": f"NO_PROXY={exceptions}", "proxy": proxy, "registries": picture.hosts.names(hidden)}


_LOCAL = ("localhost", "localhost.localdomain", "127.0.0.1", "::1", "0.0.0.0")


def _silent(picture: Picture) -> Said:
    """Proxies on the host itself that nobody runs: apt and dnf ask nobody else, and the engine pulls nothing."""
    listeners = picture.found.get("listeners")
    if listeners is None or picture.hosts.get(picture.name, "offline"):
        return
    ports = {entry["port"] for entry in listeners}
    # The port of a container has no listener where the kernel alone leads there (userland-proxy).
    is_sure = not picture.engine.get("version")
    proxies = [
        *((str(entry["said"]), str(entry["path"]), True) for entry in picture.found.get("package_proxies") or ()),
        (str(picture.engine.get("proxy") or "") if picture.pulls else "", "docker.service", False),
        (str((picture.found.get("environment_proxy") or {}).get("proxy") or ""), "/etc/environment", False),
    ]
    for said, path, of_packages in proxies:
        try:
            at = urllib.parse.urlsplit(said if "//" in said else f"//{said}")
            host, port = at.hostname, at.port
        except ValueError:
            continue
        if host in _LOCAL and port and port not in ports:
            severity = ERROR if of_packages and is_sure and installs(picture) else WARNING
            yield {"value": said, "path": path, "severity": severity}


def _too_old(picture: Picture) -> Said:
    """An engine that stays, and whose containers cannot start threads."""
    version = str(picture.engine.get("version") or "")
    numbers = numbers_in(version)[:3]
    method = picture.docker_method
    wanted = package_plan(picture.hosts.facts[picture.name], "docker", method)["packages"] if method else []
    # Packages that are there are not renewed, unless a version is asked for.
    installed = bool(set(wanted) & set(picture.packages)) and not picture.hosts.get(picture.name, "docker_version")
    if not picture.is_podman and numbers and numbers < OLDEST_ENGINE and (not method or installed):
        yield {"value": version, "least": ".".join(map(str, OLDEST_ENGINE))}


# -- packages and packets ----------------------------------------------------------------------------------------------
def _planned_sources(picture: Picture) -> Iterator[dict[str, str]]:
    """The entries of apt that the roles will write (roles/common/templates/publisher.sources.j2)."""
    system = system_of(picture.hosts.facts[picture.name])
    mirrors = [
        Mirror(str(picture.hosts.get(picture.name, name) or ""))
        for name in ("docker_repository_url", "toolkit_repository_url")
    ]
    for publisher, method, repository in (
        ("docker", picture.docker_method, docker_repository(system, mirrors[0])),
        ("nvidia-container-toolkit", picture.toolkit_method, toolkit_repository(system, mirrors[1])),
    ):
        if method == REPOSITORY and repository and system.family == DEB:
            path, key = f"/etc/apt/sources.list.d/{publisher}.sources", f"/etc/apt/keyrings/{publisher}.asc"
            yield {"path": path, "url": repository["url"], "suite": repository["suite"], "signed_by": key}


def _sources(picture: Picture) -> Said:
    """Two entries for one repository with different keys: apt reads none of its entries then, of whatever repository."""
    planned = list(_planned_sources(picture))
    arch = system_of(picture.hosts.facts[picture.name]).arch
    ours = {entry["path"] for entry in planned}
    there = [entry for entry in picture.found.get("package_sources") or () if entry["path"] not in ours]
    seen: dict[tuple[str, str], Mapping[str, str]] = {}
    for entry in (*there, *planned):
        # As apt puts it in (sources.list(5)).
        repository = (str(entry["url"]).rstrip("/").replace("$(ARCH)", arch), str(entry["suite"]))
        other = seen.setdefault(repository, entry)
        if other["signed_by"] != entry["signed_by"]:
            keys = [f"{each['path']}: {each['signed_by'] or '-'}" for each in (other, entry)]
            severity = ERROR if planned or not picture.engine.get("version") else WARNING
            said = {"value": " != ".join(keys), "url": repository[0], "path": other["path"]}
            yield {**said, "severity": severity}


def _filters(picture: Picture) -> Said:
    """Rules in the old tables of the kernel, though the program iptables, and with it the engine, writes into the new ones; or the other way round."""
    found = picture.found.get("packet_filters") or {}
    tables = [str(table) for table in found.get("legacy") or ()]
    firewalls = picture.hosts.facts[picture.name].get("llm_firewall") or {}
    # firewalld writes into the new tables, unless it is told to let iptables write.
    zones = bool((firewalls.get("firewalld") or {}).get("running")) and found.get("firewalld") != "iptables"
    program = str(found.get("program") or "")
    mixed = (program == "nf_tables" and tables) or (program == "legacy" and zones)
    if mixed and not picture.found.get("container"):
        said = [f"iptables: {program}", *(f"legacy: {table}" for table in tables), *(["firewalld"] if zones else [])]
        yield {"value": picture.hosts.names(said)}


def _lets_in(picture: Picture, networks: Iterable[object]) -> bool:
    """Whether rules before the last one let in each other host of the deployment, by one of its addresses."""
    allowed = []
    for text in map(str, networks):
        try:
            allowed.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            continue
    if not allowed:
        return False
    for host in picture.deployment.seen:
        nics = picture.hosts.facts[host].get("llm_nics_found") or ()
        addresses = [ipaddress.ip_interface(text).ip for nic in nics for text in nic.get("addresses") or ()]
        if host != picture.name and not any(address in network for address in addresses for network in allowed):
            return False
    return True


def _refuses(picture: Picture) -> Said:
    """Rules of somebody else that keep out what other hosts send. Those of ufw and firewalld are opened by the role network."""
    firewalls = picture.hosts.facts[picture.name].get("llm_firewall") or {}
    known = any(
        (firewalls.get(name) or {}).get(state) for name, state in (("ufw", "enabled"), ("firewalld", "running"))
    )
    filters = picture.found.get("packet_filters") or {}
    rule = str(filters.get("refuses") or "")
    if (
        rule
        and not known
        and not _lets_in(picture, filters.get("lets_in") or ())
        and len(picture.deployment.members) > 1
    ):
        yield {"value": rule}


def _hides_host(picture: Picture) -> Said:
    """A proxy for every program of the host, which would be asked for the host itself as well."""
    found = picture.found.get("environment_proxy") or {}
    asked = [
        name for name in ("localhost", "127.0.0.1") if found and needs_proxy(name, str(found.get("no_proxy") or ""))
    ]
    if asked:
        yield {"value": str(found.get("proxy")), "names": picture.hosts.names(asked)}


DNS = 53


def _resolver(picture: Picture) -> Said:
    """Nobody to ask for names, on a host that has to load things from the internet, or a file that leads nowhere."""
    found = picture.found.get("resolver")
    if found is None:
        return
    missing, offline = str(found.get("missing") or ""), picture.hosts.get(picture.name, "offline")
    servers = [str(server) for server in found.get("nameservers") or ()]
    if servers:
        # resolvers on the host itself that nobody runs
        listeners = picture.found.get("listeners")
        runs = listeners is None or any(entry["port"] == DNS for entry in listeners)
        if not runs and not offline and all(server.startswith("127.") or server == "::1" for server in servers):
            yield {"value": f"/etc/resolv.conf: {picture.hosts.names(servers)}"}
    elif missing or not offline:
        yield {"value": f"/etc/resolv.conf -> {missing}" if missing else "/etc/resolv.conf"}


# -- who else uses the host --------------------------------------------------------------------------------------------
def _schedulers(picture: Picture) -> Said:
    units = [name for name in SCHEDULERS if picture.units.get(name) == "active"]
    if units:
        yield {"value": picture.hosts.names(units)}


def _reboots(picture: Picture) -> Said:
    if picture.found.get("automatic_upgrades") and picture.found.get("automatic_reboot"):
        yield {"value": "Automatic-Reboot"}


# -- guards of the system ----------------------------------------------------------------------------------------------
def _apparmor(picture: Picture) -> Said:
    found = picture.found.get("apparmor") or {}
    if found.get("enabled") and found.get("parser") is False:
        yield {"value": "apparmor_parser", "severity": WARNING if picture.engine.get("version") else ERROR}


def _fapolicyd(picture: Picture) -> Said:
    if picture.units.get("fapolicyd.service") == "active":
        folder = str(picture.hosts.get(picture.name, "host_dir") or "/opt/llm")
        yield {"value": "fapolicyd.service", "path": folder}


def _sleep(picture: Picture) -> Said:
    # A masked unit is none that was found.
    if picture.has_desktop and "sleep.target" in picture.units:
        yield {"value": f"{DESKTOP}, sleep.target"}


SURROUNDINGS: Judgements = {
    "engine_filesystem": _engine_filesystem,
    "host_dir_shared": _shared,
    "host_dir_filesystem": _without_owners,
    "host_dir_in_memory": _in_memory,
    "share_silent": _silent_share,
    "mount_read_only": _read_only,
    "mount_missing": _missing_mount,
    "disk_temporary": _temporary,
    "engine_runtime_missing": _default_runtime,
    "engine_zone_conflict": _zone,
    "engine_proxy_hides": _proxy,
    "proxy_silent": _silent,
    "engine_too_old": _too_old,
    "package_sources_conflict": _sources,
    "packet_filters_mixed": _filters,
    "packet_filter_refuses": _refuses,
    "proxy_hides_host": _hides_host,
    "resolver_missing": _resolver,
    "gpus_given_by_others": _schedulers,
    "reboot_by_upgrades": _reboots,
    "apparmor_parser_missing": _apparmor,
    "fapolicyd_active": _fapolicyd,
    "host_may_sleep": _sleep,
}
