# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds a stand-in for NVIDIA's container toolkit: a tarball with its programs under usr/bin.

The same version gives the same bytes (of the archive; gzip's depend on the zlib that compresses).
"""

from __future__ import annotations

import argparse
import gzip
import io
import re
import tarfile
from pathlib import Path

from lab.sim.runfile import add_file

_HERE = Path(__file__).parent
PROGRAMS = ("nvidia-container-cli", "nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-ctk")


def toolkit_name(version: str) -> str:
    return f"nvidia-container-toolkit-{version}-x86_64.tar.gz"


def toolkit_bytes(version: str) -> bytes:
    """Return the tarball of a toolkit version."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"{version!r} is no toolkit version: three numbers, as in 1.17.8")
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in PROGRAMS:
            text = (_HERE / name).read_text(encoding="utf-8").replace("@VERSION@", version)
            add_file(archive, f"usr/bin/{name}", text.encode(), 0o755)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as stream:
        stream.write(plain.getvalue())
    return packed.getvalue()


def build_toolkit(version: str, out: str | Path) -> Path:
    """Write the tarball to `out`: a file, or a directory in which it gets its usual name."""
    path = Path(out)
    if path.is_dir():
        path /= toolkit_name(version)
    path.write_bytes(toolkit_bytes(version))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.sim.toolkit", description="Build the lab's container toolkit.")
    parser.add_argument("version", help="for example 1.17.8")
    parser.add_argument("out", help="the file, or the directory to put it in")
    arguments = parser.parse_args()
    try:
        print(build_toolkit(arguments.version, arguments.out))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
