# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python environment that a host makes from wheels of the bundle: which one is for it, and where it lies.

What an environment is made from is part of its name. Another lock or another interpreter is another environment, beside the one that serves.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits
from ansible_collections.baremetal.llm.plugins.module_utils._environment import LOCK, NOTE, WHEELS
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import (
    BASE_PYTHON,
    PYTHON,
    is_made,
    is_venv,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import PythonEnvironment
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, engine, setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import fact, whole

Records = Sequence[Mapping[str, object]]

# Wheels are compressed: those of torch and CUDA's libraries are twice as large when they are unpacked, and bytecode is added.
UNPACK_FACTOR = 2.5


@dataclass(frozen=True)
class Environment:
    """An environment that can be made from what the bundle holds."""

    name: str
    # Of the engine.
    version: str
    python: str
    glibc: str
    lock_sha256: str
    uv: str
    wheel_bytes: int
    # Its release; empty where Ray is none of its packages.
    ray: str

    def folder(self, variables: Mapping[str, object]) -> str:
        """Where a host has it."""
        return f"{variables['llm_host_dir']}/venvs/{self.version}-{self.made_from(variables)}"

    def made_from(self, variables: Mapping[str, object]) -> str:
        return hashlib.sha256(f"{self.lock_sha256} {setting(variables, BASE_PYTHON)}".encode()).hexdigest()[:12]

    def disk_need(self, variables: Mapping[str, object]) -> dict[str, object]:
        """What it will take of a disk, beside its wheels, until it is made."""
        unpacked = int(self.wheel_bytes * UNPACK_FACTOR)
        return {"name": self.name, "bytes": unpacked, "mark": f"{self.folder(variables)}/{NOTE}"}

    def fits(self, found: Mapping[str, object]) -> bool:
        """Whether its wheels run on a host with this Python and this glibc."""
        return bool(found.get("python") == self.python and _numbers(str(found.get("glibc"))) >= _numbers(self.glibc))


def _numbers(text: str) -> list[int]:
    return [number for part in text.split(".") if (number := digits(part)) is not None]


def held(records: Records) -> list[Environment]:
    """The environments of which the bundle holds everything."""
    files: dict[str, dict[str, Mapping[str, object]]] = {}
    for record in records:
        if record.get("kind") == "python" and record.get("environment"):
            files.setdefault(str(record["environment"]), {})[posixpath.basename(str(record["path"]))] = record
    # Only the default engine has such environments.
    release = engine(DEFAULT).release_in_image
    found = []
    for name, mine in files.items():
        uv = next((file for file in mine if file.startswith("uv-")), "")
        lock = mine.get(LOCK)
        if lock and uv:
            version, python, glibc, sha256 = (
                str(lock[key]) for key in (release, "environment_python", "glibc", "sha256")
            )
            size = sum(whole(record["size"]) for record in mine.values())
            # PEP 427: name and release are the first two parts of a wheel's name.
            ray = next((file.split("-")[1] for file in mine if file.startswith("ray-")), "")
            found.append(Environment(name, version, python, glibc, sha256, uv, size, ray))
    return found


def candidates(variables: Mapping[str, object], records: Records) -> list[Environment]:
    """Those of the release that a host is to serve; the one for the newest glibc first. None where the host has one of its own."""
    if not is_made(variables):
        return []
    wanted = str(setting(variables, "version") or "")
    found = [each for each in held(records) if each.version == wanted]
    return sorted(found, key=lambda each: _numbers(each.glibc), reverse=True)


def environment_for(variables: Mapping[str, object], records: Records) -> Environment | None:
    """The one for a host, as far as is known what its Python is. Preflight refuses a host for which none fits."""
    found = candidates(variables, records)
    base = fact(variables, "llm_base_python")
    return next((each for each in found if each.fits(base)), next(iter(found), None))


def environment_section(variables: Mapping[str, object], records: Records) -> PythonEnvironment:
    """What the tasks ask about a host's environment, which only units have."""
    if not is_venv(variables):
        return {"made": False}
    mine = environment_for(variables, records)
    if mine is None:
        return {"made": False, "python": str(setting(variables, PYTHON) or "")}
    folder = mine.folder(variables)
    return {
        "made": True,
        "python": f"{folder}/bin/python3",
        "folder": folder,
        "name": mine.name,
        "wheels": folder + WHEELS,
        "uv": f"{folder}{WHEELS}/{mine.uv}",
        "base_python": str(setting(variables, BASE_PYTHON)),
        "made_from": mine.made_from(variables),
    }
