# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python environment from which a host serves, where it has one for that."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.hosts import Deployment, Hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import Findings


def environment_findings(hosts: Hosts, deployment: Deployment, host: str) -> Findings:
    """Whether it holds the engine, of the release that the plan is made for; or whether one can be made."""
    yield from _base_findings(hosts, deployment, host)
    python = str(hosts.get(host, "python") or "")
    if not python:
        return
    found = hosts.found(host, "environment")
    wanted, has = str(hosts.get(host, "engine_version") or ""), str(found.get("version") or "")
    where = message("where_group", hosts.lang, group=deployment.name)
    if not has:
        yield hosts.finding("venv_unusable", [host], python, where, host=host, reason=found.get("error"))
    elif not _same(wanted, has):
        yield hosts.finding("venv_other_release", [host], wanted, where, host=host, python=python, found=has)


def _base_findings(hosts: Hosts, deployment: Deployment, host: str) -> Findings:
    """Whether the Python on which the host makes its environment is there, and is one that the wheels of the bundle are for."""
    base = str(hosts.get(host, "base") or "")
    if not base:
        return
    found, held = hosts.found(host, "base_python"), list(hosts.get(host, "environments") or [])
    where = message("where_group", hosts.lang, group=deployment.name)
    if not found.get("python"):
        yield hosts.finding("venv_no_base_python", [host], base, where, host=host, reason=found.get("error"))
    elif held and not any(each["fits"] for each in held):
        names = [message("venv_of_python", hosts.lang, python=each["python"], glibc=each["glibc"]) for each in held]
        values = {"python": found["python"], "glibc": found.get("glibc"), "version": hosts.get(host, "engine_version")}
        yield hosts.finding(
            "venv_other_python", [host], base, where, host=host, environments=hosts.names(names), **values
        )


def _same(wanted: str, found: str) -> bool:
    """What was built for another device, 0.32.0+cpu, is the same release."""
    try:
        return release_key(wanted) == release_key(found)
    except InputError:
        return False
