# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A deployment whose hosts agreed on a network, and each of these hosts: what all that is started on them is decided from."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import ON_REQUEST
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Names, Started
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_of, setting, variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import LOOPBACK
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.environment import hosts_of


def ranked_hosts(nodes: Sequence[Mapping[str, object]]) -> list[str]:
    """The hosts with ranks, in rank order. ``nodes`` are those of a plan, ``{host, ranks}``."""
    return [str(node["host"]) for node in nodes if node.get("ranks")]


def joins_hosts(executor: str, nodes: Sequence[Mapping[str, object]]) -> bool:
    """Whether the engine runs on several hosts that meet without Ray."""
    return executor == "mp" and len(ranked_hosts(nodes)) > 1


@dataclass(frozen=True)
class Deployment:
    """One deployment whose hosts agreed on a network.

    ``variables`` holds for each host its variables, defaults included, with ``ansible_facts`` and ``llm_interface``.
    """

    name: str
    head: str
    hosts: Sequence[str]
    plan: Mapping[str, Any]
    image: str
    variables: Mapping[str, Mapping[str, Any]]
    # The content of the small files that the server reads, by name.
    files: Mapping[str, str] = field(default_factory=dict)
    # What things are called on each host, as deployment/names.py has it.
    names: Mapping[str, Names] = field(default_factory=dict)
    # Digests of the files of its models, as far as they are known: other files are read by another start.
    weights: Sequence[str] = ()

    @property
    def by_ray(self) -> bool:
        return bool(self.plan["executor"] == "ray")

    @functools.cached_property
    def planned(self) -> list[str]:
        """The hosts with ranks, in rank order."""
        return ranked_hosts(self.plan["nodes"])

    @functools.cached_property
    def joins_hosts(self) -> bool:
        return joins_hosts(self.plan["executor"], self.plan["nodes"])

    @functools.cached_property
    def gpus(self) -> dict[str, int]:
        """How many GPUs the plan counts on each host; others of the host stay free."""
        return {node["host"]: len(node["ranks"]) for node in self.plan["nodes"] if node["ranks"]}

    def address(self, host: str) -> str:
        return str((self.variables[host].get("llm_interface") or {}).get("address") or "")

    @property
    def ray_address(self) -> str:
        return f"{self.address(self.head) or self.head}:{self.variables[self.head]['ray_port']}"

    @functools.cached_property
    def network_hosts(self) -> dict[str, dict[str, object]]:
        return hosts_of(self.hosts, self.variables)

    @functools.cached_property
    def engine(self) -> Engine:
        return engine_of(self.variables[self.head])

    @property
    def version(self) -> str:
        """The release of the engine."""
        return str(setting(self.variables[self.head], "version"))

    @functools.cached_property
    def etc_hosts(self) -> dict[str, str]:
        """The addresses of names that the programs look up, besides those that the hosts know."""
        return self.engine.etc_hosts(self)

    @functools.cached_property
    def launch(self) -> dict[str, Started]:
        """The engine's command line and environment on each host that runs it."""
        return self.engine.launch(self)

    @functools.cached_property
    def uid(self) -> int:
        """The user of all containers."""
        return container_user.container_uid(self.variables[self.head], [self.variables[host] for host in self.hosts])

    @property
    def user(self) -> str:
        return f"{self.uid}:{container_user.GID}"

    def of(self, host: str) -> Member:
        return Member(self, host, self.variables[host])


@dataclass(frozen=True)
class Member:
    """One host of a deployment."""

    deployment: Deployment
    host: str
    variables: Mapping[str, Any]

    @property
    def is_head(self) -> bool:
        return self.host == self.deployment.head

    @property
    def address(self) -> str:
        return self.deployment.address(self.host)

    @functools.cached_property
    def names(self) -> Names:
        """What the containers and units of the deployment are called on this host."""
        return names_on(self.host, self.deployment.names)

    @property
    def folder(self) -> str:
        """Everything of the deployment that is not shared with others of the machine."""
        return f"{self.variables['llm_host_dir']}{self.names['folder']}"

    def enabled(self, variable: str) -> bool:
        return is_true(self.variables[variable])

    def setting(self, name: str) -> Any:
        """A setting of the engine: ``port`` is NAME_port."""
        return setting(self.variables, name)

    def enables(self, name: str) -> bool:
        """Whether a setting of the engine says yes."""
        return is_true(self.setting(name))

    @property
    def on_request(self) -> bool:
        """Whether the server is loaded when somebody asks for it. Clients then ask the program that loads it (deployment/on_request.py)."""
        return is_true(self.variables.get(ON_REQUEST) or False)

    @property
    def url(self) -> str:
        is_local = self.deployment.engine.is_local(self.variables)
        return f"http://{LOOPBACK if is_local else self.address}:{self.setting('port')}"

    @property
    def served_model_name(self) -> str:
        return str(self.setting("served_model_name") or self.setting("model"))

    @property
    def key_file(self) -> str:
        return f"{self.folder}/secrets/{variable_of(self.variables, 'api_key')}"

    @property
    def ray_token_file(self) -> str:
        return f"{self.folder}/secrets/ray_token"

    @functools.cached_property
    def kind(self) -> str:
        """What the server shows that it works with."""
        return self.deployment.engine.answers_with(
            self.setting("options") or {}, self.deployment.plan.get("model") or {}
        )
