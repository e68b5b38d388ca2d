# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deployments that run from a Python environment of their host: what they need, and what they cannot have."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import machines
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import (
    BASE_PYTHON,
    CAPABILITIES,
    PYTHON,
    RUNTIME,
    VENV,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.machines import machine_of

# What says something about a container and nothing else.
_OF_CONTAINERS = ("image", "extra_volumes")
_OF_ALL_CONTAINERS = ("llm_container_uid",)
_OF_ENVIRONMENTS = (PYTHON, CAPABILITIES)
# What a service with ProtectHome and PrivateTmp does not see (systemd.exec(5)).
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
# Where the server reads. What lies in the folder of the models is as visible as the folder.
_READ = ("llm_host_dir", "models_dir")


def runtime_problems(inventory: Inventory) -> Problems:
    for deployment, members in inventory.deployments.items():
        # What is wrong on several hosts in the same way is one problem.
        found: dict[tuple[str, str, str], list[str]] = {}
        for host in members:
            for code, name in _of_host(inventory, host):
                found.setdefault((code, name, inventory.text(inventory.get(host, name), name)), []).append(host)
        for (code, name, value), hosts in found.items():
            yield inventory.problem(
                code,
                value=f"{name}: {value}",
                where=inventory.where(name, hosts[0], deployment),
                deployment=deployment,
                name=name,
                hosts=inventory.names(hosts),
                folders=inventory.names(_HIDDEN),
            )
    yield from _shared_machines(inventory)


def _of_host(inventory: Inventory, host: str) -> Iterator[tuple[str, str]]:
    """What is wrong on a host: the message, and the variable that it is about."""
    python = inventory.variable(host, PYTHON)
    of_environments = [inventory.variable(host, name) for name in _OF_ENVIRONMENTS]
    of_containers = [*(inventory.variable(host, name) for name in _OF_CONTAINERS), *_OF_ALL_CONTAINERS]
    said = {name for name in (*of_containers, *of_environments) if inventory.get(host, name) not in (None, "", [])}
    if inventory.setting(host, RUNTIME) != VENV:
        if not inventory.is_open(host, inventory.variable(host, RUNTIME)):
            yield from (("venv_setting_unused", name) for name in of_environments if name in said)
        return
    if not any(inventory.get(host, name) or inventory.is_open(host, name) for name in (python, "llm_bundle_dir")):
        yield "venv_without_python", python
    yield from (("venv_path_hidden", name) for name in _hidden(inventory, host))
    yield from (("venv_container_setting", name) for name in of_containers if name in said)


def _shared_machines(inventory: Inventory) -> Problems:
    """Units and their user have one name on each machine."""
    deployment_of = {host: name for name, members in inventory.deployments.items() for host in members}
    for sharing in machines(list(deployment_of), lambda host: machine_of(inventory, host)):
        venv = [host for host in sharing if inventory.setting(host, RUNTIME) == VENV]
        if len(sharing) > 1 and venv:
            runtime = inventory.variable(venv[0], RUNTIME)
            yield inventory.problem(
                "venv_shared_machine",
                value=f"{runtime}: {VENV}",
                where=inventory.where(runtime, venv[0], deployment_of[venv[0]]),
                deployment=deployment_of[venv[0]],
                hosts=inventory.names(sharing),
            )


def _hidden(inventory: Inventory, host: str) -> Iterator[str]:
    of_models = inventory.engine(host).models
    mine = [inventory.variable(host, name) for name in (PYTHON, BASE_PYTHON)]
    for name in (*mine, *_READ, *(inventory.variable(host, each) for each in of_models)):
        path = posixpath.normpath(str(inventory.get(host, name) or ""))
        if any(path == folder or path.startswith(folder + "/") for folder in _HIDDEN):
            yield name
