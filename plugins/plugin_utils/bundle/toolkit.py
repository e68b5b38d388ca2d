# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA publishes its container toolkit as packages. Hosts unpack one archive of its programs: this makes the one of the other."""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
from collections.abc import Iterator
from typing import IO

from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused

_AR_MAGIC = b"!<arch>\n"
_WANTED = re.compile(r"usr/(bin|lib)/.+")
_PACKAGE = re.compile(r"(.*/)?(libnvidia-container|nvidia-container-toolkit)[^/]*\.deb")
_LEFT_OUT = re.compile(r"-(dev|dbg)_|dbgsym|operator-extensions")


class ToolkitError(Refused):
    """An archive that is not what NVIDIA publishes."""


def members(deb: bytes) -> Iterator[tuple[str, bytes]]:
    """(name, content) of each member of a Debian package. Format: https://manpages.debian.org/bookworm/dpkg-dev/deb.5"""
    if not deb.startswith(_AR_MAGIC):
        raise ToolkitError("toolkit_no_package")
    place = len(_AR_MAGIC)
    while place + 60 <= len(deb):
        header = deb[place : place + 60]
        name, size = header[:16].decode("ascii", "replace").strip().rstrip("/"), int(header[48:58])
        yield name, deb[place + 60 : place + 60 + size]
        place += 60 + size + size % 2


def programs_of(deb: bytes) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """The files and links below usr/bin and usr/lib of a package, by path."""
    for name, content in members(deb):
        if not name.startswith("data.tar"):
            continue
        if name.endswith(".zst"):
            raise ToolkitError("toolkit_zstd")
        found = {}
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for info in archive:
                path = os.path.normpath(info.name).lstrip("./")
                if (info.isfile() or info.issym()) and _WANTED.fullmatch(path) and ".." not in path.split("/"):
                    stream = archive.extractfile(info) if info.isfile() else None
                    found[path] = (info, stream.read() if stream else b"")
        return found
    raise ToolkitError("toolkit_no_data")


def repack(source: str, target: str) -> None:
    """Write the programs of NVIDIA's archive of packages into one archive. The same source gives the same bytes."""
    found: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
    with tarfile.open(source) as archive:
        for info in archive:
            if info.isfile() and _PACKAGE.fullmatch(info.name) and not _LEFT_OUT.search(info.name):
                stream = archive.extractfile(info)
                found.update(programs_of(stream.read() if stream else b""))
    if "usr/bin/nvidia-ctk" not in found:
        raise ToolkitError("toolkit_no_ctk", archive=os.path.basename(source))
    with open(target + ".new", "wb", opener=_own_files.fresh) as out:
        _write(found, out)
    os.replace(target + ".new", target)


def _write(found: dict[str, tuple[tarfile.TarInfo, bytes]], out: IO[bytes]) -> None:
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in sorted(found):
            old, content = found[path]
            info = tarfile.TarInfo(path)
            info.type, info.linkname, info.mode, info.size = old.type, old.linkname, old.mode & 0o755, len(content)
            archive.addfile(info, io.BytesIO(content))
