# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deployments that run from a Python environment of their host: what they need, and what they cannot have."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import machines
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import (
    CAPABILITIES,
    PYTHON,
    RUNTIME,
    VENV,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.machines import machine_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.plain import Inventory, Problems

# What says something about a container and nothing else.
_OF_CONTAINERS = ("vllm_image", "vllm_extra_volumes", "llm_container_uid")
_OF_ENVIRONMENTS = (PYTHON, CAPABILITIES)
# What a service with ProtectHome and PrivateTmp does not see (systemd.exec(5)).
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
# Where the server reads. What lies in the folder of the models is as visible as the folder.
_READ = (PYTHON, "llm_host_dir", "models_dir", "vllm_model", "vllm_tokenizer", "vllm_speculative_model")


def runtime_problems(inventory: Inventory) -> Problems:
    everybody = dict.fromkeys(host for hosts in inventory.deployments.values() for host in hosts)
    shared = [each for each in machines(list(everybody), lambda host: machine_of(inventory, host)) if len(each) > 1]
    for deployment, members in inventory.deployments.items():
        venv = [host for host in members if inventory.get(host, RUNTIME) == VENV]
        for host in members:
            for name in _OF_ENVIRONMENTS if host not in venv and not inventory.is_open(host, RUNTIME) else ():
                if inventory.get(host, name) not in (None, "", []):
                    yield _problem(inventory, "venv_setting_unused", deployment, host, name)
        for host in venv:
            mates = next((each for each in shared if host in each), [])
            if mates:
                yield _problem(
                    inventory, "venv_shared_machine", deployment, host, RUNTIME, hosts=inventory.names(mates)
                )
            yield from _of_host(inventory, deployment, host)


def _of_host(inventory: Inventory, deployment: str, host: str) -> Problems:
    python = inventory.get(host, PYTHON)
    if not inventory.is_open(host, PYTHON):
        if python in (None, ""):
            yield _problem(inventory, "venv_without_python", deployment, host, PYTHON)
        elif not posixpath.isabs(str(python)):
            yield _problem(inventory, "venv_python_relative", deployment, host, PYTHON)
    for name in _hidden(inventory, host):
        yield _problem(inventory, "venv_path_hidden", deployment, host, name, folders=inventory.names(_HIDDEN))
    for name in _OF_CONTAINERS:
        if inventory.get(host, name) not in (None, "", []):
            yield _problem(inventory, "venv_container_setting", deployment, host, name)


def _hidden(inventory: Inventory, host: str) -> Iterator[str]:
    for name in _READ:
        path = posixpath.normpath(str(inventory.get(host, name) or ""))
        if any(path == folder or path.startswith(folder + "/") for folder in _HIDDEN):
            yield name


def _problem(
    inventory: Inventory, code: str, deployment: str, host: str, name: str, hosts: str = "", folders: str = ""
) -> dict[str, str]:
    return inventory.problem(
        code,
        value=f"{name}: {inventory.text(inventory.get(host, name), name)}",
        where=inventory.where(name, host, deployment),
        deployment=deployment,
        name=name,
        host=host,
        hosts=hosts,
        folders=folders,
    )
