# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systems that hosts run, and what is set in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import FAMILIES, MANAGERS
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Deployment, Hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import Findings


def system_findings(hosts: Hosts, everybody: Sequence[str]) -> Findings:
    """Each distribution, and then each architecture, that is not supported."""
    systems = hosts.limits.get("supported_systems") or {}
    supported = {str(name).lower(): {str(release) for release in releases} for name, releases in systems.items()}
    unsupported: dict[str, list[str]] = {}
    for host in everybody:
        facts = hosts.facts[host]
        family, manager = str(facts.get("os_family") or ""), str(facts.get("pkg_mgr") or "")
        if manager in MANAGERS and FAMILIES.get(family, MANAGERS[manager]) != MANAGERS[manager]:
            system = f"{facts.get('distribution', '?')} {facts.get('distribution_version', '?')}"
            yield hosts.finding("system_family_differs", [host], system, host=host, family=family, manager=manager)
        elif not _releases(hosts, host) & supported.get(str(facts.get("distribution", "")).lower(), set()):
            system = f"{facts.get('distribution', '?')} {facts.get('distribution_version', '?')}"
            unsupported.setdefault(system, []).append(host)
    texts = [f"{name} {', '.join(map(str, releases))}" for name, releases in systems.items()]
    for system, mine in unsupported.items():
        yield hosts.finding(
            "system_not_supported", mine, value=system, names=hosts.names(mine), systems="; ".join(texts)
        )
    yield from _architecture_findings(hosts, everybody)


def _architecture_findings(hosts: Hosts, everybody: Sequence[str]) -> Findings:
    supported = [str(item) for item in hosts.limits.get("supported_architectures") or ()]
    unsupported: dict[str, list[str]] = {}
    for host in everybody:
        architecture = str(hosts.facts[host].get("architecture", "?"))
        if architecture not in supported:
            unsupported.setdefault(architecture, []).append(host)
    for architecture, mine in unsupported.items():
        yield hosts.finding(
            "architecture_not_supported",
            mine,
            value=architecture,
            names=hosts.names(mine),
            architectures=hosts.names(supported),
        )


def _releases(hosts: Hosts, host: str) -> set[str]:
    """What a host's release may be called: 22.04.3, 22.04 or 22."""
    facts = hosts.facts[host]
    found = {str(facts.get("distribution_version", "")), str(facts.get("distribution_major_version", ""))}
    found |= {".".join(version.split(".")[:2]) for version in found}
    return found - {""}


def setting_findings(hosts: Hosts, _deployment: Deployment, host: str) -> Findings:
    """The kernel and SELinux."""
    found = hosts.found(host, "host")
    kernel, least = str(found.get("kernel") or ""), str(hosts.limits.get("kernel_minimum") or "")
    if _kernel(kernel) and _kernel(kernel) < _kernel(least):
        yield hosts.finding("kernel_too_old", [host], value=kernel, host=host, least=least)
    engine = found.get("engine") or {}
    labels = (engine.get("config") or {}).get("selinux-enabled") is True or "selinux-enabled" in (
        engine.get("flags") or {}
    )
    if found.get("selinux") == "enforcing" and labels:
        yield hosts.finding("selinux_labels", [host], value="selinux-enabled: true", host=host)


def _kernel(release: str) -> tuple[int, ...]:
    """6.1.0-18-amd64 as numbers."""
    match = re.match(r"\d+(\.\d+)*", release)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
