# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of hosts, deployments and models: each stands for itself wherever it is written (deployment/names.py), and for nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import (
    KEY_NAME,
    MODEL_NAME,
    MOST,
    clashes,
    is_name,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import is_address

ADDRESS = "ansible_host"
GATEWAY_GROUP = "llm_gateway"
# Whose a name is, as deployment/names.py says it.
_CALLED = {"host": "named_host", "deployment": "named_deployment", "key": "named_key", "own": "named_own"}


def name_problems(inventory: Inventory) -> Problems:
    """All names that cannot be, those that Ansible takes for a group, and those that several things would share."""
    hosts, deployments = hosts_of(inventory), list(inventory.deployments)
    for code, said in (("host_names", hosts), ("deployment_names", deployments)):
        wrong = [name for name in said if not is_name(name)]
        if wrong:
            yield inventory.problem(code, value=_quoted(inventory, wrong), most=MOST)
    groups = [host for host in hosts if host in inventory.groups]
    if groups:
        yield inventory.problem("host_named_like_group", value=_quoted(inventory, groups))
    yield from _clashes(inventory, hosts, deployments)
    yield from _addresses(inventory, hosts)
    yield from _models(inventory)


def hosts_of(inventory: Inventory) -> list[str]:
    members = (host for hosts in inventory.deployments.values() for host in hosts)
    return list(dict.fromkeys([*members, *inventory.checked_hosts]))


def _quoted(inventory: Inventory, said: Iterable[str]) -> str:
    return inventory.names([inventory.text(name) for name in said])


def _clashes(inventory: Inventory, hosts: Iterable[str], deployments: Iterable[str]) -> Problems:
    keys = [
        str(key.get("name"))
        for host in inventory.members(GATEWAY_GROUP)
        for key in mappings(inventory.get(host, "gateway_keys"))
    ]
    told = set()
    found = clashes(
        [name for name in hosts if is_name(name)],
        [name for name in deployments if is_name(name)],
        [key for key in dict.fromkeys(keys) if KEY_NAME.fullmatch(key)],
    )
    for identifier, owners in found.items():
        others = tuple(owner for owner in owners if owner[0] != "own")
        if others not in told:
            told.add(others)
            said = [message(_CALLED[kind], inventory.lang, name=name) for kind, name in owners]
            yield inventory.problem("names_clash", value=inventory.names(said), identifier=identifier)


def _addresses(inventory: Inventory, hosts: Iterable[str]) -> Problems:
    """Where a host is reached gets into certificates, targets and commands of ssh."""
    wrong: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        value = inventory.get(host, ADDRESS)
        if value is None or is_name(str(value)) or (is_address(str(value)) and "%" not in str(value)):
            continue
        wrong.setdefault((inventory.text(value), inventory.where(ADDRESS, host)), []).append(host)
    for (value, where), mine in wrong.items():
        yield inventory.problem("address_malformed", value=value, where=where, hosts=_quoted(inventory, mine))


def _models(inventory: Inventory) -> Problems:
    """Where there is a gateway, clients name models to it."""
    if not inventory.members(GATEWAY_GROUP):
        return
    for deployment, members in inventory.deployments.items():
        served = _served(inventory, members[0]) if members else None
        if served and not MODEL_NAME.fullmatch(str(served)):
            yield inventory.problem(
                "gateway_model_name",
                value=inventory.text(served),
                where=inventory.where(inventory.variable(members[0], "served_model_name"), members[0], deployment),
                deployment=deployment,
            )


def _served(inventory: Inventory, host: str) -> object:
    if inventory.is_open(host, inventory.variable(host, "served_model_name")):
        return None
    said = inventory.setting(host, "served_model_name") or inventory.setting(host, "model")
    return None if isinstance(said, (Mapping, list)) else said
