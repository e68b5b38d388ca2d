# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that nobody knows, and values that a known one cannot have."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.spelling import (
    looks_like,
    nearest_variable,
    prefix_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.value_types import Fault, value_faults
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_unresolved

# The GPUs and the network are checked on their own, more closely than a type can be.
_JUDGED_ELSEWHERE = ("llm_gpus", "llm_cluster_network")


def variable_problems(inventory: Inventory) -> Problems:
    """Each fault once, with all the hosts that have it."""
    unknown = _unknown_names(inventory)
    found: dict[tuple[str, ...], tuple[Fault, list[str]]] = {}
    for host in inventory.checked_hosts:
        for name, value in inventory.hosts[host].items():
            faults = _faults(inventory, name, value) if name in inventory.known else ()
            if name in unknown:
                faults = (_name_fault(inventory, unknown[name], name, value),)
            for fault in faults:
                key = (name, fault.code, fault.text, inventory.where(name, host), *map(str, fault.values.values()))
                found.setdefault(key, (fault, []))[1].append(host)
    for key in sorted(found, key=lambda item: item[:4]):
        fault, hosts = found[key]
        yield inventory.problem(
            fault.code, value=fault.text, where=key[3], hosts=inventory.names(hosts), **fault.values
        )


def _faults(inventory: Inventory, name: str, value: object) -> Iterable[Fault]:
    if name in _JUDGED_ELSEWHERE or inventory.known[name].get("no_log") or value is None or is_unresolved(value):
        return ()
    return value_faults(inventory, name, value, inventory.known[name])


def _unknown_names(inventory: Inventory) -> dict[str, str]:
    """The names that are wrong, with the code of what is wrong with them. Without argument specs no name is wrong."""
    if not inventory.known:
        return {}
    foreign = set(_foreign_patterns(inventory))
    found = {name for host in inventory.checked_hosts for name in inventory.hosts[host]} - set(inventory.known)
    mine = [
        name
        for name in found
        if not name.startswith("ansible_") and not any(fnmatch.fnmatchcase(name, pattern) for pattern in foreign)
    ]
    codes = {name: _name_code(inventory, name) for name in mine}
    return {name: code for name, code in codes.items() if code}


def _foreign_patterns(inventory: Inventory) -> Iterable[str]:
    for variables in inventory.hosts.values():
        listed = variables.get("llm_foreign_variables")
        if isinstance(listed, (list, tuple)) and not is_unresolved(listed):
            yield from map(str, listed)


def _name_code(inventory: Inventory, name: str) -> str:
    prefix = prefix_of(name)
    if not prefix:
        return "suspicious_variable" if looks_like(name, inventory.known) else ""
    if nearest_variable(name, inventory.known):
        return "unknown_variable"
    return "unknown_engine_variable" if f"{prefix}options" in inventory.known else "unknown_variable_no_hint"


def _name_fault(inventory: Inventory, code: str, name: str, value: object) -> Fault:
    text = inventory.odd(value, name)
    values: dict[str, Any] = {"name": name}
    if code == "suspicious_variable":
        values["nearest"] = looks_like(name, inventory.known)
    elif code == "unknown_variable":
        values["nearest"] = nearest_variable(name, inventory.known)
    elif code == "unknown_engine_variable":
        values |= {"option": f"{name.removeprefix(prefix_of(name))}: {text}", "options": f"{prefix_of(name)}options"}
    else:
        values["prefix"] = prefix_of(name)
    if inventory.known.get(values.get("nearest", ""), {}).get("no_log"):
        text = f"<{name}>"
    return Fault(code, text, values)
