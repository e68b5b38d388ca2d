# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts of one deployment have to set, and have to agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import ON_REQUEST
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import (
    VARIABLE,
    engine,
    engine_names,
    name_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, shown

# Settings of every engine.
REQUIRED = ("model", "version")
# What the hosts of a deployment must agree on: which engine, these settings of each, those that it adds, and what is said for all engines.
SHARED = ("model", "version", "runtime", "image", "served_model_name", "port")
SHARED_BY_ALL = ("ray_head_host", "llm_cluster_network", "llm_container_uid")


def engine_problems(inventory: Inventory) -> Problems:
    """Engines that there are not, and deployments of several hosts with an engine that serves from one."""
    for deployment, members in inventory.deployments.items():
        found: dict[str, list[str]] = {}
        for host in members:
            found.setdefault(name_of({VARIABLE: inventory.get(host, VARIABLE)}), []).append(host)
        for name, hosts in found.items():
            where = inventory.where(VARIABLE, hosts[0], deployment)
            if name not in engine_names():
                values = {"deployment": deployment, "engines": ", ".join(engine_names())}
                yield inventory.problem("unknown_engine", value=inventory.text(name), where=where, **values)
            elif len(members) > 1 and not engine(name).spans_hosts:
                several = [engine(each).title for each in engine_names() if engine(each).spans_hosts]
                values = {"deployment": deployment, "engine": engine(name).title, "name": name}
                values |= {"engines": ", ".join(several)}
                yield inventory.problem("engine_of_one_host", value=inventory.names(members), where=where, **values)
            asked = [host for host in hosts if is_true(inventory.get(host, ON_REQUEST) or False)]
            if asked and name in engine_names() and not engine(name).on_request:
                able = [engine(each).title for each in engine_names() if engine(each).on_request]
                values = {"deployment": deployment, "engine": engine(name).title, "engines": ", ".join(able)}
                where = inventory.where(ON_REQUEST, asked[0], deployment)
                yield inventory.problem("engine_not_on_request", value=f"{ON_REQUEST}: true", where=where, **values)
            elif asked and name in engine_names() and (more := _more_than_a_container(inventory, members, asked)):
                where = inventory.where(ON_REQUEST, asked[0], deployment)
                yield inventory.problem("on_request_of_more", value="; ".join(more), where=where, deployment=deployment)


def _more_than_a_container(inventory: Inventory, members: Sequence[str], asked: Sequence[str]) -> list[str]:
    """What makes more of a deployment that is loaded on request than one container of one host, as the inventory says it."""
    found = [inventory.names(members)] if len(members) > 1 else []
    for setting, value in inventory.engine(asked[0]).never_on_request.items():
        if any(inventory.setting(host, setting) == value for host in asked):
            found.append(f"{inventory.variable(asked[0], setting)}: {value}")
    return found


def setting_problems(inventory: Inventory) -> Problems:
    for deployment, members in inventory.deployments.items():
        if not members:
            continue
        yield from _missing(inventory, deployment, members)
        # A host in two deployments has the settings of one of them, which says nothing about the other.
        own = [host for host in members if sum(host in others for others in inventory.deployments.values()) == 1]
        yield from _different(inventory, deployment, own)
        yield from _head_elsewhere(inventory, deployment, own)
        yield from _model_is_url(inventory, deployment, members[0])


def _missing(inventory: Inventory, deployment: str, members: Sequence[str]) -> Problems:
    mine = inventory.engine(members[0])
    for setting in REQUIRED if inventory.has_engine(members[0]) else ():
        name = f"{mine.name}_{setting}"
        lacking = [
            host for host in members if inventory.get(host, name) in (None, "") and not inventory.is_open(host, name)
        ]
        if lacking:
            yield inventory.problem(
                "missing_variable",
                where=inventory.where(name, lacking[0], deployment),
                name=name,
                deployment=deployment,
                example=message("example_" + setting, inventory.lang, engine=mine.title, release=mine.example_release),
            )


def _different(inventory: Inventory, deployment: str, members: Sequence[str]) -> Problems:
    if not members:
        return
    nothing, mine = shown(None, inventory.lang), inventory.engine(members[0])
    required = [f"{mine.name}_{setting}" for setting in REQUIRED]
    own = [f"{mine.name}_{setting}" for setting in (*SHARED, *mine.shared)]
    for name in (VARIABLE, *own, *SHARED_BY_ALL):
        if any(inventory.is_open(host, name) for host in members):
            continue
        values: dict[str, list[str]] = {}
        for host in members:
            values.setdefault(inventory.text(inventory.get(host, name)), []).append(host)
        if len(values) < 2 or (name in required and nothing in values):
            continue
        yield inventory.problem(
            "settings_differ",
            value="; ".join(f"{names(hosts, inventory.lang, 3)}: {text}" for text, hosts in values.items()),
            where=inventory.where(name, members[0], deployment),
            name=name,
            deployment=deployment,
        )


def _head_elsewhere(inventory: Inventory, deployment: str, members: Sequence[str]) -> Problems:
    wanted = next(filter(None, (inventory.get(host, "ray_head_host") for host in members)), None)
    everybody = inventory.deployments[deployment]
    if wanted is not None and not isinstance(wanted, (Mapping, list)) and str(wanted) not in everybody:
        yield inventory.problem(
            "head_not_in_deployment",
            value=inventory.text(wanted),
            where=inventory.where("ray_head_host", members[0], deployment),
            deployment=deployment,
            hosts=inventory.names(everybody),
        )


def _model_is_url(inventory: Inventory, deployment: str, host: str) -> Problems:
    model = inventory.setting(host, "model")
    if isinstance(model, str) and "://" in model:
        path = [part for part in model.split("://", 1)[1].split("/")[1:] if part]
        yield inventory.problem(
            "model_is_url",
            value=inventory.text(model),
            where=inventory.where(inventory.variable(host, "model"), host, deployment),
            deployment=deployment,
            suggestion="/".join(path[:2]) or "Qwen/Qwen2.5-14B-Instruct",
        )
