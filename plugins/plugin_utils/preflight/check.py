# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the hosts of the deployments, found by looking and before anything is changed.

The facts come from the hosts, the settings from the inventory; all problems of all hosts are told together. What refuses and
what only warns is said in one table, and an inventory may say otherwise.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.module_utils._cuda_compatibility import oldest
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.compatibility import image_problems, planned_driver
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import (
    message,
    names,
    problem,
    render,
    shown,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.interfaces import (
    agree_interfaces,
    interfaces_from_facts,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.ports import deployment_ports
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.parallel import spread
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.clock import clocks_apart

_GIB = 1 << 30
# A declared memory size that is so near was meant to be the same card: MiB of nvidia-smi differ a little between drivers.
_MEMORY_TOLERANCE = 0.03

ERROR, WARNING, IGNORE = "error", "warning", "ignore"
REPORT_SCHEMA = 1


class Check(NamedTuple):
    """What a finding means, and the variable that moves its limit, where there is one."""

    severity: str
    limit: str = ""


CHECKS: dict[str, Check] = {
    # System
    "system_not_supported": Check(ERROR, "preflight_supported_systems"),
    "architecture_not_supported": Check(ERROR, "preflight_supported_architectures"),
    "kernel_too_old": Check(ERROR, "preflight_kernel_minimum"),
    "selinux_labels": Check(WARNING),
    "clock_differs": Check(ERROR, "preflight_clock_limit_seconds"),
    # Room
    "disk_too_small": Check(ERROR, "preflight_disk_reserve_gib"),
    "memory_too_small": Check(ERROR, "preflight_memory_reserve_gib"),
    "memory_below_weights": Check(WARNING),
    "shm_too_small": Check(WARNING, "ray_object_store_memory_gib"),
    # GPUs and driver
    "no_gpu_found": Check(ERROR),
    "image_without_cuda": Check(ERROR),
    "image_without_code": Check(ERROR),
    "image_needs_driver": Check(ERROR),
    "gpu_count_differs": Check(ERROR, "llm_gpus"),
    "gpu_differs": Check(ERROR, "llm_gpus"),
    "too_few_gpus_found": Check(ERROR, "vllm_tensor_parallel_size"),
    "gpu_lost": Check(ERROR),
    "gpu_problem": Check(ERROR),
    "unknown_pci_device": Check(WARNING, "llm_gpus"),
    "nvidia_smi_failed": Check(WARNING, "nvidia_driver_method"),
    "nvidia_smi_unreadable": Check(WARNING, "nvidia_driver_method"),
    "driver_mismatch": Check(WARNING, "nvidia_driver_method"),
    "driver_differs": Check(ERROR, "nvidia_driver_method"),
    "gpu_ecc_errors": Check(ERROR, "preflight_ecc_uncorrected_limit"),
    "gpu_memory_worn": Check(ERROR),
    "gpu_reset_pending": Check(WARNING),
    "gpu_throttled": Check(WARNING),
    "gpu_link_narrow": Check(WARNING),
    # Network
    "interface_missing": Check(ERROR, "llm_cluster_interface"),
    "interface_unusable": Check(ERROR, "llm_cluster_interface"),
    "interface_outside_network": Check(ERROR, "llm_cluster_interface"),
    "network_malformed": Check(ERROR, "llm_cluster_network"),
    "no_shared_network": Check(ERROR, "llm_cluster_network"),
    "no_shared_network_wanted": Check(ERROR, "llm_cluster_interface"),
    "not_in_network": Check(ERROR, "llm_cluster_network"),
    "network_ipv6": Check(ERROR, "llm_cluster_network"),
    "same_address": Check(ERROR),
    "mtu_differs": Check(WARNING),
    "host_name_unknown": Check(WARNING),
    "host_name_elsewhere": Check(WARNING),
    # Others on the host
    "port_taken": Check(ERROR),
    "service_foreign": Check(ERROR),
    "gpu_busy": Check(ERROR),
    # The inventory's own word about this table
    "check_unknown": Check(ERROR, "preflight_severities"),
}
# What the role nvidia_driver mends, so that it refuses only where that role is told to keep away.
_MENDED_BY_DRIVER = ("nvidia_smi_failed", "nvidia_smi_unreadable", "driver_mismatch")
# Reasons for a lower clock with which a card is slower than it should be for as long as they last.
_THROTTLE_REASONS = frozenset(("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"))
# Containers of this collection. What they hold, they may.
_OURS = "llm-"


def _same_name(one: str, other: str) -> bool:
    """Drivers before R470 say Tesla or nothing where newer ones say NVIDIA."""
    plain = [re.sub(r"^(nvidia|tesla)\s+", "", " ".join(name.lower().split())) for name in (one, other)]
    return plain[0] == plain[1]


def _number(value: Any) -> int:
    """A whole number; 0 where none is said."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0


def _kernel(release: str) -> tuple[int, ...]:
    """6.1.0-18-amd64 as numbers."""
    match = re.match(r"\d+(\.\d+)*", release)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def _gib(value: Any) -> float:
    """A size or a time; 0 where none is said."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    # More than any machine has, and less than what a float overflows at.
    return min(number, float(1 << 60)) if 0 < number < float("inf") else 0.0


def _ours(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("container") or "").startswith(_OURS)


class _HostCheck:
    """One look at all hosts."""

    def __init__(
        self,
        deployments: Mapping[str, Mapping[str, Any]],
        facts: Mapping[str, Mapping[str, Any]],
        settings: Mapping[str, Mapping[str, Any]],
        limits: Mapping[str, Any],
        lang: str,
    ) -> None:
        self.deployments = deployments
        self.facts = facts
        self.settings = settings
        self.limits = limits
        self.lang = lang
        self.severities: Mapping[str, str] = limits.get("severities") or {}
        self.findings: list[dict[str, Any]] = []
        self.hosts: dict[str, dict[str, Any]] = {}

    def add(
        self, code: str, hosts: Iterable[str], value: str = "", where: str = "", severity: str = "", **values: Any
    ) -> None:
        where = where or message("where_nowhere", self.lang)
        self.keep(problem(code, self.lang, value=value, where=where, **values), hosts, severity)

    def keep(self, entry: Mapping[str, Any], hosts: Iterable[str], severity: str = "") -> None:
        """Note a finding, with what it means and on which hosts."""
        check = CHECKS[entry["code"]]
        severity = self.severities.get(entry["code"]) or severity or check.severity
        if severity != IGNORE:
            self.findings.append(
                {**entry, "severity": severity, "hosts": list(hosts), "limit": self.limit(check.limit)}
            )

    def limit(self, variable: str) -> str:
        """The variable with its value, if that is ours."""
        key = variable.replace("preflight_", "", 1)
        known = variable.startswith("preflight_") and isinstance(self.limits.get(key), (str, int, float))
        return "{0}: {1}".format(variable, self.limits[key]) if known else variable

    def check_severities(self, hosts: Sequence[str]) -> None:
        for code in self.severities:
            if code not in CHECKS:
                near = difflib.get_close_matches(code, CHECKS, n=3, cutoff=0.4) or sorted(CHECKS)
                where = message("where_group", self.lang, group="all")
                self.add("check_unknown", hosts, value=code, where=where, codes=names(near, self.lang))

    def seen(self, members: Sequence[str]) -> list[str]:
        """The hosts of which there are facts."""
        return [host for host in members if self.facts.get(host)]

    def get(self, host: str, name: str) -> Any:
        return self.settings.get(host, {}).get(name)

    def system(self, host: str) -> str:
        facts = self.facts[host]
        return "{0} {1}".format(facts.get("distribution", "?"), facts.get("distribution_version", "?"))

    def releases(self, host: str) -> set[str]:
        facts = self.facts[host]
        found = {str(facts.get("distribution_version", "")), str(facts.get("distribution_major_version", ""))}
        # 22.04 of 22.04.3, where a distribution says so much
        found |= {".".join(version.split(".")[:2]) for version in found}
        return found - {""}

    # Systems

    def check_systems(self, hosts: Sequence[str]) -> None:
        systems = self.limits.get("supported_systems") or {}
        supported = {str(name).lower(): [str(release) for release in releases] for name, releases in systems.items()}
        texts = ["{0} {1}".format(name, ", ".join(map(str, releases))) for name, releases in systems.items()]
        architectures = [str(item) for item in self.limits.get("supported_architectures") or ()]
        unsupported: dict[str, list[str]] = {}
        foreign: dict[str, list[str]] = {}
        for host in hosts:
            if not self.releases(host) & set(supported.get(str(self.facts[host].get("distribution", "")).lower(), [])):
                unsupported.setdefault(self.system(host), []).append(host)
            architecture = str(self.facts[host].get("architecture", "?"))
            if architecture not in architectures:
                foreign.setdefault(architecture, []).append(host)
        for system, mine in unsupported.items():
            self.add("system_not_supported", mine, value=system, names=names(mine, self.lang), systems="; ".join(texts))
        for architecture, mine in foreign.items():
            self.add(
                "architecture_not_supported",
                mine,
                value=architecture,
                names=names(mine, self.lang),
                architectures=names(architectures, self.lang),
            )

    # GPUs

    def found(self, host: str) -> list[Mapping[str, Any]]:
        return list(self.facts[host].get("llm_gpus_found") or [])

    def declared(self, host: str) -> list[Mapping[str, Any]] | None:
        value = self.get(host, "gpus")
        return list(value) if isinstance(value, (list, tuple)) else None

    def cards(self, gpus: Sequence[Mapping[str, Any]]) -> str:
        counts: dict[str, int] = {}
        for gpu in gpus:
            name = str(gpu.get("name") or message("gpu_unknown", self.lang))
            counts[name] = counts.get(name, 0) + 1
        return names([message("gpu_text", self.lang, count=n, name=name) for name, n in counts.items()], self.lang)

    def check_gpus(self, deployment: str, host: str) -> None:
        found = self.found(host)
        declared = self.declared(host)
        where = message("where_host", self.lang, host=host)
        if declared is None:
            if not found:
                self.add(
                    "no_gpu_found", [host], value=message("nothing_there", self.lang), deployment=deployment, host=host
                )
            return
        if len(found) != len(declared):
            self.add(
                "gpu_count_differs",
                [host],
                value=self.cards(declared),
                where=where,
                host=host,
                found=len(found),
                declared=len(declared),
                cards=self.cards(found),
            )
            return
        for index, (mine, said) in enumerate(zip(found, declared, strict=False)):
            key = self.difference(mine, said)
            if key:
                self.add(
                    "gpu_differs",
                    [host],
                    value="{0}: {1}".format(key, shown(said.get(key), self.lang)),
                    where=where,
                    host=host,
                    index=index,
                    key=key,
                    found=shown(mine.get(key), self.lang),
                )

    @staticmethod
    def difference(found: Mapping[str, Any], declared: Mapping[str, Any]) -> str:
        """What a card and its declaration differ in; what is not known of the card cannot differ."""
        # On the PCI bus some cards of one name cannot be told apart: there the name proves nothing.
        if found.get("uuid") and found.get("name") and declared.get("name"):
            if not _same_name(str(found["name"]), str(declared["name"])):
                return "name"
        capability = found.get("compute_capability")
        if capability and declared.get("compute_capability"):
            if str(capability) != str(declared["compute_capability"]):
                return "compute_capability"
        memory, said = found.get("memory_mib"), _number(declared.get("memory_mib"))
        if memory and said and abs(int(memory) - said) > int(memory) * _MEMORY_TOLERANCE:
            return "memory_mib"
        return ""

    def check_parallelism(self, deployment: str, members: Sequence[str]) -> None:
        counts: dict[str, int] = {}
        for host in members:
            if self.facts.get(host):
                counts[host] = len(self.found(host))
            elif self.declared(host) is not None:
                counts[host] = len(self.declared(host) or [])
            else:
                return  # not looked at in this run, so the sum is not known
        head = members[0]
        tensor, pipeline = (
            _number(self.get(head, name)) for name in ("tensor_parallel_size", "pipeline_parallel_size")
        )
        wanted = max(tensor, 1) * max(pipeline, 1)
        total = sum(counts.values())
        if not (tensor or pipeline) or wanted <= total:
            return
        self.add(
            "too_few_gpus_found",
            members,
            value="vllm_tensor_parallel_size: {0}, vllm_pipeline_parallel_size: {1}".format(
                shown(tensor or None, self.lang), shown(pipeline or None, self.lang)
            ),
            where=message("where_group", self.lang, group=deployment),
            deployment=deployment,
            wanted=wanted,
            tensor=max(tensor, 1),
            pipeline=max(pipeline, 1),
            found=total,
            per_host=names(["{0}: {1}".format(host, count) for host, count in counts.items()], self.lang),
        )

    def check_image(self, deployment: str, hosts: Sequence[str]) -> None:
        """Whether the image in the bundle holds code for the GPUs that were found, and runs with the driver that they get."""
        image = next((self.get(host, "image") for host in hosts if self.get(host, "image")), None)
        if not image:
            return
        drivers: set[str] = set()
        for host in hosts:
            told = {"nvidia_driver_" + name: self.get(host, "driver_" + name) for name in ("method", "version")}
            loaded = ((self.get(host, "gpu") or {}).get("driver") or {}).get("loaded")
            driver = planned_driver(told, self.get(host, "drivers") or ()) or loaded
            drivers |= {str(driver)} if driver else set()
        gpus = [gpu.get("compute_capability") for host in hosts for gpu in self.found(host)]
        where = message("where_group", self.lang, group=deployment)
        for entry in image_problems(deployment, image, gpus, oldest(drivers), where, self.lang):
            self.keep(entry, hosts)

    # Disks

    def check_disks(self, host: str) -> None:
        reserve = int(float(self.limits.get("disk_reserve_gib") or 0) * _GIB)
        for disk in self.get(host, "disks") or ():
            needed = int(disk["needed_bytes"])
            if not needed or needed + reserve <= int(disk["available_bytes"]):
                continue
            parts = {path: size for path, size in disk["needs"].items() if size}
            self.add(
                "disk_too_small",
                [host],
                value=message("disk_too_small_value", self.lang, available=human_bytes(disk["available_bytes"])),
                host=host,
                mount=disk["mount"],
                directories=names(list(parts), self.lang),
                needed=human_bytes(needed + reserve),
                parts=names(["{0}: {1}".format(path, human_bytes(size)) for path, size in parts.items()], self.lang),
                reserve=human_bytes(reserve),
            )

    # Network

    def check_network(self, deployment: str, hosts: Sequence[str]) -> None:
        network = next((self.get(host, "network") for host in hosts if self.get(host, "network")), None)
        agreed = agree_interfaces(
            {host: interfaces_from_facts(self.facts[host]) for host in hosts},
            network=network,
            wanted={host: self.get(host, "interface") for host in hosts},
            lang=self.lang,
        )
        for entry in agreed["problems"]:
            if entry["code"] in ("interface_missing", "interface_unusable"):
                entry = {**entry, "value": "llm_cluster_interface: {0}".format(entry["value"])}
            self.keep(entry, entry["hosts"])
        for host in hosts:
            mine = agreed["interfaces"].get(host)
            interface = {**mine, "network": agreed["network"]} if mine else None
            self.hosts[host] = {"deployment": deployment, "interface": interface}
        self.check_mtu(deployment, hosts)

    def check_mtu(self, deployment: str, hosts: Sequence[str]) -> None:
        """TCP finds its way between hosts with different ones, only slower; something is set up wrongly all the same."""
        found: dict[int, list[str]] = {}
        for host in hosts:
            interface = self.hosts[host]["interface"]
            for entry in interfaces_from_facts(self.facts[host]) if interface else []:
                if entry["name"] == interface["interface"] and _number(entry["mtu"]):
                    found.setdefault(_number(entry["mtu"]), []).append(host)
        if len(found) > 1:
            said = ["{0}: {1}".format(mtu, names(mine, self.lang)) for mtu, mine in sorted(found.items())]
            where = message("where_hosts_network", self.lang)
            mine = sorted(host for members in found.values() for host in members)
            self.add("mtu_differs", mine, value="; ".join(said), where=where, deployment=deployment)

    def check_name(self, host: str) -> None:
        """That it stands for 127.0.1.1 is fine, as Debian has it: Ray and vLLM are told their addresses."""
        name = (self.get(host, "host") or {}).get("name")
        if not name:
            return
        addresses = [str(item) for item in name.get("addresses") or ()]
        own = {
            address.split("/")[0] for entry in interfaces_from_facts(self.facts[host]) for address in entry["addresses"]
        }
        values = {"host": host, "name": name["name"]}
        if not addresses:
            self.add("host_name_unknown", [host], value=message("nothing_there", self.lang), **values)
        elif not any(item in own or item.startswith("127.") or item == "::1" for item in addresses):
            self.add("host_name_elsewhere", [host], value=names(addresses, self.lang), **values)

    # System and room

    def check_host(self, host: str) -> None:
        found = self.get(host, "host") or {}
        kernel, least = str(found.get("kernel") or ""), str(self.limits.get("kernel_minimum") or "")
        if _kernel(kernel) and _kernel(kernel) < _kernel(least):
            self.add("kernel_too_old", [host], value=kernel, host=host, least=least)
        if found.get("selinux") == "enforcing" and found.get("docker_selinux_enabled"):
            self.add("selinux_labels", [host], value="selinux-enabled: true", host=host)

    def check_clocks(self, hosts: Sequence[str]) -> None:
        clocks = {host: (self.get(host, "host") or {}).get("clock") for host in hosts}
        limit = _gib(self.limits.get("clock_limit_seconds"))
        middle, apart = clocks_apart({host: clock for host, clock in clocks.items() if clock}, limit)
        for host, seconds in apart.items():
            self.add("clock_differs", [host], value="{0:+.1f} s".format(seconds), host=host, middle=middle, limit=limit)

    def ranks(self, entry: Mapping[str, Any], host: str) -> int:
        """How many GPUs of a host its deployment uses: those of the plan, as far as the inventory says what it will be, else all."""
        head = str(entry.get("head") or entry["hosts"][0])
        order = [head, *(member for member in entry["hosts"] if member != head)]
        counts = [
            len(self.found(member) if self.facts.get(member) else self.declared(member) or []) for member in order
        ]
        tensor, pipeline = (
            _number(self.get(head, name)) for name in ("tensor_parallel_size", "pipeline_parallel_size")
        )
        if tensor < 1:
            return len(self.found(host))
        stages = pipeline if pipeline > 0 else sum(count // tensor for count in counts) or sum(counts) // tensor
        ranks: Sequence[int] = spread(counts, tensor, stages) or counts
        return ranks[order.index(host)]

    def check_memory(self, deployment: str, entry: Mapping[str, Any], host: str) -> None:
        found = self.get(host, "host") or {}
        memory = found.get("memory") or {}
        ranks = self.ranks(entry, host)
        several = len(entry["hosts"]) > 1
        store = _gib(self.get(host, "object_store_gib")) if several else 0.0
        shm = found.get("shm_mib")
        if shm is not None and store * 1024 > int(shm):
            value = human_bytes(int(shm) << 20)
            self.add("shm_too_small", [host], value=value, host=host, needed=human_bytes(int(store * _GIB)))
        if not memory.get("total_mib"):
            return
        usable = (int(memory["total_mib"]) - int(memory.get("hugepages_mib") or 0)) << 20
        parts = {
            "vllm_options.cpu_offload_gb": ranks * _gib(self.get(host, "cpu_offload_gib")) * _GIB,
            "vllm_options.swap_space": ranks * _gib(self.get(host, "swap_space_gib")) * _GIB,
            "ray_object_store_memory_gib": store * _GIB,
            "preflight_memory_reserve_gib": _gib(self.limits.get("memory_reserve_gib")) * _GIB,
        }
        needed = int(sum(parts.values()))
        values = {
            "host": host,
            "hugepages": human_bytes(int(memory.get("hugepages_mib") or 0) << 20),
            "needed": human_bytes(needed),
        }
        if needed > usable:
            said = ["{0}: {1}".format(name, human_bytes(int(size))) for name, size in parts.items() if size]
            where = message("where_group", self.lang, group=deployment)
            self.add(
                "memory_too_small",
                [host],
                human_bytes(usable),
                where,
                ranks=ranks,
                parts=names(said, self.lang),
                **values,
            )
        elif needed + _number(self.get(host, "model_bytes")) > usable:
            weights = human_bytes(_number(self.get(host, "model_bytes")))
            self.add("memory_below_weights", [host], human_bytes(usable), weights=weights, **values)

    # GPUs: the driver, and whether they are well

    def check_driver(self, host: str) -> None:
        kept = self.get(host, "driver_method") == "present"
        for entry in (self.get(host, "gpu") or {}).get("problems") or ():
            code = entry["code"] if entry["code"] in CHECKS else "gpu_problem"
            severity = ERROR if kept and code in _MENDED_BY_DRIVER else ""
            self.add(code, [host], value=str(entry["detail"]), severity=severity, host=host)

    def check_same_driver(self, deployment: str, hosts: Sequence[str]) -> None:
        """Where the role nvidia_driver installs one, they will be the same."""
        loaded: dict[str, list[str]] = {}
        for host in hosts:
            version = ((self.get(host, "gpu") or {}).get("driver") or {}).get("loaded")
            if version and self.get(host, "driver_method") == "present":
                loaded.setdefault(str(version), []).append(host)
        if len(loaded) > 1:
            said = ["{0}: {1}".format(version, names(mine, self.lang)) for version, mine in sorted(loaded.items())]
            mine = sorted(host for members in loaded.values() for host in members)
            self.add("driver_differs", mine, value="; ".join(said), deployment=deployment)

    def check_health(self, host: str) -> None:
        limit = _number(self.limits.get("ecc_uncorrected_limit"))
        for index, gpu in enumerate(self.found(host)):
            values = {"host": host, "index": gpu.get("index", index)}
            errors = _number(((gpu.get("ecc") or {}).get("volatile") or {}).get("uncorrected"))
            if errors > limit:
                self.add("gpu_ecc_errors", [host], value=str(errors), **values)
            rows, pages = gpu.get("remapped_rows") or {}, gpu.get("retired_pages") or {}
            if rows.get("failed"):
                self.add("gpu_memory_worn", [host], value="remapped_rows.failed", **values)
            pending = {"remapped_rows.pending": rows, "retired_pages.pending": pages}
            said = [name for name, counts in pending.items() if counts.get("pending")]
            if said:
                self.add("gpu_reset_pending", [host], value=names(said, self.lang), **values)
            reasons = sorted(_THROTTLE_REASONS.intersection(gpu.get("throttle_reasons") or ()))
            if reasons:
                self.add("gpu_throttled", [host], value=names(reasons, self.lang), **values)
            # Its generation says nothing: a card that idles lowers it. Its width stays.
            link = gpu.get("link") or {}
            width, widest = _number(link.get("width")), _number(link.get("width_max"))
            if 0 < width < widest:
                self.add("gpu_link_narrow", [host], value="x{0}".format(width), widest="x{0}".format(widest), **values)

    # Who else is there

    def check_others(self, entry: Mapping[str, Any], host: str) -> None:
        found = self.get(host, "host") or {}
        executor = (
            str(self.get(host, "executor") or "auto").replace("auto", "ray") if len(entry["hosts"]) > 1 else "none"
        )
        head = host == (entry.get("head") or entry["hosts"][0])
        for port in deployment_ports(self.get(host, "ports") or {}, executor):
            for listener in found.get("listeners") or ():
                if (port.head_only and not head) or _ours(listener) or not port.first <= listener["port"] <= port.last:
                    continue
                value, taken = self.process(listener), listener["port"]
                self.add("port_taken", [host], value, port.variable, host=host, port=taken, variable=port.variable)
        strangers = [item for item in found.get("services") or () if not _ours(item)]
        if strangers:
            said = ["{0}: {1}".format(item["service"], self.process(item)) for item in strangers]
            self.add("service_foreign", [host], value=names(said, self.lang, 4), host=host)
        known = {item["pid"] for item in strangers}
        busy = [item for item in found.get("gpu_processes") or () if not _ours(item) and item["pid"] not in known]
        if busy:
            self.add("gpu_busy", [host], value=names([self.process(item) for item in busy], self.lang, 4), host=host)

    def process(self, entry: Mapping[str, Any]) -> str:
        name = str(entry.get("process") or "")
        if not entry.get("pid"):
            return message("process_unknown", self.lang)
        code = "process_container" if entry.get("container") else "process_text"
        return message(code, self.lang, name=name, pid=entry["pid"], container=entry.get("container"))

    def run(self) -> dict[str, Any]:
        everybody = [host for entry in self.deployments.values() for host in self.seen(entry["hosts"])]
        self.check_severities(everybody)
        self.check_systems(everybody)
        self.check_clocks(everybody)
        for deployment, entry in self.deployments.items():
            members = list(entry["hosts"])
            hosts = self.seen(members)
            if not hosts:
                continue
            for host in hosts:
                self.check_host(host)
                self.check_gpus(deployment, host)
                self.check_driver(host)
                self.check_health(host)
            self.check_parallelism(deployment, members)
            self.check_same_driver(deployment, hosts)
            self.check_image(deployment, hosts)
            self.check_network(deployment, hosts)
            for host in hosts:
                self.check_name(host)
                self.check_disks(host)
                self.check_memory(deployment, entry, host)
                self.check_others(entry, host)
        errors, warnings = ([item for item in self.findings if item["severity"] == kind] for kind in (ERROR, WARNING))
        return {
            "problems": errors,
            "warnings": warnings,
            "message": self.text(errors, "preflight_header"),
            "warning": self.text(warnings, "preflight_warnings"),
            "hosts": self.hosts,
            "report": self.report(),
        }

    def text(self, findings: Sequence[Mapping[str, Any]], header: str) -> str:
        header += "_one" if len(findings) == 1 else ""
        return render(findings, self.lang, message(header, self.lang, count=len(findings))) if findings else ""

    def report(self) -> dict[str, Any]:
        """The same for machines, host by host."""
        hosts: dict[str, Any] = {}
        for host, entry in self.hosts.items():
            checks = [
                {
                    "code": item["code"],
                    "severity": item["severity"],
                    "what": item["what"],
                    "value": item["value"],
                    "limit": item["limit"],
                    "where": item["where"],
                    "remedy": item["allowed"],
                }
                for item in self.findings
                if host in item["hosts"]
            ]
            ok = all(check["severity"] != ERROR for check in checks)
            hosts[host] = {"deployment": entry["deployment"], "ok": ok, "checks": checks}
        count = {kind: sum(item["severity"] == kind for item in self.findings) for kind in (ERROR, WARNING)}
        return {
            "schema": REPORT_SCHEMA,
            "ok": not count[ERROR],
            "errors": count[ERROR],
            "warnings": count[WARNING],
            "hosts": hosts,
        }


def check_hosts(
    deployments: Mapping[str, Mapping[str, Any]],
    facts: Mapping[str, Mapping[str, Any]],
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    limits: Mapping[str, Any] | None = None,
    lang: str = "en",
) -> dict[str, Any]:
    """All that is wrong with the hosts, and what they use.

    ``deployments`` is that of the inventory check, ``facts`` per host its facts with ``llm_gpus_found``. A host without
    facts is not judged. ``settings`` holds per host what its inventory says (``gpus``, ``interface``, ``network``,
    ``tensor_parallel_size``, ``pipeline_parallel_size``, ``cpu_offload_gib``, ``swap_space_gib``, ``object_store_gib``,
    ``model_bytes``, ``driver_method``, ``driver_version``, ``executor``, and as ``ports`` the variables of ports), what the bundle
    holds for it (``image``, its record in the manifest, and ``drivers``, their versions) and what was found (``disks`` as
    ``measure_disks`` returns them, ``gpu`` and ``host`` as the modules of these names do); whatever is missing is not judged.
    ``limits`` are the variables of the role preflight without their prefix.
    """
    return _HostCheck(deployments, facts, settings or {}, limits or {}, lang).run()


def report_lines(report: Mapping[str, Any], lang: str = "en") -> list[str]:
    """One line per host: whether it is fine, else what is wrong by its code."""
    lines = []
    width = max([len(host) for host in report["hosts"]] or [0])
    for host, entry in report["hosts"].items():
        found = [
            "{0}: {1}".format(message("severity_" + check["severity"], lang), check["code"])
            for check in entry["checks"]
        ]
        state = message("preflight_ok", lang) if not found else "; ".join(dict.fromkeys(found))
        lines.append("{0}  {1} ({2})".format(host.ljust(width), state, entry["deployment"]))
    return lines
