# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the hosts of the deployments, found by looking and before anything is changed.

The facts come from the hosts, the settings from the inventory; all problems of all hosts are reported together.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.interfaces import Agreed
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.capacity import (
    disk_findings,
    inode_findings,
    memory_findings,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.clock import clock_findings
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.clones import clone_findings
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.driver import (
    driver_findings,
    image_findings,
    same_driver_findings,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.environment import environment_findings
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.fabric import fabric_findings
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.gpus import (
    declaration_findings,
    health_findings,
    parallelism_findings,
    twin_findings,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.history import history_findings
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Deployment, Hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.network import (
    agreement,
    interface_findings,
    name_findings,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.processes import (
    crash_findings,
    handed_out_findings,
    port_findings,
    process_findings,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.report import report, text
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import (
    CHECKS,
    ERROR,
    IGNORE,
    WARNING,
    Finding,
    Findings,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.system import setting_findings, system_findings


def severity_findings(hosts: Hosts, everybody: Sequence[str]) -> Findings:
    """Severities that the inventory sets for checks that there are not."""
    for code in hosts.limits.get("severities") or {}:
        if code not in CHECKS:
            near = difflib.get_close_matches(code, CHECKS, n=3, cutoff=0.4) or sorted(CHECKS)
            where = message("where_group", hosts.lang, group="all")
            yield hosts.finding("check_unknown", everybody, value=code, where=where, codes=hosts.names(near))


# What comes of a value in the place of another one.
_GARBAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
# In the order in which they are printed: of all hosts together, then for each deployment.
RULES = (severity_findings, system_findings, clock_findings, clone_findings)
HOST_RULES = (
    setting_findings,
    history_findings,
    environment_findings,
    declaration_findings,
    driver_findings,
    health_findings,
)
DEPLOYMENT_RULES = (parallelism_findings, twin_findings, same_driver_findings, image_findings)
LATER_HOST_RULES = (
    *(name_findings, disk_findings, inode_findings, memory_findings),
    *(port_findings, handed_out_findings, process_findings, crash_findings),
)


def _deployment_findings(hosts: Hosts, deployment: Deployment, agreed: Agreed) -> Findings:
    for host in deployment.seen:
        for rule in HOST_RULES:
            yield from rule(hosts, deployment, host)
    for deployment_rule in DEPLOYMENT_RULES:
        yield from deployment_rule(hosts, deployment)
    yield from interface_findings(hosts, deployment, agreed)
    yield from fabric_findings(hosts, deployment, agreed)
    for host in deployment.seen:
        for rule in LATER_HOST_RULES:
            yield from rule(hosts, deployment, host)


def check_hosts(
    deployments: Mapping[str, DeploymentHosts],
    facts: Mapping[str, Mapping[str, object]],
    settings: Mapping[str, Mapping[str, object]] | None = None,
    limits: Mapping[str, object] | None = None,
    lang: str = "en",
) -> dict[str, Any]:
    """All that is wrong with the hosts, and what they use.

    ``deployments`` is that of the inventory check, ``facts`` per host its facts with ``llm_gpus_found``. A host without
    facts is not checked. ``settings`` holds per host what its inventory says (``gpus``, ``interface``, ``network``,
    ``tensor_parallel_size``, ``pipeline_parallel_size``, ``cpu_offload_gib``, ``swap_space_gib``, ``object_store_gib``,
    ``model_bytes``, ``driver_method``, ``driver_version``, ``executor``, and as ``ports`` the variables of ports), what the bundle
    holds for it (``image``, its record in the manifest, and ``drivers``, their versions) and what was found (``disks`` as
    ``measure_disks`` returns them, ``gpu`` and ``host`` as the modules of these names do); whatever is missing is not checked.
    ``limits`` are the variables of the role preflight without their prefix. A host of whose facts nothing can be made is named, and the others are
    checked without it.
    """

    def found(kept: Mapping[str, Mapping[str, object]], garbage: Sequence[str] = ()) -> dict[str, Any]:
        return _found(deployments, kept, Hosts(kept, settings or {}, limits or {}, lang), garbage)

    try:
        return found(facts)
    except _GARBAGE:
        wrong = [
            host for host in facts if facts[host] and _fails(found, {each: {} for each in facts} | {host: facts[host]})
        ]
        if not wrong:
            raise
    return found({host: {} if host in wrong else mine for host, mine in facts.items()}, wrong)


def _fails(
    check: Callable[[Mapping[str, Mapping[str, object]]], object], facts: Mapping[str, Mapping[str, object]]
) -> bool:
    try:
        check(facts)
    except _GARBAGE:
        return True
    return False


def _found(
    deployments: Mapping[str, DeploymentHosts],
    facts: Mapping[str, Mapping[str, object]],
    known: Hosts,
    garbage: Sequence[str],
) -> dict[str, Any]:
    lang = known.lang
    looked_at = []
    for name, entry in deployments.items():
        members = list(entry["hosts"])
        seen = [host for host in members if facts.get(host)]
        if seen:
            looked_at.append(Deployment(name, members, str(entry.get("head") or members[0]), seen))
    of_host = {host: deployment for deployment in looked_at for host in deployment.seen}
    hosts = dataclasses.replace(known, deployments=of_host)
    everybody = [host for deployment in looked_at for host in deployment.seen]
    # Whatever the inventory says: nobody knows what such a host is.
    findings: list[Finding] = [
        {**hosts.finding("facts_garbage", [host], host=host), "severity": ERROR} for host in garbage
    ]
    findings += [finding for rule in RULES for finding in rule(hosts, everybody)]
    used: dict[str, dict[str, object]] = {}
    for deployment in looked_at:
        agreed = agreement(hosts, deployment)
        findings += _deployment_findings(hosts, deployment, agreed)
        for host in deployment.seen:
            mine = agreed["interfaces"].get(host)
            interface = {**mine, "network": agreed["network"]} if mine else None
            used[host] = {"deployment": deployment.name, "interface": interface}
    findings = [finding for finding in findings if finding["severity"] != IGNORE]
    errors, warnings = ([item for item in findings if item["severity"] == kind] for kind in (ERROR, WARNING))
    return {
        "problems": errors,
        "warnings": warnings,
        "message": text(errors, "preflight_header", lang),
        "warning": text(warnings, "preflight_warnings", lang),
        "hosts": used,
        "report": report(findings, {host: of_host[host].name for host in used}),
    }
