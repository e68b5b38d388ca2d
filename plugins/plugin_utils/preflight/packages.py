# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps the package manager of a host from installing anything, or from installing what is needed: rows of the table in ``history.py``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import PACKAGES, REPOSITORY
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import (
    DEB,
    MANAGERS,
    RPM,
    package_plan,
    upstream,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.picture import Judgements, Picture, Said
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR, WARNING

# Addresses that give no answer any more, and why: one such entry, and apt or dnf ends with an error as a whole.
# Sources: sources.list(5) of discs; https://kubernetes.io/blog/2023/08/31/legacy-package-repository-deprecation/;
# https://blog.centos.org/2023/04/end-dates-are-coming-for-centos-stream-8-and-centos-linux-7/
GONE = (
    (re.compile(r"^cdrom:"), "package_source_disc"),
    (
        re.compile(r"//apt\.kubernetes\.io\b|//(packages\.cloud\.google\.com/apt|yum\.kubernetes\.io)\S* kubernetes-"),
        "package_source_kubernetes",
    ),
    (re.compile(r"//packages\.cloud\.google\.com/yum/repos/kubernetes-"), "package_source_kubernetes"),
    (re.compile(r"//mirror(list)?\.centos\.org\b"), "package_source_centos"),
    # Debian moves backports away when a release is no longer supported (tuna/issues#2304, July 2025).
    (
        re.compile(r"^(?!\S*//archive\.debian\.org)\S*/debian\S* (stretch|buster|bullseye)-backports(-sloppy)?\b"),
        "package_source_backports",
    ),
)


def _manager(picture: Picture) -> str:
    return MANAGERS.get(str(picture.hosts.facts[picture.name].get("pkg_mgr") or ""), "")


def installs(picture: Picture) -> bool:
    """Whether a role will install packages, or something that needs some."""
    return bool(picture.docker_method or picture.toolkit_method or picture.lacks_driver)


def _unusable(picture: Picture) -> Said:
    """Repositories of a host that asks them, and files of apt of which it can make nothing: offline the bundle takes their place."""
    if picture.hosts.get(picture.name, "offline"):
        return
    severity = ERROR if installs(picture) else WARNING
    for entry in picture.found.get("package_sources") or ():
        asked = f"{entry['url']} {entry['suite']}"
        reason = next((code for pattern, code in GONE if pattern.search(asked)), "")
        reason = "package_source_key" if entry.get("key_missing") else reason
        if reason:
            said = message(reason, picture.hosts.lang, key=entry.get("key_missing"))
            yield {"value": asked, "path": entry["path"], "reason": said, "severity": severity}
    for entry in picture.found.get("package_sources_malformed") or () if _manager(picture) == DEB else ():
        reason = message("package_source_malformed", picture.hosts.lang)
        yield {"value": str(entry["said"]), "path": entry["path"], "reason": reason, "severity": severity}


def _none(picture: Picture) -> Said:
    """A system of rpm that was never registered, or whose repositories somebody switched off: what the roles install needs other packages."""
    nothing = picture.found.get("package_sources") == [] and _manager(picture) == RPM
    if nothing and installs(picture) and not picture.hosts.get(picture.name, "offline"):
        yield {"value": "/etc/yum.repos.d: -"}


def _database(picture: Picture) -> Said:
    if picture.found.get("packages_readable") is False and _manager(picture):
        program = "rpm --query --all" if _manager(picture) == RPM else "dpkg-query --show"
        yield {"value": f"{program}: -", "severity": ERROR if installs(picture) else WARNING}


def _immutable(picture: Picture) -> Said:
    """Packages bring users and groups of their own, and the roles settings."""
    paths = [str(path) for path in picture.found.get("immutable") or ()]
    if paths:
        severity = ERROR if installs(picture) else WARNING
        yield {"value": picture.hosts.names(paths, 4), "path": paths[0], "severity": severity}


def _unfinished(picture: Picture) -> Said:
    broken = [str(name) for name in picture.found.get("packages_broken") or ()]
    if broken:
        # With packages of the driver its role completes what was begun.
        mended = picture.hosts.get(picture.name, "driver_method") in (PACKAGES, REPOSITORY)
        severity = ERROR if installs(picture) and not mended else WARNING
        yield {"value": picture.hosts.names(broken, 4), "severity": severity}


def _wanted(picture: Picture) -> Iterator[str]:
    """Packages that roles will ask for, as NAME or NAME=VERSION."""
    facts = picture.hosts.facts[picture.name]
    version = str(picture.hosts.get(picture.name, "docker_version") or "")
    if picture.docker_method:
        yield from package_plan(facts, "docker", picture.docker_method, version)["packages"]
    if picture.toolkit_method:
        yield from package_plan(facts, "toolkit", picture.toolkit_method)["packages"]
    if _manager(picture) == RPM and picture.lacks_driver:
        yield "kernel-devel"


def _locked(picture: Picture, name: str, version: str) -> dict[str, str]:
    """The versions at which dnf keeps a package, where it is asked for in none of them. Headers are asked for in the version of the running kernel."""
    there, wanted = picture.packages.get(name), version
    if name == "kernel-devel":
        wanted = re.sub(r"\.(x86_64|aarch64)\b.*", "", str(picture.found.get("kernel") or ""))
    locks = [entry for entry in picture.found.get("package_locks") or () if fnmatch.fnmatchcase(name, entry["name"])]
    versions = [str(entry["version"]).rstrip("*") for entry in locks]
    fits = any(one.startswith(wanted) or wanted.startswith(one) for one in versions)
    done = there is not None and upstream(there) == (version or upstream(there))
    return {} if not wanted or not locks or fits or done else {f"{name}-{versions[0]}": str(locks[0]["path"])}


def _excluded(picture: Picture) -> Said:
    """Packages that somebody keeps from the host, or at their version, and that are asked for."""
    excludes: list[Mapping[str, Any]] = list(picture.found.get("package_excludes") or ())
    held = picture.found.get("held") or ()
    found: dict[str, str] = {}
    for item in _wanted(picture):
        name, _equals, version = item.partition("=")
        there = picture.packages.get(name)
        entry = next((entry for entry in excludes if fnmatch.fnmatchcase(name, str(entry["said"]))), None)
        if entry and there is None:
            found[f"{entry['said']} ({name})"] = str(entry["path"])
        elif name in held and there and version and upstream(there) != version:
            found[f"{name} {there} -> {version}"] = "apt-mark hold"
        found |= _locked(picture, name, version)
    for said, where in found.items():
        yield {"value": said, "where": where, "path": where}


def _python(picture: Picture) -> Said:
    if _manager(picture) == DEB and picture.found.get("apt") is False:
        yield {"value": f"Python {picture.found.get('python') or '?'}"}


PACKAGE_MANAGER: Judgements = {
    "python_without_apt": _python,
    "package_source_unusable": _unusable,
    "package_sources_none": _none,
    "package_database_broken": _database,
    "files_immutable": _immutable,
    "packages_unfinished": _unfinished,
    "packages_excluded": _excluded,
}
