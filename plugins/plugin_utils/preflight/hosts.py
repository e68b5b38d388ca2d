# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the hosts, as every rule asks for it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import number, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import CHECKS, OF_ENGINE, Finding

GIB = 1 << 30


def whole_number(value: object) -> int:
    """A whole number; 0 where none is said."""
    try:
        return whole(value)
    except (TypeError, ValueError, OverflowError):
        return 0


def numbers_in(version: str) -> tuple[int, ...]:
    """The numbers of a version or of a kernel's release, to compare with those of another."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version))


def amount(value: object) -> float:
    """A size or a time; 0 where none is said."""
    try:
        size = number(value)
    except (TypeError, ValueError):
        return 0.0
    # More than any machine has, and less than what a float overflows at.
    return min(size, float(1 << 60)) if 0 < size < float("inf") else 0.0


@dataclasses.dataclass(frozen=True)
class Hosts:
    """Facts, what the inventory says and what was found, of each host; and the variables of the role preflight."""

    facts: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Mapping[str, Any]]
    limits: Mapping[str, Any]
    lang: str
    # By host, those that were looked at.
    deployments: Mapping[str, Deployment] = dataclasses.field(default_factory=dict)

    def get(self, host: str, name: str) -> Any:
        return self.settings.get(host, {}).get(name)

    def first(self, hosts: Iterable[str], name: str) -> Any:
        """What the first host says that says anything."""
        return next(filter(None, (self.get(host, name) for host in hosts)), None)

    def found(self, host: str, name: str) -> Mapping[str, Any]:
        """What a module of this collection found on a host: ``host`` or ``gpu``."""
        return self.get(host, name) or {}

    def loaded_driver(self, host: str) -> Any:
        return (self.found(host, "gpu").get("driver") or {}).get("loaded")

    def gpus(self, host: str) -> list[Mapping[str, Any]]:
        """Those of the host's machine."""
        return list(self.facts[host].get("llm_gpus_found") or [])

    def own_gpus(self, host: str) -> list[Mapping[str, Any]]:
        """Those of its machine that the host's deployment uses."""
        chosen = self.get(host, "own_gpus")
        return self.gpus(host) if chosen is None else list(chosen)

    def declared_gpus(self, host: str) -> list[Mapping[str, object]] | None:
        value = self.get(host, "gpus")
        return list(value) if isinstance(value, (list, tuple)) else None

    def gpu_counts(self, members: Iterable[str]) -> dict[str, int | None]:
        """How many GPUs each host has, or declares where it was not looked at; None where neither is known."""
        counts: dict[str, int | None] = {}
        for host in members:
            known: Sequence[object] | None = self.declared_gpus(host)
            if self.facts.get(host) or self.get(host, "own_gpus") is not None:
                known = self.own_gpus(host)
            counts[host] = None if known is None else len(known)
        return counts

    def parallel_sizes(self, head: str) -> tuple[int, int]:
        """Tensor and pipeline parallel size; 0 where the plan decides."""
        return (
            whole_number(self.get(head, "tensor_parallel_size")),
            whole_number(self.get(head, "pipeline_parallel_size")),
        )

    def names(self, items: Sequence[object], limit: int | None = None) -> str:
        return names(items, self.lang) if limit is None else names(items, self.lang, limit)

    def finding(
        self, code: str, hosts: Iterable[str], value: str = "", where: str = "", severity: str = "", **values: object
    ) -> Finding:
        where = where or message("where_nowhere", self.lang)
        return self.graded(problem(code, self.lang, value=value, where=where, **values), hosts, severity)

    def graded(self, entry: Mapping[str, object], hosts: Iterable[str], severity: str = "") -> Finding:
        """A problem with what it means and on which hosts."""
        check, named = CHECKS[str(entry["code"])], list(hosts)
        said = (self.limits.get("severities") or {}).get(entry["code"])
        return {
            **entry,
            "severity": said or severity or check.severity,
            "hosts": named,
            "limit": self._limit(check.limit, next(iter(named), "")),
        }

    def variable(self, host: str, setting: str) -> str:
        """What a setting of a host's engine is called."""
        return variable_of(self.get(host, "ports") or {}, setting)

    def _limit(self, variable: str, host: str) -> str:
        """The variable with its value, if that is ours."""
        if variable.startswith(OF_ENGINE):
            return self.variable(host, variable.removeprefix(OF_ENGINE))
        value = self.limits.get(variable.removeprefix("preflight_"))
        known = variable.startswith("preflight_") and isinstance(value, (str, int, float))
        return f"{variable}: {value}" if known else variable


@dataclasses.dataclass(frozen=True)
class Deployment:
    """One deployment: all its hosts, and those that were looked at."""

    name: str
    members: Sequence[str]
    head: str
    seen: Sequence[str]
