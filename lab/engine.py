# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Docker Engine on this machine: the running one, or Debian's, installed and started."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import docker
from docker.errors import DockerException

from lab.config import CACHE
from lab.progress import LabError, step

START_SECONDS = 60


def ensure_engine() -> docker.DockerClient:
    """Return a client of a working engine, or say what to do."""
    client = _connect()
    if client:
        return client
    if problem := _cannot_install():
        raise LabError(problem)
    if not shutil.which("dockerd"):
        with step("installing Docker Engine (docker.io)"):
            apt_install("docker.io", "iptables")
    with step("starting Docker Engine"):
        return _start()


def lacks() -> str:
    """What has to be done before there is an engine here, or nothing."""
    return "" if _connect() else _cannot_install()


def _cannot_install() -> str:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        return ""
    return (
        "No Docker Engine answers. Install and start one (Debian, Ubuntu: 'sudo apt-get install docker.io'), "
        "let your user reach it ('sudo usermod -aG docker $USER', then log in again), and run this again."
    )


def apt_install(*packages: str) -> None:
    """Install Debian packages on this machine; the output is shown only when it fails."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-q", "-y", *packages]):
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        if result.returncode:
            raise LabError(f"{' '.join(command)} failed:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")


def _connect() -> docker.DockerClient | None:
    try:
        client = docker.from_env(timeout=600)
        client.ping()
    except DockerException:
        return None
    return client


def _start() -> docker.DockerClient:
    """Start it as a service where an init runs, else as a process that outlives this one."""
    log = CACHE / "dockerd.log"
    if Path("/run/systemd/system").exists():
        subprocess.run(["systemctl", "start", "docker"], check=True)
    else:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            # A child of nobody here from the beginning: who ends this program and all that it has started leaves the engine alone.
            detached = ["setsid", "--fork", "dockerd"]
            subprocess.run(detached, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=True)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        client = _connect()
        if client:
            return client
        time.sleep(0.5)
    raise LabError(f"Docker Engine did not answer within {START_SECONDS} s; its log: {log} or 'journalctl -u docker'.")
