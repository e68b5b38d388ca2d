# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller alone knows of a fleet, in one archive: the inventory, secrets, reports with what was learned, and what the bundle is.

The archive is encrypted by the caller. What hosts know themselves (records, the copies of keys, figures, weights) is not in it.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused

FORMAT = 1
ABOUT = "backup.json"
# Folders of the controller, by the variable that says where each is.
FOLDERS = ("llm_secrets_dir", "llm_report_dir", "llm_sources_dir", "llm_bundle_dir")
# Of these only small files. The rest is had again, or is a report.
SMALL = ("llm_report_dir", "llm_sources_dir", "llm_bundle_dir")
SMALL_BYTES, FILE_BYTES, ALL_BYTES = 1 << 20, 16 << 20, 128 << 20
# And of a bundle only what is said of it: the files at its root, and the settings of models. Hundreds of packages are small, too.
BUNDLE, TOLD = "llm_bundle_dir", "models"
# What an inventory that is a file has beside it.
BESIDE = ("group_vars", "host_vars", ".llm")
INVENTORY, ELSEWHERE = "inventory", "elsewhere"


class BackupError(Refused):
    """What cannot be kept, or brought back."""


@dataclass(frozen=True)
class Contents:
    """``files``: by the name in the archive, where each lies. ``elsewhere``: variables whose folder is not below the inventory, with that folder."""

    files: Mapping[str, Path]
    elsewhere: Mapping[str, str]


def contents(sources: Sequence[Path], folders: Mapping[str, Path]) -> Contents:
    """What is kept of the inventory's ``sources`` (files and folders) and of the ``folders`` of its variables.

    Raises BackupError: backup_file_large (path, size, most).
    """
    files: dict[str, Path] = {}
    small = [folders[name] for name in SMALL if name in folders]
    for number, source in enumerate(sources, start=1):
        place = INVENTORY if len(sources) == 1 else f"{INVENTORY}-{number}"
        roots = [source] if source.is_dir() else [source, *(source.parent / name for name in BESIDE)]
        base = source if source.is_dir() else source.parent
        for path in (path for root in roots for path in _files_below(root)):
            files[f"{place}/{path.relative_to(base).as_posix()}"] = path
    inside = {path.resolve() for path in files.values()}
    elsewhere = {}
    for name, folder in folders.items():
        found = [path for path in _files_below(folder) if path.resolve() not in inside]
        files |= {f"{ELSEWHERE}/{name}/{path.relative_to(folder).as_posix()}": path for path in found}
        if found:
            elsewhere[name] = str(folder)
    bundle = folders.get(BUNDLE)
    kept = {
        name: path
        for name, path in files.items()
        if not _is_large_extra(path, small) and not (bundle and _is_package(path, bundle))
    }
    for path in kept.values():
        if path.stat().st_size > FILE_BYTES:
            raise BackupError("backup_file_large", path=path, size=path.stat().st_size, most=FILE_BYTES)
    total = sum(path.stat().st_size for path in kept.values())
    if total > ALL_BYTES:
        largest = max(kept.values(), key=lambda path: path.stat().st_size)
        raise BackupError("backup_file_large", path=largest, size=total, most=ALL_BYTES)
    return Contents(kept, elsewhere)


def _is_large_extra(path: Path, small: Iterable[Path]) -> bool:
    return path.stat().st_size > SMALL_BYTES and any(path.is_relative_to(folder) for folder in small)


def _is_package(path: Path, bundle: Path) -> bool:
    parts = path.relative_to(bundle).parts if path.is_relative_to(bundle) else ()
    return len(parts) > 1 and parts[0] != TOLD


def _files_below(root: Path) -> Iterator[Path]:
    """The files at or below a path; links to files count, links to folders are not followed, and what is no file (a socket) is left out."""
    if root.is_file():
        yield root
        return
    for parent, _folders, names in os.walk(root):
        yield from (path for path in (Path(parent) / name for name in sorted(names)) if path.is_file())


def pack(found: Contents, about: Mapping[str, object]) -> bytes:
    """The archive. ``about`` says when and by whom it was made."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        said = json.dumps({**about, "format": FORMAT, "elsewhere": dict(found.elsewhere)}, indent=1).encode()
        _add(archive, ABOUT, said, 0o600)
        for name, path in sorted(found.files.items()):
            # A secret stays one, and a program (an inventory may be one) stays a program.
            _add(archive, name, path.read_bytes(), path.stat().st_mode & 0o700)
    return stream.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    archive.addfile(member, io.BytesIO(content))


def _read(data: bytes) -> dict[str, tuple[bytes, int]]:
    """The files of an archive, each with its permissions: as ``pack`` writes them, and nothing else. ValueError for any other."""
    files: dict[str, tuple[bytes, int]] = {}
    total = 0
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts
            is_plain = (
                member.isreg()
                and parts
                and "/".join(parts) == member.name
                and ".." not in parts
                and parts[:1] != ("/",)
            )
            if not is_plain or "\0" in member.name or member.name in files:
                raise ValueError(repr(member.name))
            total += member.size
            if member.size > FILE_BYTES or total > ALL_BYTES + FILE_BYTES:
                raise ValueError(f"{member.name!r}: {member.size} bytes")
            stream = archive.extractfile(member)
            files[member.name] = (stream.read() if stream else b"", member.mode)
    for name in files:
        if above := next((str(path) for path in PurePosixPath(name).parents if str(path) in files), ""):
            raise ValueError(f"{above!r}, {name!r}")
    return files


def _about(said: object) -> dict[str, object]:
    """What a backup says of itself. ValueError where it is none of ours: each name in ``elsewhere`` becomes a variable."""
    if not isinstance(said, dict) or said.get("format") != FORMAT or isinstance(said["format"], bool):
        raise ValueError(f"format {said.get('format') if isinstance(said, dict) else '?'}")
    elsewhere = said.get("elsewhere")
    if not isinstance(elsewhere, dict) or not elsewhere.keys() <= set(FOLDERS):
        raise ValueError("elsewhere")
    if not all(isinstance(folder, str) for folder in elsewhere.values()):
        raise ValueError("elsewhere")
    return {**said, "who": said["who"] if isinstance(said.get("who"), str) else ""}


def unpack(data: bytes, folder: Path) -> dict[str, Any]:
    """Writes the files of an archive below a folder, which is new or empty. Returns what was said about it.

    Raises BackupError: backup_unreadable (reason), backup_folder_taken (folder). Nothing is written then.
    """
    try:
        files = _read(data)
        about = _about(read_json(files.pop(ABOUT)[0]))
    except (tarfile.TarError, OSError, EOFError, KeyError, ValueError, zlib.error) as error:
        reason = error if isinstance(error, CodedError) else " ".join(str(error).split())[:200]
        raise BackupError("backup_unreadable", reason=reason) from error
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BackupError("backup_folder_taken", folder=folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, (content, mode) in files.items():
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o700), "wb") as stream:
            stream.write(content)
    return about
