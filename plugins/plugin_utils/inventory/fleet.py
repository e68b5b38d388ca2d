# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of all hosts as a role would see them, for action plugins that decide for all hosts at once.

This is the part that talks to Ansible: what it hands over is plain data.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.template import Templar
from ansible_collections.baremetal.llm.plugins.plugin_utils.filters import plain
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.gpus import GPUS, as_gpus

ROLES = Path(__file__).resolve().parents[3] / "roles"


def role_defaults(loader: Any, roles: Path = ROLES) -> dict[str, Any]:
    """The defaults of every role, as templates that Ansible trusts."""
    defaults: dict[str, Any] = {}
    for path in sorted(roles.glob("*/defaults/main.yml")):
        defaults |= loader.load_from_file(str(path), trusted_as_template=True) or {}
    return defaults


class HostVariables(Mapping[str, Any]):
    """The variables of one host: what the inventory and earlier tasks set, else the default of the role that owns it.

    A value is evaluated when it is asked for, once.
    """

    def __init__(self, loader: object, raw: Mapping[str, object]) -> None:
        self._raw = raw
        self._templar = Templar(loader=loader, variables=dict(raw))
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            value = plain(self._templar.template(self._raw[name]))
            self._known[name] = as_gpus(value) if name == GPUS else value
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __contains__(self, name: object) -> bool:
        return name in self._raw


class Fleet(Mapping[str, HostVariables]):
    """All hosts of the inventory by name, ``localhost`` among them."""

    def __init__(self, loader: Any, task_vars: Mapping[str, Any]) -> None:
        self._loader = loader
        self._hostvars = task_vars["hostvars"]
        self._known: dict[str, HostVariables] = {}
        self.playing: list[str] = [str(host) for host in task_vars.get("ansible_play_hosts") or []]
        self.selected: list[str] = [str(host) for host in task_vars.get("ansible_play_hosts_all") or []]
        self._groups = task_vars.get("groups") or {}

    @functools.cached_property
    def groups(self) -> dict[str, list[str]]:
        """The hosts of each group that take part (plugin_utils/inventory/members.py): nothing is decided for the others."""
        out = set(self._inventory.get("out") or ())
        groups: dict[str, list[str]] = plain(self._groups)
        return {name: [host for host in hosts if host not in out] for name, hosts in groups.items()}

    @functools.cached_property
    def _inventory(self) -> dict[str, Any]:
        found: dict[str, Any] = self._hostvars.raw_get("localhost").get("llm_inventory") or {}
        return found

    @functools.cached_property
    def _one_line(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = plain(self._inventory.get("one_line") or {})
        return found

    @functools.cached_property
    def _defaults(self) -> dict[str, Any]:
        return role_defaults(self._loader)

    def __getitem__(self, name: str) -> HostVariables:
        if name not in self._known:
            # A host that the command line names alone (llm_fleet) has the variables of the controller.
            said = self._one_line.get(name)
            raw = self._hostvars.raw_get(name) if said is None else {**self._hostvars.raw_get("localhost"), **said}
            variables = {**self._defaults, **raw, "hostvars": self._hostvars}
            self._known[name] = HostVariables(self._loader, variables)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._hostvars)

    def __len__(self) -> int:
        return len(self._hostvars)
