# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that serve several deployments, each under an inventory name of its own: what they must not both have.

Everything that the inventory alone shows is checked here; what needs the GPUs of the machine is decided later (deployment/devices.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import devices
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import model_variables, needed_models
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import machines, names, names_of_all
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import VENV
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Names
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import VARIABLE
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import (
    SERVICE_GROUPS,
    Inventory,
    Problems,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import has_type, is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import (
    Port,
    clashes,
    deployment_ports,
    ports_of,
)

# What is set up once for a machine, by the beginning of the variables' names.
_OF_A_MACHINE = (
    *("nvidia_driver_", "docker_", "nvidia_container_toolkit_", "models_", "images_", "monitoring_exporter_"),
    *(
        "monitoring_journal_",
        "monitoring_gpu_",
        "monitoring_dcgm_",
        "llm_host_dir",
        "llm_offline",
        "llm_bundle_dir",
        "llm_firewall_enabled",
    ),
)


def _claim(inventory: Inventory, host: str) -> devices.Claim:
    said = {name: inventory.get(host, name) for name in _claimed_by(inventory, host)}
    return devices.claim_of(host, {**said, VARIABLE: inventory.engine(host).name})


def _claimed_by(inventory: Inventory, host: str) -> tuple[str, ...]:
    """The variables that say which GPUs of its machine a host claims."""
    return devices.INDICES, devices.COUNT, devices.ON_REQUEST, inventory.variable(host, devices.SHARE)


def machine_of(inventory: Inventory, host: str) -> tuple[str, str] | None:
    """Which machine a host is: its address and port; None where that is not known yet, and for the controller itself."""
    if inventory.is_open(host, "ansible_host") or inventory.is_open(host, "ansible_port"):
        return None
    if inventory.get(host, "ansible_connection") == "local":
        return None
    return str(inventory.get(host, "ansible_host") or host), str(inventory.get(host, "ansible_port") or 22)


def machine_names(inventory: Inventory) -> dict[str, Names]:
    """What things are called on each host, and the models that a machine with several deployments needs."""
    found = names_of_all(
        inventory.deployments, lambda host: machine_of(inventory, host), lambda host: inventory.engine(host).name
    )
    for host in inventory.checked_hosts:
        found.setdefault(host, names(sharing=[host]))
    for each in found.values():
        models = [model for host in each["sharing"] for model in _models(inventory, host)]
        each["models"] = list(dict.fromkeys(models)) if len(each["sharing"]) > 1 else []
        each["engine"] = _needs_engine(inventory, each["sharing"])
    return found


def _needs_engine(inventory: Inventory, sharing: Sequence[str]) -> bool:
    """Whether something on a machine runs in a container: a deployment, the web page, or what monitoring brings in one."""
    services = {host for group in SERVICE_GROUPS for host in inventory.members(group)}
    return any(
        host in services
        or inventory.setting(host, "runtime") != VENV
        or inventory.get(host, "monitoring_gpu_exporter") == "dcgm"
        for host in sharing
    )


def _models(inventory: Inventory, host: str) -> list[str]:
    mine = inventory.engine(host)
    said = {name: inventory.get(host, name) for name in model_variables(mine)}
    return list(needed_models({**said, VARIABLE: mine.name}))


def sharing_problems(inventory: Inventory) -> Problems:
    """All that deployments on one machine cannot have together, and malformed wishes for GPUs."""
    for host in inventory.checked_hosts:
        yield from _malformed(inventory, host)
    members = dict.fromkeys(host for hosts in inventory.deployments.values() for host in hosts)
    reported: set[tuple[str, ...]] = set()
    for sharing in machines(list(members), lambda host: machine_of(inventory, host)):
        mine = {host: _deployment_of(inventory, host) for host in sharing}
        doubled = [host for host in sharing if list(mine.values()).count(mine[host]) > 1]
        if doubled:
            yield _one_machine(inventory, doubled)
            continue
        yield from _gpu_problems(inventory, sharing)
        if len(sharing) > 1:
            yield from _settings_differ(inventory, sharing)
        for one, other in itertools.combinations(sharing, 2):
            twice = _ports_twice(inventory, one, other)
            if twice and (mine[one], mine[other], *twice) not in reported:
                reported.add((mine[one], mine[other], *twice))
                yield inventory.problem(
                    "ports_of_two_deployments",
                    value=", ".join(twice),
                    where=inventory.names(
                        [message("where_group", inventory.lang, group=mine[host]) for host in (one, other)]
                    ),
                    hosts=inventory.names([one, other]),
                    deployments=inventory.names([mine[one], mine[other]]),
                )


def _deployment_of(inventory: Inventory, host: str) -> str:
    return next((group for group, members in inventory.deployments.items() if host in members), "")


def _one_machine(inventory: Inventory, hosts: Sequence[str]) -> dict[str, str]:
    where = list(dict.fromkeys(inventory.where("ansible_host", host) for host in hosts))
    address = str(inventory.get(hosts[0], "ansible_host") or hosts[0])
    return inventory.problem(
        "duplicate_address", value=address, where=inventory.names(where), hosts=inventory.names(hosts)
    )


# -- GPUs -------------------------------------------------------------------------------------------------------------
def _malformed(inventory: Inventory, host: str) -> Problems:
    named, count = (inventory.get(host, name) for name in (devices.INDICES, devices.COUNT))
    if isinstance(named, list) and (not named or len({str(each) for each in named}) < len(named)):
        yield inventory.problem(
            "gpu_indices_malformed",
            value=inventory.text(named),
            where=inventory.where(devices.INDICES, host),
            host=host,
        )
    if named is not None and count is not None:
        yield inventory.problem(
            "gpus_said_twice",
            value=f"{devices.INDICES}: {inventory.text(named)}, {devices.COUNT}: {inventory.text(count)}",
            where=inventory.where(devices.COUNT, host),
            host=host,
        )


def _gpu_problems(inventory: Inventory, sharing: Sequence[str]) -> Problems:
    if any(inventory.is_open(host, name) for host in sharing for name in _claimed_by(inventory, host)):
        return
    claims = [_claim(inventory, host) for host in sharing]
    declared = next((found for host in sharing if (found := inventory.get(host, "llm_gpus"))), None)
    if isinstance(declared, list) and all(isinstance(gpu, Mapping) for gpu in declared):
        choice = devices.choose(claims, declared)
        yield from devices.missing_problems(claims, choice, len(declared), inventory.lang)
        yield from devices.clash_problems(claims, choice.places, inventory.lang)
    else:
        yield from devices.clash_problems(claims, _places(claims), inventory.lang)


def _places(claims: Sequence[devices.Claim]) -> dict[str, list[object]]:
    """What stands for the GPUs of each claim where it is not known which there are: a number takes what nobody else has."""
    own: dict[str, list[object]] = {
        claim.host: [*dict.fromkeys(claim.named)] if claim.named else [("count", claim.host)]
        for claim in claims
        if not claim.all
    }
    every = [("all",), *(place for places in own.values() for place in places)]
    return {claim.host: own.get(claim.host, every) for claim in claims}


# -- settings and ports -----------------------------------------------------------------------------------------------
def _settings_differ(inventory: Inventory, sharing: Sequence[str]) -> Problems:
    for name in sorted(inventory.known):
        if not name.startswith(_OF_A_MACHINE) or inventory.known[name].get("no_log"):
            continue
        if any(inventory.is_open(host, name) for host in sharing):
            continue
        said = {host: inventory.text(inventory.get(host, name)) for host in sharing}
        if len(set(said.values())) > 1:
            yield inventory.problem(
                "machine_settings_differ",
                value="; ".join(f"{host}: {text}" for host, text in said.items()),
                where=inventory.names(list(dict.fromkeys(inventory.where(name, host) for host in sharing))),
                name=name,
                hosts=inventory.names(sharing),
            )


def _ports_twice(inventory: Inventory, one: str, other: str) -> list[str]:
    """The ports that both deployments would listen on, with their variables."""
    mine, theirs = (ports_on(inventory, host) for host in (one, other))
    pairs = {
        (port.variable, another.variable): port.first for port in mine for another in theirs if clashes([port, another])
    }
    return [
        f"{variable}: {first}" if variable == another else f"{variable}, {another}: {first}"
        for (variable, another), first in pairs.items()
    ]


def ports_on(inventory: Inventory, host: str) -> list[Port]:
    """The ports on which a deployment listens on this host, as far as the inventory tells; what may be is counted."""
    members = next((hosts for hosts in inventory.deployments.values() if host in hosts), [host])
    mine = inventory.engine(host).name
    said = {
        name: inventory.get(host, name)
        for port in ports_of(mine)
        for name in (port.variable, port.last_variable)
        if name
    }
    if any(value is not None and not has_type("int", value) for value in said.values()):
        return []
    executor = str(inventory.setting(host, "executor") or "auto").replace("auto", "")
    claim = _claim(inventory, host)
    alone = len(members) == 1
    unused = set()
    if not is_true(inventory.get(host, "ray_dashboard_enabled")):
        unused.add("dashboard")
    if not is_true(inventory.setting(host, "collective_enabled")) or (
        alone and (claim.count == 1 or len(claim.named) == 1)
    ):
        unused.add("collective")
    said |= {devices.ON_REQUEST: inventory.get(host, devices.ON_REQUEST), VARIABLE: mine}
    ports = deployment_ports(said, "none" if alone and executor != "ray" else executor)
    return [
        port for port in ports if port.name not in unused and (host == inventory.head(members) or not port.head_only)
    ]
