# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which deployments there are, and which hosts and names they have."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import ROOT_GROUP, Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message


def _where(inventory: Inventory, group: str) -> str:
    return message("where_group_of_inventory", inventory.lang, group=group)


def group_problems(inventory: Inventory) -> Problems:
    """The group llm_deployments has to be there, with children that have hosts."""
    if ROOT_GROUP not in inventory.groups:
        yield _no_root_group(inventory)
        return
    direct = inventory.groups[ROOT_GROUP].get("hosts") or ()
    where = _where(inventory, ROOT_GROUP)
    deployments = inventory.deployments
    if not deployments:
        yield inventory.problem("no_deployment", value=inventory.names(direct), where=where)
        return
    outside = [host for host in direct if not _deployments_of(inventory, host)]
    if outside:
        yield inventory.problem(
            "hosts_outside_deployments",
            value=inventory.names(outside),
            where=where,
            deployments=inventory.names(list(deployments)),
        )
    for group, members in deployments.items():
        if not members:
            yield inventory.problem("deployment_without_host", where=_where(inventory, group), deployment=group)
    for host in dict.fromkeys(host for members in deployments.values() for host in members):
        mine = _deployments_of(inventory, host)
        if len(mine) > 1:
            yield inventory.problem("host_in_two_deployments", value=inventory.names(mine), where=where, host=host)


def _no_root_group(inventory: Inventory) -> dict[str, str]:
    mine = [group for group in inventory.groups if group not in ("all", "ungrouped")]
    near = difflib.get_close_matches(ROOT_GROUP, mine, n=1, cutoff=0.75)
    if near:
        return inventory.problem("no_deployments_group_near", value=inventory.names(mine), nearest=near[0])
    return inventory.problem("no_deployments_group", value=inventory.names(mine))


def _deployments_of(inventory: Inventory, host: str) -> list[str]:
    return [group for group, members in inventory.deployments.items() if host in members]


def served_name_problems(inventory: Inventory) -> Problems:
    """Deployments that serve under one name have to serve one model."""
    served: dict[str, dict[str, list[str]]] = {}
    for deployment, members in inventory.deployments.items():
        model = inventory.setting(members[0], "model") if members else None
        if not isinstance(model, str) or inventory.is_open(
            members[0], inventory.variable(members[0], "served_model_name")
        ):
            continue
        name = inventory.setting(members[0], "served_model_name") or model
        for item in name if isinstance(name, list) else [name]:
            served.setdefault(str(item), {}).setdefault(model, []).append(deployment)
    for name, models in served.items():
        if len(models) > 1:
            groups = [group for mine in models.values() for group in mine]
            yield inventory.problem(
                "served_name_two_models",
                value="; ".join(f"{inventory.names(mine)}: {model}" for model, mine in models.items()),
                where=_where_models_are_set(inventory, groups),
                deployments=inventory.names(groups),
                served=name,
            )


def _where_models_are_set(inventory: Inventory, groups: Sequence[str]) -> str:
    heads = {group: inventory.deployments[group][0] for group in groups}
    where = [inventory.where(inventory.variable(host, "model"), host, group) for group, host in heads.items()]
    return inventory.names(list(dict.fromkeys(where)))
