# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a host's package manager: repositories, their keys, proxies, excluded and locked packages; and whether Ansible can use the package manager.

This runs on the host. A missing file or program is no error: facts that are not known are empty or None.
"""

from __future__ import annotations

import base64
import binascii
import configparser
import glob
import importlib.util
import os
import re
from typing import Iterable, Iterator, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._proc import read


class PackageSource(TypedDict):
    """An entry of apt, or a repository of dnf."""

    path: str
    url: str
    # Of dnf the name of the repository.
    suite: str
    # The file of the key; empty where the entry names none.
    signed_by: str
    # Of a publisher that has changed its key: the new one, where the host has the old one alone.
    key_missing: str


class Excluded(TypedDict):
    """What a file of settings says: of a package that is excluded its name, or a pattern of names."""

    said: str
    path: str


class Locked(TypedDict):
    """A package that dnf keeps at one version, without its epoch."""

    name: str
    version: str
    path: str


class PackageManager(TypedDict):
    """All of it."""

    package_sources: list[PackageSource]
    # What stands in a file of apt's and is no entry: apt reads none of its files then.
    package_sources_malformed: list[Excluded]
    # Proxies that apt or dnf asks.
    package_proxies: list[Excluded]
    package_excludes: list[Excluded]
    package_locks: list[Locked]
    # Whether a Python that Ansible tries has the module of apt; None where apt has none yet, which Ansible installs then.
    apt: bool | None


# Publishers that sign with another key now: a part of their addresses, the identity of the old key, and that of the new one.
# https://github.com/NVIDIA/cuda-repo-management/issues/4 (April 2022)
ROTATED_KEYS = (("developer.download.nvidia.com/compute/cuda/repos", "F60F4B3D7FA2AF80", "A4B469963BF863CC"),)
_ONE_LINE = re.compile(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)")
_ARMOR = re.compile(rb"-----BEGIN [^-]+-----(.*?)-----END", re.S)
_DNF_CONFIGS = ("etc/dnf/dnf.conf", "etc/yum.conf")
_APT_PROXY = re.compile(r'\bProxy\s+"(\w+://[^"]+)"')
# Of dnf.repository(5): where repositories are looked for.
_REPOSITORIES = ("etc/yum.repos.d/*.repo", "etc/yum/repos.d/*.repo", "etc/distro.repos.d/*.repo")
_LOCKS = ("etc/dnf/plugins/versionlock.list", "etc/yum/pluginconf.d/versionlock.list")
# NAME-EPOCH:VERSION-RELEASE.*, or as yum has it EPOCH:NAME-VERSION-RELEASE.*
_LOCK = re.compile(
    r"(?:\d+:)?(?P<name>\S+?)-(?:\d+:)?(?P<version>[^-\s:]+-[^-\s]+?)(?:\.\*|\.x86_64|\.aarch64|\.noarch)?"
)
_APT_MODULE = "usr/lib/python3/dist-packages/apt_pkg.cpython-*.so"


def _shown(path: str, root: str) -> str:
    return "/" + os.path.relpath(path, root)


# -- keys --------------------------------------------------------------------------------------------------------------
def _key_file(path: str) -> bytes:
    """The packets of a file with keys, taken out of their armor."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(1 << 20)
    except OSError:
        return b""
    for armored in _ARMOR.findall(content):
        # A header, an empty line, the text, and a checksum of its own after "=".
        text = re.split(rb"\r?\n\r?\n", armored, maxsplit=1)[-1]
        try:
            content += base64.b64decode(re.sub(rb"\s|=[A-Za-z0-9+/]{4}\s*$", b"", text), validate=False)
        except (binascii.Error, ValueError):
            continue
    return content


def _keys_of(signed_by: str, root: str) -> bytes:
    """All keys with which an entry may be signed: those of its own files, or the ones that apt trusts for every entry."""
    paths = [os.path.join(root, path.lstrip("/")) for path in signed_by.split(",") if path.startswith("/")]
    if not signed_by:
        folder = os.path.join(root, "etc/apt")
        paths = [os.path.join(folder, "trusted.gpg"), *sorted(glob.glob(os.path.join(folder, "trusted.gpg.d/*")))]
    return b"".join(map(_key_file, paths))


def key_missing(url: str, signed_by: str, root: str = "/") -> str:
    """The new key of a publisher, where the host knows its former one and not that. A key's signature of itself has its identity in it."""
    for part, old, new in ROTATED_KEYS:
        if part in url:
            keys = _keys_of(signed_by, root)
            if bytes.fromhex(old) in keys and bytes.fromhex(new) not in keys:
                return new
    return ""


# -- repositories ------------------------------------------------------------------------------------------------------
def _stanzas(text: str) -> Iterator[dict[str, str]]:
    """The fields of each paragraph of a file of apt, by name in small letters."""
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


def _lists(root: str) -> list[str]:
    """Apt's files of lines."""
    folder = os.path.join(root, "etc/apt")
    return [os.path.join(folder, "sources.list"), *sorted(glob.glob(os.path.join(folder, "sources.list.d/*.list")))]


def _of_lists(root: str) -> Iterator[tuple[str, str, str, str]]:
    """Path, address, suite and key of each line of apt's files of lines."""
    for path in _lists(root):
        for line in read(path).splitlines():
            said = _ONE_LINE.match(line.strip())
            if said:
                options = dict(word.partition("=")[::2] for word in (said.group(1) or "").split())
                yield path, said.group(2), said.group(3), options.get("signed-by", "")


def _of_paragraphs(root: str) -> Iterator[tuple[str, str, str, str]]:
    """The same of apt's files of paragraphs. A key that is written into the entry itself counts as a file of no name."""
    for path in sorted(glob.glob(os.path.join(root, "etc/apt/sources.list.d/*.sources"))):
        for fields in _stanzas(read(path)):
            if fields.get("enabled", "yes") == "no" or "deb" not in fields.get("types", "").split():
                continue
            key = fields.get("signed-by", "").strip()
            for url in fields.get("uris", "").split():
                for suite in fields.get("suites", "").split():
                    yield path, url, suite, "(inline)" if "\n" in key else key


def _settings(path: str) -> configparser.RawConfigParser:
    """A file of dnf; nothing of one that cannot be read."""
    found = configparser.RawConfigParser(strict=False)
    try:
        found.read_string(read(path))
    except (configparser.Error, ValueError):
        return configparser.RawConfigParser()
    return found


def _of_dnf(root: str) -> Iterator[tuple[str, str, str, str]]:
    """The same of the repositories of dnf that are switched on."""
    for path in sorted(path for pattern in _REPOSITORIES for path in glob.glob(os.path.join(root, pattern))):
        settings = _settings(path)
        for name in settings.sections():
            section = settings[name]
            if section.get("enabled", "1").strip().lower() in ("0", "no", "false", "off"):
                continue
            for field in ("mirrorlist", "metalink", "baseurl"):
                for url in re.split(r"[\s,]+", section.get(field, "").strip()):
                    if url:
                        yield path, url, name, ""


def package_sources(root: str = "/") -> list[PackageSource]:
    """The repositories of binary packages that the host knows."""
    return [
        {
            "path": _shown(path, root),
            "url": url.rstrip("/"),
            "suite": suite,
            "signed_by": key,
            "key_missing": key_missing(url, key, root),
        }
        for found in (_of_lists, _of_paragraphs, _of_dnf)
        for path, url, suite, key in found(root)
    ]


def package_sources_malformed(root: str = "/") -> list[Excluded]:
    """The first line of each of apt's files of lines that apt does not take: of a page of the web, or without a suite (sources.list(5))."""
    found: list[Excluded] = []
    for path in _lists(root):
        for line in (line.partition("#")[0].strip() for line in read(path).splitlines()):
            kind = line.split(" ")[0].split("\t")[0]
            if line and kind != "deb-src" and not (kind == "deb" and _ONE_LINE.match(line)):
                found.append({"said": line[:80], "path": _shown(path, root)})
                break
    return found


def package_proxies(root: str = "/") -> list[Excluded]:
    """The proxies that apt or dnf asks (apt-transport-http(1), dnf.conf(5))."""
    found: list[Excluded] = []
    parts = sorted(glob.glob(os.path.join(root, "etc/apt/apt.conf.d/*")))
    for path in (*parts, os.path.join(root, "etc/apt/apt.conf")):
        lines = [line for line in read(path).splitlines() if not line.lstrip().startswith(("//", "#"))]
        found += [{"said": said, "path": _shown(path, root)} for said in _APT_PROXY.findall("\n".join(lines))]
    for name in _DNF_CONFIGS:
        said = _settings(os.path.join(root, name)).get("main", "proxy", fallback="").strip()
        if said and said != "_none_":
            found.append({"said": said, "path": "/" + name})
    return found


# -- what is left out --------------------------------------------------------------------------------------------------
def _excluded_by_dnf(root: str) -> Iterator[Excluded]:
    for name in _DNF_CONFIGS:
        settings = _settings(os.path.join(root, name))
        for field in ("exclude", "excludepkgs"):
            said = settings.get("main", field, fallback="")
            for word in re.split(r"[\s,]+", said):
                if word:
                    yield {"said": word, "path": "/" + name}


def _excluded_by_apt(root: str) -> Iterator[Excluded]:
    """Packages of which no version may be installed. What is said of one origin, or of all packages, leaves others (apt_preferences(5))."""
    folder = os.path.join(root, "etc/apt")
    paths: Iterable[str] = [
        os.path.join(folder, "preferences"),
        *sorted(glob.glob(os.path.join(folder, "preferences.d/*"))),
    ]
    for path in paths:
        for fields in _stanzas(read(path)):
            everywhere = fields.get("pin", "") in ("release *", "version *", 'origin "*"')
            if everywhere and fields.get("pin-priority", "").startswith("-"):
                for word in fields.get("package", "").split():
                    if word != "*":
                        yield {"said": word, "path": _shown(path, root)}


def package_excludes(root: str = "/") -> list[Excluded]:
    """What the package manager is told to leave alone; packages that are held are another matter."""
    return [*_excluded_by_dnf(root), *_excluded_by_apt(root)]


def package_locks(root: str = "/") -> list[Locked]:
    """The versions at which dnf keeps packages; a line that begins with ! keeps one version away, and leaves others."""
    found: list[Locked] = []
    for name in _LOCKS:
        for line in map(str.strip, read(root, name).splitlines()):
            said = _LOCK.fullmatch(line)
            if said and not line.startswith(("#", "!")):
                found.append({"name": said.group("name"), "version": said.group("version"), "path": "/" + name})
    return found


# -- who is at work ----------------------------------------------------------------------------------------------------
def is_busy(proc_root: str = "/proc", root: str = "/") -> bool:
    """Whether somebody installs packages at this moment, and so some are between two states."""
    try:
        inode = os.stat(os.path.join(root, "var/lib/dpkg/lock-frontend")).st_ino
    except OSError:
        return False
    # 1: POSIX ADVISORY WRITE 900 fd:01:1234 0 EOF
    return any(
        cells[5].rpartition(":")[2] == str(inode)
        for line in read(proc_root, "locks").splitlines()
        if len(cells := line.split()) > 5
    )


# -- Ansible -----------------------------------------------------------------------------------------------------------
def apt_usable(root: str = "/") -> bool | None:
    """Whether the Python of this program or the one called /usr/bin/python3 has the module of apt, which is made for one release of Python."""
    if importlib.util.find_spec("apt_pkg"):
        return True
    made = [os.path.basename(path) for path in glob.glob(os.path.join(root, _APT_MODULE))]
    release = re.search(r"python3\.(\d+)$", os.path.realpath(os.path.join(root, "usr/bin/python3")))
    if not made or not release:
        return None
    return any(name.startswith("apt_pkg.cpython-3{0}-".format(release.group(1))) for name in made)


def package_manager(root: str = "/") -> PackageManager:
    """All of it, for the fact llm_host."""
    return {
        "package_sources": package_sources(root),
        "package_sources_malformed": package_sources_malformed(root),
        "package_proxies": package_proxies(root),
        "package_excludes": package_excludes(root),
        "package_locks": package_locks(root),
        "apt": apt_usable(root),
    }
