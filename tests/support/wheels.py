"""Wheels made on the spot: real ones, of a few bytes, in an index as PyPI has it."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name


def wheel(
    folder: Path, name: str, version: str, tag: str = "py3-none-any", needs: Sequence[str] = (), text: str = ""
) -> Path:
    """A wheel with one module and a program, which prints the package's name."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        f"{module}.py": text or f"def main():\n    print('{name} {version}')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {module}:main\n",
    }
    lines = []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(zipfile.ZipInfo(file), content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).decode().rstrip("=")
            lines.append(f"{file},sha256={digest},{len(content.encode())}\n")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "".join(lines) + f"{info}/RECORD,,\n")
    return path


def uv_wheel(folder: Path) -> Path:
    """The uv of this Python as a wheel, as far as it matters."""
    program = Path(sys.executable).parent / "uv"
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    path = wheel(folder, "uv", version, tag="py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64")
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(program, f"uv-{version}.data/scripts/uv")
    return path


def lock(folder: Path, *wheels: Path) -> Path:
    """The lock of these wheels, as the bundle has it."""
    path = folder / "requirements.txt"
    lines = []
    for each in wheels:
        name, version = each.name.split("-")[:2]
        lines.append(f"{name}=={version} --hash=sha256:{hashlib.sha256(each.read_bytes()).hexdigest()}\n")
    path.write_text("".join(lines))
    return path


def index(folder: Path, *wheels: Path) -> str:
    """An index of these wheels (PEP 503) below a folder; its address."""
    names: dict[str, list[Path]] = {}
    for each in wheels:
        names.setdefault(canonicalize_name(each.name.split("-")[0]), []).append(each)
    for name, files in names.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        links = (
            f'<a href="{file.resolve().as_uri()}#sha256={hashlib.sha256(file.read_bytes()).hexdigest()}">{file.name}</a>\n'
            for file in files
        )
        (folder / name / "index.html").write_text("<!DOCTYPE html>\n" + "".join(links))
    return folder.resolve().as_uri()
