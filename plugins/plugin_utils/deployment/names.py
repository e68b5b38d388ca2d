# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What names an inventory may have, and what follows from them: containers, units, folders, files, the firewall's table.

Every name of a host or a deployment stands for itself in a file's name, a unit, a server of HAProxy, a label of Prometheus, a name of DNS and a
pattern of Ansible; an inventory with another one is refused (plugin_utils/inventory/names.py).

A machine that serves several deployments has one inventory name for each of them, with the same ``ansible_host``. Where a machine has one
name only, everything is called as it always was; where it has several, the name of the deployment is part of every name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import cast

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Former, Names
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT, engine_names

# Of an inventory name, in characters: no name of a file that is made from it is too long.
MOST = 128
# As a label of DNS, with underscores (RFC 1035, 2.3.1): all programs that read names take these letters, Ansible reads no pattern in them.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# Of a client's key, and of a model as clients name it: what HAProxy's maps and its configuration hold without quotes.
KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@+-]{0,254}")
# What the controller keeps in llm_secrets_dir: secrets of a deployment, and what gateways, journals, Grafana and the page need.
SECRETS = ("ray_token", "api_key")
REPLICA_KEY, OWN_KEY = "gateway_replica_key", "gateway_own_key"
GRAFANA_PASSWORD = "grafana_admin_password"
WEB_UI_KEY, SESSION_KEY, PASSWORD = "gateway_web_ui_key", "web_ui_session_key", "web_ui_admin_password"
# Each kind of certificate has an authority of its own, named after it, so that nobody sends journals with a certificate of a gateway.
GATEWAY, JOURNAL = "gateway", "journal"
# Where the program that loads servers on request finds one file for each, called after the server.
ON_REQUEST_DIR = "/etc/llm-on-request"
# Of the group: what Docker, systemd and nftables all take in a name.
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
# Containers and units of a deployment that run all the time, whichever names they had.
_SERVING = re.compile(rf"llm-(ray|{'|'.join(engine_names())})(?:-([A-Za-z0-9_]+))?")


def is_name(text: str) -> bool:
    """Whether a host or a deployment can be called so."""
    return len(text) <= MOST and bool(_NAME.fullmatch(text))


def secret_file(deployment: str, secret: str) -> str:
    """The file of a deployment's secret in llm_secrets_dir."""
    return f"{deployment}_{secret}"


def key_file(name: str) -> str:
    """The file of a client's key in llm_secrets_dir."""
    return f"gateway_key_{name}"


def authority_files(kind: str) -> tuple[str, str]:
    """The files of an authority in llm_secrets_dir: its certificate and its key."""
    return f"{kind}_ca.crt", f"{kind}_ca.key"


def certificate_files(kind: str, host: str) -> tuple[str, str]:
    """The files of a host's certificate and of its key in llm_secrets_dir."""
    return f"{kind}_{host}.crt", f"{kind}_{host}.key"


def clashes(hosts: Sequence[str], deployments: Sequence[str], keys: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """What several of these names would both be called, on any disk: upper and lower case are one to some.

    By file or identifier: whose it is, each as its kind (``host``, ``deployment``, ``key``, ``own``) and its name.
    """
    found: dict[str, list[tuple[str, str]]] = {}

    def take(kind: str, name: str, *identifiers: str) -> None:
        for each in identifiers:
            found.setdefault(each.casefold(), []).append((kind, name))

    for kind in (GATEWAY, JOURNAL):
        take("own", authority_files(kind)[0], *authority_files(kind))
    for own in (REPLICA_KEY, OWN_KEY, GRAFANA_PASSWORD, WEB_UI_KEY, SESSION_KEY, PASSWORD):
        take("own", own, own)
    for host in hosts:
        take("host", host, *(file for kind in (GATEWAY, JOURNAL) for file in certificate_files(kind, host)))
    for deployment in deployments:
        take("deployment", deployment, *(secret_file(deployment, secret) for secret in SECRETS))
        take("deployment", deployment, names(part_of_names(deployment))["table"])
    for key in keys:
        take("key", key, key_file(key))
    return {identifier: owners for identifier, owners in found.items() if len(owners) > 1}


def part_of_names(deployment: str) -> str:
    """A deployment's name as a part of others. One with other letters gets a few of its digest, so that no two become the same."""
    if _PLAIN.fullmatch(deployment):
        return deployment
    return f"{re.sub('[^A-Za-z0-9_]+', '_', deployment)}_{hashlib.sha256(deployment.encode()).hexdigest()[:6]}"


def names(part: str = "", sharing: Sequence[str] = (), engine: str = DEFAULT) -> Names:
    """All names of one deployment on one machine; ``part`` is empty where the machine has one deployment.

    The server is named after its ``engine``, and found under ``server`` and under the name of the engine.

    ``sharing`` are the inventory names of the machine. ``folder`` is below llm_host_dir.
    """
    suffix = f"-{part}" if part else ""
    found = {
        "suffix": suffix,
        "server": f"llm-{engine}{suffix}",
        engine: f"llm-{engine}{suffix}",
        # What a deployment leaves that gets another engine.
        "others": [f"llm-{other}{suffix}" for other in engine_names() if other != engine],
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
    return cast(Names, found)


def names_on(host: str, known: Mapping[str, Names]) -> Names:
    """The names on one host; one that is not known has its machine for itself."""
    return Names(**(known.get(host) or names(sharing=[host])))


def machines(hosts: Sequence[str], machine: Callable[[str], Hashable | None]) -> list[list[str]]:
    """The inventory names of each machine, in their order. ``machine`` says which one a host is; None where that is not known."""
    found: dict[Hashable, list[str]] = {}
    for host in hosts:
        known = machine(host)
        found.setdefault((host,) if known is None else (known, ""), []).append(host)
    return list(found.values())


def names_of_all(
    deployments: Mapping[str, Sequence[str]],
    machine: Callable[[str], Hashable | None],
    engine: Callable[[str], str] = lambda host: DEFAULT,
) -> dict[str, Names]:
    """The names on each host of the deployments; ``engine`` says what serves there."""
    of_host = {host: deployment for deployment, members in deployments.items() for host in members}
    found: dict[str, Names] = {}
    for sharing in machines(list(of_host), machine):
        several = len({of_host[host] for host in sharing}) > 1
        for host in sharing:
            found[host] = names(
                part_of_names(of_host[host]) if several else "", sharing if several else [host], engine(host)
            )
    return found


def alias_hosts(hosts: Sequence[str], known: Mapping[str, Names]) -> list[str]:
    """The hosts of a run whose machine is prepared under an earlier name: of each machine the first name of the run stands for it."""
    playing = set(hosts)
    return [
        host
        for host in hosts
        if host
        != next((one for one in (known[host]["sharing"] if known.get(host) else [host]) if one in playing), host)
    ]


def former(
    containers: Sequence[Mapping[str, object]],
    current: Sequence[Names],
    host_dir: str,
    recorded: Collection[str],
) -> list[Former]:
    """The names under which a machine served before it had more or fewer deployments: those of its containers and units that no
    deployment has now. Only what a label (``ours``) and a record of the host (``recorded``) say to be the collection's counts.

    Each with the ``paths`` of its units, its firewall and its secrets.
    """
    kept = {each["suffix"] for each in current}
    parts = {
        (found.group(1), found.group(2) or "")
        for each in containers
        if each.get("ours") and each["name"] in recorded and (found := _SERVING.fullmatch(str(each["name"])))
    }
    # Ray belongs to the default engine.
    served = {(part, engine if engine != "ray" else DEFAULT) for engine, part in parts}
    gone = [names(part, engine=engine) for part, engine in sorted(served) if names(part)["suffix"] not in kept]
    return [{**each, "paths": _paths(each, host_dir)} for each in gone]


def removal(mine: Names, host_dir: str) -> Former:
    """The names of a deployment that a host leaves for good, as ``former`` has them, with what the host remembers and has recorded of it."""
    folder = f"{host_dir}{mine['folder']}"
    engine = mine["server"].removeprefix("llm-").removesuffix(mine["suffix"])
    records = [f"{folder}/records/{role}.json" for role in ("network", "ray", engine)]
    return {**mine, "paths": [*_paths(mine, host_dir), f"{folder}/network.json", *records]}


def foreign(containers: Sequence[Mapping[str, object]], mine: Names) -> list[str]:
    """The containers that have one of a deployment's names and are somebody else's: they are neither replaced nor removed."""
    wanted = {mine["server"], mine["ray"], mine["collective"], mine["benchmark"]}
    return sorted(str(each["name"]) for each in containers if each["name"] in wanted and not each.get("ours", True))


def _paths(mine: Names, host_dir: str) -> list[str]:
    probe, firewall = mine["probe"], mine["firewall"]
    units = [
        f"{mine['server']}.service",
        f"{mine['ray']}.service",
        f"{probe}.service",
        f"{probe}.timer",
        f"{firewall}.service",
    ]
    drop_ins = [f"{unit}.service.d/{firewall}.conf" for unit in ("docker", "nftables", mine["server"], mine["ray"])]
    systemd = [f"/etc/systemd/system/{name}" for name in (*units, *drop_ins)]
    on_request = f"{ON_REQUEST_DIR}/{mine['server']}.json"
    return [*systemd, on_request, f"/etc/{firewall}.nft", f"{host_dir}{mine['folder']}/secrets"]
