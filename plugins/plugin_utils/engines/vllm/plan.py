# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner's answer with the command lines that start it."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.command import launch
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import plan as planner
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError


def plan_deployment(model: object, nodes: object, request: object = None, language: str = "en") -> dict[str, object]:
    """The chosen plan, the nearest plans, the reasons, and by host what would be started."""
    plan = planner.plan_deployment(model, nodes, request, language)
    try:
        plan["launch"] = launch(
            mapping(plan["settings"]), plan["vllm_version"], str(plan["executor"]), mappings(plan["nodes"])
        )
    except InputError:  # the prediction names the option
        plan["launch"] = {}
    return plan
