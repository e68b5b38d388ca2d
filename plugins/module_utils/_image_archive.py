# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is inside the images of an archive (docker save, or an OCI layout in a tar): versions, and the GPU code of its libraries.

The archive is read once, forward, and nothing is unpacked to disk: each layer is read as it flows by, and the manifest, which comes
last, says which layers make which image. The archive and its layers may be plain tar, gzip, or zstd where a reader for that is there.
"""

from __future__ import annotations

import gzip
import io
import lzma
import posixpath
import re
import tarfile
import zlib
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Protocol, Sequence, Union

from ansible_collections.baremetal.llm.plugins.module_utils import _cuda_compatibility as cuda_compatibility
from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping, read_json
from ansible_collections.baremetal.llm.plugins.module_utils._content import texts as texts_of
from ansible_collections.baremetal.llm.plugins.module_utils._cuda_binaries import (
    CHUNK_BYTES,
    BinaryError,
    Code,
    Stream,
    merge,
    read_code,
)
from ansible_collections.baremetal.llm.plugins.module_utils._image_layers import ArchiveError, body_of

# Raised with what this reader learns: facts in a manifest that an older one wrote are read again.
READER = 1

# Limits on what an archive may make us keep.
_LONGEST_READ = 16 << 20
_LONGEST_TEXT = 4 << 20
_MOST_TEXT = 128 << 20
# Letters of a name that an archive says, in a message.
_SHOWN = 200
_MOST_FILES = 200_000

# The libraries whose code matters, by where they lie. vLLM <= 0.3 lay in /workspace/vllm, so the folder above is not asked for.
_LIBRARIES = tuple(
    (name, re.compile(r"(?:^|/)" + pattern))
    for name, pattern in (
        ("vllm", r"vllm/_C[^/]*\.so$"),
        ("vllm_moe", r"vllm/_moe_C[^/]*\.so$"),
        ("vllm_flash_attn", r"vllm/vllm_flash_attn/[^/]+\.so$"),
        ("torch", r"torch/lib/libtorch_cuda[^/]*\.so$"),
        ("xformers", r"xformers/(?:[^/]+/)?_C[^/]*\.so$"),
        ("flashinfer", r"flashinfer[^/]*/.+\.(?:so|cubin)$"),
    )
)

_PACKAGES = ("vllm", "torch", "ray", "xformers", "flashinfer", "transformers", "triton")
_METADATA = re.compile(r"(?:^|/)(?:[^/]+-packages)/([A-Za-z0-9_.]+)-[^/]+\.dist-info/METADATA$")
_TORCH_VERSION = re.compile(r"-packages/torch/version\.py$")
_PYTHON = re.compile(r"(?:^|/)python(\d+\.\d+)/[^/]+-packages/")
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"

# What tarfile and the decompressors raise on damaged input.
_DAMAGE = (tarfile.TarError, ValueError, OverflowError, EOFError, OSError, zlib.error, lzma.LZMAError, RecursionError)

Fact = Union[Code, str]


class Source(Stream, Protocol):
    """What is read forward: a file, the answer of an engine, or a part of an archive."""

    def seekable(self) -> bool: ...

    def seek(self, offset: int, whence: int, /) -> int: ...


class _Layer(NamedTuple):
    """What a layer adds and what it removes."""

    facts: dict[str, dict[str, Fact]]  # path -> what: library, "version:<package>", "cuda", ...
    removed: set[str]  # paths, with all below
    emptied: set[str]  # folders whose content of the layers below is hidden


class _Forward(io.RawIOBase):
    """A stream that is only read forward, in pieces of bounded size."""

    def __init__(self, stream: Source, start: bytes = b"") -> None:
        super().__init__()
        self._stream, self._start, self._at = stream, start, 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def peek(self, count: int) -> bytes:
        while len(self._start) < count:
            piece = self._stream.read(count - len(self._start))
            if not piece:
                break
            self._start += piece
        return self._start[:count]

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0 or size > _LONGEST_READ:
            raise ArchiveError("archive_header", size=size, most=_LONGEST_READ)
        pieces, left = [self._start[:size]], size - len(self._start[:size])
        self._start = self._start[size:]
        while left:
            piece = self._stream.read(left)
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        data = b"".join(pieces)
        self._at += len(data)
        return data

    def seekable(self) -> bool:
        return True  # forward

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        count = offset if whence == io.SEEK_CUR else offset - self._at
        if whence == io.SEEK_END or count < 0:
            raise ArchiveError("archive_backwards")
        ahead = min(count, len(self._start))
        self._start, count = self._start[ahead:], count - ahead
        self._at += ahead
        if self._stream.seekable():
            # What lies in a file, or in a tar archive in a file, is not even read.
            self._stream.seek(count, io.SEEK_CUR)
            self._at += count
            return self._at
        while count:
            skipped = len(self.read(min(CHUNK_BYTES, count)))
            if not skipped:
                break
            count -= skipped
        return self._at


def _zstd() -> Callable[[Any], Source] | None:
    """A reader of zstd: of Python itself (3.14), or of the library zstandard."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        opened: Callable[[Any], Source] = zstd.ZstdFile
        return opened
    except ImportError:
        pass
    try:
        import zstandard  # type: ignore[import-not-found,unused-ignore]

        return lambda stream: zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
    except ImportError:
        return None


def _plain(stream: Source) -> _Forward:
    """A stream without its compression."""
    forward = _Forward(stream)
    start = forward.peek(4)
    if start[:2] == b"\x1f\x8b":
        return _Forward(gzip.GzipFile(fileobj=forward, mode="rb"))
    if start == b"\x28\xb5\x2f\xfd":
        reader = _zstd()
        if reader is None:
            raise ArchiveError("archive_zstd")
        return _Forward(reader(forward))
    return forward


def _members(stream: _Forward) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The members of a tar archive, without keeping them."""
    with tarfile.open(fileobj=stream, mode="r:", errors="replace") as archive:
        while True:
            member = archive.next()
            if member is None:
                return
            yield archive, member
            archive.members.clear()  # type: ignore[attr-defined]


def _path(name: str) -> str:
    return posixpath.normpath("/" + name).lstrip("/")


# One layer


def read_layer(stream: Source) -> _Layer:
    """What a layer holds of interest, and what it takes away from the layers below."""
    layer = _Layer({}, set(), set())
    for archive, member in _members(_plain(stream)):
        path = _path(member.name)
        folder, name = posixpath.split(path)
        if name == _OPAQUE:
            layer.emptied.add(folder)
        elif name.startswith(_WHITEOUT):
            layer.removed.add(posixpath.join(folder, name[len(_WHITEOUT) :]))
        elif _wanted(path):
            # Whatever it is, it replaces what lay here.
            layer.facts[path] = _facts(path, archive, member)
        if len(layer.facts) + len(layer.removed) + len(layer.emptied) > _MOST_FILES:
            raise ArchiveError("archive_many_files", most=_MOST_FILES)
    return layer


def _library(path: str) -> str | None:
    return next((name for name, pattern in _LIBRARIES if pattern.search(path)), None)


def _wanted(path: str) -> bool:
    return bool(_METADATA.search(path) or _TORCH_VERSION.search(path) or _library(path))


def _facts(path: str, archive: tarfile.TarFile, member: tarfile.TarInfo) -> dict[str, Fact]:
    if member.islnk():
        # The same file under a second name, in the same layer.
        return {"link": _path(member.linkname)}
    if not member.isreg():
        return {}
    library = _library(path)
    if library:
        try:
            return {library: read_code(body_of(archive, member), member.size)}
        except BinaryError as error:
            raise ArchiveError("archive_binary", path=path, reason=error) from error
    if member.size > _LONGEST_TEXT:
        raise ArchiveError("archive_large_text", path=path, size=member.size)
    text = body_of(archive, member).read().decode("utf-8", "replace")
    if _TORCH_VERSION.search(path):
        found = re.search(r"""^cuda\b[^=]*=\s*['"]([\d.]+)['"]""", text, re.MULTILINE)
        whole = re.search(r"""^__version__\s*=\s*['"]([^'"]+)['"]""", text, re.MULTILINE)
        return {
            **({"torch_cuda": found.group(1)} if found else {}),
            **({"torch_build": whole.group(1)} if whole else {}),
        }
    metadata = _METADATA.search(path)
    package = metadata.group(1).lower().replace("-", "_").replace("_python", "") if metadata else ""
    version = re.search(r"^Version:\s*(\S+)", text.partition("\n\n")[0], re.MULTILINE)
    return {"version:" + package: version.group(1)} if package in _PACKAGES and version else {}


# The archive


def read_archive(stream: Source) -> list[dict[str, Any]]:
    """The images of an archive with all that is known of each. Raise ArchiveError if it cannot be read."""
    part = ""  # the archive itself
    layers: dict[str, _Layer] = {}
    texts: dict[str, bytes] = {}
    links: dict[str, str] = {}
    try:
        for archive, member in _members(_plain(stream)):
            part = _path(member.name)
            if member.issym() or member.islnk():
                target = posixpath.join(posixpath.dirname(part), member.linkname) if member.issym() else member.linkname
                links[part] = _path(target)
            elif member.isreg() and member.size:
                body = _Forward(body_of(archive, member))
                if body.peek(1) in b"{[":
                    texts[part] = _text(body, member.size, sum(map(len, texts.values())))
                elif _is_layer(body):
                    layers[part] = read_layer(body)
            if len(links) + len(texts) + len(layers) > _MOST_FILES:
                raise ArchiveError("archive_many_parts", most=_MOST_FILES)
            part = ""
        return _said_images(texts, layers, links)
    except ArchiveError as error:
        if not part:
            raise
        raise ArchiveError("archive_part", part=part, reason=error) from error
    except _DAMAGE as error:
        if not part:
            raise ArchiveError("archive_damaged", reason=error) from error
        raise ArchiveError("archive_part_damaged", part=part, reason=error) from error


def _said_images(
    texts: Mapping[str, bytes], layers: Mapping[str, _Layer], links: Mapping[str, str]
) -> list[dict[str, Any]]:
    try:
        return [_image(image, layers, links) for image in _images(texts)]
    except (KeyError, TypeError, AttributeError) as error:  # a list where a mapping belongs, and so on
        raise ArchiveError("archive_malformed_index", reason=repr(error)) from error


def _text(body: _Forward, size: int, so_far: int) -> bytes:
    if size > _LONGEST_TEXT or so_far + size > _MOST_TEXT:
        raise ArchiveError("archive_much_text", size=size)
    return body.read(size)


def _is_layer(body: _Forward) -> bool:
    """A tar archive or something compressed; a docker archive holds nothing else that is."""
    start = body.peek(512)
    if not any(start):
        return True  # an empty one
    return start[:2] == b"\x1f\x8b" or start[:4] == b"\x28\xb5\x2f\xfd" or start[257:262] == b"ustar"


class _Description(NamedTuple):
    references: list[str]
    config_name: str
    config: Mapping[str, Any]
    layers: list[str]


def _json(texts: Mapping[str, bytes], name: str) -> Any:
    if name not in texts:
        raise ArchiveError("archive_missing", name=name[:_SHOWN])
    try:
        return read_json(texts[name].decode("utf-8"))
    except ValueError as error:
        raise ArchiveError("archive_no_json", name=name, reason=error) from error


def _images(texts: Mapping[str, bytes]) -> Iterator[_Description]:
    """What the archive says of its images: docker's own list, else the index of the OCI layout."""
    if "manifest.json" in texts:
        for entry in _json(texts, "manifest.json"):
            config = _path(entry["Config"])
            references = [*(entry.get("RepoTags") or [])]
            if isinstance(entry.get("RepoTags"), str) or not all(isinstance(each, str) for each in references):
                raise TypeError("RepoTags")
            yield _Description(references, config, _json(texts, config), [_path(name) for name in entry["Layers"]])
    elif "index.json" in texts:
        yield from _oci_images(texts, _json(texts, "index.json"), [], 0)
    else:
        raise ArchiveError("archive_no_index")


def _oci_images(
    texts: Mapping[str, bytes], index: Mapping[str, Any], references: list[str], depth: int
) -> Iterator[_Description]:
    for entry in index["manifests"]:
        platform = entry.get("platform") or {}
        name = _blob(entry["digest"])
        # Not for a machine: what a builder says about how it built.
        if platform.get("os") == "unknown" or name not in texts:
            continue
        notes = entry.get("annotations") or {}
        mine = [
            notes[key] for key in ("io.containerd.image.name", "org.opencontainers.image.ref.name") if notes.get(key)
        ]
        inner = _json(texts, name)
        if "manifests" in inner and depth < 3:
            yield from _oci_images(texts, inner, mine[:1] or references, depth + 1)
        elif "layers" in inner and "config" in inner:
            config = _blob(inner["config"]["digest"])
            layers = [_blob(layer["digest"]) for layer in inner["layers"]]
            yield _Description(mine[:1] or references, config, _json(texts, config), layers)


def _blob(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/", 1)


# One image


def _image(said: _Description, layers: Mapping[str, _Layer], links: Mapping[str, str]) -> dict[str, Any]:
    files: dict[str, dict[str, Fact]] = {}
    for name in said.layers:
        layer = layers.get(name) or layers.get(links.get(name, ""))
        if layer is None:
            raise ArchiveError("archive_no_layer", name=name)
        _apply(layer, files)
    digest = re.search(r"[0-9a-f]{64}", said.config_name)
    settings = said.config.get("config") or {}
    environment = dict(entry.partition("=")[::2] for entry in settings.get("Env") or [])
    return {
        "references": said.references,
        "id": "sha256:" + digest.group(0) if digest else said.config_name,
        **_platform(said.config),
        **describe(files, environment),
    }


def _platform(config: Mapping[str, object]) -> dict[str, str]:
    """For which machines an image is made, as in linux/amd64; nothing where it does not say."""
    system, machine = config.get("os"), config.get("architecture")
    return {"platform": "{0}/{1}".format(system, machine)} if system and machine else {}


def _apply(layer: _Layer, files: dict[str, dict[str, Fact]]) -> None:
    """Lay a layer over those below it."""
    for path in list(files):
        above = _above(path)
        if path in layer.removed or not layer.removed.isdisjoint(above) or not layer.emptied.isdisjoint(above):
            del files[path]
    for path, facts in layer.facts.items():
        target = facts.get("link")
        files[path] = layer.facts.get(target, {}) if isinstance(target, str) else facts


def _above(path: str) -> list[str]:
    """The folders that a path lies in, the root included."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts))]


def describe(files: Mapping[str, Mapping[str, Fact]], environment: Mapping[str, str]) -> dict[str, object]:
    """What the files of an image and its environment tell, as the manifest records it."""
    codes: dict[str, list[Code]] = {}
    said: dict[str, str] = {}
    for path in sorted(files):
        for what, fact in files[path].items():
            if isinstance(fact, Code):
                codes.setdefault(what, []).append(fact)
            else:
                said[what] = fact
                if what == "version:vllm":
                    python = _PYTHON.search(path)
                    said["python"] = python.group(1) if python else ""
    merged = {name: merge(found) for name, found in sorted(codes.items())}
    # The name of a build tells its CUDA, which its metadata leaves out: 2.6.0+cu124.
    said["version:torch"] = said.get("torch_build") or said.get("version:torch") or ""
    said["cuda"] = said.get("torch_cuda") or environment.get("CUDA_VERSION", "")
    facts: dict[str, object] = {"reader": READER}
    for name, value in (
        *((package + "_version", said.get("version:" + package)) for package in _PACKAGES),
        ("python_version", said.get("python") or environment.get("PYTHON_VERSION")),
        ("cuda_version", said["cuda"]),
        ("driver_minimum", cuda_compatibility.lowest_driver(said["cuda"])),
        ("driver_requirement", environment.get("NVIDIA_REQUIRE_CUDA")),
    ):
        if value:
            facts[name] = value
    there = {name: code for name, code in merged.items() if code.containers}
    built = {name: cuda_compatibility.built_for(code.containers, code.architectures) for name, code in there.items()}
    facts["libraries"] = {
        name: {"containers": code.containers, "architectures": code.architectures, "built_for": built[name]}
        for name, code in there.items()
    }
    held = [built[name] for name in cuda_compatibility.NEEDED if name in built]
    if len(held) == len(cuda_compatibility.NEEDED):
        facts["compute_capabilities"] = cuda_compatibility.capabilities(held)
    return facts


# What the manifest says of an image beside its contents: what roles and people ask for most.
_PROMOTED = ("vllm_version", "ray_version", "python_version", "torch_version", "cuda_version", "driver_minimum")


def complete(
    records: Iterable[Mapping[str, object]], images: Sequence[Mapping[str, object]]
) -> list[dict[str, object]]:
    """Records of a manifest with the contents that were found in their images.

    What the inventory says of versions stands, because deployments name them so. What it says of compute capabilities only stands
    where no CUDA code was found.
    """
    completed = []
    for record in records:
        found = next((image for image in images if str(record["reference"]) in texts_of(image["references"])), None)
        if found is None:
            raise ArchiveError("archive_no_image", reference=record["reference"])
        contents = {name: value for name, value in found.items() if name not in ("references", "id")}
        said = {name: value for name, value in record.items() if value is not None and name != "contents"}
        promoted = {name: contents[name] for name in _PROMOTED if name in contents}
        served = {name: contents[name] for name in ("compute_capabilities",) if name in contents}
        completed.append({**promoted, **said, **served, "contents": contents})
    return completed


def remembered(
    records: Iterable[Mapping[str, object]], known: Iterable[Mapping[str, object]]
) -> list[dict[str, object]] | None:
    """The images as an earlier run of this reader found them, if it saw all of them."""
    contents = {entry.get("id"): mapping(entry.get("contents")) for entry in known}
    images = []
    for record in records:
        found = contents.get(record.get("id"), {})
        if found.get("reader") != READER:
            return None
        images.append({"references": [record["reference"]], "id": record["id"], **found})
    return images
