# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory as plain data, and what every rule asks of it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import (
    DEFAULT,
    VARIABLE,
    engine,
    engine_names,
    name_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import Spec
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import Unresolved, is_unresolved
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem, shown
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.secrets import may_be_secret, without_secrets

ROOT_GROUP = "llm_deployments"
SERVICE_GROUPS = ("llm_gateway", "llm_monitoring", "llm_web_ui")
# As an origin: set on the command line.
COMMAND_LINE = "-e"
# In place of a variable: whatever is not named.
EVERYTHING = ""

Problems = Iterator[dict[str, str]]


@dataclasses.dataclass(frozen=True)
class Inventory:
    """Hosts with their variables, groups, and where each variable is set."""

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, Mapping[str, Sequence[str]]]
    known: Mapping[str, Spec]
    origins: Mapping[str, Mapping[str, str]]
    lang: str

    @functools.cached_property
    def deployments(self) -> dict[str, list[str]]:
        """The hosts of each deployment: of each child group of llm_deployments."""
        children = self.groups.get(ROOT_GROUP, {}).get("children") or ()
        return {group: self.members(group) for group in dict.fromkeys(children)}

    @functools.cached_property
    def checked_hosts(self) -> list[str]:
        """The hosts that are ours: another machine of the same inventory may call its variables what it likes."""
        ours = [host for members in self.deployments.values() for host in members] or list(self.hosts)
        ours += [host for group in SERVICE_GROUPS for host in self.members(group)]
        return [host for host in dict.fromkeys(ours) if host in self.hosts]

    def members(self, group: str) -> list[str]:
        return list(dict.fromkeys(self.groups.get(group, {}).get("hosts") or ()))

    def get(self, host: str, name: str) -> Any:
        """A variable's value, or the default of the argument specs; None where there is none or it is not known yet."""
        value = self.hosts.get(host, {}).get(name)
        if value is None:
            value = self.known.get(name, {}).get("default")
        return None if is_unresolved(value) else value

    def is_open(self, host: str, name: str) -> bool:
        return is_unresolved(self.hosts.get(host, {}).get(name))

    def has_engine(self, host: str) -> bool:
        """Whether the engine that a host names is there, or nothing says yet which it is."""
        return name_of({VARIABLE: self.get(host, VARIABLE)}) in engine_names()

    def engine(self, host: str) -> Engine:
        """The engine of a host's deployment; the default where the inventory names one that there is not."""
        return engine(name_of({VARIABLE: self.get(host, VARIABLE)}) if self.has_engine(host) else DEFAULT)

    def variable(self, host: str, setting: str) -> str:
        """What a setting of a host's engine is called: NAME_port."""
        return f"{self.engine(host).name}_{setting}"

    def setting(self, host: str, name: str) -> Any:
        """The value of a setting of a host's engine."""
        return self.get(host, self.variable(host, name))

    def head(self, members: Sequence[str]) -> str:
        wanted = (self.get(host, "ray_head_host") for host in members)
        return next((host for host in wanted if isinstance(host, str) and host in members), members[0])

    def where(self, name: str, host: str, deployment: str = "") -> str:
        """Where a variable is set, or where it should be."""
        known = self.origins.get(host, {})
        origin = known.get(name) or known.get(EVERYTHING)
        if origin:
            return message("where_command_line", self.lang) if origin == COMMAND_LINE else origin
        if not deployment:
            deployment = next((group for group, members in self.deployments.items() if host in members), "")
        if name in ("llm_gpus", "llm_gpu_indices", "llm_gpu_count", "ansible_host"):
            return message("where_host", self.lang, host=host)
        of_deployment = (*(f"{each}_" for each in engine_names()), "ray_", "llm_on_request", VARIABLE)
        if name.startswith(of_deployment) and deployment:
            return message("where_group", self.lang, group=deployment)
        if name.startswith("llm_"):
            return message("where_group", self.lang, group="all")
        return message("where_inventory", self.lang)

    def text(self, value: object, name: str = "") -> str:
        """A value as it may be printed; ``name`` says whether it is a secret."""
        return value.text if isinstance(value, Unresolved) else shown(without_secrets(value, name), self.lang)

    def odd(self, value: object, name: str) -> str:
        """The same of what nobody expects there: a name that nobody knows, a value of another type."""
        return f"<{name}>" if may_be_secret(name) and not isinstance(value, Unresolved) else self.text(value, name)

    def names(self, items: Sequence[object]) -> str:
        return names(items, self.lang)

    def problem(self, code: str, value: str = "", where: str = "", **values: object) -> dict[str, str]:
        return problem(code, self.lang, value=value, where=where, **values)
