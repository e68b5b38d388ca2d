# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast the reader of GPU code is and how much memory it takes, and what it finds in wheels of vLLM and torch.

usage: python benchmarks/inspect_images.py [FILE ...]

Each FILE is a wheel, a shared object, or an archive of images. Without one, a library of 1 GiB is made up and read: as a file, inside
an archive of images, and inside a compressed one. `make check-wheels` fetches real wheels with pip and gives them to this program.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / ".collections"), str(ROOT)]

from ansible_collections.baremetal.llm.plugins.module_utils._cuda_binaries import Code, merge, read_code  # noqa: E402
from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import built_for  # noqa: E402
from ansible_collections.baremetal.llm.plugins.module_utils._image_archive import _library, read_archive  # noqa: E402

from tests.support import binaries as make  # noqa: E402

MIB = 1 << 20


def measured(name: str, size: int, work: Callable[[], Any]) -> None:
    """Runs it in a child of its own, so that the peak is its own."""
    sys.stdout.flush()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    _pid, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{name}: failed")
    seconds = time.monotonic() - began
    print(f"{name:<52} {size / MIB:8.0f} MiB {size / 1e6 / seconds:8.0f} MB/s {usage.ru_maxrss / 1024:5.0f} MiB peak")


def made_up(folder: Path) -> Iterator[tuple[str, Path, int]]:
    """A library with 400 containers of seven cubins each, as torch has them; 1 GiB."""
    names = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
    payload = os.urandom(MIB * 1024 // 400 // len(names) // 8 * 8)
    container = make.container(*(make.entry(name, payload) for name in names))
    library = folder / "libtorch_cuda.so"
    with library.open("wb") as out:
        out.write(make.elf())
        for _time in range(400):
            out.write(container)
    size = library.stat().st_size
    yield "a library", library, size
    archive = folder / "image.tar"
    archive.write_bytes(
        make.archive([make.layer({"x/python3.12/site-packages/torch/lib/libtorch_cuda.so": library.read_bytes()})])
    )
    yield "the same in an archive of images", archive, size
    packed = folder / "image.tar.gz"
    with archive.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as out:
        shutil.copyfileobj(source, out, MIB)
    yield "the same, compressed with gzip", packed, size


def libraries(wheel: Path) -> dict[str, Code]:
    found: dict[str, list[Code]] = {}
    with zipfile.ZipFile(wheel) as content:
        for member in content.infolist():
            name = _library(member.filename)
            if name:
                with content.open(member) as stream:
                    found.setdefault(name, []).append(read_code(stream, member.file_size))
    return {name: merge(codes) for name, codes in sorted(found.items())}


def show(name: str, code: Code) -> None:
    few = {
        one: count
        for one, count in code.architectures.items()
        if one not in built_for(code.containers, code.architectures)
    }
    print(
        f"  {name:<16} {code.containers:>4} containers: {' '.join(f'{one} {n}' for one, n in code.architectures.items() if one not in few)}"
    )
    if few:
        print(f"  {'':<16}      in few: {' '.join(f'{one} {count}' for one, count in few.items())}")


def read(path: Path) -> None:
    if zipfile.is_zipfile(path):
        print("\n" + path.name)
        for name, code in libraries(path).items():
            show(name, code)
        return
    with path.open("rb") as stream:
        if path.suffix == ".so":
            read_code(stream, path.stat().st_size)
        else:
            read_archive(stream)


def main(arguments: list[str]) -> None:
    if arguments:
        for path in map(Path, arguments):
            measured(path.name, path.stat().st_size, lambda path=path: read(path))  # type: ignore[misc]
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, path, size in made_up(Path(folder)):
            measured(name, size, lambda path=path: read(path))  # type: ignore[misc]


if __name__ == "__main__":
    main(sys.argv[1:])
