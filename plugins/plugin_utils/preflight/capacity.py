# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether disks and memory of a host suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.shards import spread
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import (
    GIB,
    Deployment,
    Hosts,
    amount,
    whole_number,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import Findings

# An image of an engine has tens of thousands of files; weights and packages are few.
IMAGE_FILES, OTHER_FILES = 100_000, 1_000
# What NCCL is to have for its segments where several cards work together
# (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory).
SHARED_BY_CARDS = GIB


def inode_findings(hosts: Hosts, _deployment: Deployment, host: str) -> Findings:
    """File systems with room, and without a place in their table of files: the error is the same, that no space is left."""
    for disk in hosts.get(host, "disks") or ():
        free, parts = disk.get("free_inodes"), [path for path, size in disk["needs"].items() if size]
        images = any(name in path for path in parts for name in ("docker", "containerd"))
        least = IMAGE_FILES if images else OTHER_FILES
        if parts and free is not None and int(free) < least:
            yield hosts.finding("inodes_too_few", [host], str(free), host=host, mount=disk["mount"], least=least)


def disk_findings(hosts: Hosts, _deployment: Deployment, host: str) -> Findings:
    reserve = int(float(hosts.limits.get("disk_reserve_gib") or 0) * GIB)
    for disk in hosts.get(host, "disks") or ():
        needed = int(disk["needed_bytes"])
        if not needed or needed + reserve <= int(disk["available_bytes"]):
            continue
        parts = {path: size for path, size in disk["needs"].items() if size}
        yield hosts.finding(
            "disk_too_small",
            [host],
            value=message("disk_too_small_value", hosts.lang, available=human_bytes(disk["available_bytes"])),
            host=host,
            mount=disk["mount"],
            directories=hosts.names(list(parts)),
            needed=human_bytes(needed + reserve),
            parts=hosts.names([f"{path}: {human_bytes(size)}" for path, size in parts.items()]),
            reserve=human_bytes(reserve),
        )


def memory_findings(hosts: Hosts, deployment: Deployment, host: str) -> Findings:
    found = hosts.found(host, "host")
    store = amount(hosts.get(host, "object_store_gib")) * GIB if len(deployment.members) > 1 else 0.0
    shm = found.get("shm_mib")
    needed_there = max(store, SHARED_BY_CARDS if ranks_on(hosts, deployment, host) > 1 else 0)
    if shm is not None and needed_there > int(shm) << 20:
        value = human_bytes(int(shm) << 20)
        yield hosts.finding("shm_too_small", [host], value=value, host=host, needed=human_bytes(int(needed_there)))
    memory = found.get("memory") or {}
    if not memory.get("total_mib"):
        return
    hugepages = int(memory.get("hugepages_mib") or 0) << 20
    usable = (int(memory["total_mib"]) << 20) - hugepages
    sharing = [each for each in hosts.get(host, "sharing") or [host] if each in hosts.deployments]
    if sharing and host != sharing[0]:
        return  # reported for its machine
    ranks, parts = 0, {"preflight_memory_reserve_gib": amount(hosts.limits.get("memory_reserve_gib")) * GIB}
    for each in sharing or [host]:
        mine, more = _memory_of(hosts, hosts.deployments.get(each, deployment), each)
        ranks += mine
        parts = {**{name: parts.get(name, 0) + size for name, size in more.items()}, **_others(parts, more)}
    needed, weights = int(sum(parts.values())), whole_number(hosts.get(host, "model_bytes"))
    values = {"host": host, "hugepages": human_bytes(hugepages), "needed": human_bytes(needed)}
    if needed > usable:
        said = [f"{name}: {human_bytes(int(size))}" for name, size in parts.items() if size]
        where = message("where_group", hosts.lang, group=deployment.name)
        values |= {"ranks": str(ranks), "parts": hosts.names(said)}
        yield hosts.finding("memory_too_small", [host], human_bytes(usable), where, **values)
    elif needed + weights > usable:
        values["weights"] = human_bytes(weights)
        yield hosts.finding("memory_below_weights", [host], human_bytes(usable), **values)


def _memory_of(hosts: Hosts, deployment: Deployment, host: str) -> tuple[int, dict[str, float]]:
    """The ranks of a deployment on a host, and what it takes of the memory, by variable."""
    ranks = ranks_on(hosts, deployment, host)
    store = amount(hosts.get(host, "object_store_gib")) * GIB if len(deployment.members) > 1 else 0.0
    options = hosts.variable(host, "options")
    return ranks, {
        f"{options}.cpu_offload_gb": ranks * amount(hosts.get(host, "cpu_offload_gib")) * GIB,
        f"{options}.swap_space": ranks * amount(hosts.get(host, "swap_space_gib")) * GIB,
        "ray_object_store_memory_gib": store,
    }


def _others(parts: Mapping[str, float], counted: Mapping[str, float]) -> dict[str, float]:
    return {name: size for name, size in parts.items() if name not in counted}


def ranks_on(hosts: Hosts, deployment: Deployment, host: str) -> int:
    """How many GPUs of a host its deployment uses: those of the plan, as far as the inventory says what it will be, else all."""
    order = [deployment.head, *(member for member in deployment.members if member != deployment.head)]
    counts = [count or 0 for count in hosts.gpu_counts(order).values()]
    tensor, pipeline = hosts.parallel_sizes(deployment.head)
    if tensor < 1:
        return len(hosts.own_gpus(host))
    stages = pipeline if pipeline > 0 else sum(count // tensor for count in counts) or sum(counts) // tensor
    ranks: Sequence[int] = spread(counts, tensor, stages) or counts
    return ranks[order.index(host)]
