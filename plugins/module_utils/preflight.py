# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the hosts of the deployments, found by looking and before anything is changed.

The facts come from the hosts, the settings from the inventory; all problems of all hosts are told together.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils.disks import human_bytes
from ansible_collections.baremetal.llm.plugins.module_utils.messages import message, names, problem, render, shown
from ansible_collections.baremetal.llm.plugins.module_utils.network import agree_interfaces, interfaces_from_facts

_GIB = 1 << 30
# A declared memory size that is so near was meant to be the same card: MiB of nvidia-smi differ a little between drivers.
_MEMORY_TOLERANCE = 0.03


def _same_name(one: str, other: str) -> bool:
    """Drivers before R470 say Tesla or nothing where newer ones say NVIDIA."""
    plain = [re.sub(r"^(nvidia|tesla)\s+", "", " ".join(name.lower().split())) for name in (one, other)]
    return plain[0] == plain[1]


def _number(value: Any) -> int:
    """A parallel size; 0 where none is said."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


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
        self.problems: list[dict[str, str]] = []
        self.hosts: dict[str, dict[str, Any]] = {}

    def add(self, code: str, value: str = "", where: str = "", **values: Any) -> None:
        where = where or message("where_nowhere", self.lang)
        self.problems.append(problem(code, self.lang, value=value, where=where, **values))

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
        supported = {
            str(name).lower(): [str(release) for release in releases]
            for name, releases in (self.limits.get("systems") or {}).items()
        }
        texts = [
            "{0} {1}".format(name, ", ".join(map(str, rel))) for name, rel in (self.limits.get("systems") or {}).items()
        ]
        architectures = [str(item) for item in self.limits.get("architectures") or ()]
        unsupported: dict[str, list[str]] = {}
        foreign: dict[str, list[str]] = {}
        for host in hosts:
            if not self.releases(host) & set(supported.get(str(self.facts[host].get("distribution", "")).lower(), [])):
                unsupported.setdefault(self.system(host), []).append(host)
            architecture = str(self.facts[host].get("architecture", "?"))
            if architecture not in architectures:
                foreign.setdefault(architecture, []).append(host)
        for system, mine in unsupported.items():
            self.add("system_not_supported", value=system, hosts=names(mine, self.lang), systems="; ".join(texts))
        for architecture, mine in foreign.items():
            self.add(
                "architecture_not_supported",
                value=architecture,
                hosts=names(mine, self.lang),
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
                self.add("no_gpu_found", value=message("nothing_there", self.lang), deployment=deployment, host=host)
            return
        if len(found) != len(declared):
            self.add(
                "gpu_count_differs",
                value=self.cards(declared),
                where=where,
                host=host,
                found=len(found),
                declared=len(declared),
                cards=self.cards(found),
            )
            return
        for index, (mine, said) in enumerate(zip(found, declared)):
            key = self.difference(mine, said)
            if key:
                self.add(
                    "gpu_differs",
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
            self.problems.append(entry)
        for host in hosts:
            mine = agreed["interfaces"].get(host)
            interface = {**mine, "network": agreed["network"]} if mine else None
            self.hosts[host] = {"deployment": deployment, "interface": interface}

    def run(self) -> dict[str, Any]:
        everybody = [host for entry in self.deployments.values() for host in self.seen(entry["hosts"])]
        self.check_systems(everybody)
        for deployment, entry in self.deployments.items():
            members = list(entry["hosts"])
            hosts = self.seen(members)
            if not hosts:
                continue
            for host in hosts:
                self.check_gpus(deployment, host)
            self.check_parallelism(deployment, members)
            self.check_network(deployment, hosts)
            for host in hosts:
                self.check_disks(host)
        header = "preflight_header_one" if len(self.problems) == 1 else "preflight_header"
        return {
            "problems": self.problems,
            "message": render(self.problems, self.lang, message(header, self.lang, count=len(self.problems)))
            if self.problems
            else "",
            "hosts": self.hosts,
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
    facts is not judged. ``settings`` holds per host ``gpus`` (declared), ``interface``, ``network``,
    ``tensor_parallel_size``, ``pipeline_parallel_size`` and ``disks`` (as ``measure_disks`` returns them); ``limits`` has
    ``systems``, ``architectures`` and ``disk_reserve_gib``.
    """
    return _HostCheck(deployments, facts, settings or {}, limits or {}, lang).run()
