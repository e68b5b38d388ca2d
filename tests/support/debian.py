# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of Debian's packages, unpacked into build/ where they are not installed: nothing on the machine changes."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"


def unpacked(name: str, packages: Iterable[str]) -> Path:
    """The folder below build/ that holds these packages; fetched once, also where several processes ask at the same time.

    Raises CalledProcessError or OSError where they cannot be fetched.
    """
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / ".unpacked"
        if not done.exists():
            fetch = ["apt-get", "--quiet=2", "download", *packages]
            subprocess.run(fetch, cwd=folder, check=True, stderr=subprocess.DEVNULL)
            for package in folder.glob("*.deb"):
                subprocess.run(["dpkg", "--extract", package, folder], check=True)
                package.unlink()
            done.touch()
    return folder


def promtool() -> str:
    """Prometheus' own judge of rules, configurations and metrics."""
    return _program("promtool", "prometheus")


def amtool() -> str:
    """Alertmanager's own judge of its configuration."""
    return _program("amtool", "prometheus-alertmanager")


def _program(name: str, package: str) -> str:
    return shutil.which(name) or str(unpacked(package, [package]) / "usr/bin" / name)
