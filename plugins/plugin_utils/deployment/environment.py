# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of everything that is started on a host."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.devices import DEVICES
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.paths import (
    ENVIRONMENT,
    SECRETS,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.runtime import is_venv
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import EnvironmentFile
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.environment_variables import is_owned
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.secrets import is_open
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.environment import cluster_environment


def container_environment(member: Member) -> dict[str, bool | str]:
    """One decision, made where the network was verified, for everything that opens a connection between hosts.

    What it holds may be seen. The rest of what the inventory asks for is in no decision: see ``closed_names``.
    """
    hosts = member.deployment.network_hosts
    found: dict[str, object] = {**cluster_environment(member.host, hosts)} if member.host in hosts else {}
    engine = member.deployment.engine
    if found:
        found |= dict.fromkeys(engine.address_variables(member.deployment.version), member.address)
    found |= {
        "NVIDIA_VISIBLE_DEVICES": str(member.variables.get(DEVICES) or "all"),
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        **engine.environment(member),
    }
    if member.deployment.uid != container_user.ROOT:
        found |= container_user.ENVIRONMENT
    found |= {name: value for name, value in asked(member.variables).items() if is_open(name, value)}
    return {name: value if isinstance(value, (bool, str)) else str(value) for name, value in found.items()}


def asked(variables: Mapping[str, object]) -> dict[str, object]:
    """What the inventory sets for the programs of the engine on a host."""
    found: dict[str, object] = {}
    for role in reversed(engine_of(variables).roles):
        variable = f"{role}_environment"
        # What was not known when the inventory was checked sets nothing of the collection's own either.
        found |= {
            name: value for name, value in mapping(variables.get(variable)).items() if not is_owned(variable, name)
        }
    return found


def closed_names(member: Member) -> list[str]:
    """The variables of these whose values may be secrets: a program reads them from a file when it starts."""
    return sorted(name for name, value in asked(member.variables).items() if not is_open(name, value))


def environment_file(member: Member, kind: str) -> EnvironmentFile:
    """That file of one of the engine's roles on the host and in its container, with the names of the variables; none where there are no such variables.

    A unit has all of its variables in one file.
    """
    names = closed_names(member)
    path = f"{member.folder}/secrets/{kind}{ENVIRONMENT}"
    return {"names": names, "path": "" if is_venv(member.variables) else path}


def environment_place(member: Member, kind: str) -> str:
    """Where the program finds the file in its container, or nothing."""
    found = environment_file(member, kind)
    return f"{SECRETS}/{posixpath.basename(found['path'])}" if found["names"] and found["path"] else ""
