# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host as it was found before the first change, as the tables of judgements ask for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import AUTO, PRESENT, REPOSITORY
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Deployment, Hosts

# What a judgement yields: the values of its message, and where it is another than the table's, the severity.
Said = Iterator[dict[str, Any]]
# Cards that no other device may read.
CONSUMER = re.compile(r"geforce|titan", re.IGNORECASE)
DESKTOP = "display-manager.service"


@dataclass(frozen=True)
class Picture:
    """One host as it was found, and what is asked of it."""

    hosts: Hosts
    deployment: Deployment
    name: str

    @cached_property
    def found(self) -> Mapping[str, Any]:
        return self.hosts.found(self.name, "host")

    @cached_property
    def engine(self) -> Mapping[str, Any]:
        return self.found.get("engine") or {}

    @property
    def flags(self) -> Mapping[str, Mapping[str, str]]:
        return self.engine.get("flags") or {}

    @property
    def config(self) -> Mapping[str, Any]:
        return self.engine.get("config") or {}

    @property
    def packages(self) -> Mapping[str, str]:
        return self.found.get("packages") or {}

    @property
    def units(self) -> Mapping[str, str]:
        return self.found.get("units") or {}

    @property
    def gpu(self) -> Mapping[str, Any]:
        return self.hosts.found(self.name, "gpu")

    @property
    def driver(self) -> str:
        return str((self.gpu.get("driver") or {}).get("loaded") or "")

    @property
    def gpus(self) -> list[Mapping[str, Any]]:
        return self.hosts.own_gpus(self.name)

    @property
    def lacks_driver(self) -> bool:
        """Whether no driver is loaded, and one is to be installed."""
        return not self.driver and self.hosts.get(self.name, "driver_method") != PRESENT

    @property
    def has_desktop(self) -> bool:
        return self.units.get(DESKTOP) == "active"

    @property
    def is_podman(self) -> bool:
        """Whether Podman answers where Docker's engine is expected."""
        return "podman" in str(self.engine.get("product") or "").lower()

    @property
    def keeps_driver(self) -> bool:
        """Whether nobody will touch the driver: the role is told so, or leaves one alone that it has not installed."""
        method = str(self.hosts.get(self.name, "driver_method") or AUTO)
        ours = "nvidia_driver" in (self.hosts.facts[self.name].get("llm_records") or {})
        return method == PRESENT or (method == AUTO and bool(self.driver) and not ours)

    @property
    def docker_method(self) -> str:
        """How the role docker will install an engine; empty where it installs none."""
        asked = str(self.hosts.get(self.name, "docker_method") or AUTO)
        if asked == PRESENT or (asked == AUTO and self.engine.get("installed_by")):
            return ""
        if asked == AUTO:
            return "static" if self.hosts.get(self.name, "offline") else REPOSITORY
        return asked

    @property
    def pulls(self) -> bool:
        """Whether the engine asks registries for images; offline, and with a bundle, it asks nobody."""
        return self.hosts.get(self.name, "pulls") is not False and not self.hosts.get(self.name, "offline")

    @property
    def toolkit_method(self) -> str:
        """How the role nvidia_container_toolkit will install the toolkit; empty where it installs none, or where only the bundle tells."""
        asked = str(self.hosts.get(self.name, "toolkit_method") or AUTO)
        there = any(name in self.packages for name in ("nvidia-container-toolkit", "nvidia-container-toolkit-base"))
        if asked == PRESENT or (asked == AUTO and (there or self.hosts.get(self.name, "offline"))):
            return ""
        return REPOSITORY if asked == AUTO else asked

    def mounts(self, *paths: str) -> Iterator[Mapping[str, Any]]:
        """The file systems of folders, or of all that were looked at."""
        for entry in self.found.get("mounts") or ():
            if not paths or entry["path"] in paths:
                yield entry


Judgements = dict[str, Callable[[Picture], Said]]
