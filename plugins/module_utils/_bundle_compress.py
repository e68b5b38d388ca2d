# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the archive of images travels: as small as the engines on the hosts can take it. Each layer is compressed by itself, so that an archive with
some of them is made without unpacking any."""

from __future__ import annotations

import gzip
import os
import re
from typing import Any, BinaryIO, Callable, ContextManager, Iterable, NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._image_layers import read_images, write

AUTO = "auto"


class Compression(NamedTuple):
    """A form of the layers in the archive."""

    suffix: str
    engine: tuple[int, ...]  # the first release of Docker Engine whose `docker load` takes it


# The best first. https://docs.docker.com/reference/cli/docker/image/load/ names them all; zstd came with 23.0:
# https://github.com/moby/moby/releases/tag/v23.0.0 (moby/moby#41759), said of `docker load` in docker/cli#4667. 20.10 takes it for a
# damaged tar archive.
COMPRESSIONS: dict[str, Compression] = {
    "zstd": Compression(".zstd.tar", (23,)),
    "gzip": Compression(".gzip.tar", ()),
    "none": Compression(".tar", ()),
}
# Archives that were compressed as a whole, as bundles had them before.
FORMER_SUFFIXES = (".tar.zst", ".tar.gz")

Writer = Callable[[BinaryIO], ContextManager[Any]]


def _gzip(out: BinaryIO) -> gzip.GzipFile:
    # The higher levels take several times as long for a few percent of an image.
    return gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0, compresslevel=1)


def _zstd() -> Writer | None:
    """A writer of zstd: of Python itself (3.14), or of the library zstandard. On all cores, with a checksum."""
    cores = os.cpu_count() or 1
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        options = {zstd.CompressionParameter.nb_workers: cores, zstd.CompressionParameter.checksum_flag: 1}
        return lambda out: zstd.ZstdFile(out, "wb", options=options)  # type: ignore[no-any-return,unused-ignore]
    except ImportError:
        pass
    try:
        import zstandard  # type: ignore[import-not-found,unused-ignore]

        return lambda out: zstandard.ZstdCompressor(threads=cores, write_checksum=True).stream_writer(
            out, closefd=False
        )
    except ImportError:
        return None


def writer(name: str) -> Writer | None:
    """What writes a compression here; None if nothing does, or there is nothing to compress."""
    return {"zstd": _zstd, "gzip": lambda: _gzip}.get(name, lambda: None)()


def loads(name: str, engine: str) -> bool:
    """Whether an engine of this release takes an archive of this form. Of a release that is not known: what every engine takes."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", engine.partition("+")[0].partition("-")[0]))
    return numbers >= COMPRESSIONS[name].engine


def choose(engines: Iterable[str]) -> str:
    """The best one that all these engines take and this machine can write."""
    known = list(engines)
    return next(name for name in COMPRESSIONS if writer(name) and all(loads(name, engine) for engine in known))


def compress(source: str, target: str, name: str) -> None:
    """Write source with each layer compressed to target; under its name only when it is complete. ArchiveError where source is no archive of images."""
    wrap = writer(name)
    if wrap is None:
        raise ValueError("nothing here writes {0}".format(name))
    write(source, target, read_images(source), wrap=wrap)
