# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a host: others on the ports, as a service of the same kind, on the GPUs; and a server of ours that ends at each start."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.module_utils._left import number_list
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import deployment_ports
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import explain_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.cards import HELD_MIB
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Deployment, Hosts, whole_number
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.picture import DESKTOP
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import Findings

# Containers of this collection. What they hold, they may.
_OURS = "llm-"


def _is_ours(entry: Mapping[str, object]) -> bool:
    return str(entry.get("container") or "").startswith(_OURS)


def _process(entry: Mapping[str, object], lang: str) -> str:
    if not entry.get("pid"):
        return message("process_unknown", lang)
    code = "process_container" if entry.get("container") else "process_text"
    name = str(entry.get("process") or "")
    return message(code, lang, name=name, pid=entry["pid"], container=entry.get("container"))


def port_findings(hosts: Hosts, deployment: Deployment, host: str) -> Findings:
    """Ports that the deployment needs on this host and another process holds."""
    executor = str(hosts.get(host, "executor") or "auto").replace("auto", "ray")
    found = (entry for entry in hosts.found(host, "host").get("listeners") or () if not _is_ours(entry))
    # With IPv4 and with IPv6 a program has a socket each.
    listeners = list({(entry["port"], entry.get("pid")): entry for entry in found}.values())
    for port in deployment_ports(hosts.get(host, "ports") or {}, executor if len(deployment.members) > 1 else "none"):
        if port.head_only and host != deployment.head:
            continue
        for entry in listeners:
            if port.first <= entry["port"] <= port.last:
                value, variable = _process(entry, hosts.lang), port.variable
                # Of a range Ray takes the next one that is free (WorkerPool::GetNextFreePort in src/ray/raylet/worker_pool.cc), as the connectivity check does.
                code = "port_taken" if port.first == port.last else "worker_port_taken"
                yield hosts.finding(code, [host], value, variable, host=host, port=entry["port"], variable=variable)
    for service in hosts.get(host, "services") or ():
        for entry in listeners:
            if entry["port"] == service["port"] and not _is_program(entry, service["program"]):
                value, variable = _process(entry, hosts.lang), service["variable"]
                where = variable or message("where_nowhere", hosts.lang)
                yield hosts.finding(
                    "port_taken", [host], value, where, host=host, port=entry["port"], variable=variable or "-"
                )


def handed_out_findings(hosts: Hosts, deployment: Deployment, host: str) -> Findings:
    """Ports of ours that the kernel may give to a connection that goes out; of a range of ports the next one is taken."""
    said = hosts.found(host, "host").get("ports_handed_out") or {}
    first, last = whole_number(said.get("first")), whole_number(said.get("last"))
    executor = str(hosts.get(host, "executor") or "auto").replace("auto", "ray")
    ports = deployment_ports(hosts.get(host, "ports") or {}, executor if len(deployment.members) > 1 else "none")
    wanted = {
        *(port.first for port in ports if port.first == port.last and (host == deployment.head or not port.head_only)),
        *(whole_number(service["port"]) for service in hosts.get(host, "services") or ()),
    }
    inside = wanted.intersection(range(first, last + 1)).difference(number_list(str(said.get("reserved") or "")))
    if inside:
        numbers = ",".join(map(str, sorted(inside)))
        yield hosts.finding("ports_handed_out", [host], value=f"{first}-{last}", host=host, ports=numbers)


def _is_program(entry: Mapping[str, object], program: str) -> bool:
    """Whether a listener is the program of a distribution's package, which the collection takes over."""
    words = str(entry.get("command") or "").split()
    return bool(program and words and words[0] in (f"/usr/bin/{program}", f"/usr/sbin/{program}", program))


def process_findings(hosts: Hosts, _deployment: Deployment, host: str) -> Findings:
    """Other services of the same kind, and what computes on the GPUs beside them."""
    found = hosts.found(host, "host")
    services = [entry for entry in found.get("services") or () if not _is_ours(entry)]
    if services:
        said = [f"{entry['service']}: {_process(entry, hosts.lang)}" for entry in services]
        yield hosts.finding("service_foreign", [host], value=hosts.names(said, 4), host=host)
    known = {entry["pid"] for entry in services}
    on_gpus = [entry for entry in found.get("gpu_processes") or () if not _is_ours(entry)]
    # Programs that draw are listed, too, as far as they compute for it; what computes for itself takes more.
    desktop = (found.get("units") or {}).get(DESKTOP) == "active"
    drawing = {entry["pid"] for entry in on_gpus if desktop and 0 < whole_number(entry.get("used_mib")) < HELD_MIB}
    busy = [_process(entry, hosts.lang) for entry in on_gpus if entry["pid"] not in known | drawing]
    if busy:
        yield hosts.finding("gpu_busy", [host], value=hosts.names(busy, 4), host=host)


def crash_findings(hosts: Hosts, deployment: Deployment, host: str) -> Findings:
    """A server that ends during each start, with what the log of the last ones says about it."""
    probe = hosts.facts[host].get("llm_probe") or {}
    if probe.get("kind") != "crashing":
        return
    causes = [str(line) for line in probe.get("causes") or ()]
    said = explain_log("\n".join(causes[-1:]), hosts.lang)
    yield hosts.finding(
        "server_crashing",
        [host],
        value=str(probe.get("said")),
        host=host,
        deployment=deployment.name,
        starts=probe.get("starts"),
        log=said,
    )
