# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A deployment whose hosts agreed on a network, and each of these hosts: what all that is started on them is decided from."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_on
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import CONFIG_FILE
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import scripts_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.serving import answers_with
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.environment import hosts_of, p2p_missing
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.launch import joins_hosts, launch, ranked_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import unknown_option
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, resolve_release


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
    names: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
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
    def network_hosts(self) -> dict[str, dict[str, Any]]:
        return hosts_of(self.hosts, self.variables)

    @functools.cached_property
    def etc_hosts(self) -> dict[str, str]:
        """A name for the address of each rank's host, which is of no other use.

        torch asks who each address of another rank is, in the form that a socket for both kinds of IP shows it, which no usual entry of
        a hosts file has (torch/csrc/distributed/c10d/socket.cpp). A name server that does not answer costs 10 s each time.
        """
        if len(self.planned) < 2:
            return {}
        names = {f"{host}.rank": _mapped(self.address(host)) for host in self.planned}
        if release_key(self.vllm_version) < release_key(changes.HOST_IP_SINCE):
            # The route to that name is how these releases learn their own address.
            names[changes.ADDRESS_NAME] = self.address(self.head)
        return names

    @property
    def vllm_version(self) -> str:
        return str(self.variables[self.head]["vllm_version"])

    @functools.cached_property
    def launch(self) -> dict[str, dict[str, Any]]:
        """vLLM's command line and environment on each host that runs it."""
        mine = self.variables[self.head]
        settings = dict(self.plan["settings"])
        facts = [self.variables[host].get("ansible_facts") or {} for host in self.hosts]
        if p2p_missing(each.get("llm_gpu_p2p") for each in facts):
            if unknown_option("disable_custom_all_reduce", resolve_release(mine["vllm_version"])) is None:
                settings.setdefault("disable_custom_all_reduce", True)
        service = {
            "head": self.head,
            "model": model_path(mine),
            "served_model_name": mine.get("vllm_served_model_name") or mine["vllm_model"],
            "port": mine["vllm_port"],
            "master_port": mine["vllm_master_port"],
            "addresses": {host: self.address(host) for host in self.planned},
            "ray_address": self.ray_address,
            "config_file": f"{scripts_folder(mine)}/{CONFIG_FILE}",
            "extra_arguments": mine.get("vllm_extra_arguments") or [],
        }
        return launch(settings, mine["vllm_version"], self.plan["executor"], self.plan["nodes"], service)

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
    def names(self) -> dict[str, Any]:
        """What the containers and units of the deployment are called on this host."""
        return names_on(self.host, self.deployment.names)

    @property
    def folder(self) -> str:
        """Everything of the deployment that is not shared with others of the machine."""
        return f"{self.variables['llm_host_dir']}{self.names['folder']}"

    def enabled(self, variable: str) -> bool:
        return is_true(self.variables[variable])

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.variables['vllm_port']}"

    @property
    def served_model_name(self) -> str:
        return str(self.variables.get("vllm_served_model_name") or self.variables["vllm_model"])

    @property
    def key_file(self) -> str:
        return f"{self.folder}/secrets/vllm_api_key"

    @property
    def ray_token_file(self) -> str:
        return f"{self.folder}/secrets/ray_token"

    @functools.cached_property
    def kind(self) -> str:
        """What the server shows that it works with."""
        return answers_with(self.variables.get("vllm_options") or {}, self.deployment.plan.get("model") or {})


def _mapped(address: str) -> str:
    try:
        return f"::ffff:{address}" if ipaddress.ip_address(address).version == 4 else address
    except ValueError:
        return address
