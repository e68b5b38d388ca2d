"""NVIDIA's packages become one archive of programs; the packages here are made by dpkg-deb."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import toolkit as bundle_toolkit

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="packages are made by dpkg-deb, which is not here")


def package(folder: Path, name: str, files: dict[str, str], compression: str = "xz") -> Path:
    root = folder / name
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1.17.8-1\nArchitecture: amd64\nMaintainer: test <t@example.org>\nDescription: test\n"
    )
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            (root / path).symlink_to(content[3:])
        else:
            (root / path).write_text(content)
            (root / path).chmod(0o755)
    out = folder / f"{name}_1.17.8-1_amd64.deb"
    subprocess.run(
        ["dpkg-deb", f"-Z{compression}", "--root-owner-group", "--build", root, out],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return out


def release(folder: Path, *packages: Path) -> Path:
    path = folder / "nvidia-container-toolkit_1.17.8_deb_amd64.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for deb in packages:
            archive.add(deb, f"release-v1.17.8-stable/packages/ubuntu18.04/amd64/{deb.name}")
    return path


LIBRARY = "usr/lib/x86_64-linux-gnu/libnvidia-container.so.1"


@pytest.mark.parametrize("compression", ["xz", "gzip", "none"])
def test_programs_and_libraries_are_taken_and_nothing_else(tmp_path: Path, compression: str) -> None:
    source = release(
        tmp_path,
        package(tmp_path, "libnvidia-container1", {f"{LIBRARY}.17.8": "lib", LIBRARY: "-> libnvidia-container.so.1.17.8"}, compression),
        package(tmp_path, "nvidia-container-toolkit-base", {"usr/bin/nvidia-ctk": "ctk", "usr/share/doc/x": "doc"}, compression),
        package(tmp_path, "libnvidia-container-dev", {"usr/lib/x.a": "static"}, compression),
    )  # fmt: skip
    bundle_toolkit.repack(str(source), str(tmp_path / "out.tar.gz"))
    with tarfile.open(tmp_path / "out.tar.gz") as archive:
        assert archive.getnames() == ["usr/bin/nvidia-ctk", LIBRARY, f"{LIBRARY}.17.8"]
        assert archive.getmember(LIBRARY).linkname == "libnvidia-container.so.1.17.8"
        assert archive.getmember("usr/bin/nvidia-ctk").mode == 0o755
        assert (archive.extractfile(f"{LIBRARY}.17.8") or pytest.fail("no file")).read() == b"lib"
    first = (tmp_path / "out.tar.gz").read_bytes()
    bundle_toolkit.repack(str(source), str(tmp_path / "out.tar.gz"))
    assert (tmp_path / "out.tar.gz").read_bytes() == first


def test_another_archive_is_refused(tmp_path: Path) -> None:
    source = release(tmp_path, package(tmp_path, "nvidia-container-toolkit", {"usr/bin/other": "x"}))
    with pytest.raises(bundle_toolkit.ToolkitError, match="no package with usr/bin/nvidia-ctk"):
        bundle_toolkit.repack(str(source), str(tmp_path / "out.tar.gz"))
    assert not (tmp_path / "out.tar.gz").exists()
    (tmp_path / "libnvidia-container1_1_amd64.deb").write_bytes(b"<html>")
    with pytest.raises(bundle_toolkit.ToolkitError, match="no Debian package"):
        bundle_toolkit.repack(
            str(release(tmp_path, tmp_path / "libnvidia-container1_1_amd64.deb")), str(tmp_path / "o")
        )
