# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds a stand-in for NVIDIA's driver installer, NVIDIA-Linux-x86_64-<version>.run.

Like the real one it is a shell script with an archive behind it, takes the same options and checks its own integrity; what it
installs drives the lab's simulated GPUs. The same version gives the same bytes wherever it is built.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import re
import tarfile
from pathlib import Path

_HERE = Path(__file__).parent

# Name in the package: file beside this one.
_PROGRAMS = {
    "nvidia-installer": "nvidia-installer",
    "nvidia-smi": "nvidia-smi",
    "nvidia-persistenced": "nvidia-persistenced",
    "nvidia-modprobe": "nvidia-modprobe",
    "lab-load-module": "load-module",
}

_HEADER = r"""#!/bin/sh
# NVIDIA-Linux-x86_64-@VERSION@: the lab's stand-in for NVIDIA's driver installer. It installs no driver.
label="NVIDIA Accelerated Graphics Driver for Linux-x86_64 @VERSION@"
targetdir="NVIDIA-Linux-x86_64-@VERSION@"
sha256="@SHA256@"
size_kb="@SIZE@"

payload() { sed '1,/^__PAYLOAD__$/d' "$0"; }

verify() {
    $say "Verifying archive integrity... "
    sum=$(payload | sha256sum | cut -d ' ' -f 1)
    if [ "$sum" != "$sha256" ]; then
        echo "Error in SHA256 checksums: $sum is different from $sha256" >&2
        exit 2
    fi
    $say "OK\n"
}

say=printf
extract=no
keep=no
target=
for word in "$@"; do
    case "$word" in
        -s | --silent) say=true ;;
    esac
done
while [ $# -gt 0 ]; do
    case "$1" in
        --info)
            echo
            echo "  Identification    : $label"
            echo "  Target directory  : $targetdir"
            echo "  Uncompressed size : $size_kb KB"
            echo "  Compression       : none"
            echo "  Date of packaging : Thu Jan  1 00:00:00 UTC 1970"
            echo "  Application run after extraction : ./nvidia-installer"
            echo
            echo "  The directory $targetdir will be removed after extraction."
            echo
            exit 0
            ;;
        --check) verify; exit 0 ;;
        --list) payload | base64 -d | tar -tf -; exit 0 ;;
        --lsm) echo "No LSM."; exit 0 ;;
        --pkg-history) echo "no package history available."; exit 0 ;;
        -x | --extract-only) extract=yes; shift ;;
        --keep) keep=yes; shift ;;
        --target) keep=yes; target="$2"; shift 2 ;;
        *) break ;;
    esac
done
for word in "$@"; do
    case "$word" in
        -x | --extract-only) extract=yes ;;
    esac
done

if [ "$extract" = yes ] || [ "$keep" = yes ]; then
    target="${target:-$targetdir}"
    if [ -e "$target" ]; then
        echo "Directory $target already exists." >&2
        exit 1
    fi
    $say "Creating directory $target\n"
    mkdir -p "$target" || exit 1
else
    target=$(mktemp -d "${TMPDIR:-/tmp}/selfgz.XXXXXX") || exit 1
    trap 'rm -rf "$target"' EXIT
    trap 'exit 1' HUP INT TERM
fi
verify
$say "Uncompressing $label"
payload | base64 -d | tar -xf - -C "$target" || exit 1
$say "....\n"
[ "$extract" = yes ] && exit 0
(cd "$target" && exec ./nvidia-installer "$@")
exit $?
__PAYLOAD__
"""


def add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    """Add a file that says nothing about who built the archive, and when."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mode = mode
    archive.addfile(info, io.BytesIO(content))


def check_version(version: str) -> None:
    if not re.fullmatch(r"\d{3}\.\d+(\.\d+)?", version):
        raise ValueError(
            f"{version!r} is no driver version: three digits, then one or two more numbers, as in 570.195.03"
        )


def runfile_name(version: str) -> str:
    return f"NVIDIA-Linux-x86_64-{version}.run"


def runfile_bytes(version: str) -> bytes:
    """Return the installer of a driver version."""
    check_version(version)
    files: dict[str, tuple[bytes, int]] = {}
    for name, source in _PROGRAMS.items():
        text = (_HERE / source).read_text(encoding="utf-8").replace("@VERSION@", version)
        files[name] = (text.encode(), 0o755)
    files["lab-nvidia-module.service"] = ((_HERE / "nvidia-module.service").read_bytes(), 0o644)
    files["LICENSE"] = (
        b"Part of the lab of the Ansible collection baremetal.llm, GPL-3.0-or-later. No code of NVIDIA's.\n",
        0o644,
    )
    files["kernel/nvidia.Kbuild"] = (b"# stand-in of the proprietary kernel module\n", 0o644)
    files["kernel-open/nvidia.Kbuild"] = (b"# stand-in of the open kernel module\n", 0o644)
    manifest = [f"NVIDIA Accelerated Graphics Driver for Linux-x86_64\n{version}\n"]
    manifest += [
        f"{name} {mode:04o} {hashlib.sha256(content).hexdigest()}\n" for name, (content, mode) in sorted(files.items())
    ]
    files[".manifest"] = ("".join(manifest).encode(), 0o644)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (content, mode) in sorted(files.items()):
            add_file(archive, name, content, mode)
    payload = base64.encodebytes(buffer.getvalue())
    header = _HEADER.replace("@VERSION@", version).replace("@SHA256@", hashlib.sha256(payload).hexdigest())
    return header.replace("@SIZE@", str(len(buffer.getvalue()) // 1024)).encode() + payload


def build_runfile(version: str, out: str | Path) -> Path:
    """Write the installer to `out`: a file, or a directory in which it gets its usual name."""
    path = Path(out)
    if path.is_dir():
        path /= runfile_name(version)
    path.write_bytes(runfile_bytes(version))
    path.chmod(0o755)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.sim.runfile", description="Build the lab's driver installer.")
    parser.add_argument("version", help="for example 570.195.03")
    parser.add_argument("out", help="the file, or the directory to put it in")
    arguments = parser.parse_args()
    try:
        print(build_runfile(arguments.version, arguments.out))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
