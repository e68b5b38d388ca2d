# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of NVIDIA's container toolkit on a host, and the driver's libraries that the loader finds.

This runs on the host. A missing file or program is no error: facts that are not known are empty.
"""

from __future__ import annotations

import os
import re
from typing import Mapping, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._proc import read
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs


class Library(TypedDict):
    """A library of the driver, as programs of the host get it."""

    name: str
    path: str
    # Of the driver that it belongs to; empty where its name does not say it.
    version: str


class Toolkit(TypedDict):
    """All of it."""

    # By section and name: nvidia-container-cli.root. Values as the file has them.
    toolkit_settings: dict[str, str]
    # The ldconfig of the host that it names, where that is not there.
    toolkit_ldconfig_missing: str
    driver_libraries: list[Library]


CONFIG = "etc/nvidia-container-runtime/config.toml"
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
# Those of other processors that this one runs as well are for other programs.
_CACHED = re.compile(r"^\s*(\S+) \(([^)]*\b(?:x86-64|AArch64)\b[^)]*)\) => (\S+)$", re.M)
_VERSION = re.compile(r"\.so\.(\d{3,4}\.\d+(?:\.\d+)?)$")
_SETTING = re.compile(r"^\s*([\w-]+)\s*=\s*(.+?)\s*$")


def toolkit_settings(root: str = "/") -> dict[str, str]:
    """What the file of the toolkit says outside of comments: lines of one setting each."""
    found: dict[str, str] = {}
    section = ""
    for line in read(root, CONFIG).splitlines():
        heading, setting = re.match(r"^\s*\[([\w.-]+)\]", line), _SETTING.match(line)
        if heading:
            section = heading.group(1) + "."
        elif setting:
            found[section + setting.group(1)] = setting.group(2).strip('"')
    return found


def ldconfig_missing(settings: Mapping[str, str], root: str = "/") -> str:
    """A program of the host that is asked for by name, and is not there; what begins without @ is one of the container."""
    said = settings.get("nvidia-container-cli.ldconfig", "")
    path = said[1:] if said.startswith("@/") else ""
    return path if path and not os.path.exists(os.path.join(root, path.lstrip("/"))) else ""


def driver_libraries(programs: Programs, root: str = "/") -> list[Library]:
    """Of each of the driver's libraries the one that the loader finds first, from ``ldconfig -p``."""
    found: dict[str, Library] = {}
    for name, _kind, path in _CACHED.findall(programs.answer("ldconfig", "-p")):
        if name in LIBRARIES and name not in found:
            version = _VERSION.search(os.path.realpath(os.path.join(root, path.lstrip("/"))))
            found[name] = {"name": name, "path": path, "version": version.group(1) if version else ""}
    return list(found.values())


def toolkit(programs: Programs, root: str = "/") -> Toolkit:
    """All of it, for the fact llm_host."""
    settings = toolkit_settings(root)
    return {
        "toolkit_settings": settings,
        "toolkit_ldconfig_missing": ldconfig_missing(settings, root),
        "driver_libraries": driver_libraries(programs, root),
    }
