# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs that were found: as many and such as are declared, enough of them, and well."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, shown
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Deployment, Hosts, whole_number
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import Findings

# A declared memory size that is so near was meant to be the same card: MiB of nvidia-smi differ a little between drivers.
_MEMORY_TOLERANCE = 0.03
# As many retired pages are a reason for return (https://docs.nvidia.com/deploy/dynamic-page-retirement/, "RMA Policy").
RETIRED_PAGES = 60
# Reasons for a lower clock with which a card is slower than it should be for as long as they last.
_THROTTLE_REASONS = frozenset(("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"))


def declaration_findings(hosts: Hosts, deployment: Deployment, host: str) -> Findings:
    """Whether a host has GPUs, and where they are declared, those."""
    found, declared = hosts.gpus(host), hosts.declared_gpus(host)
    where = message("where_host", hosts.lang, host=host)
    if declared is None:
        if not found:
            nothing = message("nothing_there", hosts.lang)
            yield hosts.finding("no_gpu_found", [host], value=nothing, deployment=deployment.name, host=host)
    elif len(found) != len(declared):
        yield hosts.finding(
            "gpu_count_differs",
            [host],
            value=_cards(hosts, declared),
            where=where,
            host=host,
            found=len(found),
            declared=len(declared),
            cards=_cards(hosts, found),
        )
    else:
        for index, (mine, said) in enumerate(zip(found, declared, strict=True)):
            key = _difference(mine, said)
            if key:
                yield hosts.finding(
                    "gpu_differs",
                    [host],
                    value=f"{key}: {shown(said.get(key), hosts.lang)}",
                    where=where,
                    host=host,
                    index=index,
                    key=key,
                    found=shown(mine.get(key), hosts.lang),
                )


def _cards(hosts: Hosts, gpus: Sequence[Mapping[str, object]]) -> str:
    counts: dict[str, int] = {}
    for gpu in gpus:
        name = str(gpu.get("name") or message("gpu_unknown", hosts.lang))
        counts[name] = counts.get(name, 0) + 1
    return hosts.names([message("gpu_text", hosts.lang, count=n, name=name) for name, n in counts.items()])


def _difference(found: Mapping[str, object], declared: Mapping[str, object]) -> str:
    """What a card and its declaration differ in; what is not known of the card cannot differ."""
    # On the PCI bus some cards of one name look the same: there the name says nothing.
    if found.get("uuid") and found.get("name") and declared.get("name"):
        if _plain_name(found["name"]) != _plain_name(declared["name"]):
            return "name"
    capability = found.get("compute_capability")
    if capability and declared.get("compute_capability"):
        if str(capability) != str(declared["compute_capability"]):
            return "compute_capability"
    memory, said = found.get("memory_mib"), whole_number(declared.get("memory_mib"))
    if memory and said and abs(whole(memory) - said) > whole(memory) * _MEMORY_TOLERANCE:
        return "memory_mib"
    return ""


def _plain_name(name: object) -> str:
    """Drivers before R470 say Tesla or nothing where newer ones say NVIDIA."""
    return re.sub(r"^(nvidia|tesla)\s+", "", " ".join(str(name).lower().split()))


def parallelism_findings(hosts: Hosts, deployment: Deployment) -> Findings:
    """Whether there are as many GPUs as the deployment asks for, if all its hosts are known."""
    counts = hosts.gpu_counts(deployment.members)
    known = [count for count in counts.values() if count is not None]
    tensor, pipeline = hosts.parallel_sizes(deployment.members[0])
    wanted = max(tensor, 1) * max(pipeline, 1)
    if len(known) < len(counts) or not (tensor or pipeline) or wanted <= sum(known):
        return
    names = [hosts.variable(deployment.head, f"{kind}_parallel_size") for kind in ("tensor", "pipeline")]
    sizes = [shown(size or None, hosts.lang) for size in (tensor, pipeline)]
    yield hosts.finding(
        "too_few_gpus_found",
        deployment.members,
        value=", ".join(f"{name}: {size}" for name, size in zip(names, sizes, strict=True)),
        where=message("where_group", hosts.lang, group=deployment.name),
        deployment=deployment.name,
        wanted=wanted,
        tensor=max(tensor, 1),
        pipeline=max(pipeline, 1),
        found=sum(known),
        per_host=hosts.names([f"{host}: {count}" for host, count in counts.items()]),
    )


def twin_findings(hosts: Hosts, deployment: Deployment) -> Findings:
    """A host with fewer cards than others with the same, in a number in which machines do not have them: one that is broken is not even on the bus."""
    counts: dict[str, dict[str, int]] = {}
    for host in deployment.seen:
        names = {str(gpu.get("name")) for gpu in hosts.gpus(host)}
        if len(names) == 1 and hosts.declared_gpus(host) is None:
            counts.setdefault(names.pop(), {})[host] = len(hosts.gpus(host))
    for name, found in counts.items():
        most = max(found.values())
        fewer = [host for host, count in found.items() if count < most and count & (count - 1)]
        if fewer:
            said = hosts.names([f"{host}: {found[host]}" for host in fewer])
            yield hosts.finding("gpus_fewer_than_twins", fewer, said, deployment=deployment.name, name=name, most=most)


def health_findings(hosts: Hosts, _deployment: Deployment, host: str) -> Findings:
    limit = whole_number(hosts.limits.get("ecc_uncorrected_limit"))
    for index, gpu in enumerate(hosts.own_gpus(host)):
        values = {"host": host, "index": gpu.get("index", index)}
        errors = whole_number(((gpu.get("ecc") or {}).get("volatile") or {}).get("uncorrected"))
        if errors > limit:
            yield hosts.finding("gpu_ecc_errors", [host], value=str(errors), **values)
        rows, pages = gpu.get("remapped_rows") or {}, gpu.get("retired_pages") or {}
        retired = whole_number(pages.get("corrected")) + whole_number(pages.get("uncorrected"))
        if rows.get("failed"):
            yield hosts.finding("gpu_memory_worn", [host], value="remapped_rows.failed", **values)
        elif retired >= RETIRED_PAGES:
            yield hosts.finding("gpu_memory_worn", [host], value=f"retired_pages: {retired}", **values)
        pending = {"remapped_rows.pending": rows, "retired_pages.pending": pages}
        said = [name for name, counts in pending.items() if counts.get("pending")]
        if said:
            yield hosts.finding("gpu_reset_pending", [host], value=hosts.names(said), **values)
        reasons = sorted(_THROTTLE_REASONS.intersection(gpu.get("throttle_reasons") or ()))
        if reasons:
            yield hosts.finding("gpu_throttled", [host], value=hosts.names(reasons), **values)
        # Its generation says nothing: a card that idles lowers it. Its width stays.
        link = gpu.get("link") or {}
        width, widest = whole_number(link.get("width")), whole_number(link.get("width_max"))
        if 0 < width < widest:
            yield hosts.finding("gpu_link_narrow", [host], value=f"x{width}", widest=f"x{widest}", **values)
