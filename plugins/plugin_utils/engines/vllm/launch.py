# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is started of vLLM on each host of a deployment."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.on_request import inner_port, is_on_request
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import scripts_folder
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Started
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.command import launch
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import facts_of, mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import LOOPBACK
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.environment import p2p_missing
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import unknown_option
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key, resolve_release

# The options, where the release reads them from a file. It lies in the folder of the scripts.
CONFIG_FILE = "vllm.yaml"


def launch_of(deployment: Deployment) -> dict[str, Started]:
    """vLLM's command line and environment on each host that runs it."""
    mine = deployment.variables[deployment.head]
    settings = for_these_gpus(mapping(deployment.plan["settings"]), deployment, mine["vllm_version"])
    service = {
        "head": deployment.head,
        "model": model_path(mine),
        "served_model_name": mine.get("vllm_served_model_name") or mine["vllm_model"],
        "host": LOOPBACK if is_on_request(mine) else "",
        "port": inner_port(mine),
        "master_port": mine["vllm_master_port"],
        "addresses": {host: deployment.address(host) for host in deployment.planned},
        "ray_address": deployment.ray_address,
        "config_file": f"{scripts_folder(mine)}/{CONFIG_FILE}",
        "extra_arguments": mine.get("vllm_extra_arguments") or [],
    }
    return launch(
        settings, mine["vllm_version"], str(deployment.plan["executor"]), mappings(deployment.plan["nodes"]), service
    )


def for_these_gpus(settings: Mapping[str, object], deployment: Deployment, vllm_version: object) -> dict[str, object]:
    """Options with which vLLM's own all-reduce is off where the GPUs of a host do not reach each other's memory, and nobody says otherwise."""
    facts = [facts_of(deployment.variables[host]) for host in deployment.hosts]
    if p2p_missing(mapping(each.get("llm_gpu_p2p")) for each in facts):
        if unknown_option("disable_custom_all_reduce", resolve_release(vllm_version)) is None:
            return {"disable_custom_all_reduce": True, **settings}
    return dict(settings)


def rank_names(deployment: Deployment) -> dict[str, str]:
    """A name for the address of each rank's host, which is of no other use.

    torch asks who each address of another rank is, in the form that a socket for both kinds of IP shows it, which no usual entry of
    a hosts file has (torch/csrc/distributed/c10d/socket.cpp). A name server that does not answer costs 10 s each time.
    """
    if len(deployment.planned) < 2:
        return {}
    names = {f"{host}.rank": _mapped(deployment.address(host)) for host in deployment.planned}
    if release_key(deployment.version) < release_key(changes.HOST_IP_SINCE):
        # The route to that name is how these releases learn their own address.
        names[changes.ADDRESS_NAME] = deployment.address(deployment.head)
    return names


def _mapped(address: str) -> str:
    try:
        return f"::ffff:{address}" if ipaddress.ip_address(address).version == 4 else address
    except ValueError:
        return address
