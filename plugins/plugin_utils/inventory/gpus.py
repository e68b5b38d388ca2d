# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs that an inventory declares, and what a deployment wants of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import COUNT, INDICES, claim_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import has_type, is_unresolved
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.cards import declared_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

GPUS = "llm_gpus"
_KEYS = ("name", "memory_mib", "compute_capability")
_CAPABILITY = re.compile(r"\d{1,2}\.\d")
_LEAST_MEMORY_MIB = 1024


def as_gpus(value: object) -> object:
    """The GPUs of a host as a list, of which the inventory may write one line (``2 x Tesla V100-PCIE-16GB``). What cannot be read stays as it is."""
    try:
        return declared_gpus(value) if isinstance(value, str) and not is_unresolved(value) else value
    except InputError:
        return value


def gpu_problems(inventory: Inventory) -> Problems:
    declared: dict[str, int] = {}
    faults: dict[tuple[str, str, str], list[str]] = {}
    for host in inventory.checked_hosts:
        value = inventory.hosts[host].get("llm_gpus")
        if value is None or is_unresolved(value):
            continue
        fault = _declaration_fault(value, inventory.lang)
        if fault:
            key = (fault, inventory.text(value), inventory.where("llm_gpus", host))
            faults.setdefault(key, []).append(host)
        else:
            declared[host] = _own(inventory, host, len(value))
    for (fault, text, where), hosts in faults.items():
        yield inventory.problem("gpus_malformed", value=text, where=where, hosts=inventory.names(hosts), detail=fault)
    for deployment, members in inventory.deployments.items():
        if members and all(host in declared for host in members):
            yield from _too_few(inventory, deployment, {host: declared[host] for host in members})


def _declaration_fault(value: object, lang: str) -> str:
    """What is malformed about a declaration of GPUs, in words."""
    if isinstance(value, str):
        try:
            declared_gpus(value)
        except InputError as error:
            return error.why.say(lang)
    if not isinstance(value, (list, tuple)):
        return message("gpus_not_a_list", lang)
    for index, gpu in enumerate(value, start=1):
        code, values = _gpu_fault(gpu)
        if code:
            return message(code, lang, index=index, **values)
    return ""


def _gpu_fault(gpu: object) -> tuple[str, dict[str, object]]:
    if not isinstance(gpu, Mapping):
        return "gpus_entry_not_a_mapping", {}
    for key in _KEYS:
        if gpu.get(key) in (None, ""):
            return "gpus_key_missing", {"key": key}
    for key in gpu:
        if key not in _KEYS:
            return "gpus_key_unknown", {"key": key}
    if not isinstance(gpu["name"], str):
        return "gpus_name_bad", {}
    if not has_type("int", gpu["memory_mib"]) or int(gpu["memory_mib"]) < _LEAST_MEMORY_MIB:
        return "gpus_memory_bad", {}
    if not _CAPABILITY.fullmatch(str(gpu["compute_capability"])):
        return "gpus_capability_bad", {}
    return "", {}


def _own(inventory: Inventory, host: str, count: int) -> int:
    """How many of its machine's GPUs a host's deployment has."""
    claim = claim_of(host, {name: inventory.get(host, name) for name in (INDICES, COUNT)})
    return count if claim.all else min(count, len(claim.named) or claim.count)


def _too_few(inventory: Inventory, deployment: str, declared: Mapping[str, int]) -> Problems:
    """Whether the deployment wants more ranks than its hosts declare GPUs."""
    head = next(iter(declared), "")
    tensor, pipeline = (inventory.variable(head, f"{kind}_parallel_size") for kind in ("tensor", "pipeline"))
    sizes = {name: _size(inventory.get(head, name)) for name in (tensor, pipeline)}
    given = [name for name, size in sizes.items() if size]
    ranks = (sizes[tensor] or 1) * (sizes[pipeline] or 1)
    total = sum(declared.values())
    if given and ranks > total:
        yield inventory.problem(
            "too_few_gpus",
            value=", ".join(f"{name}: {inventory.get(head, name)}" for name in given),
            where=inventory.where(given[0], head, deployment),
            deployment=deployment,
            wanted=ranks,
            tensor=sizes[tensor] or 1,
            pipeline=sizes[pipeline] or 1,
            declared=total,
            per_host=inventory.names([f"{host}: {count}" for host, count in declared.items()]),
        )


def _size(value: object) -> int:
    """A parallel size; 0 where none is set, or none that can be one."""
    return max(whole(value), 0) if value is not None and has_type("int", value) else 0
