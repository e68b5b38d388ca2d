# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layers in an archive of images that an engine saved, and the archive written anew: each layer compressed by itself, or without some layers.

An archive is a plain tar with the list ``manifest.json``, a config for each image, and the layers as members. An engine opens only the layers that it
lacks, by what they and those below hold, and takes compressed ones (moby/moby, image/tarexport/load.go). So an archive without the layers that an
engine has is as good as the whole.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import tarfile
from typing import AbstractSet, Any, BinaryIO, Callable, ContextManager, Dict, NamedTuple, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import CHUNK_BYTES
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping, mappings, read_json, texts

MANIFEST = "manifest.json"
# What an archive may make us keep.
_LONGEST_TEXT = 4 << 20
# How what is compressed already begins: gzip, zstd, xz, bzip2.
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh")
NOTHING: AbstractSet[str] = frozenset()

# What wraps the output while a layer is written, as gzip does.
Wrap = Callable[[BinaryIO], ContextManager[Any]]


class ArchiveError(CodedError):
    """An archive of images that cannot be read."""


class Image(NamedTuple):
    """An image of an archive."""

    # As the archive's list has it.
    entry: dict[str, object]
    references: list[str]
    # Names of members; a layer under its own name, where the list has a link.
    config: str
    layers: list[str]
    # Bytes of each layer.
    sizes: list[int]
    # By layer what it and those below hold; empty where the config does not say.
    chains: list[str]


def chains(contents: Sequence[str]) -> list[str]:
    """What each layer is known by together with all below it, from the SHA-256 of each: the ChainID of the OCI image specification."""
    found: list[str] = []
    for content in contents:
        both = "{0} {1}".format(found[-1], content) if found else ""
        found.append("sha256:" + hashlib.sha256(both.encode()).hexdigest() if both else content)
    return found


def read_images(path: str) -> list[Image]:
    """The images of an archive. ArchiveError if it is compressed as a whole, of another form, or damaged; OSError if the file cannot be read."""
    try:
        with tarfile.open(path, "r:") as archive:
            members = _members(archive)
            return [_image(entry, archive, members) for entry in mappings(_json(archive, members, MANIFEST))]
    except (tarfile.TarError, ValueError, KeyError) as error:
        raise ArchiveError("archive_damaged", reason=error) from error


def needed(images: Sequence[Image], there: AbstractSet[str] = NOTHING) -> dict[str, int]:
    """The layers without those that are there, each once, with its bytes."""
    found: dict[str, int] = {}
    for image in images:
        known = image.chains or [""] * len(image.layers)
        for layer, size, chain in zip(image.layers, image.sizes, known):
            if chain not in there:
                found[layer] = size
    return found


def size_of(images: Sequence[Image], there: AbstractSet[str] = NOTHING) -> int:
    """About how many bytes ``write`` writes when it compresses nothing."""
    return sum(size + 2 * tarfile.BLOCKSIZE for size in needed(images, there).values())


def write(
    source: str,
    target: str,
    images: Sequence[Image],
    there: AbstractSet[str] = NOTHING,
    wrap: Wrap | None = None,
    tell: Callable[[int], None] = lambda size: None,
) -> None:
    """Write an archive of these images without the layers that are there; under its name only when it is complete.

    `wrap` compresses the layers that are not compressed yet. The same images give the same bytes. The function calls ``tell`` with the bytes of each piece
    that it has read.
    """
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    with tarfile.open(source, "r:") as archive, open(target + ".new", "w+b", opener=_own_files.fresh) as out:
        members = _members(archive)
        for config in dict.fromkeys(image.config for image in images):
            _add(out, config, io.BytesIO(_text(archive, members, config)))
        for layer in needed(images, there):
            body = body_of(archive, members[layer])
            start = body.read(8)
            body.seek(0)
            _add(out, layer, body, None if start.startswith(_COMPRESSED) else wrap, tell)
        listed = [{**image.entry, "Layers": image.layers} for image in images]
        _add(out, MANIFEST, io.BytesIO(json.dumps(listed, sort_keys=True).encode()))
        out.write(bytes(2 * tarfile.BLOCKSIZE))
        out.flush()
        os.fsync(out.fileno())
    os.replace(target + ".new", target)


Members = Dict[str, tarfile.TarInfo]


def _members(archive: tarfile.TarFile) -> Members:
    """The files of an archive by name; links to them count as these."""
    every = {posixpath.normpath(member.name): member for member in archive.getmembers()}
    found: Members = {}
    for name, member in every.items():
        folder = posixpath.dirname(name)
        at = member
        if member.issym():
            at = every.get(posixpath.normpath(posixpath.join(folder, member.linkname)), member)
        elif member.islnk():
            at = every.get(posixpath.normpath(member.linkname), member)
        if at.isreg():
            found[name] = at
    return found


def _image(entry: Any, archive: tarfile.TarFile, members: Members) -> Image:
    config, names = entry.get("Config"), texts(entry.get("Layers"))
    if not isinstance(config, str):
        raise ArchiveError("archive_no_index")
    layers = []
    for name in names:
        if posixpath.normpath(name) not in members:
            raise ArchiveError("archive_no_layer", name=name)
        layers.append(members[posixpath.normpath(name)])
    system = mapping(mapping(_json(archive, members, posixpath.normpath(config))).get("rootfs"))
    contents = texts(system.get("diff_ids"))
    return Image(
        entry=dict(entry),
        references=texts(entry.get("RepoTags")),
        config=posixpath.normpath(config),
        layers=[posixpath.normpath(layer.name) for layer in layers],
        sizes=[layer.size for layer in layers],
        chains=chains(contents) if len(contents) == len(layers) else [],
    )


def body_of(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO:
    """What a member of an archive holds. ArchiveError if it is no file."""
    body = archive.extractfile(member)
    if body is None:
        raise ArchiveError("archive_no_content", name=member.name)
    return body  # type: ignore[return-value]


def _text(archive: tarfile.TarFile, members: Members, name: str) -> bytes:
    if name not in members:
        raise ArchiveError("archive_no_index" if name == MANIFEST else "archive_missing", name=name)
    if members[name].size > _LONGEST_TEXT:
        raise ArchiveError("archive_much_text", size=members[name].size)
    return body_of(archive, members[name]).read()


def _json(archive: tarfile.TarFile, members: Members, name: str) -> Any:
    try:
        return read_json(_text(archive, members, name))
    except ValueError as error:
        raise ArchiveError("archive_no_json", name=name, reason=error) from error


def _add(
    out: BinaryIO,
    name: str,
    body: BinaryIO,
    wrap: Wrap | None = None,
    tell: Callable[[int], None] = lambda size: None,
) -> None:
    """A member. How large it is stands in front of it and is known behind it."""
    member = tarfile.TarInfo(name)
    begins = out.tell()
    out.write(bytes(len(member.tobuf(tarfile.GNU_FORMAT))))
    starts = out.tell()
    if wrap is None:
        _copy(body, out, tell)
    else:
        with wrap(out) as packed:
            _copy(body, packed, tell)
    member.size = out.tell() - starts
    out.write(bytes(-member.size % tarfile.BLOCKSIZE))
    ends = out.tell()
    out.seek(begins)
    out.write(member.tobuf(tarfile.GNU_FORMAT))
    out.seek(ends)


def _copy(body: BinaryIO, out: Any, tell: Callable[[int], None]) -> None:
    while True:
        piece = body.read(CHUNK_BYTES)
        if not piece:
            return
        out.write(piece)
        tell(len(piece))
