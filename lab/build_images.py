# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's images, a bare host, vLLM and llama.cpp for CPUs and Open WebUI; each built once and found again by the hash of its sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import docker
from docker.errors import APIError, BuildError, ImageNotFound

from lab.config import CACHE, IMAGE_REPOSITORY, LAB, Config, digest
from lab.engine import apt_install
from lab.progress import LabError, step

IMAGES = LAB / "images"
# The wheels are for the image's Python, whatever runs the lab.
WHEEL_TARGET = [
    "--python-version",
    "3.11",
    "--implementation",
    "cp",
    "--abi",
    "cp311",
    "--abi",
    "abi3",
    "--abi",
    "none",
]
WHEEL_PLATFORMS = ["manylinux_2_36", "manylinux_2_35", "manylinux_2_34", "manylinux_2_31", "manylinux_2_28"]
WHEEL_PLATFORMS += ["manylinux_2_27", "manylinux_2_26", "manylinux_2_24", "manylinux_2_17", "manylinux2014"]
WHEEL_PLATFORMS += ["manylinux_2_12", "manylinux2010", "manylinux_2_5", "manylinux1", "linux"]


def host_image(client: docker.DockerClient, config: Config) -> str:
    """Reference of the bare host's image, built if needed."""
    source = IMAGES / "host"
    tag = f"{IMAGE_REPOSITORY}/host:{digest(source, config.base_image, config.debian_release)}"
    if not _exists(client, tag):
        base = _base(client, config)
        with step("building the image of a bare host"):
            _build(client, source, tag, base)
    return tag


def rocky_image(client: docker.DockerClient, config: Config) -> str:
    """Reference of the image of a host of the family of RHEL, built if needed. Only the scenario rocky has such hosts."""
    source, base = IMAGES / "rocky", host_image(client, config)
    tag = f"{IMAGE_REPOSITORY}/rocky:{digest(source, base)}"
    if not _exists(client, tag):
        with step("building the image of a host with rpm and dnf"):
            _build(client, source, tag, base)
    return tag


def vllm_image(client: docker.DockerClient, config: Config) -> str:
    """Reference of the vLLM image (CPU build, with Ray and the lab's platform plugin), built if needed."""
    return _from_wheels(client, config, "vllm", config.vllm_image, "vLLM for CPUs and of Ray", "1 GB", "2.5 GB")


def web_ui_image(client: docker.DockerClient, config: Config) -> str:
    """Reference of the image of Open WebUI, built if needed. Only the scenario web_ui has it: no other pays for it."""
    return _from_wheels(client, config, "web_ui", config.web_ui_image, "Open WebUI", "0.3 GB", "0.9 GB")


def llama_cpp_image(client: docker.DockerClient, config: Config) -> str:
    """Reference of the image of llama.cpp for CPUs, built if needed. The bundle of the lab does not hold it."""
    return _from_wheels(client, config, "llama_cpp", config.llama_cpp_image, "llama.cpp for CPUs", "34 MB", "0.3 GB")


def _from_wheels(
    client: docker.DockerClient, config: Config, name: str, reference: str, what: str, wheels: str, size: str
) -> str:
    source = IMAGES / name
    tag = (
        f"{IMAGE_REPOSITORY}/{name.replace('_', '-')}-cache:{digest(source, config.base_image, config.debian_release)}"
    )
    if not _exists(client, tag):
        base = _base(client, config)
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            context = Path(folder) / "context"
            shutil.copytree(source, context)
            with step(f"downloading the wheels of {what} (about {wheels})"):
                _download_wheels(context / "requirements.txt", context / "wheels")
            with step(f"building the image of {what} ({size})"):
                _build(client, context, tag, base)
    client.images.get(tag).tag(*reference.split(":"))
    return reference


def _exists(client: docker.DockerClient, reference: str) -> bool:
    try:
        client.images.get(reference)
    except ImageNotFound:
        return False
    return True


def _base(client: docker.DockerClient, config: Config) -> str:
    """Debian from a registry if one answers, else made by debootstrap (needs root)."""
    if _exists(client, config.base_image):
        return config.base_image
    made = f"{IMAGE_REPOSITORY}/debian:{config.debian_release}"
    if _exists(client, made):
        return made
    with step(f"pulling {config.base_image}"):
        try:
            client.images.pull(*config.base_image.split(":"))
            return config.base_image
        except (APIError, ImageNotFound) as error:
            reason = str(error.explanation or error).strip()
    with step(f"no registry ({reason}): making {made} with debootstrap"):
        _debootstrap(client, config.debian_release, made)
    return made


def _debootstrap(client: docker.DockerClient, release: str, tag: str) -> None:
    if not shutil.which("debootstrap"):
        apt_install("debootstrap")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        root, archive = Path(folder) / "root", Path(folder) / "root.tar"
        command = ["debootstrap", "--variant=minbase", release, str(root)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise LabError(f"{' '.join(command)} failed:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
        for package in (root / "var/cache/apt/archives").glob("*.deb"):
            package.unlink()
        subprocess.run(["tar", "--numeric-owner", "-C", root, "-cf", archive, "."], check=True)
        repository, version = tag.split(":")
        client.api.import_image_from_file(str(archive), repository=repository, tag=version)


def _download_wheels(requirements: Path, into: Path) -> None:
    platforms = [option for name in WHEEL_PLATFORMS for option in ("--platform", f"{name}_x86_64")]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", *WHEEL_TARGET]
    command += [*platforms, "--dest", str(into), "--requirement", str(requirements)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise LabError(
            f"pip found not all wheels of an image of the lab:\n{result.stderr[-2000:]}\n"
            "PyTorch's CPU build (+cpu) is in no default index: add the CPU index that PyTorch's 'Get started' page "
            "names with 'pip config set global.extra-index-url URL', and run this again."
        )


def _build(client: docker.DockerClient, context: Path, tag: str, base: str) -> None:
    """Build with the host's network: its resolver and proxy reach the package mirrors, a bridge may not."""
    try:
        client.images.build(path=str(context), tag=tag, buildargs={"BASE": base}, network_mode="host", rm=True)
    except BuildError as error:
        log = "".join(str(line.get("stream", line.get("error", ""))) for line in error.build_log)
        raise LabError(f"Building {tag} failed:\n{log[-3000:]}") from error
    # The stage that holds the wheels is of no use any more, and larger than the image.
    client.images.prune(filters={"dangling": True, "label": "baremetal.llm.lab=build"})
