# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why the hosts of a deployment form no cluster, host by host."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

LOG_LINES = 8
# The status of timeout(1) where what it started did not end by itself.
TIMED_OUT = 124


def cluster_problems(found: Mapping[str, object], language: str = "en") -> list[str]:
    """A text for each problem. ``found`` holds what was looked at: any of the keys of ``CHECKS``."""
    return [text for name, check in CHECKS.items() if found.get(name) for text in check(found[name], language)]


def _lost(hosts: list[str], lang: str) -> Iterator[str]:
    """Hosts of the plan that this run has lost already."""
    for host in hosts:
        yield message("cluster_lost", lang, host=host)


def _versions(look: Mapping[str, object], lang: str) -> Iterator[str]:
    """``{head, hosts: {host: {ray, python}}}``; ray is empty where the image has none."""
    versions: dict[str, str] = {}
    hosts = {host: mapping(found) for host, found in mapping(look["hosts"]).items()}
    for host, found in hosts.items():
        versions[host] = "Ray {0}, Python {1}".format(found.get("ray"), found.get("python"))
        if not found.get("ray"):
            yield message("cluster_no_ray", lang, host=host, found="Python {0}".format(found.get("python")))
    head = str(look["head"]) if look["head"] in versions else min(versions, default="")
    for host, text in versions.items():
        if text != versions[head] and hosts[host].get("ray"):
            yield message("cluster_versions", lang, host=host, found=text, head=head, wanted=versions[head])


def _absent(look: Mapping[str, Any], lang: str) -> Iterator[str]:
    """``{head, port, planned: {host: gpus}, joined: [{host, address, gpus}], addresses, runtimes, logs, states, forth, back}``.

    ``addresses`` and ``runtimes`` are by host.
    The last four are the results of tasks that looped over the missing hosts: the end of the log of its container or unit and its state, and
    a try to connect from the host to the head, and back.
    """
    joined = {node["host"]: node for node in look["joined"]}
    results = {kind: {entry["item"]: entry for entry in look[kind]} for kind in ("logs", "states", "forth", "back")}
    for host, gpus in look["planned"].items():
        node = joined.get(host)
        address = look["addresses"].get(host)
        values = {
            "host": host,
            "head": look["head"],
            "port": look["port"],
            "address": address,
            "name": ((look.get("runtimes") or {}).get(host) or {}).get("name", "llm-ray"),
            "wanted": gpus,
        }
        if node is None:
            mine = {kind: results[kind].get(host) or {} for kind in results}
            yield _why_absent(values, mine, lang)
        elif address and node["address"] != address:
            yield message("cluster_absent_address", lang, found=node["address"], **values)
        elif node["gpus"] != gpus:
            yield message("cluster_absent_gpus", lang, found=node["gpus"], **values)


def _why_absent(values: dict[str, object], results: Mapping[str, Mapping[str, object]], lang: str) -> str:
    log = [str(results["logs"].get(stream) or "") for stream in ("stdout", "stderr")]
    lines = "\n".join(log).strip().splitlines()
    state = str(results["states"].get("stdout") or "").strip()
    mismatch = next((line.strip() for line in lines if "Version mismatch" in line), "")
    # The first that is true is the cause; those below it would only follow from it. A connection that failed has a message.
    causes: list[tuple[str, bool]] = [
        ("absent_unreachable", bool(results["states"].get("unreachable"))),
        ("absent_silent", results["states"].get("rc") == TIMED_OUT),
        ("absent_no_container", not state),
        ("absent_version", bool(mismatch)),
        ("absent_token", any(re.search("authenticat|InvalidAuthToken", line, re.IGNORECASE) for line in lines)),
        ("absent_no_way_to_head", "msg" in results["forth"]),
        ("absent_no_way_back", "msg" in results["back"]),
        ("absent_unknown", True),
    ]
    code = next(code for code, true in causes if true)
    lines_of_host = [message("cluster_" + code, lang, line=mismatch, **values)]
    if state:
        lines_of_host.append("  " + message("cluster_absent_state", lang, state=state))
    if lines:
        lines_of_host += ["  " + message("cluster_absent_log", lang), *["    " + line for line in lines[-LOG_LINES:]]]
    return "\n".join(lines_of_host)


CHECKS: dict[str, Callable[[Any, str], Iterator[str]]] = {
    "lost": _lost,
    "versions": _versions,
    "absent": _absent,
}
