# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a host's package manager: repositories, their keys and excluded packages; and whether Ansible can use the package manager.

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
    """A package that the settings exclude: its name, or a pattern of names."""

    said: str
    path: str


class PackageManager(TypedDict):
    """All of it."""

    package_sources: list[PackageSource]
    package_excludes: list[Excluded]
    # Whether a Python that Ansible tries has the module of apt; None where apt has none yet, which Ansible installs then.
    apt: bool | None


# Publishers that sign with another key now: a part of their addresses, the identity of the old key, and that of the new one.
# https://github.com/NVIDIA/cuda-repo-management/issues/4 (April 2022)
ROTATED_KEYS = (("developer.download.nvidia.com/compute/cuda/repos", "F60F4B3D7FA2AF80", "A4B469963BF863CC"),)
_ONE_LINE = re.compile(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)")
_ARMOR = re.compile(rb"-----BEGIN [^-]+-----(.*?)-----END", re.S)
_DNF_CONFIGS = ("etc/dnf/dnf.conf", "etc/yum.conf")
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


def _of_lists(root: str) -> Iterator[tuple[str, str, str, str]]:
    """Path, address, suite and key of each line of apt's files of lines."""
    folder = os.path.join(root, "etc/apt")
    paths = [os.path.join(folder, "sources.list"), *sorted(glob.glob(os.path.join(folder, "sources.list.d/*.list")))]
    for path in paths:
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
    for path in sorted(glob.glob(os.path.join(root, "etc/yum.repos.d/*.repo"))):
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
        "package_excludes": package_excludes(root),
        "apt": apt_usable(root),
    }
