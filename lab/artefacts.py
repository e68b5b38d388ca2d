# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site would download before it makes its bundle: engine, driver, toolkit, model. Cached by content."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import docker
from docker.errors import ContainerError

from lab.config import CACHE, CHECKOUT, LAB, STATE, Config, digest
from lab.locks import lock
from lab.progress import LabError, step
from lab.sim.runfile import build_runfile
from lab.sim.toolkit import build_toolkit

FILES = LAB / "files"
ARTEFACTS = STATE / "artefacts"
# What only the scenario "driver_packages" uses: Debian's packages of the driver, and a later version of NVIDIA's installer.
DRIVER_PACKAGES = ("nvidia-kernel-dkms", "nvidia-smi", "libcuda1", "nvidia-persistenced")
NEXT_DRIVER_VERSION = "580.159.04"
# Where scripts that make packages find the lab's stand-ins.
SIM = {str(LAB / "sim"): {"bind": "/sim", "mode": "ro"}}


def ensure_artefacts(client: docker.DockerClient, config: Config, host: str, vllm: str) -> None:
    """Fill .lab/artefacts: links into the cache, under the names that inventories/lab uses."""
    shutil.rmtree(ARTEFACTS, ignore_errors=True)

    def debian(out: Path) -> None:
        with step("fetching Debian's Docker Engine"):
            _run(client, host, ["/lab/debian_artefacts.sh", "/out"], out)

    def model(out: Path) -> None:
        with step("writing a tiny Qwen2 model"):
            _run(client, vllm, ["/lab/make_model.py", "/out"], out, entrypoint=["python3"])

    def driver(out: Path) -> None:
        build_runfile(config.driver_version, out / f"NVIDIA-Linux-x86_64-{config.driver_version}.run")

    def toolkit(out: Path) -> None:
        build_toolkit(config.toolkit_version, out / f"nvidia-container-toolkit_{config.toolkit_version}.tar.gz")

    _cached("debian", debian, FILES / "debian_artefacts.sh", host)
    _cached("model", model, FILES / "make_model.py", client.images.get(vllm).id)
    _cached("driver", driver, LAB / "sim", config.driver_version)
    _cached("toolkit", toolkit, LAB / "sim", config.toolkit_version)


def ensure_docker_packages(client: docker.DockerClient, config: Config, host: str) -> None:
    """Link .lab/artefacts/docker_packages: packages of the engine and of the toolkit, and the next engine as an archive."""

    def packages(out: Path) -> None:
        with step("fetching Debian's packages of Docker Engine, and the next release's engine (200 MB)"):
            command = ["/lab/docker_packages.sh", "/out", config.toolkit_version, *config.os_packages]
            _run(client, host, command, out, more_volumes=SIM)

    inputs = (FILES / "docker_packages.sh", LAB / "sim", config.os_packages, config.toolkit_version, host)
    _cached("docker_packages", packages, *inputs)


def ensure_gguf_model() -> None:
    """Link .lab/artefacts/gguf_model: a model of llama.cpp as small as it can be, whose weights are zeros."""
    program = FILES / "make_gguf.py"

    def model(out: Path) -> None:
        path = os.pathsep.join(str(folder) for folder in (CHECKOUT / ".collections", CHECKOUT))
        with step("writing a tiny GGUF model"):
            subprocess.run([sys.executable, program, out], env={**os.environ, "PYTHONPATH": path}, check=True)

    _cached(
        "gguf_model", model, program, *(CHECKOUT / "tests/support" / f"gguf_{part}.py" for part in ("files", "models"))
    )


def ensure_driver_packages(client: docker.DockerClient, config: Config, host: str) -> None:
    """Link .lab/artefacts/driver_packages: Debian's packages of two drivers, and an installer of another version."""

    def packages(out: Path) -> None:
        with step("fetching Debian's packages of two versions of the NVIDIA driver (300 MB)"):
            command = ["/lab/driver_packages.sh", "/out", config.debian_release, *DRIVER_PACKAGES]
            _run(client, host, command, out, more_volumes=SIM)
        build_runfile(NEXT_DRIVER_VERSION, out)

    scripts = [FILES / name for name in ("driver_packages.sh", "kernel_headers.mk")]
    inputs = (LAB / "sim", DRIVER_PACKAGES, NEXT_DRIVER_VERSION, os.uname().release)
    _cached("driver_packages", packages, *scripts, host, *inputs)


def ensure_rocky_packages(client: docker.DockerClient, config: Config, host: str) -> None:
    """Link .lab/artefacts/rocky_packages: packages of the engine, of the toolkit and of two drivers as EL 9 has them."""

    def packages(out: Path) -> None:
        with step("packing engine, toolkit and drivers for EL 9 (100 MB)"):
            versions = (config.toolkit_version, config.driver_version, NEXT_DRIVER_VERSION)
            _run(client, host, ["/lab/rocky_packages.sh", "/out", *versions], out, more_volumes=SIM)

    scripts = [FILES / name for name in ("rocky_packages.sh", "kernel_headers.mk")]
    inputs = (LAB / "sim", config.toolkit_version, config.driver_version, NEXT_DRIVER_VERSION, os.uname().release)
    _cached("rocky_packages", packages, *scripts, host, *inputs)


def _cached(name: str, make: Callable[[Path], None], *inputs: object) -> None:
    """Link .lab/artefacts/NAME to the cached folder, made when its inputs are new; never a half-made one."""
    folder = CACHE / f"{name}-{digest(*inputs)}"
    with lock(folder.name):
        if not folder.exists():
            unfinished = folder.with_suffix(".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            make(unfinished)
            unfinished.rename(folder)
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    (ARTEFACTS / name).unlink(missing_ok=True)
    (ARTEFACTS / name).symlink_to(folder)


def _run(
    client: docker.DockerClient,
    image: str,
    command: list[str],
    out: Path,
    entrypoint: list[str] | None = None,
    more_volumes: dict[str, dict[str, str]] | None = None,
) -> None:
    """Run a script of lab/files in a container, as this user, and keep what it writes to /out."""
    volumes = {
        str(FILES): {"bind": "/lab", "mode": "ro"},
        str(out): {"bind": "/out", "mode": "rw"},
        **(more_volumes or {}),
    }
    try:
        client.containers.run(
            image, command, entrypoint=entrypoint, network_mode="host", volumes=volumes, remove=True, stderr=True
        )
        owner = f"{os.getuid()}:{os.getgid()}"
        client.containers.run(image, ["-R", owner, "/out"], entrypoint=["chown"], volumes=volumes, remove=True)
    except ContainerError as error:
        log = (error.stderr or b"").decode(errors="replace")
        raise LabError(f"{' '.join(command)} failed:\n{log[-3000:]}") from error
