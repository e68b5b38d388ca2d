# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what was found on hosts that no inventory describes to an inventory: which deployments there are, and the text of its files.

Pure: facts in, texts out. Hosts with equal GPUs belong together, others are kept apart. A model that fits one host has a replica on each of
them, behind a gateway; one that does not is split over the hosts that are alike.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.packages import SYSTEMS
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.one_line import (
    deployment_name,
    host_names,
    release_for,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, text, texts, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, problem
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import RELEASE
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.columns import aligned

# With less context than this on one host, hosts that are alike serve a model together.
USABLE_CONTEXT = 4096
GATEWAY = "llm_gateway"
# Whose key the gateway has at first: it serves nobody without one.
FIRST_CLIENT = "users"
KEYS = ("name", "memory_mib", "compute_capability")


@dataclass(frozen=True)
class FoundHost:
    """A host that answered."""

    name: str
    address: str
    # Each with name, memory_mib, compute_capability.
    gpus: tuple[Mapping[str, object], ...] = ()
    memory_mib: int = 0
    # The largest free space in a folder for models.
    free_bytes: int = 0
    # As in bundle_systems: ubuntu-22.04.
    system: str = ""
    kernel: str = ""
    networks: tuple[str, ...] = ()
    # Releases of what is installed; empty where there is none.
    driver: str = ""
    docker: str = ""
    toolkit: str = ""
    reached: tuple[str, ...] = ()
    models: tuple[Mapping[str, object], ...] = ()

    @property
    def kind(self) -> tuple[tuple[Any, ...], ...]:
        """What hosts that belong together have in common."""
        return tuple(sorted(tuple(gpu[key] for key in KEYS) for gpu in self.gpus))

    @property
    def cards(self) -> str:
        """2 x Tesla V100-PCIE-16GB."""
        return " + ".join(f"{count} x {name}" for name, count in Counter(gpu["name"] for gpu in self.gpus).items())


@dataclass(frozen=True)
class Proposed:
    """A deployment of the inventory."""

    name: str
    hosts: tuple[str, ...]
    version: str
    plan: Mapping[str, Any]


@dataclass(frozen=True)
class Proposal:
    """The deployments of a model on what was found, and why hosts have none: by kind of GPUs the error of the plan."""

    deployments: tuple[Proposed, ...] = ()
    refused: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def inventory_names(hosts: Sequence[str]) -> dict[str, str]:
    """What each host is called in the inventory: by its name, where an address stands for it by gpu01, gpu02 and so on."""
    numbers = iter(host_names(len(hosts) + 1))
    taken = set(hosts)
    found = {}
    for host in hosts:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            found[host] = host
        else:
            found[host] = next(name for name in numbers if name not in taken)
    return found


def found_host(name: str, address: str, facts: Mapping[str, object]) -> FoundHost:
    """What the module gather with ``discover`` says of a host, as far as an inventory needs it."""
    discovered = mapping(facts.get("llm_discovered"))
    known = [gpu for gpu in mappings(facts.get("llm_gpus_found")) if all(gpu.get(key) for key in KEYS)]
    driver = mapping(mapping(facts.get("llm_gpu")).get("driver"))
    networks = [
        str(address["network"])
        for interface in mappings(facts.get("llm_nics_found"))
        if interface.get("up") and interface.get("kind") not in ("loopback", "bridge", "tun", "tunnel")
        for address in _networks(interface)
    ]
    versions = mapping(discovered.get("versions"))
    return FoundHost(
        name,
        address,
        tuple({key: gpu[key] for key in KEYS} for gpu in known),
        whole(facts.get("llm_memory_mib") or 0),
        max((whole(disk["available_bytes"]) for disk in mappings(discovered.get("disks"))), default=0),
        _system(facts),
        text(mapping(facts.get("llm_host")).get("kernel")),
        tuple(dict.fromkeys(networks)),
        str(driver.get("loaded") or driver.get("installed") or ""),
        str(versions.get("docker") or ""),
        str(versions.get("toolkit") or ""),
        tuple(texts(discovered.get("reached"))),
        tuple(mappings(discovered.get("models"))),
    )


def _networks(interface: Mapping[str, object]) -> list[dict[str, str]]:
    found = []
    for address in texts(interface.get("addresses")):
        try:
            network = ipaddress.ip_interface(address).network
        except ValueError:
            continue
        if network.version == 4 and network.prefixlen < 32:
            found.append({"network": str(network)})
    return found


def _system(facts: Mapping[str, object]) -> str:
    distribution = str(facts.get("ansible_distribution") or facts.get("distribution") or "").lower()
    full = str(facts.get("ansible_distribution_version") or facts.get("distribution_version") or "")
    major = full.partition(".")[0]
    return f"{distribution}-{full if distribution in ('ubuntu', 'openeuler') else major}" if distribution else ""


def kinds(hosts: Sequence[FoundHost]) -> list[list[FoundHost]]:
    """Hosts with equal GPUs together, in the order in which they were named; hosts without GPUs are in none."""
    found: dict[tuple[object, ...], list[FoundHost]] = {}
    for host in hosts:
        if host.gpus:
            found.setdefault(host.kind, []).append(host)
    return list(found.values())


def propose(hosts: Sequence[FoundHost], model: str, config: Mapping[str, object], language: str) -> Proposal:
    """The deployments of a model: a replica on each host that it fits, else one over all hosts that are alike."""
    found: list[tuple[tuple[str, ...], str, Mapping[str, object]]] = []
    refused: dict[str, Mapping[str, object]] = {}
    for alike in kinds(hosts):
        version = release_for(alike[0].gpus)
        alone = _plan(alike[:1], version, config, language)
        if alone["ok"] and (len(alike) == 1 or _context(alone) >= USABLE_CONTEXT):
            found += [((host.name,), version, alone) for host in alike]
            continue
        together = _plan(alike, version, config, language) if len(alike) > 1 else alone
        if together["ok"]:
            found.append((tuple(host.name for host in alike), version, together))
        elif alone["ok"]:
            found += [((host.name,), version, alone) for host in alike]
        else:
            refused[f"{len(alike)} x {alike[0].cards}"] = together
    name = deployment_name(model)
    named = [name] if len(found) == 1 else [f"{name}_{number}" for number in range(1, len(found) + 1)]
    deployments = (Proposed(each, *one) for each, one in zip(named, found, strict=True))
    return Proposal(tuple(deployments), refused)


def _context(plan: Mapping[str, object]) -> int:
    """The planned tokens of a conversation."""
    return whole(mapping(plan.get("settings")).get("max_model_len") or 0)


def _plan(hosts: Sequence[FoundHost], version: str, config: Mapping[str, object], language: str) -> dict[str, object]:
    nodes = [{"host": host.name, "gpus": [dict(gpu) for gpu in host.gpus]} for host in hosts]
    planned: dict[str, object] = plan_deployment(dict(config), nodes, {RELEASE: version}, language)
    return planned


# What Ansible puts before what ssh says.
_WRAPPED = re.compile(r"^(Task failed: |Failed to connect to the host via ssh: |ssh: )+")
# What a Python below 3.8 says of a module of ansible-core 2.19, or that module of it (ansible/ansible#82068).
_OLD_PYTHON = ("future feature annotations is not defined", "requires a minimum of python")
# What ssh and Ansible say of a host, by a part of it: the code of what to do.
_WHY = (
    *((part, "discover_python_old") for part in _OLD_PYTHON),
    # What says more than the words below that it holds as well.
    ("must have a tty", "discover_tty"),
    ("received message too long", "discover_shell"),
    # csh and fish do not understand what Ansible says to a shell.
    ("illegal variable name", "discover_shell_kind"),
    ("fish: ", "discover_shell_kind"),
    ("csh: ", "discover_shell_kind"),
    ("ambiguous output redirect", "discover_shell_kind"),
    ("account is currently not available", "discover_account"),
    ("account has expired", "discover_account"),
    ("account is locked", "discover_account"),
    ("account validation failure", "discover_account"),
    ("pam_nologin", "discover_booting"),
    ("not permitted to log in yet", "discover_booting"),
    ("system is going down", "discover_booting"),
    ("no matching host key", "discover_algorithms"),
    ("no matching key exchange", "discover_algorithms"),
    ("no matching cipher", "discover_algorithms"),
    ("no matching mac", "discover_algorithms"),
    ("too long for unix domain socket", "discover_control_path"),
    ("no space left on device", "discover_room"),
    ("password has expired", "discover_expired"),
    ("change your password", "discover_expired"),
    ("password change required", "discover_expired"),
    ("kex_exchange_identification", "discover_startups"),
    ("ssh_exchange_identification", "discover_startups"),
    ("subsystem request failed", "discover_sftp"),
    ("via scp: scp: connection closed", "discover_sftp"),
    ("failed to transfer file", "discover_sftp"),
    ("too many authentication failures", "discover_keys"),
    ("permission denied", "discover_login"),
    ("authentication", "discover_login"),
    ("host key verification", "discover_host_key"),
    ("identification has changed", "discover_host_key"),
    ("could not resolve", "discover_name"),
    ("timed out", "discover_timeout"),
    ("no route", "discover_timeout"),
    ("refused", "discover_refused"),
    ("connection closed by", "discover_closed"),
    ("connection reset by", "discover_closed"),
    ("no valid sudoers", "discover_sudoers"),
    ("missing sudo password", "discover_sudo"),
    ("sudo", "discover_sudo"),
    ("python", "discover_python"),
)


def is_old_python(said: str) -> bool:
    """Whether a host's Python is too old for Ansible, by what it said."""
    return any(part in said.lower() for part in _OLD_PYTHON)


def unreached(name: str, said: str, language: str) -> dict[str, str]:
    """A host that did not answer, or not as it has to: what was said, and what to do."""
    text = " ".join(_WRAPPED.sub("", str(said)).split())
    advice = next((code for part, code in _WHY if part in text.lower()), "discover_other")
    return problem(
        "discover_unreached",
        language,
        value=text[:300],
        where="-e llm_hosts",
        host=name,
        advice=message(advice, language, host=name),
    )


def refusals(proposal: Proposal, model: str, language: str) -> list[dict[str, str]]:
    """A model that no kind of hosts can serve: for each why, and what comes nearest."""
    found = []
    for fleet, plan in proposal.refused.items():
        error = (plan.get("predicted") or {}).get("error") or {}
        other = next((one["change"] for one in plan.get("alternatives") or [] if one.get("ok")), None)
        values = {"model": model, "fleet": fleet, "why": error.get("message", "-")}
        values["instead"] = str(other or error.get("remedy") or message("discover_another_model", language))
        found.append(problem("discover_does_not_fit", language, value=model, where="-e llm_model", **values))
    return found


def fleet_table(hosts: Sequence[FoundHost], language: str) -> list[str]:
    """What was found, a line for each host."""
    columns = ("host", "gpus", "memory", "disk", "system", "driver", "docker", "toolkit", "internet", "models")
    none = message("discover_none", language)
    rows = [[message("discover_" + column, language) for column in columns]]
    for host in hosts:
        cells = [host.name, host.cards or none, human_bytes(host.memory_mib << 20), human_bytes(host.free_bytes)]
        cells += [text or none for text in (host.system, host.driver, host.docker, host.toolkit)]
        cells += [message("discover_yes" if host.reached else "discover_no", language), str(len(host.models))]
        rows.append(cells)
    return aligned(rows, (2, 3, 9), ruled=True)


# -- the files of an inventory -----------------------------------------------------------------------------------------
def inventory_files(
    hosts: Sequence[FoundHost], proposal: Proposal, model: str, settings: Mapping[str, object], day: str, language: str
) -> dict[str, str]:
    """The texts of an inventory by path. ``settings`` are what reaches the hosts (``ansible_user`` and the like) and the site's mirrors, as given."""
    files = {
        "hosts.yml": _hosts_file(hosts, proposal, day, language),
        "group_vars/all.yml": _all_file(hosts, proposal, settings, language),
    }
    # A prompt that one replica takes must not be too long for another.
    lengths = {_context(one.plan) for one in proposal.deployments}
    same = min(lengths) if len(lengths) > 1 else 0
    for one in proposal.deployments:
        files[f"group_vars/{one.name}.yml"] = _deployment_file(one, hosts, model, same, language)
    if len(proposal.deployments) > 1:
        files[f"group_vars/{GATEWAY}.yml"] = (
            _comment("discover_file_keys", language) + f"---\ngateway_keys:\n  - name: {FIRST_CLIENT}\n"
        )
    return files


def _comment(code: str, language: str, indent: str = "", **values: object) -> str:
    text = message(code, language, **values)
    return "".join(f"{indent}# {line}\n" for line in text.splitlines())


def _scalar(value: object) -> str:
    """A value as YAML has it on one line."""
    return json.dumps(value, ensure_ascii=False)


def _hosts_file(hosts: Sequence[FoundHost], proposal: Proposal, day: str, language: str) -> str:
    lines = [
        _comment("discover_file_hosts", language, day=day),
        "---\nall:\n  children:\n    llm_deployments:\n      children:\n",
    ]
    by_name = {host.name: host for host in hosts}
    for one in proposal.deployments:
        lines.append(
            f"        {one.name}: # {message('discover_file_settings', language, path=f'group_vars/{one.name}.yml')}\n"
        )
        lines.append("          hosts:\n")
        lines += [f"            {name}:\n" for name in one.hosts]
    if len(proposal.deployments) > 1:
        lines.append(_comment("discover_file_gateway", language, indent="    "))
        lines.append(f"    {GATEWAY}:\n      hosts:\n        {proposal.deployments[0].hosts[0]}:\n")
    lines.append("  hosts:\n")
    named = [by_name[name] for one in proposal.deployments for name in one.hosts]
    for host in named:
        lines.append(f"    {host.name}:\n      ansible_host: {_scalar(host.address)}\n")
        lines.append("      llm_gpus:\n")
        for gpu in host.gpus:
            said = ", ".join(f"{key}: {_scalar(gpu[key])}" for key in KEYS)
            lines.append(f"        - {{{said}}}\n")
    unused = [host.name for host in hosts if host not in named]
    if unused:
        lines.append(_comment("discover_file_unused", language, indent="    ", hosts=", ".join(unused)))
    return "".join(lines)


def _all_file(hosts: Sequence[FoundHost], proposal: Proposal, settings: Mapping[str, object], language: str) -> str:
    used = [host for host in hosts if any(host.name in one.hosts for one in proposal.deployments)]
    online = all(host.reached for host in used)
    lines = [_comment("discover_file_reach", language), "---\n".join(["", ""])]
    reach = {name: value for name, value in settings.items() if name.startswith("ansible_")}
    lines += [f"{name}: {_scalar(value)}\n" for name, value in reach.items()]
    lines.append("# " + message("discover_file_pipelining", language) + "\nansible_ssh_pipelining: true\n\n")
    lines.append(f"llm_language: {language}\n\n")
    lines.append(_comment("discover_file_online" if online else "discover_file_offline", language))
    lines.append(f"llm_offline: {_scalar(not online)}\n")
    lines += [f"{name}: {_scalar(value)}\n" for name, value in settings.items() if name not in reach]
    if not online:
        systems = sorted({host.system for host in used if host.system})
        kernels = sorted({host.kernel for host in used if host.kernel})
        lines.append("llm_bundle_dir: /srv/llm-bundle\n")
        others = [system for system in systems if system not in SYSTEMS]
        lines += [_comment("discover_file_system", language, systems=", ".join(others))] if others else []
        lines.append(f"bundle_systems: {_scalar([system for system in systems if system in SYSTEMS])}\n")
        lines.append(f"bundle_kernels: {_scalar(kernels)}\n")
    return "".join(lines)


def _is_copy(found: Mapping[str, object], model: str) -> bool:
    """Whether a folder with weights is that of a model, by its name, and whole. In the cache of a hub's client there are links that lead out of the folder."""
    name = str(found["name"]).rpartition("/")[2].rpartition("--")[2]
    wanted = model.rstrip("/").rpartition("/")[2]
    is_folder = bool(found.get("whole", True)) and found["format"] != "gguf" and "/snapshots/" not in str(found["path"])
    return is_folder and name.lower() == wanted.lower()


def _deployment_file(one: Proposed, hosts: Sequence[FoundHost], model: str, same: int, language: str) -> str:
    lines = [_comment("discover_file_deployment", language, name=one.name), "---\n"]
    lines.append(f"{DEFAULT}_model: {_scalar(model)}\n")
    lines.append(f"{DEFAULT}_version: {_scalar(one.version)} # {message('discover_file_release', language)}\n")
    length = (one.plan.get("settings") or {}).get("max_model_len")
    requests = (one.plan.get("predicted") or {}).get("max_concurrency")
    if same:
        lines.append(f"{DEFAULT}_max_model_len: {same} # {message('discover_file_same', language)}\n")
    elif length and requests:
        said = {"length": f"{int(length):,}", "requests": f"{int(requests):,}"}
        lines.append(_comment("discover_file_plan", language, **said))
    paths = [{str(m["path"]) for m in host.models if _is_copy(m, model)} for host in hosts if host.name in one.hosts]
    shared = sorted(set.intersection(*paths)) if paths else []
    if shared:
        lines.append(_comment("discover_file_weights", language))
        lines.append(f"models_source: {_scalar('host:' + shared[0])}\n")
    return "".join(lines)
