# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with an inventory, found without touching a host.

Ansible accepts a misspelled variable in silence, and a bad value shows up ten minutes into loading a model. Everything
that the inventory alone shows is checked here, all of it at once. Nothing here knows Ansible: the caller hands over plain
dicts. A value that could not be evaluated before the hosts are known (``Unresolved``, or text that still holds a template)
is never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import Spec
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.bundle import bundle_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.deployments import (
    group_problems,
    served_name_problems,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.environment_variables import environment_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.gpu_exporters import gpu_exporter_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.gpus import gpu_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.journals import journal_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.log_targets import log_target_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.machines import machine_names, sharing_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.names import name_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.network import network_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.own_ports import own_port_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.receivers import receiver_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.runtime import runtime_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.settings import engine_problems, setting_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.sources import source_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.variables import variable_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.web_ui import web_ui_problems

# In the order in which they are printed.
RULES = (
    group_problems,
    engine_problems,
    name_problems,
    sharing_problems,
    setting_problems,
    runtime_problems,
    variable_problems,
    environment_problems,
    source_problems,
    gpu_problems,
    served_name_problems,
    network_problems,
    receiver_problems,
    journal_problems,
    gpu_exporter_problems,
    log_target_problems,
    web_ui_problems,
    own_port_problems,
)


def check_inventory(
    hosts: Mapping[str, Mapping[str, object]],
    groups: Mapping[str, Mapping[str, Sequence[str]]],
    known: Mapping[str, Spec],
    bundles: Mapping[str, Mapping[str, object]] | None = None,
    origins: Mapping[str, Mapping[str, str]] | None = None,
    twice: Mapping[str, str] | None = None,
    lang: str = "en",
) -> dict[str, Any]:
    """All that is wrong with an inventory, its deployments, and what things are called on their hosts.

    ``hosts`` holds the variables that the inventory sets, ``groups`` per group all its hosts (those of its children too, in
    Ansible's order) and its direct child groups, ``known`` the options of all roles' argument specs, ``bundles`` per
    directory ``{manifest: parsed or None, error: text or None}`` (None where none is needed), ``origins`` where a host's variable is set, as far as
    that is known, ``twice`` the deployments that a file names more than once, with their places.
    """
    inventory = Inventory(hosts, groups, known, origins or {}, lang)
    problems = [inventory.problem("deployment_twice", value=name, where=at) for name, at in (twice or {}).items()]
    problems += [problem for rule in RULES for problem in rule(inventory)]
    if bundles is not None:
        problems += bundle_problems(inventory, bundles)
    deployments = {
        group: {"hosts": members, "head": inventory.head(members)}
        for group, members in inventory.deployments.items()
        if members
    }
    every_host = list(dict.fromkeys(host for entry in deployments.values() for host in entry["hosts"]))
    return {
        "problems": problems,
        "deployments": deployments,
        "hosts": every_host,
        "names": machine_names(inventory),
    }
