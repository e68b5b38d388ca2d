# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: model_hosts
short_description: Which hosts hand a model on, and which others have to have the same
version_added: 0.1.0
description:
  - A model is handed on by hosts that have it already, by the record of an earlier run that was verified in this one, else by the first host of the
    play that needs it. Both are known after the preflight.
options:
  _terms:
    description: The model.
    type: list
    elements: str
    required: true
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Models | Show where the others get it from
  ansible.builtin.debug:
    msg: "{{ lookup('baremetal.llm.model_hosts', 'Qwen/Qwen2.5-14B-Instruct').giver }}"
"""

RETURN = r"""
_raw:
  description:
    - C(outside), hosts outside of the play that have the model already and hand it on, each with its C(host) and its folder for all models (C(dest)).
    - C(giver), the host of the play that fetches the model for all others, if C(outside) is empty. It is empty if no host of the play needs the model.
    - C(mates), the hosts of the play that are in a deployment with this one.
  type: list
  elements: dict
"""

from collections.abc import Sequence
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import handing, needed_models
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars


class LookupModule(LookupBase):
    """One model after the other."""

    def run(self, terms: Sequence[object], variables: TaskVars = UNSET, **kwargs: object) -> list[dict[str, Any]]:
        fleet = Fleet(self._loader, variables)
        inventory = fleet["localhost"].get("llm_inventory") or {}
        names = inventory.get("names") or {}
        deployments = inventory.get("deployments") or {}
        members = [host for one in deployments.values() for host in one["hosts"]] or fleet.playing
        needs = {host: (names.get(host) or {}).get("models") or list(needed_models(fleet[host])) for host in members}
        records = {host: (fleet[host].get("ansible_facts") or {}).get("llm_records") or {} for host in members}
        # Hosts outside of the play that have all models of their records, as they were recorded.
        holding = [
            host
            for host in members
            if host not in fleet.playing and "models" in records[host] and not records[host]["models"].get("differs")
        ]
        mine = [one["hosts"] for one in deployments.values() if variables["inventory_hostname"] in one["hosts"]]
        mates = [host for host in fleet.playing if any(host in hosts for hosts in mine)]
        sharing = {host: (names.get(host) or {}).get("sharing") or [] for host in members}
        hands = [handing(str(model), fleet.playing, needs, holding, sharing) for model in terms]
        return [
            {
                "giver": one.giver,
                "outside": [{"host": host, "dest": str(fleet[host]["models_dir"])} for host in one.outside],
                "mates": mates,
            }
            for one in hands
        ]
