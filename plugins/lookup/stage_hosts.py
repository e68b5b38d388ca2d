# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: stage_hosts
short_description: The hosts of a play that runs a stage
version_added: 0.1.0
description:
  - The hosts of all deployments, without those where the stage has nothing to do because their records hold
    (M(baremetal.llm.preflight_check) and M(baremetal.llm.decide) say so, in C(llm_left_out) of C(localhost)).
  - Where a playbook sets C(llm_left_out) itself, that counts. An empty one leaves out nobody.
  - With C(llm_node), a stage that concerns each machine by itself runs on that host alone.
  - For V(gateway), V(monitoring) and V(web_ui) the hosts where they have something to do, by what was decided in this run. The groups have to be there.
  - For V(gateway_former) and V(web_ui_former) the hosts of deployments that are no gateway any more and have a record of the gateway or the web page.
  - Where replicas of a model take turns, the hosts of the stage C(serve) come in that order (C(llm_rolling) of C(localhost)).
  - A machine that serves several deployments under a name for each is prepared under one of them.
  - For the name of a group its hosts, for V(watcher) the first of those of C(llm_monitoring), and no pattern where there is none. For V(new) the
    hosts that this run takes into their deployments, each machine under one name. For V(leaving) those that it takes out of them, and that answer.
  - Hosts that do not take part in their deployment (M(baremetal.llm.deployment_members)) are in none of these.
options:
  _terms:
    description: The stage, such as V(prepare), V(serve), V(gateway), V(gateway_former), V(monitoring), V(web_ui) or V(web_ui_former), V(lock),
      V(watcher), V(new), V(leaving), or a group.
    type: list
    elements: str
    required: true
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Prepare | Driver, engine and toolkit
  hosts: "{{ lookup('baremetal.llm.stage_hosts', 'prepare') }}"
  roles:
    - role: baremetal.llm.docker
"""

RETURN = r"""
_raw:
  description: A pattern of hosts for each stage.
  type: list
  elements: str
"""


from collections.abc import Sequence

from ansible.plugins.lookup import LookupBase
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import (
    former_hosts,
    service_hosts,
    stage_hosts,
    without,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import alias_hosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import ROOT_GROUP, SERVICE_GROUPS
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, TaskVars

# What looks for hosts that a service has left, and the service. A web page is on a gateway only.
WATCHERS = "llm_monitoring"
WATCHER = "watcher"
# Hosts that this run takes into their deployments, and out of them.
NEW = "new"
LEAVING = "leaving"
GROUPS = (ROOT_GROUP, *SERVICE_GROUPS)
FORMER = {"gateway_former": "gateway", "web_ui_former": "web_ui"}


class LookupModule(LookupBase):
    """What the variables of the play say."""

    def run(self, terms: Sequence[object], variables: TaskVars = UNSET, **kwargs: object) -> list[str]:
        # A check of the syntax has no hostvars.
        known = variables.get("hostvars", {})
        decided = known["localhost"] if "hostvars" in variables else {}
        found = variables.get("llm_left_out", decided.get("llm_left_out"))
        left_out, node = (self._templar.template(value) for value in (found or {}, variables.get("llm_node") or ""))
        gateways = (decided.get("llm_decision") or {}).get("gateways") or {}
        services = {
            "gateway": gateways,
            # It runs on the host of a gateway.
            "web_ui": {host: each["web_ui"] for host, each in gateways.items() if each["web_ui"]},
            "monitoring": (decided.get("_monitoring_decided") or {}).get("hosts") or {},
        }
        inventory = decided.get("llm_inventory") or {}
        names = inventory.get("names") or {}
        sharing = list((names.get(node) or {}).get("sharing") or [])
        batches = (decided.get("llm_rolling") or {}).get("hosts", "")
        groups = variables.get("groups") or {}
        away = inventory.get("out") or ()
        out = without(away, ())

        def pattern(stage: str) -> str:
            if stage in FORMER:
                members = groups.get("llm_deployments") or []
                records = {
                    host: (known[host].get("ansible_facts") or {}).get("llm_records") or {}
                    for host in members
                    if host in known
                }
                return former_hosts(FORMER[stage], members, groups.get("llm_gateway") or [], records, names)
            if stage in services:
                return service_hosts(
                    stage, groups, {host: bool(each["needed"]) for host, each in services[stage].items()}
                )
            return stage_hosts(stage, left_out, str(node), sharing, str(batches))

        def of_new() -> str:
            asked = (self._templar.template(decided.get("llm_members_asked") or {})).get("back") or []
            second = alias_hosts(asked, names)
            return ":".join(host for host in asked if host not in second)

        def of_group(name: str) -> str:
            if name == NEW:
                return of_new()
            if name == LEAVING:
                return ":".join(inventory.get("leaving") or ())
            there = [host for host in groups.get(WATCHERS if name == WATCHER else name) or () if host not in away]
            return "" if not there else there[0] if name == WATCHER else name

        patterns = [
            of_group(term) if term in (*GROUPS, WATCHER, NEW, LEAVING) else pattern(term) for term in map(str, terms)
        ]
        return [each if term == LEAVING else each + out for term, each in zip(terms, patterns, strict=True) if each]
