# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment's containers, units, folders and firewall are called on a host.

A machine that serves several deployments has one inventory name for each of them, with the same ``ansible_host``. Where a machine has one
name only, everything is called as it always was; where it has several, the name of the deployment is part of every name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

# Of the group: what Docker, systemd and nftables all take in a name.
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
# Containers and units of a deployment that run all the time, whichever names they had.
_SERVING = re.compile(r"llm-(?:vllm|ray)(?:-(.+))?")


def part_of_names(deployment: str) -> str:
    """A deployment's name as a part of others. One with other letters gets a few of its digest, so that no two become the same."""
    if _PLAIN.fullmatch(deployment):
        return deployment
    return f"{re.sub('[^A-Za-z0-9_]+', '_', deployment)}_{hashlib.sha256(deployment.encode()).hexdigest()[:6]}"


def names(part: str = "", sharing: Sequence[str] = ()) -> dict[str, Any]:
    """All names of one deployment on one machine; ``part`` is empty where the machine has one deployment.

    ``sharing`` are the inventory names of the machine. ``folder`` is below llm_host_dir.
    """
    suffix = f"-{part}" if part else ""
    return {
        "suffix": suffix,
        "vllm": f"llm-vllm{suffix}",
        "ray": f"llm-ray{suffix}",
        "probe": f"llm-probe{suffix}",
        "state": f"/run/llm-probe{suffix}",
        "collective": f"llm-collective{suffix}",
        "benchmark": f"llm-benchmark{suffix}",
        "firewall": f"llm-firewall{suffix}",
        "table": f"baremetal_llm_{part}" if part else "baremetal_llm",
        "folder": f"/deployments/{part}" if part else "",
        "sharing": list(sharing),
    }


def names_on(host: str, known: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The names on one host; one that is not known has its machine for itself."""
    return dict(known.get(host) or names(sharing=[host]))


def machines(hosts: Sequence[str], machine: Callable[[str], Hashable | None]) -> list[list[str]]:
    """The inventory names of each machine, in their order. ``machine`` says which one a host is; None where that is not known."""
    found: dict[Hashable, list[str]] = {}
    for host in hosts:
        known = machine(host)
        found.setdefault((host,) if known is None else (known, ""), []).append(host)
    return list(found.values())


def names_of_all(
    deployments: Mapping[str, Sequence[str]], machine: Callable[[str], Hashable | None]
) -> dict[str, dict[str, Any]]:
    """The names on each host of the deployments."""
    of_host = {host: deployment for deployment, members in deployments.items() for host in members}
    found: dict[str, dict[str, Any]] = {}
    for sharing in machines(list(of_host), machine):
        several = len({of_host[host] for host in sharing}) > 1
        for host in sharing:
            found[host] = names(part_of_names(of_host[host]) if several else "", sharing if several else [host])
    return found


def alias_hosts(hosts: Sequence[str], known: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The hosts of a run whose machine is prepared under an earlier name: of each machine the first name of the run stands for it."""
    playing = set(hosts)
    return [
        host
        for host in hosts
        if host != next((one for one in (known.get(host) or {}).get("sharing") or [host] if one in playing), host)
    ]


def former(
    containers: Sequence[Mapping[str, Any]], current: Sequence[Mapping[str, Any]], host_dir: str
) -> list[dict[str, Any]]:
    """The names under which a machine served before it had more or fewer deployments: those of its containers and units that no
    deployment has now.

    Each with the ``paths`` of its units, its firewall and its secrets.
    """
    kept = {each["suffix"] for each in current}
    parts = {found.group(1) or "" for each in containers if (found := _SERVING.fullmatch(str(each.get("name") or "")))}
    gone = [names(part) for part in sorted(parts) if names(part)["suffix"] not in kept]
    return [{**each, "paths": _paths(each, host_dir)} for each in gone]


def _paths(mine: Mapping[str, Any], host_dir: str) -> list[str]:
    probe, firewall = mine["probe"], mine["firewall"]
    units = [
        f"{mine['vllm']}.service",
        f"{mine['ray']}.service",
        f"{probe}.service",
        f"{probe}.timer",
        f"{firewall}.service",
    ]
    drop_ins = [f"{unit}.service.d/{firewall}.conf" for unit in ("docker", "nftables", mine["vllm"], mine["ray"])]
    systemd = [f"/etc/systemd/system/{name}" for name in (*units, *drop_ins)]
    return [*systemd, f"/etc/{firewall}.nft", f"{host_dir}{mine['folder']}/secrets"]
